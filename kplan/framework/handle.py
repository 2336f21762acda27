"""The handle through which a plugin reaches its session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from kplan.config.releases import Release, reference
from kplan.engine.arrays import RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.resource_scoring import DeviceTotals
from kplan.engine.view import PodDelta
from kplan.framework.cycle_state import CycleState
from kplan.framework.extension_points import FilterPlugin

if TYPE_CHECKING:
    from random import Random

    from kplan.framework.extenders import Extender
    from kplan.framework.listers import Listers
    from kplan.framework.nominator import Nominator


T = TypeVar("T")


class ProfileFilters(Protocol):
    """The filters of a profile, for preemption, which runs them again; `Framework` implements it."""

    @property
    def cluster(self) -> Cluster:
        """The cluster whose nodes are filtered."""

    @property
    def filter_plugins(self) -> Sequence[FilterPlugin]:
        """The filters, in the profile's order."""

    def ignores_pods(self, name: str) -> bool:
        """Whether the verdicts of a filter are the same whichever pods run on a node."""

    def nominated_changes(self, cycle: CycleState, rows: RowArray) -> PodDelta | None:
        """Return the pods nominated to these nodes as additions to them; None when there are none."""


class Handle(msgspec.Struct):
    """What a plugin may read besides the cycle."""

    cluster: Cluster  #: nodes, pods and their sums, kept current
    listers: Listers  #: all other objects of the snapshot, indexed
    nominator: Nominator  #: pods that are nominated to nodes
    #: the profile's runtime, set once all plugins exist; PostFilter plugins run filters again through it
    framework: ProfileFilters | None = None
    extenders: Sequence[Extender] = ()  #: in the order in which they are called
    is_sampling: bool = False  #: stop early where kube-scheduler would, instead of looking at everything
    random: Random | None = None  #: draws among equals; without it the first by name wins
    #: counts the devices behind an extended resource, for scores; set by DynamicResources
    device_totals: DeviceTotals | None = None
    release: Release = msgspec.field(default_factory=reference)  #: the release of Kubernetes whose rules hold
    #: the objects of `session_state`, by their type
    shared: dict[type, Any] = {}

    def session_state(self, kind: type[T], *inputs: object) -> T:
        """Return ``kind(*inputs)``, built when first used: state that all profiles of a session share."""
        state: T | None = self.shared.get(kind)
        if state is None:
            state = self.shared[kind] = kind(*inputs)
        return state
