"""What loops of the cluster-autoscaler came to, as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.meta import controller_of
from kplan.api.quantity import grouped
from kplan.autoscaling.cluster_autoscaler.loop import LoopResult, ScaleDown
from kplan.autoscaling.cluster_autoscaler.scale_up import FAILED, SUCCESSFUL, ScaleUp, Unhelped
from kplan.autoscaling.seam import rounded
from kplan.snapshot.model import Snapshot

_encoder = msgspec.json.Encoder(order="deterministic")


class _Classes:
    """Names pods by the first of their controller that is the same but for name and UID."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        first: dict[bytes, str] = {}
        self._names = {pod.metadata.key: pod.metadata.key for pod in pods}
        for pod in pods:
            if controller_of(pod.metadata) is not None:
                like = _encoder.encode(replace(pod, metadata=replace(pod.metadata, name="", uid="")))
                self._names[pod.metadata.key] = first.setdefault(like, pod.metadata.key)

    def name(self, pod: Pod) -> str:
        return self._names.get(pod.metadata.key, pod.metadata.key)

    def count(self, pods: Iterable[Pod]) -> dict[str, int]:
        return dict(Counter(map(self.name, pods)))


def detail_of(snapshot: Snapshot, results: Iterable[LoopResult]) -> dict[str, Any]:
    classes = _Classes(snapshot.pods)
    return {"loops": [_loop(result, classes) for result in results]}


def _loop(result: LoopResult, classes: _Classes) -> dict[str, Any]:
    untried: dict[str, Any] = {"result": None, "plan": {}, "triggered": {}, "remaining": {}, "toHelp": {}}
    detail: dict[str, Any] = {
        "at": int(result.at) if result.at == int(result.at) else result.at,
        "scaleUp": untried if result.is_aborted else _scale_up(result, classes),
        "scaleDown": {"result": None} if result.is_aborted else _scale_down(result.scale_down),
    }
    if result.events:
        detail["events"] = [list(event) for event in result.events]
    return detail


def _scale_up(result: LoopResult, classes: _Classes) -> dict[str, Any]:
    first, *others = result.scale_ups or [ScaleUp("ScaleUpNotTried")]
    filtered = result.filtered
    detail: dict[str, Any] = {"result": first.result, "plan": _plan(first)}
    if first.error:
        detail["error"] = first.error
    if first.choice is not None:
        detail |= {
            "best": first.choice.best.group.name,
            "tied": list(first.choice.tied),
            "expander": [[name, list(groups)] for name, groups in first.choice.steps],
        }
    if first.options:
        detail["options"] = {
            option.group.name: {
                "nodes": option.n_nodes,
                "podCount": len(option.pods),
                "pods": classes.count(option.pods),
                **({"similar": [group.name for group in option.similar]} if option.similar else {}),
            }
            for option in first.options
        }
    detail |= {
        "triggered": classes.count(first.triggered if first.result in (SUCCESSFUL, FAILED) else ()),
        "remaining": _remaining(first.unhelped, classes),
        "toHelp": classes.count(filtered.to_help),
    }
    steps = {"expendable": filtered.expendable, "schedulable": filtered.schedulable, "daemonset": filtered.daemons}
    if any(steps.values()):
        detail["filtered"] = {step: classes.count(pods) for step, pods in steps.items() if pods}
    if first.awaiting:
        detail["awaiting"] = classes.count(first.awaiting)
    if others:
        detail["more"] = [{"result": other.result, "plan": _plan(other)} for other in others]
    increase: Counter[str] = Counter()
    for outcome in result.scale_ups:
        increase.update({growth.group.name: growth.wanted - growth.current for growth in outcome.growths})
    optional = {
        "increase": dict(increase),
        "upcomingAfter": result.upcoming,
        "registeredUpcoming": result.registered_upcoming,
        "decrease": [{"group": group, "delta": -by} for group, by in result.decreased.items()],
    }
    return detail | {name: facts for name, facts in optional.items() if facts}


def _plan(outcome: ScaleUp) -> dict[str, list[int]]:
    return {growth.group.name: [growth.current, growth.wanted] for growth in outcome.growths}


def _remaining(unhelped: Sequence[Unhelped], classes: _Classes) -> dict[str, dict[str, Any]]:
    alike = grouped((classes.name(pod.pod), pod) for pod in unhelped)
    return {
        name: {
            "count": len(pods),
            "rejected": {group: list(reasons) for group, reasons in pods[0].rejected.items()},
            "skipped": {group: list(skipped.reasons) for group, skipped in pods[0].skipped.items()},
            "event": [[count, text] for text, count in sorted(pods[0].reason_counts.items())],
        }
        for name, pods in alike.items()
    }


def _scale_down(outcome: ScaleDown) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "result": outcome.result,
        "unneeded": list(outcome.unneeded),
        "unremovable": {
            name: ["BlockedByPod", stay.reason, stay.pod] if stay.pod else [stay.reason]
            for name, stay in outcome.stays.items()
        },
    }
    optional: dict[str, Any] = {
        "utilization": {
            name: {
                "utilization": _share(used.share),
                "resource": used.resource,
                **{resource: _share(share) for resource, share in used.by_resource.items()},
            }
            for name, used in outcome.utilization.items()
        },
        "deleted": {name: [pod.metadata.key for pod in pods] for name, pods in outcome.deleted.items()},
        "softTainted": outcome.soft_tainted,
        "softUntainted": outcome.soft_untainted,
    }
    return detail | {name: facts for name, facts in optional.items() if facts}


def _share(share: float) -> float:
    """Return a share as Go writes it: 0 rather than 0.0."""
    number = rounded(share)
    return int(number) if number.is_integer() else number
