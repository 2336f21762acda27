"""The documents' header, their summary, and the report about placements."""

from __future__ import annotations

from dataclasses import replace

from kplan.planner.document import header, placement_report, placements_document, summary, warnings_of
from kplan.planner.explanation import Shown
from kplan.snapshot.model import MissingKind
from kplan.snapshot.model import Warning as InputWarning
from tests.preemption.scenes import app, budget, node, planner, pod

WORLD = [
    node("a", cpu="4"),
    node("b", cpu="1"),
    pod("low", on="a", cpu="3", labels={"app": "low"}),
    budget("keep", app("low")),
    pod("vip", cpu="4", priority=9),
    pod("small", cpu="500m"),
    pod("shut", cpu="1", schedulingGates=[{"name": "later"}]),
    pod("lost", cpu="1", schedulerName="nobody"),
]
ALL = ["default/vip", "default/small", "default/shut", "default/lost"]


def test_the_header_tells_what_was_asked_of_which_cluster():
    asking = planner(WORLD)
    missing = (MissingKind("pdbs", "forbidden", ("P",)),)
    asking.snapshot = replace(asking.snapshot, source="live:x", taken_at="2026-03-01T10:00:00Z", missing=missing)
    made = header(asking, "PlacementReport")

    assert made.pop("generatedAt").endswith("Z")
    assert made == {
        "apiVersion": "kplan/v1",
        "kind": "PlacementReport",
        "formatVersion": "1.0",
        "snapshot": {
            "source": "live:x",
            "takenAt": "2026-03-01T10:00:00Z",
            "nodes": 2,
            "pods": 5,
            "digest": asking.snapshot.digest,
            "missing": [{"resource": "pdbs", "reason": "forbidden", "blinds": ["P"]}],
        },
        "scheduler": {
            "kubernetesVersion": "1.36",
            "featureGates": {},
            "ties": "scheduler",
            "seed": None,
            "profiles": ["default-scheduler"],
            "configSource": "default",
        },
    }


def test_outcomes_are_counted_and_victims_with_them():
    assert summary(planner(WORLD).plan(ALL).placements) == {
        "pods": 4,
        "scheduled": 1,
        "unschedulable": 1,
        "gated": 1,
        "errors": 1,
        "victims": 1,
        "pdbViolations": 1,
    }


def test_a_pod_that_was_tried_twice_counts_once_with_its_last_outcome_and_so_do_its_victims():
    placements = planner(WORLD).plan(["default/vip"], settle_preemption=True).placements

    assert len(placements) == 2
    assert summary(placements) == {
        "pods": 1,
        "scheduled": 1,
        "unschedulable": 0,
        "gated": 0,
        "errors": 0,
        "victims": 1,
        "pdbViolations": 1,
    }


def test_warnings_as_documents():
    assert warnings_of([InputWarning("Odd", "Pod/x", "is odd")]) == [
        {"code": "Odd", "object": "Pod/x", "message": "is odd"}
    ]


def test_the_report_holds_header_verdict_summary_warnings_and_placements():
    asking = planner(WORLD)
    placements = asking.plan(["default/small", "default/vip"]).placements
    made = placement_report(asking, placements)

    assert list(made) == [
        *header(asking, "PlacementReport"),
        "verdict",
        "summary",
        "warnings",
        "placements",
    ]
    assert made["verdict"] == {
        "failed": True,
        "exitCode": 1,
        "failOn": ["unschedulable", "preemption", "gated"],
        "because": ["default/vip: Unschedulable"],
    }
    assert placement_report(asking, placements, exit_zero=True)["verdict"]["exitCode"] == 0
    assert placement_report(asking, placements, fail_on=["gated"])["verdict"]["failed"] is False
    assert (made["summary"], made["placements"]) == (summary(placements), [each.to_dict() for each in placements])
    assert made["warnings"] == warnings_of(asking.warnings)


def test_placements_are_told_as_far_as_somebody_wants_to_know():
    placements = planner(WORLD).plan(["default/small", "default/vip", "default/shut"]).placements
    outlined, about_a, shown = placements_document(placements, {1: ["a"], 2: Shown(1)})

    assert outlined == placements[0].to_outline()
    assert set(outlined) == {"pod", "outcome", "node", "message"}
    assert list(about_a["rejections"]) == ["a"]
    assert shown == placements[2].to_dict(Shown(1))
    assert placements_document(placements, None) == [each.to_dict() for each in placements]
