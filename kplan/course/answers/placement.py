"""The placement of one pod, as the contract describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from kplan.api.names import object_name
from kplan.changes.remedy import Remedy
from kplan.diagnosis.explanation import CLOSEST, Explanation, Shown, explain
from kplan.documents import placement as d
from kplan.framework.cycle import CycleResult, schedule_pod, stored_message_of
from kplan.framework.interface import PostFilterFindings
from kplan.framework.pod_groups import group_of
from kplan.framework.results import Outcome, Preemption, Victim
from kplan.framework.session import Session
from kplan.remedies.diagnosis import Diagnosis, diagnose
from kplan.remedies.replicas import ALONE, Replicas, owned_replicas
from kplan.rules.pod_info import PodInfo

if TYPE_CHECKING:
    from kplan.course.simulation.loop import Simulation


NodesShown = Iterable[str] | Shown | None
"""The nodes that an explanation covers: those with these names, those that a table shows, or all."""

Explain = Callable[[NodesShown], Explanation]
Diagnose = Callable[[], Diagnosis]


class ToldInFull(msgspec.Struct, frozen=True):
    """An explanation of all nodes, from which those of some are taken; it tells no score details."""

    explanation: Explanation

    def __call__(self, nodes: NodesShown) -> Explanation:
        if nodes is None:
            return self.explanation
        return self.explanation.narrowed(nodes) if isinstance(nodes, Shown) else self.explanation.of_nodes(nodes)


class _ToldPreemption(msgspec.Struct, frozen=True):
    """What preemption came to."""

    evicted: tuple[Victim, ...]
    document: Preemption | None

    def victims(self) -> tuple[Victim, ...]:
        return self.evicted

    def to_document(self, _message: str) -> Preemption | None:
        return self.document


class Placement(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A decision about one pod.

    In a large cluster, `explain(nodes)` explains the decision for a few nodes; the properties cover all nodes and are
    computed on first use.
    """

    pod: d.PodRef
    outcome: Outcome
    node: str | None  #: the chosen node; None if the pod is not scheduled
    #: byte for byte what kube-scheduler would write into the pod's PodScheduled condition; empty when scheduled, and
    #: the text of the PreEnqueue plugin for a gated pod
    message: str
    explain: Explain
    stored_message: str = ""  #: what that condition says instead for a pod with scheduling gates; empty for others
    nominated_node: str | None = None  #: the node that preemption nominates, or None
    post_filter_message: str | None = None  #: the status message of the PostFilter plugins; None if they did not run
    #: candidates and victims of preemption; None if it was not tried
    findings: PostFilterFindings | None = None
    #: returns why the pod has no node, and what would help
    diagnose: Diagnose = Diagnosis
    n_nodes: int | None = None  #: how many there were, if an autoscaler had added some; None for those of the cluster
    among: tuple[str, str] | None = None  #: the node label and value outside of which its pod group does not look
    held_back_by: str = ""  #: PodGroup/NAMESPACE/NAME of its group, where a node fits the pod while the group waits
    undecided: d.Undecided | None = None  #: why kube-scheduler never sees it; None where it decides

    @property
    def _decided(self) -> dict[str, Any]:
        """What tells a decision from another: all fields but those that work something out when somebody asks."""
        return {name: value for name, value in asdict(self).items() if name not in ("explain", "findings", "diagnose")}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placement) and self._decided == other._decided

    def __hash__(self) -> int:
        return hash(tuple(self._decided.values()))

    def __repr__(self) -> str:
        return f"Placement({', '.join(f'{name}={value!r}' for name, value in self._decided.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a pickle holds: all that is otherwise computed when somebody reads it, but for score details."""
        answers = {
            "explain": ToldInFull(self.explanation),
            "diagnose": partial(copy, self._diagnosis),
            "findings": None if self.findings is None else _ToldPreemption(self.victims, self.preemption),
        }
        return Placement, tuple((asdict(self) | answers).values())

    @cached_property
    def _diagnosis(self) -> Diagnosis:
        return Diagnosis() if self.outcome is Outcome.SCHEDULED else self.diagnose()

    @property
    def diagnosis(self) -> str:
        """Why the pod has no node, in one sentence; empty when it is scheduled."""
        return self._diagnosis.text

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """The least changes that would let the pod run, the smallest first; none when it is scheduled."""
        return self._diagnosis.remedies

    @property
    def at_fault(self) -> str:
        """JSON path of the field of the pod that is at fault; empty when it is scheduled, or it is not one field."""
        return self._diagnosis.at_fault

    @cached_property
    def victims(self) -> tuple[Victim, ...]:
        """Pods that would be evicted; computed faster than the whole `preemption`."""
        return () if self.findings is None else self.findings.victims()

    @cached_property
    def preemption(self) -> Preemption | None:
        """The result of preemption, complete for all nodes; None if PostFilter did not run."""
        if self.post_filter_message is None:
            return None
        if self.findings is None:
            return Preemption(eligible=False, message=self.post_filter_message, why_not="not-tried")
        return self.findings.to_document(self.post_filter_message)

    @cached_property
    def explanation(self) -> Explanation:
        """The decision explained for all nodes."""
        return self.explain(None)

    @property
    def ties(self) -> tuple[str, ...]:
        """Every node with the best total score, by name."""
        return self.explanation.ties

    @property
    def feasible_nodes(self) -> tuple[str, ...]:
        """Nodes that passed all filters, by name."""
        return self.explanation.feasible_nodes

    @property
    def not_evaluated(self) -> tuple[str, ...]:
        """Nodes that the scheduler would not have looked at."""
        return self.explanation.not_evaluated

    @property
    def rejections(self) -> Mapping[str, d.Rejection]:
        """Why each rejected node was rejected."""
        return self.explanation.rejections

    @property
    def rejection_summary(self) -> tuple[d.ReasonCount, ...]:
        """How many nodes were rejected for what."""
        return self.explanation.rejection_summary

    @property
    def scores(self) -> Mapping[str, d.NodeScore]:
        """Scores of the feasible nodes; empty when one or none is feasible."""
        return self.explanation.scores

    def to_outline(self) -> d.PodPlacement:
        """Return pod, outcome, node and message only, for tables that explain a few of many placements."""
        return d.PodPlacement(
            pod=self.pod,
            outcome=self.outcome,
            node=self.node,
            message=self.message,
            stored_message=self.stored_message or UNSET,
            held_back_by=self.held_back_by or UNSET,
            undecided=self.undecided or UNSET,
        )

    def to_document(self, nodes: NodesShown = None) -> d.PodPlacement:
        """Return the decision as a document, for all nodes or only some of them."""
        explanation = self.explanation if nodes is None else self.explain(nodes)
        summary = tuple(replace(count, closest=count.closest[:CLOSEST]) for count in explanation.rejection_summary)
        explained = asdict(explanation) | {"rejection_summary": summary}
        del explained["chosen"]  # it is `node`
        return replace(
            self.to_outline(),
            **explained,
            nodes_count=UNSET if self.n_nodes is None else self.n_nodes,
            preemption=self.preemption,
            diagnosis=self.diagnosis or UNSET,
            remedies=UNSET if self.outcome is Outcome.SCHEDULED else self.remedies,
            at_fault=d.PodField(path=self.at_fault) if self.at_fault else UNSET,
            among=UNSET if self.among is None else d.TopologyDomain(key=self.among[0], value=self.among[1]),
        )

    def to_dict(self, nodes: NodesShown = None) -> dict[str, Any]:
        """Return the JSON form of `to_document`."""
        return self.to_document(nodes).to_dict()


def last_placement(
    session: Session, result: CycleResult, origin: d.Origin | None = None, replicas: Replicas | None = None
) -> Placement:
    """Return the placement of a decision after which its session never changes.

    `origin`: the manifest of the pod. `replicas`: pods like it that wait with it; None for those of its controller,
    where it has no manifest.
    """
    if replicas is None:
        replicas = owned_replicas(session, result.pod) if origin is None else ALONE
    explainer = partial(explain, result, session.cluster.nodes.names)
    return placement_of(session, result, explainer, partial(diagnose, session, result, replicas=replicas), origin)


def placement_of(
    session: Session,
    result: CycleResult,
    explainer: Explain,
    diagnoser: Diagnose = Diagnosis,
    origin: d.Origin | None = None,
) -> Placement:
    """Return the placement of a decision; `explainer` and `diagnoser` are called when somebody reads them."""
    info = session.cluster.pods.infos[result.pod]
    names = session.cluster.nodes.names
    post_filter = result.post_filter
    nominated = None if post_filter is None else post_filter.nominated_row
    group = group_of(info) if result.held_back else None
    undecided: d.Undecided | None = "other-scheduler" if result.framework is None else None
    if result.pod in session.refused:
        undecided = "refused"
    return Placement(
        pod=pod_ref(info, origin),
        outcome=result.outcome,
        node=None if result.row is None else names[result.row],
        message=result.message,
        explain=explainer,
        stored_message=stored_message_of(session, result),
        nominated_node=None if nominated is None else names[nominated],
        post_filter_message=None if post_filter is None else post_filter.status.message,
        findings=None if post_filter is None else post_filter.findings,
        diagnose=diagnoser,
        n_nodes=len(names) if session.n_joined else None,
        among=result.among,
        held_back_by="" if group is None else object_name("PodGroup", *group),
        undecided=undecided,
    )


def pod_ref(info: PodInfo, origin: d.Origin | None) -> d.PodRef:
    own = UNSET if origin is None else origin
    return d.PodRef(info.namespace, info.name, info.uid, info.priority, info.pod.spec.scheduler_name, own)


def member_placement(
    session: Session, pod: int, pending: Sequence[int], replicas: Replicas, origin: d.Origin | None = None
) -> Placement:
    """Return the placement of a pod that waits, in its group's cycle, after which its session never changes.

    `pending`: the members of its group without a node. `replicas`: pods like it that wait with it. `origin`: the
    manifest of the pod.
    """
    from kplan.remedies.trials import Trials

    key = group_of(session.cluster.pods.infos[pod])
    decisions = iter(()) if key is None else Trials(session, pending, key).decisions()
    live = next(((forked, result) for forked, result in decisions if result.pod == pod), None)
    if live is None:
        return last_placement(session, schedule_pod(session, pod), origin, replicas)
    forked, result = live

    # The decision is live as long as somebody holds the iterator.
    def explain_nodes(nodes: NodesShown, _live: object = decisions) -> Explanation:
        return explain(result, forked.cluster.nodes.names, nodes)

    return placement_of(forked, result, explain_nodes, partial(diagnose, forked, result, replicas=replicas), origin)


def pending_placement(simulation: Simulation, row: int, replicas: Replicas) -> Placement:
    """Return the decision at the end about a pending pod, in its group's cycle, if any; `replicas`: others like it."""
    session, key = simulation.session, simulation.queue.key_of(row)
    if key is None:
        return last_placement(session, schedule_pod(session, row), replicas=replicas)
    pods, infos = simulation.pods, session.cluster.pods.infos
    pending = [other for other, pod in pods.items() if not pod.node and group_of(infos[other]) == key]
    return member_placement(session, row, pending, replicas)
