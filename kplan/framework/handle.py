"""What a plugin is made with: the session that it belongs to, as far as a plugin may look at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kplan.config.releases import Release, newest
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


class ProfileFilters(Protocol):
    """The filters of a profile, as preemption tries them: the runtime is one."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that they look at."""

    @property
    def filter_plugins(self) -> Sequence[FilterPlugin]:
        """The filters, in the profile's order."""

    def ignores_pods(self, name: str) -> bool:
        """Whether the verdicts of a filter do not depend on which pods run on a node."""

    def nominated_changes(self, cycle: CycleState, rows: RowArray) -> PodDelta | None:
        """Return what pods nominated to nodes change there, None for nothing."""


@dataclass
class Handle:
    """What a plugin may look at besides the cycle."""

    cluster: Cluster  #: nodes, pods and their sums, as they stand
    listers: Listers  #: all other objects of the snapshot, indexed
    nominator: Nominator  #: pods that are nominated to nodes
    #: the profile's runtime; set once all plugins are made (PostFilter plugins run filters again through it)
    framework: ProfileFilters | None = None
    extenders: Sequence[Extender] = ()  #: called by whoever has a verb for them, in this order
    is_sampling: bool = False  #: stop early where kube-scheduler would, instead of looking at everything
    random: Random | None = None  #: draws among equals; None takes the first by name
    #: counts the devices behind an extended resource, for scores; set by DynamicResources
    device_totals: DeviceTotals | None = None
    release: Release = field(default_factory=newest)  #: the release of Kubernetes whose rules hold
    #: what the plugins of all profiles of a session have in common, by its type
    shared: dict[type, Any] = field(default_factory=dict)
