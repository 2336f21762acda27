"""The DaemonSet controller, for one node: whether it should run a pod, and how a rollout replaces it.

Its actions for all nodes are in :mod:`kplan.simulation.controllers.daemon_ledger`.

Upstream: pkg/controller/daemon/daemon_controller.go podsShouldBeOnNode, manage; update.go findUpdatedPodsOnNode,
rollingUpdate.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence

import msgspec

from kplan.api.meta import IntOrString
from kplan.simulation.controllers.observed import Action, Create, Delete, ObservedPod

ON_DELETE = "OnDelete"
ROLLING_UPDATE = "RollingUpdate"

BURST_REPLICAS = 250
"""How many pods at most are created, and as many deleted, in one sync."""


class WantedDaemonSet(msgspec.Struct, frozen=True):
    """What a daemon set wants."""

    revision: str  #: revision of its current template
    strategy: str = ROLLING_UPDATE  #: RollingUpdate or OnDelete
    max_surge: IntOrString = 0
    max_unavailable: IntOrString = 1

    @property
    def allows_surge(self) -> bool:
        """Whether a node may have an old and a new pod for a while."""
        return self.strategy == ROLLING_UPDATE and self.max_surge not in (0, "0%")


class Eligibility(msgspec.Struct, frozen=True):
    """Whether a node should get a daemon pod, and whether one that runs there may stay."""

    should_run: bool
    may_stay: bool


NOT_HERE = Eligibility(should_run=False, may_stay=False)


def manage(wanted: WantedDaemonSet, node: str, eligible: Eligibility, pods: Sequence[ObservedPod]) -> list[Action]:
    """Return the actions after which a node has the one pod that it should have, or none.

    A pod that is terminating is left alone; without surge its successor is created when it is gone.
    """
    if not pods:
        return [Create("the node has none", wanted.revision, node=node)] if eligible.should_run else []
    if not eligible.may_stay:
        return [Delete(pod, "not meant for this node") for pod in pods if not pod.is_terminating]
    staying = [pod for pod in pods if not pod.is_terminating]
    ended = [pod for pod in staying if pod.phase in ("Failed", "Succeeded")]
    actions: list[Action] = [Delete(pod, f"it has ended ({pod.phase})") for pod in ended]
    running = [pod for pod in staying if pod not in ended]
    running.sort(key=lambda pod: (not pod.node, pod.created, pod.name))
    if not wanted.allows_surge:
        return actions + [Delete(pod, "one pod a node") for pod in running[1:]]
    if not running:
        return [*actions, Create("the node has none", wanted.revision, node=node)] if eligible.should_run else actions
    return actions + _prune(wanted, running)


def _prune(wanted: WantedDaemonSet, running: Sequence[ObservedPod]) -> list[Action]:
    """Keep an old and a new pod only while the old one is ready and the new one is not available."""
    if len(running) <= 1:
        return []
    new = next((pod for pod in running if pod.revision == wanted.revision), None)
    old = next((pod for pod in running if pod.revision != wanted.revision), None)
    actions: list[Action] = [Delete(pod, "one pod a node") for pod in running if pod not in (new, old)]
    if new is not None and old is not None and (not old.is_ready or new.is_available):
        actions.append(Delete(old, "the new pod is ready" if old.is_ready else "not ready, and replaced"))
    return actions


class Role(enum.Enum):
    """What a rollout does on a node that needs no other action."""

    FINE = enum.auto()  #: nothing
    WAITING = enum.auto()  #: nothing yet: its new pod is not ready, or there are too many; counts against the limit
    DUE = enum.auto()  #: delete the old pod; counts against maxUnavailable, as it is not ready
    CANDIDATE = enum.auto()  #: replace the old pod, or create a new one beside it, as far as the limit allows
    SERVED = enum.auto()  #: delete the old pod, as the new one is ready
    MISPLACED = enum.auto()  #: delete the old pod, as far as more are ready than are wanted
    BROKEN = enum.auto()  #: create a new pod beside the old one, which is not ready


class NodeProgress(msgspec.Struct, frozen=True):
    """How a rollout stands on one node."""

    role: Role
    old: ObservedPod | None = None
    is_available: bool = False  #: the old pod is ready, or the new one where there is no old one


def _split(
    wanted: WantedDaemonSet, pods: Collection[ObservedPod]
) -> tuple[ObservedPod | None, ObservedPod | None] | None:
    """Return a node's new and its old pod; None where it has several of either. Upstream: findUpdatedPodsOnNode."""
    staying = [pod for pod in pods if not pod.is_terminating]
    new = [pod for pod in staying if pod.revision == wanted.revision]
    old = [pod for pod in staying if pod.revision != wanted.revision]
    if len(new) > 1 or len(old) > 1:
        return None
    return next(iter(new), None), next(iter(old), None)


def node_progress(
    wanted: WantedDaemonSet, eligible: Eligibility, pods: Collection[ObservedPod], *, surges: bool
) -> NodeProgress:
    """Return how a rollout stands on a node that has pods of the set."""
    split = _split(wanted, pods)
    if split is None:
        return NodeProgress(Role.WAITING)
    return _surging(eligible, *split) if surges else _replacing(*split)


def _replacing(new: ObservedPod | None, old: ObservedPod | None) -> NodeProgress:
    """Delete old pods first, as many as may be unavailable at a time; new pods take their place."""
    if (new is None) == (old is None) or (new is not None and not new.is_available):
        return NodeProgress(Role.WAITING)
    if old is None:
        return NodeProgress(Role.FINE)
    return NodeProgress(Role.CANDIDATE if old.is_available else Role.DUE, old)


def _surging(eligible: Eligibility, new: ObservedPod | None, old: ObservedPod | None) -> NodeProgress:
    """Create new pods beside old ones, as many at a time as the surge allows; old ones go when new ones are ready."""
    first = old or new
    is_available = first is not None and first.is_available
    if old is None:
        role = Role.FINE
    elif new is not None:
        role = Role.SERVED if new.is_available else Role.WAITING
    elif not eligible.should_run:
        role = Role.MISPLACED if old.is_available else Role.SERVED
    else:
        role = Role.CANDIDATE if old.is_available else Role.BROKEN
    return NodeProgress(role, old, is_available)
