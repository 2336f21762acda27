"""Failed tries of pending pods, which like pods repeat as long as nothing happens.

Where hundreds of replicas wait, every event has the scheduler try them all: the first tells how it ends for the others.
"""

from __future__ import annotations

from msgspec.structs import replace

from kplan.engine.mappings import Recent
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.interface import CycleState
from kplan.framework.plugin_cache import MAX_SHAPES
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo, is_unique
from kplan.rules.volumes import storage_kinds


class Failures:
    """How pods of a shape fared since something happened last."""

    def __init__(self) -> None:
        self._results: Recent[CycleResult] = Recent(MAX_SHAPES)

    def forget(self) -> None:
        """Have all pods tried again, because something happens that may matter to them."""
        if len(self._results):
            self._results = Recent(MAX_SHAPES)

    def decide(self, session: Session, pod: int) -> CycleResult:
        """Run a pod's scheduling cycle, or repeat that of a like pod which has failed and left everything as it was."""
        info = session.cluster.pods.infos[pod]
        if pod in session.refused or not _is_decided_by_shape(session, pod, info):
            return schedule_pod(session, pod)
        failed = self._results.find(info.shape)
        if failed is not None:
            return _repeated(failed, info, pod)
        start = session.sampling.start_index
        result = schedule_pod(session, pod)
        if _changes_nothing(result) and session.sampling.start_index == start:
            self._results.get(info.shape, lambda: result)
        return result


def _is_decided_by_shape(session: Session, pod: int, info: PodInfo) -> bool:
    """Tell whether plugins read nothing of a pod that is not part of its shape: no claim, no nomination of its own."""
    framework = session.framework_for(info)
    return not (
        framework is None
        or framework.has_foreign_plugins
        or session.extenders
        or info.is_terminating
        or is_unique(info.pod)
        or info.pod.status.nominated_node_name
        or session.nominator.row_of(pod) is not None
        or any(storage_kinds(volume) for volume in info.pod.spec.volumes)
    )


def _changes_nothing(result: CycleResult) -> bool:
    """Tell whether no node fits a pod, and nobody leaves for it."""
    tried, made_room = result.filter, result.post_filter
    if result.outcome is not Outcome.UNSCHEDULABLE or tried is None or tried.feasible.any():
        return False
    return made_room is None or (made_room.nominated_row is None and not made_room.effects)


def _repeated(failed: CycleResult, info: PodInfo, pod: int) -> CycleResult:
    """Return the failure of a pod as that of another one of its shape."""
    cycle = failed.cycle
    if cycle is not None:
        own = CycleState(info, pod, cycle.cluster)
        own.skipped_filters, own.states = cycle.skipped_filters, cycle.states
        cycle = own
    return replace(failed, pod=pod, cycle=cycle)
