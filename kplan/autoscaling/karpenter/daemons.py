"""Daemon pods that a new node starts with, and that a present node still has to get.

Karpenter gives up alternatives of a daemon's node affinity for good: what one pool made it drop, later pools and nodes
do not know any more.

Upstream: provisioning/provisioner.go getDaemonSetPods, provisioning/scheduling/scheduler.go isDaemonPodCompatible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from kplan.api.affinity import Affinity, NodeAffinity, NodeSelectorTerm, required_node_affinity
from kplan.api.apps import DaemonSet
from kplan.api.base import ResourceList
from kplan.api.core import Container, Pod, PodSpec
from kplan.api.meta import controller_of
from kplan.api.tolerations import Toleration
from kplan.autoscaling.karpenter.amounts import ONE, Amounts, total_of
from kplan.autoscaling.karpenter.cluster import StateNode
from kplan.autoscaling.karpenter.pods import HostPort, PodFacts, has_resource_claims, host_ports, tolerates_all
from kplan.autoscaling.karpenter.pools import Template
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary
from kplan.autoscaling.karpenter.wishes import tolerating_preferences
from kplan.rules.resources import PODS


class Daemon:
    """A pod of a daemon set, with the alternatives that are still considered."""

    def __init__(self, pod: Pod, facts: PodFacts, vocabulary: Vocabulary) -> None:
        #: NAMESPACE/NAME; the same for all that are made of templates, which have no names
        self.key = pod.metadata.key
        self.requests = facts.requests(pod)
        self.ports = host_ports(pod)
        self.tolerations: tuple[Toleration, ...] = pod.spec.tolerations
        required = required_node_affinity(pod.spec.affinity)
        self._terms: tuple[NodeSelectorTerm, ...] = () if required is None else required.node_selector_terms
        self._vocabulary = vocabulary
        self._selector = vocabulary.of_labels(pod.spec.node_selector)

    def _strict(self) -> Requirements:
        known = self._vocabulary
        if not self._terms:
            return self._selector
        return known.join(self._selector, known.of_expressions(self._terms[0].match_expressions))

    def runs_on_new(self, template: Template) -> bool:
        """Tell whether new nodes of a pool get it; drops alternatives on the way."""
        self.tolerations = tolerating_preferences(self.tolerations) or self.tolerations
        if not tolerates_all(self.tolerations, template.taints):
            return False
        while self._vocabulary.misfits(template.requirements, self._strict(), allows_well_known=True):
            if len(self._terms) <= 1:
                return False
            self._terms = self._terms[1:]
        return True

    def runs_on(self, state: StateNode) -> bool:
        """Tell whether a present node gets it."""
        if not tolerates_all(self.tolerations, state.taints):
            return False
        return not self._vocabulary.misfits(
            self._vocabulary.of_labels(state.labels),
            self._strict(),
            allows_well_known=False,
        )


def daemons_of(
    daemon_sets: Sequence[DaemonSet],
    pods: Iterable[Pod],
    facts: PodFacts,
    vocabulary: Vocabulary,
    *,
    ignores_claims: bool,
) -> list[Daemon]:
    """Return a pod for every daemon set: its newest one, or else one as its template says."""
    newest: dict[str, Pod] = {}
    for pod in pods:
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != "DaemonSet":
            continue
        known = newest.get(owner.uid)
        if known is None or (pod.metadata.creation_timestamp or "") > (known.metadata.creation_timestamp or ""):
            newest[owner.uid] = pod
    daemons = []
    for daemon_set in daemon_sets:
        template = daemon_set.spec.template
        live = newest.get(daemon_set.metadata.uid) if daemon_set.metadata.uid else None
        spec = with_limits_as_requests(template.spec) if live is None else live.spec
        required = required_node_affinity(template.spec.affinity)
        if required is not None:
            affinity = spec.affinity or Affinity()
            node_affinity = affinity.node_affinity or NodeAffinity()
            node_affinity = replace(node_affinity, required_during_scheduling_ignored_during_execution=required)
            spec = replace(spec, affinity=replace(affinity, node_affinity=node_affinity))
        pod = Pod(spec=spec) if live is None else replace(live, spec=spec)
        if not (ignores_claims and has_resource_claims(pod)):
            daemons.append(Daemon(pod, facts, vocabulary))
    return daemons


def with_limits_as_requests(spec: PodSpec) -> PodSpec:
    """Return a template with the requests that an API server fills in."""

    def filled(container: Container) -> Container:
        resources = container.resources
        requests: ResourceList = {**resources.limits, **resources.requests}
        return replace(container, resources=replace(resources, requests=requests))

    return replace(
        spec,
        containers=tuple(map(filled, spec.containers)),
        init_containers=tuple(map(filled, spec.init_containers)),
    )


class DaemonPlan:
    """The daemons of new nodes of each pool, and of present nodes."""

    def __init__(self, daemons: Sequence[Daemon], templates: Sequence[Template]) -> None:
        self._daemons = daemons
        #: of new nodes, by the number of the template
        self.requests = [
            _requests([daemon for daemon in daemons if daemon.runs_on_new(template)]) for template in templates
        ]
        # By now the daemons have dropped alternatives for the pools at the end, which those at the beginning notice.
        self.ports = [_ports(daemon for daemon in daemons if daemon.runs_on_new(template)) for template in templates]

    def on(self, state: StateNode) -> Amounts:
        """Return what the daemons of a present node request together."""
        return _requests([daemon for daemon in self._daemons if daemon.runs_on(state)])


def _requests(daemons: Sequence[Daemon]) -> Amounts:
    return {**total_of(daemon.requests for daemon in daemons), PODS: len(daemons) * ONE}


def _ports(daemons: Iterable[Daemon]) -> Mapping[str, tuple[HostPort, ...]]:
    """Return the host ports of daemons; of those made of templates only the last one's count, as upstream."""
    return {daemon.key: daemon.ports for daemon in daemons}
