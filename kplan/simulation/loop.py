"""The loop: the scheduler, the controllers and whoever evicts, in turn, until nobody has anything to say.

The scheduler is the quickest of them in a real cluster, then come the controllers that make and delete pods, then the
deployment controller, which waits for what they report. So it is here: what is pending is decided before a controller
is asked, and a deployment is asked when its replica sets have nothing left to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from msgspec.structs import replace as with_fields

from kplan.admission.admit import Named
from kplan.admission.whole import WholeTemplate
from kplan.api.apps import ReplicaSet, ReplicaSetMeta, ReplicaSetSpec, StatefulSet
from kplan.api.core import Pod, ReplicationController
from kplan.api.meta import OwnerReference
from kplan.documents.change import Step, StepEvent
from kplan.documents.placement import Outcome
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult, schedule_pod, turned_down_by
from kplan.framework.session import Session
from kplan.preemption import DefaultPreemption, PreemptionResult
from kplan.rules.pod_info import PodInfo
from kplan.simulation.controllers.deployment import Scale
from kplan.simulation.controllers.observed import Create, ObservedPod
from kplan.simulation.disruption import Disruptions
from kplan.simulation.hints import NodeUncordoned, PodAdded, PodDeleted
from kplan.simulation.making import PodMaker
from kplan.simulation.owners import DeploymentState, ForeignState, JobState, Owner, ReplicaSetState, StatefulSetState
from kplan.simulation.queue import RetryQueue
from kplan.simulation.world import Workloads
from kplan.snapshot.model import Warning as InputWarning
from kplan.workloads.expansion import TEMPLATE_HASH

MAX_STEPS = 2_000_000
"""Nothing sensible takes more; a course that does is ended and told."""

MAX_RETURNS = 2
"""So often may a state come back before it counts as a circle: the scheduler's queue may stand differently."""

LATER = 2**64
"""Pods that are made here come after all that the snapshot has."""

EVER = float("inf")


class Decided(Protocol):
    """Told every decision of the scheduler while it is live."""

    def __call__(self, result: CycleResult) -> None:
        """Take a decision in."""


class Simulation:
    """A cluster in motion.

    Attributes
    ----------
    session : changes as pods come and go
    workloads : changes with what is asked for
    pods : row -> every pod that has not ended
    messages : row of a pending pod -> kube-scheduler's last word on it
    steps : what has happened so far
    now : virtual time, seconds since 1970
    violations : preemptor and victim, where that broke a budget
    circle : why it was ended while things still moved; empty when it came to rest
    """

    def __init__(
        self, session: Session, workloads: Workloads, maker: PodMaker, disruptions: Disruptions, now: float
    ) -> None:
        self.session = session
        self.workloads = workloads
        self.disruptions = disruptions
        self.pods: dict[int, ObservedPod] = {}
        self._owner_of: dict[int, str] = {}
        self.messages: dict[int, str] = {}
        self.steps: list[Step] = []
        self.circle = ""
        self.violations: list[tuple[str, str]] = []
        self.on_decision: Decided | None = None
        self._maker = maker
        self._queue = RetryQueue(session)
        self._queue.now = now
        self._dirty: dict[str, Owner] = {}
        self._dirty_deployments: dict[str, DeploymentState] = {}
        self._waiting_jobs: dict[str, JobState] = {}
        self._leaving: list[tuple[int, list[ObservedPod]]] = []
        self._seen: Counter[int] = Counter()
        self._alike: Counter[tuple[object, ...]] = Counter()
        self._mark = 0
        self._preemptors = [
            plugin
            for framework in session.frameworks.values()
            for plugin in framework.post_filter_plugins
            if isinstance(plugin, DefaultPreemption)
        ]

    def fork(self, session: Session, maker: PodMaker) -> Simulation:
        """Return a simulation that starts from this one, in which nothing has moved yet, and goes its own way.

        Parameters
        ----------
        session : a fork of this one's
        """
        workloads = self.workloads.fork()
        twin = Simulation(session, workloads, maker, self.disruptions.fork(workloads.owner), self.now)
        twin.pods, twin.messages = self.pods.copy(), self.messages.copy()
        twin._owner_of, twin._alike = self._owner_of.copy(), self._alike.copy()
        twin._mark = self._mark
        twin._queue = self._queue.fork(session)
        return twin

    def owner(self, row: int) -> Owner | None:
        """Return who owns a pod."""
        key = self._owner_of.get(row)
        return None if key is None else self.workloads.owner(key)

    @property
    def now(self) -> float:
        """Virtual time in seconds since 1970."""
        return self._queue.now

    # --- before -------------------------------------------------------------------------------------------------------

    def take_in(self, pods: Iterable[tuple[ObservedPod, Owner | None]]) -> None:
        """Take in the pods of the snapshot, the pending ones with what the scheduler said about them last."""
        infos, nominator = self.session.cluster.pods.infos, self.session.nominator
        pending: list[int] = []
        for pod, owner in pods:
            self.pods[pod.row] = pod
            if owner is not None:
                self._owner_of[pod.row] = owner.ref.key
            self.disruptions.join(pod, infos[pod.row], owner)
            self._note(pod, owner, 1)
            if not pod.node and self.session.cluster.node_of[pod.row] == NOWHERE:
                pending.append(pod.row)
        asked: dict[tuple[bytes, int | None], frozenset[str] | None] = {}
        for row in sorted(pending, key=lambda row: (self.pods[row].created, infos[row].key)):
            info = infos[row]
            said = next((each for each in info.pod.status.conditions if each.type == "PodScheduled"), None)
            self.messages[row] = said.message if said is not None and said.status == "False" else ""
            if self.session.framework_for(info) is None or row in self.session.refused:
                continue
            key = (info.shape, nominator.row_of(row))
            if key not in asked:
                asked[key] = turned_down_by(self.session, row)
            rejectors = asked[key]
            if rejectors is None:
                self._queue.add(row)
            else:
                self._queue.add_rejected(row, rejectors, long_ago=True)

    def ask(self, owner: Owner | DeploymentState) -> None:
        """Have a controller look at its workload when its turn comes."""
        if isinstance(owner, DeploymentState):
            self._dirty_deployments[owner.ref.key] = owner
        else:
            self._dirty[owner.ref.key] = owner
            if owner.parent is not None:
                self._dirty_deployments[owner.parent.ref.key] = owner.parent

    @property
    def is_asked(self) -> bool:
        """Tell whether a controller has yet to look at its workload."""
        return bool(self._dirty or self._dirty_deployments)

    # --- the loop -----------------------------------------------------------------------------------------------------

    def run(self, patience: float = EVER) -> None:
        """Let everything move until nothing does.

        Parameters
        ----------
        patience : seconds of virtual time that are waited for jobs between two failures
        """
        end = self.now + patience
        while not self.circle:
            if len(self.steps) > MAX_STEPS:
                self.circle = f"it was still moving after {MAX_STEPS} steps"
            elif self._queue.has_active:
                self._schedule(self._queue.pop())
            elif self._leaving:
                self._let_go(*self._leaving.pop(0))
            elif self._queue:
                self._schedule(self._queue.pop())
            elif self._dirty:
                self._sync(self._dirty.pop(next(iter(self._dirty))))
            elif self._dirty_deployments:
                self._sync_deployment(self._dirty_deployments.pop(next(iter(self._dirty_deployments))))
            elif not self._wait(end):
                break
        if patience < EVER:
            self._queue.now = max(self.now, end)

    def run_controllers(self) -> None:
        """Let controllers say all that they have to say, and nobody else move."""
        while (self._dirty or self._dirty_deployments) and len(self.steps) <= MAX_STEPS:
            if self._dirty:
                self._sync(self._dirty.pop(next(iter(self._dirty))))
            else:
                self._sync_deployment(self._dirty_deployments.pop(next(iter(self._dirty_deployments))))

    def _wait(self, end: float) -> bool:
        """Let time pass until the next job may go on; tell whether there is one before the end."""
        due = [job for job in self._waiting_jobs.values() if job.waits_until <= end or job.holds_on]
        if not due:
            return False
        first = min(due, key=lambda job: job.waits_until)
        self._queue.now = max(self.now, first.waits_until)
        del self._waiting_jobs[first.ref.key]
        self._dirty[first.ref.key] = first
        return True

    def _sync(self, owner: Owner) -> None:
        for action in owner.actions(self.now):
            if isinstance(action, Create):
                if owner.is_made_no_further or not self._create(owner, action):
                    break
            else:
                self.remove(action.pod, StepEvent.DELETED, action.because, by_owner=True)
        if isinstance(owner, StatefulSetState):
            owner.complete()
        if isinstance(owner, JobState) and owner.waits_until > self.now:
            self._waiting_jobs[owner.ref.key] = owner

    def _sync_deployment(self, deployment: DeploymentState) -> None:
        if not deployment.reported:
            deployment.hear()
        wanted = deployment.actions()
        if deployment.hear() or wanted:
            self._dirty_deployments[deployment.ref.key] = deployment
        for scale in wanted:
            if not self._scale(deployment, scale):
                self._dirty_deployments.pop(deployment.ref.key, None)
                break

    def _scale(self, deployment: DeploymentState, scale: Scale) -> bool:
        """Scale a replica set, or make it; tell whether the API server takes it."""
        target = deployment.sets[scale.name] if scale.name is not None else self._new_set(deployment)
        if target is None:
            return False
        target.replicas = scale.replicas
        target.because = scale.because
        target.noted = (deployment.wanted.replicas, deployment.wanted.max_pods)
        self._dirty[target.ref.key] = target
        return True

    @property
    def warnings(self) -> tuple[InputWarning, ...]:
        """What was odd about what was made, each once."""
        return tuple(self._maker.warnings)

    def refusal_of(self, what: Named) -> str:
        """Return why the API server refuses a new object; where it does not, the object counts from now on."""
        return self._maker.refusal_of(what)

    def _new_set(self, deployment: DeploymentState) -> ReplicaSetState | None:
        """Make the replica set of the template that now holds; None where the API server does not take it."""
        labels = {**deployment.spec.metadata.labels, TEMPLATE_HASH: deployment.revision}
        template = with_fields(deployment.spec, metadata=with_fields(deployment.spec.metadata, labels=labels))
        selector = with_fields(
            deployment.selector, match_labels={**deployment.selector.match_labels, TEMPLATE_HASH: deployment.revision}
        )
        ref = deployment.ref
        name = f"{ref.name}-{deployment.revision}"
        refusal = self.refusal_of(Named("apps", "replicasets", ref.namespace, name))
        if refusal:
            if refusal != deployment.refusal:
                deployment.refusal = refusal
                self.log(StepEvent.REFUSED, workload=ref.key, because=refusal)
            return None
        deployment.refusal = ""
        owner = OwnerReference(api_version="apps/v1", kind="Deployment", name=ref.name, uid=ref.uid, controller=True)
        metadata = ReplicaSetMeta(
            name=name, namespace=ref.namespace, labels=labels, owner_references=(owner,), uid=f"{ref.namespace}/{name}"
        )
        made = ReplicaSet(metadata=metadata, spec=ReplicaSetSpec(replicas=0, selector=selector, template=template))
        self.know(made)
        state = self.workloads.add_replica_set(made)
        state.template = deployment.template
        return state

    def know(self, obj: ReplicaSet | ReplicationController | StatefulSet) -> None:
        """Let an object be found by its name: spreading by default looks for the controller of a pod."""
        listers, key = self.session.listers, (obj.metadata.namespace, obj.metadata.name)
        if isinstance(obj, ReplicaSet):
            listers.replica_sets[key] = obj
        elif isinstance(obj, StatefulSet):
            listers.stateful_sets[key] = obj
        else:
            listers.replication_controllers[key] = obj

    # --- pods come and go ---------------------------------------------------------------------------------------------

    def _create(self, owner: Owner, wanted: Create) -> bool:
        """Make a pod; tell whether the API server takes it."""
        template = owner.templates[wanted.revision]
        info, refusal = self._maker.make(owner, wanted, self.workloads.templates.whole(template))
        if refusal:
            if refusal != owner.refusal:
                owner.refusal = refusal
                self.log(StepEvent.REFUSED, owner=owner, pod=info.key, because=refusal)
            return False
        owner.refusal = ""
        row = self.session.add_pod(info)
        pod = ObservedPod(
            row,
            info.namespace,
            info.name,
            info.uid,
            "",
            "Pending",
            self.now,
            None,
            wanted.revision,
            wanted.index,
            wanted.node,
            is_new=True,
            order=LATER + row,
        )
        if isinstance(owner, ForeignState):
            owner.lost.remove(wanted.revision)
        self.pods[row] = pod
        self._owner_of[row] = owner.ref.key
        owner.join(pod)
        self.disruptions.join(pod, info, owner)
        self._note(pod, owner, 1)
        self.ask(owner)
        self.messages[row] = ""
        self.log(StepEvent.CREATED, pod=info.key, owner=owner, because=wanted.because)
        self._enter(row, info)
        return True

    def _enter(self, row: int, info: PodInfo) -> None:
        """Queue a new pod, or put it where it says itself that it runs."""
        node = info.pod.spec.node_name
        if node:
            place = self.session.cluster.nodes.row_of.get(node, NOWHERE)
            if place != NOWHERE:
                self._bind(row, place)
        elif self.session.framework_for(info) is not None:
            self._queue.add(row)

    def create_pod(self, pod: Pod, whole: WholeTemplate | None = None) -> tuple[int | None, str]:
        """Make a pod that nobody owns; return its row, or why the API server does not take it.

        Parameters
        ----------
        whole : as it is written, where that is known
        """
        info, refusal = self._maker.make_bare(pod, whole)
        if refusal:
            self.log(StepEvent.REFUSED, pod=info.key, because=refusal)
            return None, refusal
        row = self.session.add_pod(info)
        made = ObservedPod(row, info.namespace, info.name, info.uid, "", "Pending", self.now, None, is_new=True)
        self.pods[row] = made
        self.disruptions.join(made, info, None)
        self._note(made, None, 1)
        self.messages[row] = ""
        self.log(StepEvent.CREATED, pod=info.key)
        self._enter(row, info)
        return row, ""

    def remove(
        self, pod: ObservedPod, event: StepEvent, because: str, *, by: str | None = None, by_owner: bool = False
    ) -> None:
        """Let a pod be gone.

        Parameters
        ----------
        by : the pod for which it has to go
        by_owner : its own controller removes it, and does not count that as a failure
        """
        info = self.session.cluster.pods.infos[pod.row]
        owner = self.owner(pod.row)
        self._owner_of.pop(pod.row, None)
        self.log(event, pod=pod.key, node=pod.node or None, owner=owner, because=because, by=by)
        self._note(pod, owner, -1)
        del self.pods[pod.row]
        self.messages.pop(pod.row, None)
        self.disruptions.leave(pod)
        if owner is not None:
            owner.leave(pod)
            if not by_owner:
                owner.failed(self.now)
                if isinstance(owner, ForeignState):
                    owner.lost.append(pod.revision)
            self.ask(owner)
        self._maker.release(info)
        self.session.pod_ids.pop(info.key, None)
        had_place = self.session.nominator.row_of(pod.row) is not None
        self.session.nominator.drop(pod.row)
        self._queue.forget(pod.row)
        if self.session.cluster.node_of[pod.row] != NOWHERE:
            self.session.evict(pod.row)
        if pod.node:
            self._queue.notice(PodDeleted(info))
        elif had_place:
            self._queue.notice(PodDeleted(info), info.priority)

    def _bind(self, row: int, place: int) -> None:
        info = self.session.cluster.pods.infos[row]
        pod = self.pods[row]
        owner = self.owner(row)
        self._note(pod, owner, -1)
        self.session.bind(row, place)
        node = self.session.cluster.nodes.names[place]
        pod = self.pods[row] = replace(pod, node=node, phase="Running", ready_since=self.now)
        self.disruptions.settle(pod)
        self.messages.pop(row, None)
        if owner is not None:
            owner.settle(pod)
            self.ask(owner)
        self._note(pod, owner, 1)
        self.log(StepEvent.BOUND, pod=info.key, node=pod.node, owner=owner)
        self._queue.notice(PodAdded(info))

    # --- nodes --------------------------------------------------------------------------------------------------------

    def cordon(self, nodes: Iterable[str]) -> None:
        """Let nodes take no more pods."""
        row_of = self.session.cluster.nodes.row_of
        self.session.set_schedulable([row_of[name] for name in nodes], schedulable=False)

    def uncordon(self, name: str) -> None:
        """Let a node take pods again."""
        nodes = self.session.cluster.nodes
        row = nodes.row_of[name]
        if nodes.unschedulable[row]:
            self.session.set_schedulable([row], schedulable=True)
            self._queue.notice(NodeUncordoned(nodes.nodes[row]))

    # --- the scheduler ------------------------------------------------------------------------------------------------

    def _schedule(self, row: int) -> None:
        result = schedule_pod(self.session, row)
        if self.on_decision is not None:
            self.on_decision(result)
        if result.outcome is Outcome.SCHEDULED and result.row is not None:
            self._bind(row, result.row)
            return
        self.messages[row] = result.message
        if result.outcome is Outcome.ERROR:
            return  # tried again by a real scheduler, to no other end
        rejectors = result.filter.rejectors() if result.filter is not None else frozenset()
        self._queue.add_rejected(row, rejectors)
        found = result.post_filter
        if found is None:
            return
        for take_effect in found.effects:
            take_effect()
        detail = found.findings
        if isinstance(detail, PreemptionResult):
            if found.nominated_row is not None:
                self._preempt(row, found.nominated_row, detail)
            elif detail.eligible:
                self._clear_nomination(row)

    def _preempt(self, row: int, place: int, detail: PreemptionResult) -> None:
        infos = self.session.cluster.pods.infos
        victims = detail.leaving_pods
        leaving = [self.pods[victim] for victim in victims]
        name = infos[row].key
        self.session.nominator.nominate(row, place)
        because = ", ".join(pod.key for pod in leaving)
        node = self.session.cluster.nodes.names[place]
        self.log(StepEvent.NOMINATED, pod=name, node=node, owner=self.owner(row), because=because)
        for cleared in detail.cleared_pods:
            self._clear_nomination(cleared)
        self.violations += [(name, pod.key) for pod in self.disruptions.broken_by(leaving)]
        # The scheduler has the victims deleted on the side, and goes on with other pods meanwhile.
        self._leaving.append((row, leaving))

    def _let_go(self, preemptor: int, victims: list[ObservedPod]) -> None:
        name = self.session.cluster.pods.infos[preemptor].key
        present = [pod for pod in victims if pod.row in self.pods]
        for pod in present:
            self.remove(pod, StepEvent.EVICTED, f"preempted by {name}", by=name)
        if present:
            self._recount()
            self._look_for_circle(name, ", ".join(pod.key for pod in present))

    def _clear_nomination(self, row: int) -> None:
        if self.session.nominator.row_of(row) is not None:
            self.session.nominator.drop(row)
            info = self.session.cluster.pods.infos[row]
            self._queue.notice(PodDeleted(info), info.priority)

    def _recount(self) -> None:
        allowed = self.disruptions.allowed()
        for plugin in self._preemptors:
            plugin.recount(allowed)

    # --- circles ------------------------------------------------------------------------------------------------------

    def _note(self, pod: ObservedPod, owner: Owner | None, sign: int) -> None:
        """Keep a mark of where all pods are: equal for equal states, whatever the pods are called."""
        like = (pod.key if owner is None else owner.ref.key, pod.revision, pod.index, pod.node)
        n = self._alike[like]
        self._alike[like] = n + sign
        self._mark ^= hash((like, n)) ^ hash((like, n + sign))

    def _look_for_circle(self, preemptor: str, victims: str) -> None:
        """End it when the same pods have stood on the same nodes, with the same ones waiting for room, too often."""
        nominator, infos = self.session.nominator, self.session.cluster.pods.infos
        promised = [(infos[pod].shape, row) for row in nominator.rows() for pod in nominator.pods_for(row)]
        state = self._mark ^ hash(tuple(sorted(promised)))
        self._seen[state] += 1
        if self._seen[state] > MAX_RETURNS:
            self.circle = f"{preemptor} and {victims} keep making room for each other, round and round"

    # --- the log ------------------------------------------------------------------------------------------------------

    def log(
        self,
        event: StepEvent,
        *,
        pod: str = "",
        node: str | None = None,
        owner: Owner | None = None,
        workload: str = "",
        because: str = "",
        by: str | None = None,
    ) -> None:
        """Note a step."""
        if not workload:
            workload = owner.workload.key if owner is not None else f"Pod/{pod}"
        self.steps.append(
            Step(step=len(self.steps) + 1, event=event, pod=pod, node=node, workload=workload, because=because, by=by)
        )
