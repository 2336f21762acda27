"""The extension points, a protocol each; a plugin has those whose methods it has."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import msgspec

from kplan.engine.arrays import Int64Array
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView
from kplan.framework.cycle_state import CycleState, PostFilterResult, PreFilterResult, PreScoreResult, Scope
from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.status import Status
from kplan.rules.pod_info import PodInfo


class Named(Protocol):
    """A plugin has a name, by which profiles enable it."""

    name: ClassVar[str]


@runtime_checkable
class Plugin(Named, Protocol):
    """What every plugin has."""

    @property
    def scope(self) -> Scope:
        """What the plugin's answer for a node depends on."""


@runtime_checkable
class PreEnqueuePlugin(Named, Protocol):
    """May keep a pod out of the queue."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Say whether the pod may enter the queue."""


class Kept(NamedTuple):
    """What a plugin's reservations come to once they are written."""

    objects: tuple[msgspec.Struct, ...]  #: claims and volumes that are not any more as they were
    unnamed: frozenset[str] = frozenset()  #: identities of pods for which something is taken that no object here names


@runtime_checkable
class KeepingPlugin(Named, Protocol):
    """Reserves what an API server keeps in objects (optional)."""

    def kept(self) -> Kept:
        """Return the objects as a cluster holds them when all that is reserved is bound."""


@runtime_checkable
class KeyedPlugin(Named, Protocol):
    """Says what it reads of a pod (optional)."""

    def reads(self, pod: PodInfo) -> Hashable:
        """Return all that the plugin's kept answers for a pod depend on; equal where they are the same."""


@runtime_checkable
class QueueSortPlugin(Named, Protocol):
    """Orders the queue."""

    def sort_key(self, pod: PodInfo) -> Any:
        """Return a key; smaller ones come first."""


@runtime_checkable
class PreFilterPlugin(Named, Protocol):
    """Looks at the pod once, before any node; None is success for all nodes."""

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        """Look at the pod."""


@runtime_checkable
class FilterPlugin(Named, Protocol):
    """Answers for all nodes of a view: an error is a Reason with Code.ERROR."""

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Answer for every position of the view."""


@runtime_checkable
class PostFilterPlugin(Named, Protocol):
    """Tries to help a pod that fits nowhere."""

    def post_filter(self, cycle: CycleState, outcome: FilterOutcome) -> PostFilterResult:
        """Look for a way to make room."""


@runtime_checkable
class PreScorePlugin(Named, Protocol):
    """Looks at the feasible nodes once; may skip, and reports an error as a Status."""

    def pre_score(self, cycle: CycleState, nodes: NodeView) -> PreScoreResult | Status | None:
        """Look at the feasible nodes."""


@runtime_checkable
class ScorePlugin(Named, Protocol):
    """Gives raw scores, int64 of shape (n_view,)."""

    def score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        """Return a raw score for every position of the view."""


@runtime_checkable
class ConstantScorePlugin(Named, Protocol):
    """Knows of some pods that all nodes get the same raw score, whatever else happens in the cluster (optional)."""

    def constant_score(self, cycle: CycleState) -> int | None:
        """Return the raw score that every node gets, for all pods of this shape; None where it may differ."""


@runtime_checkable
class NormalizeScorePlugin(Named, Protocol):
    """Brings raw scores of the feasible nodes into 0 to 100."""

    def normalize_score(self, cycle: CycleState, scores: Int64Array) -> Int64Array:
        """Return the scores brought into range; the argument stays as it is."""


@runtime_checkable
class ReservePlugin(Named, Protocol):
    """Takes what the pod needs on its node, so that later pods of a plan do not get it."""

    def reserve(self, cycle: CycleState, row: int) -> Status:
        """Take what the pod needs on its node."""

    def unreserve(self, cycle: CycleState, row: int) -> None:
        """Give back what was taken, if anything."""


@runtime_checkable
class PermitPlugin(Named, Protocol):
    """Has the last word before binding."""

    def permit(self, cycle: CycleState, row: int) -> Status:
        """Say whether the pod may be bound."""


@runtime_checkable
class ScoreDetailPlugin(Named, Protocol):
    """Says in words and numbers where a node's raw score comes from (optional; for explanations)."""

    def score_details(self, cycle: CycleState, row: int) -> list[str]:
        """Tell where the raw score of a node comes from, a line each."""
