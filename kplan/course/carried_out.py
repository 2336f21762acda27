"""A task that was carried out: what became of everything, and the decisions about pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import msgspec
from msgspec.structs import replace

from kplan.api.kinds import SCALED
from kplan.api.quantity import grouped, listing
from kplan.cluster.base import Base
from kplan.cluster.runs import QuestionPods
from kplan.cluster.workload_pods import did_you_mean
from kplan.course.answers.at_rest import is_rolling_out, pods_at_rest, workload_changes
from kplan.course.answers.drains import timed_out
from kplan.course.answers.placement import NodesShown, Placement, pending_placement, placement_of
from kplan.course.asking import PLAIN, Showing
from kplan.course.beginning import unmoved
from kplan.course.growth import Growth
from kplan.course.provisioning import growth_of
from kplan.course.simulation.applying import Applied
from kplan.course.simulation.controllers.observed import scaled
from kplan.course.simulation.draining import Draining
from kplan.course.simulation.loop import Simulation
from kplan.course.task import Task
from kplan.course.timeline import Occupancy, timeline_of
from kplan.diagnosis.explanation import explain
from kplan.documents import change as d
from kplan.documents.placement import Origin, PodPlacement
from kplan.errors import NotFoundError, UsageError
from kplan.facts import InputWarning
from kplan.framework.cycle import CycleResult
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.health.nodes import nodes_health
from kplan.remedies.replicas import owned_replicas

NOT_RUNNING = "NodeNotReady"
_DOES_NOT_RUN = "is not ready or does not answer: nothing starts"
_COME_BACK = (
    "is not empty when kubectl drain ends, which waits for the former pods alone: new ones that tolerate a cordon may"
    " go there, here {}; they stay away without a toleration of the cordon, such as operator: Exists without a key"
)
MAY_END = ("Pod/", "Job/")  #: workloads whose pods are not meant to be ready for ever
MOST_TIES = 10  #: the number of equal best nodes that a decision names: all of them would be most of the document


class Decisions(msgspec.Struct):
    """Collects the decisions about the pods of new workloads; about all pods that move where all of it is shown."""

    showing: Showing = PLAIN  #: the nodes to explain for the first pod of each workload, and for others, if for these
    origins: Mapping[str, Origin] = {}  #: KIND/NAMESPACE/NAME of a workload -> its manifest
    nodes_of: Mapping[str, NodesShown] = {}  #: NAMESPACE/NAME of pods -> the nodes to explain for them instead
    placed: dict[str, PodPlacement] = {}  #: NAMESPACE/NAME of a pod -> the decision that placed it
    watched: dict[str | int, str] = {}  #: KIND/NAMESPACE/NAME of a workload, or row of a pod -> its workload
    explained: set[str] = set()  #: workloads of which a first pod is explained

    def add(self, applied: Applied) -> None:
        """Collect the decisions about the pods of a workload from now on, too."""
        key = applied.update.key
        self.watched |= {key: key} if applied.row is None else {key: key, applied.row: key}

    def watch(self, simulation: Simulation) -> None:
        def save(result: CycleResult) -> None:
            if result.outcome is not Outcome.SCHEDULED or not (self.watched or self.showing.is_whole):
                return
            pod = simulation.pods[result.pod]
            own, is_all = simulation.workload_of(pod), self.showing.is_whole
            workload = own if is_all else self.watched.get(result.pod) or self.watched.get(own)
            if workload is None:
                return
            if is_all or workload not in self.explained or not self.showing.is_outlined:
                nodes = self.showing.others if workload in self.explained else self.showing.explained
                nodes = self.nodes_of.get(pod.key, nodes)
                self.placed[pod.key] = self._document(simulation.session, result, workload, nodes)
                self.explained.add(workload)

        simulation.scheduler.on_decision.connect(save)

    def _document(self, session: Session, result: CycleResult, workload: str, nodes: NodesShown) -> PodPlacement:
        names = session.cluster.nodes.names
        origin = self.origins.get(workload)
        placement = placement_of(session, result, partial(explain, result, names), origin=origin)
        document = placement.to_document(nodes)
        if self.showing.explain or len(document.ties) <= MOST_TIES:
            return document
        return replace(document, ties=document.ties[:MOST_TIES], ties_count=len(document.ties))


@dataclass(eq=False)
class CarriedOut:
    """A task that is carried out: its course fills this in, and nothing changes it afterwards."""

    simulation: Simulation = field(repr=False)  #: the cluster at the end; not to be changed
    origin: Base = field(repr=False)  #: the cluster before the change; not to be changed
    task: Task = field(default=Task(), repr=False)
    applied: list[Applied] = field(default_factory=list, repr=False)  #: what each manifest changes, in their order
    drains: list[Draining] = field(default_factory=list, repr=False)  #: how nodes were emptied
    #: warnings about manifests that are left out or create no pods, and about drains
    left_out: list[InputWarning] = field(default_factory=list)
    queue: tuple[str, ...] = ()  #: NAMESPACE/NAME of the pending pods that the scheduler tries, in their order
    is_over: bool = True  #: nothing more is to happen
    is_roomy: bool = False  #: all pods get nodes, whatever is drawn
    subject_pods: frozenset[str] = frozenset()  #: NAMESPACE/NAME of the pods of the queue that the question is about
    pods: QuestionPods | None = field(default=None, repr=False)  #: these; None where it names none
    occupancy: Occupancy | None = field(default=None, repr=False)  #: with a clock, the queue and the nodes over time

    @property
    def obstacles(self) -> tuple[d.Obstacle, ...]:
        """The pods that cannot be evicted, with the disruption budgets that cover them."""
        return tuple(obstacle for drain in self.drains for obstacle in drain.obstacles)

    @property
    def blocked(self) -> dict[str, str]:
        """The same: NAMESPACE/NAME -> why the pod cannot be evicted."""
        return {obstacle.pod: obstacle.words for obstacle in self.obstacles}

    @property
    def refused_nodes(self) -> tuple[d.RefusedNode, ...]:
        """The nodes that kubectl drain refuses to empty."""
        return tuple(node for drain in self.drains for node in drain.refused)

    @property
    def timed_out(self) -> dict[str, str]:
        """The nodes that kubectl drain gives up with an error before their pods are gone, and its reason."""
        return timed_out(self.drains)

    @property
    def growth(self) -> Growth | None:
        """The nodes that an autoscaler adds in the course of the change; None where none is followed."""
        return growth_of(self.simulation)

    @property
    def warnings(self) -> tuple[InputWarning, ...]:
        """Warnings about the manifests and the course of the change."""
        own = (warning for applied in self.applied for warning in applied.update.warnings)
        warnings = [*self.simulation.warnings, *own, *self.left_out]
        if names := self.simulation.kubelets.already_leaving:
            message = f"pods that are being deleted already count as gone: {listing(names)}"
            warnings.append(InputWarning("BeingDeleted", "", message))
        return tuple(warnings)

    @property
    def all_warnings(self) -> Iterator[InputWarning]:
        """The same, and warnings about what was not carried out to its end."""
        yield from self.warnings
        if self.simulation.circle:
            yield InputWarning("EvictionCycle", "", self.simulation.circle)
        if self.simulation.hit_limit:
            rounds = self.simulation.rounds
            message = f"the queue was still changing after {rounds} rounds; what is pending may yet be placed"
            yield InputWarning("RoundLimit", "", message)
        for workload in self.workloads:
            if workload.unseen:
                message = (
                    f"the snapshot holds only what scheduling reads, so whether {listing(workload.unseen)} is new"
                    " cannot be seen; --rollout always rolls the workload all the same"
                )
                yield InputWarning("UnseenFields", workload.key, message)
        not_running = Counter(pod.node for pod in self.after if pod.new and pod.node in self.not_running_nodes)
        for name, number in sorted(not_running.items()):
            are, them = ("pod is", "it") if number == 1 else ("pods are", "them")
            message = f"{number} new {are} placed here, as the scheduler does with pods that tolerate it, but the node"
            yield InputWarning(NOT_RUNNING, f"Node/{name}", f"{message} {_DOES_NOT_RUN} {them}")
        for name, keys in self.come_back.items():
            yield InputWarning("PodsComeBack", f"Node/{name}", _COME_BACK.format(listing(keys)))
        for key, number in self.untried.items():
            yield InputWarning("ReplicasNotMade", key, f"{number} of its replicas were not tried one by one")

    @cached_property
    def come_back(self) -> dict[str, list[str]]:
        """The drained nodes to which new pods go, NAMESPACE/NAME: kubectl drain waits for the former ones alone."""
        simulation, cluster = self.simulation, self.simulation.cluster
        drained = dict.fromkeys(name for drain in self.drains for name in drain.nodes)
        rows = {name: cluster.pods_on[cluster.nodes.row_of[name]] for name in drained if simulation.is_cordoned(name)}
        there = ((name, pod) for name, own in rows.items() for pod in filter(None, map(simulation.pods.get, own)))
        news = grouped((name, pod.key) for name, pod in there if pod.is_new and not pod.target)  # no daemons
        return {name: sorted(keys) for name, keys in news.items()}

    @property
    def untried(self) -> Mapping[str, int]:
        """The workloads with replicas that were not tried, as KIND/NAMESPACE/NAME, and how many."""
        pending = Counter(pod.workload for pod in self.after if pod.node is None)
        untried = {workload.key: workload.pending - pending[workload.key] for workload in self.workloads}
        return {key: number for key, number in untried.items() if number > 0}

    @cached_property
    def not_running_nodes(self) -> frozenset[str]:
        """The nodes that were not ready before, or did not answer: pods that tolerate that go there all the same."""
        if unmoved(self.origin).node_lifecycle.is_well:
            return frozenset()
        states = {"unreachable", "not-ready"}
        healths = nodes_health(self.origin.objects)
        return frozenset(name for name, health in healths.items() if not states.isdisjoint(health.states))

    @property
    def steps(self) -> Sequence[d.Step]:
        """All steps, in order."""
        return self.simulation.log.steps

    @property
    def preempted(self) -> frozenset[str]:
        """NAMESPACE/NAME of the pods that left for others; those that leave ill nodes are none."""
        return frozenset(step.pod for step in self.steps if step.by is not None)

    @cached_property
    def after(self) -> tuple[d.PodAtRest, ...]:
        """All pods at the end, by namespace and name."""
        return pods_at_rest(self.simulation)

    @cached_property
    def workloads(self) -> tuple[d.WorkloadChange, ...]:
        """The workloads of the manifests, in their order, then other workloads whose pods moved."""
        changes = workload_changes(self.simulation, self.applied)
        if not self.task.carries_on:
            return changes
        before = unmoved(self.origin).workloads
        rollout = d.Change.ROLLOUT
        return tuple(replace(one, change=rollout) if is_rolling_out(before.find(one.key)) else one for one in changes)

    @property
    def end(self) -> Simulation | None:
        """The cluster at the end, where controllers go on with what was under way before; None where they do not."""
        return self.simulation if self.task.carries_on else None

    def placement(self, pod: str) -> Placement:
        """Return the decision about a pod that stays pending, in the cluster at the end; NotFoundError for others."""
        waiting = {observed.key: row for row, observed in self.simulation.pods.items() if not observed.node}
        if pod not in waiting:
            hint = did_you_mean([pod], waiting) or "placement(POD) is about the pods of `after` that have no node"
            raise NotFoundError(f"no pod {pod} stays pending", hint=hint)
        replicas = owned_replicas(self.simulation.session, waiting[pod])
        return pending_placement(self.simulation, waiting[pod], replicas)

    @cached_property
    def timeline(self) -> d.Timeline:
        """When the changes end, and how many pods of each workload are ready meanwhile; UsageError without a clock."""
        clock = self.task.clock
        if clock is None:
            raise UsageError("nothing takes time without a clock", hint="ask planner.timeline for when all happens")
        is_stuck = bool(self.blocked) or any(workload.state is d.WorkloadState.STUCK for workload in self.workloads)
        timeline = timeline_of(self.simulation, clock, is_over=self.is_over, is_stuck=is_stuck)
        return timeline if self.occupancy is None else self.occupancy.added_to(timeline)

    @property
    def not_replaced(self) -> Sequence[str]:
        """The workloads that lack more pods in the end than before, as KIND/NAMESPACE/NAME: nothing makes them.

        Such as a stateful set that waits for a pod of it to be ready, or to be gone from a lost node.
        """
        short = [
            workload
            for workload in self.workloads
            if self.is_over
            and workload.kind in SCALED
            and workload.state in (d.WorkloadState.STUCK, d.WorkloadState.BLOCKED)
            and not (workload.because and not workload.pod and not workload.blocked)  # that counts as refused
        ]
        if not short:
            return []
        lost, before = self.simulation.lost_nodes - unmoved(self.origin).lost_nodes, unmoved(self.origin)
        # Pods that would have gone in any case, and that nothing ends.
        gone = () if self.task.is_queue else self.simulation.node_lifecycle.due
        pods = (pod for pod in self.simulation.pods.values() if gone and pod.is_terminating and pod.key in gone)
        due = Counter(map(self.simulation.workload_of, pods))
        keys = [workload.key for workload in short]
        return [key for key in keys if _lacking(self.simulation, key, lost) - due[key] > _lacking(before, key)]

    @property
    def unavailable(self) -> Sequence[str]:
        """Keys of the workloads with too few ready pods for a while, and enough before; none without a clock."""
        clock = self.task.clock
        if clock is None:
            return ()
        return [
            name
            for name, workload in self.timeline.workloads.items()
            if not name.startswith(MAY_END)
            and workload.lowest_ready
            < min(workload.ready_before, scaled(clock.min_ready, workload.ready_before, round_up=True))
        ]


def _lacking(simulation: Simulation, key: str, lost: Container[str] = ()) -> int:
    """Return how many pods a workload wants that do not exist, are told to go, or are on lost nodes."""
    workload = simulation.workloads.find(key)
    if workload is None or any(owner.is_cut_short for owner in workload.owners):
        return 0
    pods = (pod for owner in workload.owners for pod in owner.pods.values())
    return workload.desired - sum(not pod.is_terminating and pod.node not in lost for pod in pods)
