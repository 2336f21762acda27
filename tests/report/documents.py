"""Small clusters and the documents about them."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

import kplan
from kplan.course.asking import Showing
from kplan.course.task import WorkedOff
from kplan.diagnosis.explanation import Shown
from kplan.documents.base import Report
from kplan.documents.placement import Origin, PlacementReport
from kplan.questions.explain import explain_pod, whereabouts_report
from kplan.questions.preempt.document import follow_victims, pending_in_turn, preemption_report, without_room
from tests.objects import head
from tests.whole import kept

WHEN = "2026-03-01T10:00:00Z"


def node(name: str, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **more: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return head("Node", name=name, labels=labels) | {
        "spec": more,
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}},
    }


def pod(name: str, cpu: str = "1", node: str = "", **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    metadata |= spec.pop("metadata", {})
    spec.setdefault("containers", [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}])
    status = {"startTime": "2026-02-28T09:00:00Z", "phase": "Running"} if node else {"phase": "Pending"}
    return head("Pod", **metadata) | {"spec": {**spec, **({"nodeName": node} if node else {})}, "status": status}


def _still(document: Report) -> Any:
    return replace(document, generated_at=WHEN)


def placed(
    objects: Sequence[dict[str, Any]], pods: Sequence[Any], shown: Shown | None = None, **options: Any
) -> PlacementReport:
    """Return the PlacementReport of some pods."""
    planner = kplan.Planner(kplan.load_snapshot(objects), **options)
    plan = planner.plan(pods)
    report: PlacementReport = _still(plan.report(nodes_of=dict.fromkeys(range(len(plan.placements)), shown or Shown())))
    return report


def coming_from(report: PlacementReport, origin: Origin) -> PlacementReport:
    """Return the report as if a manifest had asked for all its pods."""
    placements = [replace(placement, pod=replace(placement.pod, origin=origin)) for placement in report.placements]
    return replace(report, placements=tuple(placements))


@kept
def demo() -> kplan.Planner:
    return kplan.Planner(kplan.load_snapshot("demo"))


@kept
def demo_document(kind: str, *, explain: bool = False) -> Any:
    """Return a document about the demo cluster."""
    planner = demo()
    shown = Shown(None, with_score_details=True) if explain else Shown()
    if kind == "explain":
        explained = [explain_pod(planner, "batch/report-daily-knqdn")]
        return _still(whereabouts_report(planner, explained, Showing(nodes=shown)))
    if kind == "place":
        pods = ["shop/voucher-api", "shop/flash-sale", "ml/llm-eval", "batch/nightly-export"]
        return _still(planner.plan(pods).report(nodes_of=dict.fromkeys(range(4), shown)))
    pods = pending_in_turn(planner)
    plan = planner.plan(pods)
    placements = without_room(plan.placements)
    nodes_of = dict.fromkeys(range(len(placements)), shown)
    report = preemption_report(plan, placements, nodes_of=nodes_of, explain=explain)
    return _still(replace(report, aftermath=follow_victims(planner, WorkedOff(tuple(pods)))[0]))
