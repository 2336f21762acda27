"""What one loop of the cluster-autoscaler came to."""

from __future__ import annotations

import msgspec

from kplan.api.core import Pod
from kplan.autoscaling.cluster_autoscaler.scale_down import Removable, Stays
from kplan.autoscaling.cluster_autoscaler.scale_up import ScaleUp
from kplan.autoscaling.cluster_autoscaler.templates import Template
from kplan.autoscaling.cluster_autoscaler.utilization import Utilization


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
