"""What one loop of the cluster-autoscaler came to, and the same in its own terms, as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.meta import controller_of
from kplan.autoscaling.cluster_autoscaler.nodes import Utilization
from kplan.autoscaling.cluster_autoscaler.scale_down import Removable, Stays
from kplan.autoscaling.cluster_autoscaler.scale_up import FAILED, SUCCESSFUL, ScaleUp, Unhelped
from kplan.autoscaling.cluster_autoscaler.templates import Template


class Filtered(msgspec.Struct):
    """The pods that need no new node, by the step that found that out, and those that are left."""

    expendable: list[Pod] = []
    schedulable: list[Pod] = []
    daemons: list[Pod] = []
    to_help: list[Pod] = []
    placements: dict[str, str] = {}  #: pod -> the node that has room for it, NAMESPACE/NAME


class ScaleDown(msgspec.Struct):
    """What a scale-down came to."""

    result: str | None = None
    unneeded: dict[str, Removable] = {}
    stays: dict[str, Stays] = {}
    utilization: dict[str, Utilization] = {}
    deleted: dict[str, list[Pod]] = {}  #: node -> the pods that are evicted from it
    soft_tainted: list[str] = []
    soft_untainted: list[str] = []
    removed: list[Removable] = []


class LoopResult(msgspec.Struct):
    """What one loop came to."""

    at: float
    is_aborted: bool = False  #: it ended before anything was decided
    scale_ups: list[ScaleUp] = []
    filtered: Filtered = msgspec.field(default_factory=Filtered)
    scale_down: ScaleDown = msgspec.field(default_factory=ScaleDown)
    events: list[tuple[str, str]] = []  #: (reason, text) about the whole cluster
    group_events: list[tuple[str, str]] = []  #: (reason, text) about single groups and machines
    targets: dict[str, int] = {}  #: group -> its target after the loop
    upcoming: dict[str, int] = {}
    registered_upcoming: dict[str, list[str]] = {}
    decreased: dict[str, int] = {}
    templates: dict[str, Template] = {}


_DIGITS = 12
_encoder = msgspec.json.Encoder(order="deterministic")


class Classes:
    """Names pods by the first of their controller that is the same but for name and UID."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        first: dict[bytes, str] = {}
        self._names = {pod.metadata.key: first.setdefault(_class_of(pod), pod.metadata.key) for pod in pods}

    def name(self, pod: Pod) -> str:
        """Return the name of a pod's class."""
        return self._names.get(pod.metadata.key, pod.metadata.key)

    def count(self, pods: Iterable[Pod]) -> dict[str, int]:
        """Count pods by their classes."""
        return dict(Counter(map(self.name, pods)))


def _class_of(pod: Pod) -> bytes:
    if controller_of(pod.metadata) is None:
        return pod.metadata.key.encode()
    return _encoder.encode(replace(pod, metadata=replace(pod.metadata, name="", uid="")))


def loop_detail(result: LoopResult, classes: Classes) -> dict[str, Any]:
    """Return what one loop came to."""
    scale_up: dict[str, Any] = {"result": None, "plan": {}, "triggered": {}, "remaining": {}, "toHelp": {}}
    if not result.is_aborted:
        scale_up = _scale_up(result, classes)
    detail: dict[str, Any] = {
        "at": int(result.at) if result.at == int(result.at) else result.at,
        "scaleUp": scale_up,
        "scaleDown": {"result": None} if result.is_aborted else _scale_down(result.scale_down),
    }
    if result.events:
        detail["events"] = [list(event) for event in result.events]
    return detail


def _scale_up(result: LoopResult, classes: Classes) -> dict[str, Any]:
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


def _remaining(unhelped: Sequence[Unhelped], classes: Classes) -> dict[str, dict[str, Any]]:
    remaining: dict[str, dict[str, Any]] = {}
    for pod in unhelped:
        name = classes.name(pod.pod)
        if name in remaining:
            remaining[name]["count"] += 1
            continue
        remaining[name] = {
            "count": 1,
            "rejected": {group: list(reasons) for group, reasons in pod.rejected.items()},
            "skipped": {group: list(reasons) for group, reasons in pod.skipped.items()},
            "event": [[count, text] for text, count in sorted(reason_counts(pod).items())],
        }
    return remaining


def reason_counts(pod: Unhelped) -> Counter[str]:
    """Return by how many groups each reason against a pod is given."""
    return Counter(reason for reasons in (*pod.rejected.values(), *pod.skipped.values()) for reason in reasons)


def event_text(pod: Unhelped) -> str:
    """Return the words of the event about a pod that no group helps; buildNoScaleUpText."""
    counts = reason_counts(pod)
    if not counts:
        return "pod didn't trigger scale-up: "
    return "pod didn't trigger scale-up: " + ", ".join(f"{count} {text}" for text, count in sorted(counts.items()))


def _scale_down(outcome: ScaleDown) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "result": outcome.result,
        "unneeded": list(outcome.unneeded),
        "unremovable": {name: _why(stays) for name, stays in outcome.stays.items()},
    }
    optional: dict[str, Any] = {
        "utilization": {
            name: {
                "utilization": _rounded(used.share),
                "resource": used.resource,
                **{resource: _rounded(share) for resource, share in used.by_resource.items()},
            }
            for name, used in outcome.utilization.items()
        },
        "deleted": {name: [pod.metadata.key for pod in pods] for name, pods in outcome.deleted.items()},
        "softTainted": outcome.soft_tainted,
        "softUntainted": outcome.soft_untainted,
    }
    return detail | {name: facts for name, facts in optional.items() if facts}


def _why(stays: Stays) -> list[str]:
    if stays.blocked is None or stays.pod is None:
        return [stays.reason]
    return [stays.reason, stays.blocked.reason, stays.pod.metadata.key]


def _rounded(share: float) -> float:
    """Return a share as Go writes it, whole numbers without a fraction."""
    rounded = float(f"{share:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded
