"""New nodes of a shape, with the daemon pods that run on each."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kplan.api.core import Node, Pod, PodSpec, PodTemplateSpec
from kplan.api.kinds import DAEMON_SET
from kplan.api.pod import PodMeta
from kplan.api.wellknown import HOSTNAME
from kplan.autoscaling.seam import Namer
from kplan.capacity.shape_list import PricedShape
from kplan.cluster.base import Base
from kplan.simulation.owners import DaemonSetState, ForeignState
from kplan.workloads.daemons import runs_on


class NewNodes:
    """Creates nodes of a shape.

    Their daemon pods are those of the daemon sets whose selectors and tolerations match such a node. For a daemon set
    that the snapshot does not hold, a pod of it stands for the template, without the node affinity that pins it.
    """

    def __init__(self, base: Base, shape: PricedShape) -> None:
        self._shape = shape
        self._existing = base.objects.node_by_name
        self._daemons = [pod for template, pod in _daemons_of(base) if runs_on(template, shape.node)]

    @property
    def n_daemons(self) -> int:
        """The number of daemon pods on each node."""
        return len(self._daemons)

    def make(self, n: int) -> tuple[list[Node], list[Pod]]:
        """Return n nodes with new names, and their daemon pods."""
        name_of = Namer(self._existing)
        names = [name_of.name(self._shape.name) for _ in range(n)]
        return list(map(self._node, names)), [self._pod(daemon, name) for name in names for daemon in self._daemons]

    def _node(self, name: str) -> Node:
        model = self._shape.node
        labels = {key: name if value == self._shape.like else value for key, value in model.metadata.labels.items()}
        metadata = replace(model.metadata, name=name, uid=f"new-{name}", labels={**labels, HOSTNAME: name})
        return replace(model, metadata=metadata)

    def _pod(self, daemon: Pod, node: str) -> Pod:
        name = f"{daemon.metadata.name}-{node}"
        metadata = replace(daemon.metadata, name=name, uid=f"new-{daemon.metadata.namespace}-{name}")
        return replace(daemon, metadata=metadata, spec=replace(daemon.spec, node_name=node))


def _daemons_of(base: Base) -> Iterator[tuple[PodTemplateSpec, Pod]]:
    """Yield for each daemon set a template that selects its nodes, and a pod as it runs there."""
    infos = base.session.cluster.pods.infos
    workloads = base.at_rest.workloads
    for key in workloads.keys():  # noqa: SIM118 - not a mapping
        state = workloads.find(key)
        if not isinstance(state, DaemonSetState | ForeignState) or state.ref.kind != DAEMON_SET:
            continue
        # A running pod has been through admission, and the template has not.
        example = next((infos[row].pod for row in state.pods), None)
        if isinstance(state, DaemonSetState):
            template = state.templates[state.wanted.revision]
            metadata = replace(
                PodMeta(), name=state.ref.name, namespace=state.ref.namespace, labels=template.metadata.labels
            )
            if example is not None or template.spec.containers:
                yield template, example or Pod(metadata=metadata, spec=template.spec)
        elif example is not None:
            yield PodTemplateSpec(metadata=example.metadata, spec=_not_pinned(example)), example


def _not_pinned(pod: Pod) -> PodSpec:
    """Return the spec of a pod without its node and without the node affinity with which its controller pins it."""
    affinity = pod.spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        required = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=None)
        affinity = replace(affinity, node_affinity=required)
    return replace(pod.spec, node_name="", affinity=affinity)
