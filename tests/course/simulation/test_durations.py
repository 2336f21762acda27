"""Durations that the status of a cluster's own pods and jobs shows."""

from typing import Any

import pytest

import kplan
from kplan.course.simulation.durations import learn
from tests.objects import head, job, node, owned_by


def _pod(name: str, owner: str, phase: str, *conditions: tuple[str, str, str], **status: Any) -> Any:
    return head("Pod", name=name, namespace="default", uid=name, ownerReferences=owned_by(owner)) | {
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        "status": {
            "phase": phase,
            "conditions": [
                {"type": kind, "status": value, "lastTransitionTime": f"2026-01-01T00:{at}Z"}
                for kind, value, at in conditions
            ],
            **status,
        },
    }


def _job(name: str, parent: str = "", **status: Any) -> Any:
    written = job(name) | {"status": status}
    written["metadata"]["ownerReferences"] = owned_by(f"CronJob/{parent}") if parent else []
    return written


def _running(name: str, ready_at: str, restarts: int = 0) -> Any:
    counts = [{"name": "c", "restartCount": restarts}]
    times = {"startTime": "2026-01-01T00:00:00Z", "containerStatuses": counts}
    return _pod(name, "StatefulSet/db", "Running", ("Ready", "True", ready_at), **times)


def test_starts_are_the_median_from_binding_to_ready_of_so_many_pods_that_did_not_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kplan.course.simulation.durations.MAX_SAMPLES", 2)
    pods = [_running("db-0", "00:07"), _running("db-1", "00:09"), _running("db-2", "50:00", restarts=3)]
    pods.append(_running("db-3", "30:00"))
    learned = learn(kplan.load_snapshot([node("n1", "8"), *pods]))
    start = learned.start["StatefulSet/default/db"]
    assert (start.seconds, start.source, start.n_samples) == (8.0, "learned", 2)
    assert learned.start["*"].seconds == 8.0


def test_runs_are_those_of_pods_that_succeeded_and_of_jobs_that_are_complete() -> None:
    ended = _pod("a-1", "Job/a", "Succeeded", ("Ready", "False", "02:00"), startTime="2026-01-01T00:00:30Z")
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:05:00Z"}

    learned = learn(kplan.load_snapshot([node("n1", "8"), ended, _job("a", "nightly"), _job("b", **times)]))

    assert {name: duration.seconds for name, duration in learned.run.items()} == {
        "Job/default/a": 90.0,
        "CronJob/default/nightly": 90.0,
        "Job/default/b": 300.0,
        "*": 90.0,
    }
