"""The life cycle of pods: they are created, taken over, bound and removed; and nodes are cordoned."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec
from msgspec.structs import replace

from kplan.admission.stored import WholeTemplate
from kplan.api.core import Pod, ReplicationController
from kplan.api.kinds import type_of
from kplan.api.pod import ENDED
from kplan.api.workloads import ReplicaSet, StatefulSet
from kplan.course.simulation.controllers.observed import Create, ObservedPod
from kplan.course.simulation.jobs import ASSUMED_EXIT_CODE, JobState
from kplan.course.simulation.kubelets import Kubelets
from kplan.course.simulation.motion import Motion, Signal
from kplan.course.simulation.objects import adopted_by, stamp
from kplan.course.simulation.owners import ForeignState, Owner
from kplan.course.simulation.pod_creation import become
from kplan.course.simulation.timers import MANY, OF_SYNCS, OF_SYNCS_OF_JOBS, Backoff, FailedSyncs
from kplan.documents.change import StepEvent
from kplan.engine.cluster import NOWHERE
from kplan.facts import InputWarning
from kplan.framework.interface import NodeChanged, NodeUncordoned, PodAdded, PodDeleted
from kplan.rules.pod_info import PodInfo
from kplan.rules.volumes import claims_of

LATER = 2**64  #: pods that the simulation creates come after all pods of the snapshot


class Removal(msgspec.Struct, frozen=True, gc=False):
    """A pod that was told to go."""

    pod: ObservedPod  #: as it was then
    by: str | None  #: NAMESPACE/NAME of the pod that preempts it, or None
    by_owner: bool  #: its own controller removes it


Slot = tuple[int | None, str]  #: ordinal or completion index of a pod, and the node that a daemon pod is meant for


def _backoff_of(owner: Owner) -> Backoff:
    return OF_SYNCS_OF_JOBS if isinstance(owner, JobState) else OF_SYNCS


class OverQuota:
    """The workloads whose last pod exceeds a quota: their controllers try again when room may have come free."""

    def __init__(self, motion: Motion) -> None:
        self._motion = motion
        self._failed: dict[str, FailedSyncs] = {}  # key of a workload -> its failed syncs
        self._knows_short = False  # those of the snapshot that lack pods are among them

    def note(self, owner: Owner, *, is_refused: bool) -> None:
        key, motion = owner.ref.key, self._motion
        if not is_refused or not motion.maker.counts_quota(owner.ref.namespace):
            self._failed.pop(key, None)
        else:
            before = self._failed.get(key)
            first = FailedSyncs(1, motion.now, _backoff_of(owner))
            self._failed[key] = first if before is None else before.and_now(motion.now)

    def note_short(self, namespace: str) -> None:
        """Note, before a pod leaves a namespace with quotas for the first time, which workloads lack pods already.

        How often their syncs have failed is not known.
        """
        motion = self._motion
        if self._knows_short or not motion.maker.counts_quota(namespace):
            return
        self._knows_short = True
        for owner in [*motion.workloads.all()]:
            key = owner.ref.key
            if (
                not isinstance(owner, Owner)
                or key in self._failed
                or key in motion.dirty  # it lacks pods only now, and looks at them anyway
                or not motion.maker.counts_quota(owner.ref.namespace)
            ):
                continue
            if any(isinstance(action, Create) for action in owner.actions(motion.now)):
                self._failed[key] = FailedSyncs(MANY, motion.now, _backoff_of(owner))

    def retry(self, namespace: str) -> None:
        """Have the controllers of a namespace try again, each when its wait is over, as a pod is gone."""
        motion = self._motion
        for key, failures in self._failed.items():
            owner = motion.workloads.owner(key)
            if owner is not None and owner.ref.namespace == namespace:
                at = failures.until(motion.now).following
                motion.timers.post(at, partial(motion.enqueue_called, key), f"retry of {key}")


class LifeCycle:
    """What happens to pods, one event at a time, whoever causes the event."""

    def __init__(self, motion: Motion, kubelets: Kubelets) -> None:
        self._motion, self._kubelets = motion, kubelets
        kubelets.on_gone.connect(self.vanish)
        kubelets.on_ended.connect(partial(self.vanish, stays=True))
        self._over_quota = OverQuota(motion)
        self.on_bound = Signal[int]()  #: a pod has a node now: its row
        self.on_leaving = Signal[ObservedPod]()  #: a pod is to go, which its kubelet may not be able to do
        self.on_job_deleted = Signal[str]()  #: in this namespace
        #: namespace -> rows of the pods without a controller, in the order in which they came to be
        self.orphans: dict[str, list[int]] = {}
        self.newcomers: list[int] = []  #: rows of the pods that the question created, also those that have ended
        self.removals: list[Removal] = []  #: the pods that were told to go, in order
        self.lost: dict[str, list[ObservedPod]] = {}  #: key of a workload -> pods that are gone and not replaced yet
        #: pod that others told to go -> pod that its controller created in its place
        self.replaced_by: dict[int, int] = {}
        self.replaces_preempted = True  #: whether controllers create pods in place of preempted ones
        #: key of a workload -> ordinals and nodes of the pods that it does not replace
        self.not_replaced: dict[str, list[Slot]] = {}
        #: pod -> key of the workload that it belonged to before another one took it over
        self.former_workload: dict[int, str] = {}

    def take_over(self, other: LifeCycle) -> None:
        self.orphans = {namespace: rows.copy() for namespace, rows in other.orphans.items()}

    def add_to_listers(self, obj: ReplicaSet | ReplicationController | StatefulSet) -> None:
        """Add an object to the listers: default topology spreading looks up the controller of a pod by its name."""
        by_name = getattr(self._motion.session.listers, type_of(obj).attribute)
        by_name[obj.metadata.namespace, obj.metadata.name] = obj

    def create(self, owner: Owner, wanted: Create) -> bool:
        """Create a pod; tell whether the API server accepts it."""
        motion, template = self._motion, owner.template_of(wanted.revision)
        info, refusal = motion.maker.make(owner, wanted, motion.workloads.templates.whole(template))
        if not refusal and info.key in motion.session.pod_ids:
            # Only stateful sets choose names that another pod may have already.
            motion.maker.release(info)
            refusal = f'pods "{info.name}" already exists'
        self._over_quota.note(owner, is_refused=bool(refusal))
        if refusal and refusal != owner.refusal:
            motion.log.add(StepEvent.REFUSED, owner.workload.key, refusal, pod=info.key)
        owner.refusal = refusal
        if refusal:
            return False
        if isinstance(owner, ForeignState):
            owner.lost.remove(wanted.revision)
        self._add(info, owner, wanted)
        return True

    def create_pod(self, pod: Pod, whole: WholeTemplate) -> tuple[int | None, str]:
        """Create a pod without an owner, of a whole manifest; return its row, or why the API server refuses it."""
        info, refusal = self._motion.maker.make_bare(pod, whole)
        if refusal:
            self._motion.log.add(StepEvent.REFUSED, f"Pod/{info.key}", refusal, pod=info.key)
            return None, refusal
        return self._add(info, None, Create("")), ""

    def _add(self, info: PodInfo, owner: Owner | None, wanted: Create) -> int:
        """Add a new pod, and queue it, or bind it to the node that its spec names; return its row."""
        motion = self._motion
        row = motion.session.add_pod(info)
        order, key = (0, "") if owner is None else (LATER + row, owner.ref.key)
        pod = motion.pods[row] = ObservedPod.created_as(info, row, motion.now, wanted, order, owner=key)
        self.newcomers.append(row)
        if owner is not None:
            lost = self.lost.get(owner.workload.key, [])
            former = next((gone for gone in lost if (gone.index, gone.target) == (pod.index, pod.target)), None)
            if former is not None:
                self.replaced_by[former.row] = row
                lost.remove(former)
            owner.join(pod)
            motion.notify(owner)
        motion.disruptions.join(pod, info)
        motion.circles.note(pod, 1)
        motion.messages[row] = ""
        because = wanted.because
        if owner is not None and (claims := motion.maker.set_claims.take_fresh(pod.key)):
            because = f"{because}, with new claim{'s' * (len(claims) > 1)} {', '.join(claims)}"
        motion.log.add_pod(StepEvent.CREATED, pod, because)
        if owner is None:
            self.add_orphan(pod)
        place = motion.cluster.nodes.row_of.get(info.pod.spec.node_name, NOWHERE)
        if place != NOWHERE:
            self.bind(row, place)
        elif not info.pod.spec.node_name and motion.session.has_profile_for(info):
            motion.queue.add(row)
        return row

    def latest(self, row: int) -> int:
        """Return the pod that has come in the place of a pod so far; itself where none has."""
        while row in self.replaced_by:
            row = self.replaced_by[row]
        return row

    def name_before(self, pod: ObservedPod) -> str:
        """Return NAMESPACE/NAME of the pod in whose place one was made: its own name is made up."""
        return self.names_before().get(pod.key, pod.key) if pod.is_new else pod.key

    def names_before(self) -> dict[str, str]:
        """Return NAMESPACE/NAME of pods that were made in the place of others -> that of the first one there."""
        infos, first = self._motion.infos, dict[int, int]()
        for gone, new in self.replaced_by.items():  # in the order in which the new ones were made
            first[new] = first.get(gone, gone)
        return {infos[new].key: infos[row].key for new, row in first.items()}

    def hand_over(self, former: Owner, owner: Owner) -> None:
        """Give the pods of a workload that the snapshot does not hold to the applied workload of the same name.

        They count as created from its template, as nothing tells otherwise.
        """
        motion = self._motion
        for pod in tuple(former.pods.values()):
            motion.circles.note(pod, -1)
            former.leave(pod)
            adopted = motion.pods[pod.row] = adopted_by(owner, pod, motion.infos[pod.row])
            owner.join(adopted)
            motion.circles.note(adopted, 1)
        message = "the snapshot has pods of it, but not the workload itself: they count as created from this manifest"
        motion.warn(InputWarning("UnseenWorkload", owner.ref.key, message))

    def adopt(self, pod: ObservedPod, observed: ObservedPod) -> None:
        """Give a pod without a controller to a workload, which sees it as `observed`."""
        self.former_workload.setdefault(pod.row, f"Pod/{pod.key}")
        self._pass_on(pod, observed)

    def release(self, pod: ObservedPod) -> None:
        """Take a pod from its workload whose selector matches it no more."""
        self._pass_on(pod, replace(pod, owner=""))
        self.add_orphan(pod)

    def _pass_on(self, pod: ObservedPod, observed: ObservedPod) -> None:
        """Give a pod to another owner, or to none, for which it is as `observed`."""
        motion = self._motion
        former, owner = motion.owner(pod), motion.owner(observed)
        motion.circles.note(pod, -1)
        motion.disruptions.leave(pod)
        if former is not None:
            former.leave(pod)
        motion.pods[pod.row] = observed
        if owner is not None:
            owner.join(observed)
        motion.disruptions.join(observed, motion.infos[pod.row])
        motion.circles.note(observed, 1)

    def add_orphan(self, pod: ObservedPod) -> None:
        self.orphans.setdefault(pod.namespace, []).append(pod.row)

    def announce(self, row: int) -> None:
        """Have a pod that the session holds already count as created by the question."""
        pod = replace(self._motion.pods[row], is_new=True)
        self.newcomers.append(row)
        self._motion.settle(pod)
        self._motion.log.add_pod(StepEvent.CREATED, pod)

    def remove(
        self,
        pod: ObservedPod,
        event: StepEvent,
        because: str,
        *,
        by: str | None = None,
        by_owner: bool = False,
        grace: int | None = None,
    ) -> None:
        """Tell a pod to go.

        `by`: the pod that preempts it. `by_owner`: its own controller removes it, and so does not count that as a
        failure. `grace`: seconds in which it has to stop; None for its own grace period.
        """
        owner = self._motion.owner(pod)
        self.removals.append(Removal(pod, by, by_owner))
        self._motion.log.add_pod(event, pod, because, by=by)
        leaving = self._kubelets.terminating(pod, by=by, by_owner=by_owner, grace=grace)
        if leaving is not None:
            self.on_leaving(leaving)
        if owner is not None:
            owner.leave(pod)
            if leaving is not None:
                owner.keep(leaving)
            if not by_owner:
                self.lost.setdefault(owner.workload.key, []).append(pod)
                if isinstance(owner, JobState) and owner.failure_of(pod).is_assumed:
                    self._motion.warn(InputWarning("AssumedExitCode", owner.ref.key, ASSUMED_EXIT_CODE))
                elif isinstance(owner, ForeignState):
                    owner.lose(pod, is_node_there=not pod.node or pod.node in self._motion.cluster.nodes.row_of)
            if by is not None and not self.replaces_preempted:
                self.not_replaced.setdefault(owner.ref.key, []).append((pod.index, pod.target))
            self._motion.notify(owner)
        if leaving is None:
            self.vanish(pod)
        else:
            self._kubelets.stop(leaving, grace)

    def vanish(self, pod: ObservedPod, *, stays: bool = False) -> None:
        """Remove a pod that its owner does not count any more; `stays`: its object stays, as it has ended."""
        motion = self._motion
        self._over_quota.note_short(pod.namespace)
        info = motion.infos[pod.row]
        if not pod.is_terminating:  # else it counts as gone since it was told to go
            motion.circles.note(pod, -1)
        del motion.pods[pod.row]
        motion.messages.pop(pod.row, None)
        motion.outcomes.pop(pod.row, None)
        motion.disruptions.leave(pod, stays=stays)
        if stays:
            motion.maker.note_end(info)
        else:
            motion.maker.release(info, motion.owner(pod), pod.index)
        self._let_go_of_claims(info)
        motion.session.pod_ids.pop(info.key)
        had_place = motion.session.nominator.row_of(pod.row) is not None
        motion.session.nominator.drop(pod.row)
        motion.queue.take_out(pod.row)
        motion.queue.queued.pop(pod.row, None)
        if motion.cluster.node_of[pod.row] != NOWHERE:
            motion.session.evict(pod.row)
        if pod.node and pod.phase not in ENDED:
            motion.notice(PodDeleted(info))
        elif had_place:
            motion.notice(PodDeleted(info), info.priority)
        self._kubelets.forget(pod.row)
        self._over_quota.retry(pod.namespace)

    def delete_job(self, job: JobState) -> None:
        """Delete a job that is over; the garbage collector removes its pods."""
        motion = self._motion
        if job.ref.key in motion.workloads.deleted:
            return
        motion.workloads.delete_job(job.ref.key)
        motion.dirty.pop(job.ref.key, None)
        motion.disruptions.forget_ended(job.ref.key)
        motion.maker.forget_job(job.ref, [motion.infos[row].pod for row in job.ended])
        self._over_quota.retry(job.ref.namespace)
        self.on_job_deleted(job.ref.namespace)

    def _let_go_of_claims(self, info: PodInfo) -> None:
        """Remove claims that are being deleted, and that waited for the end of this pod alone.

        Upstream: pkg/controller/volume/pvcprotection, which counts only pods with a node.
        """
        infos = self._motion.infos
        for claim in self._motion.maker.set_claims.going(info.pod):
            users = (pod for pod in self._motion.pods.values() if pod.node and pod.namespace == info.namespace)
            if all(claim.metadata.name not in claims_of(infos[pod.row].pod) for pod in users):
                self._motion.maker.set_claims.remove(claim)

    def bind(self, row: int, place: int) -> None:
        motion = self._motion
        info = motion.infos[row]
        pod = motion.pods[row]
        motion.circles.note(pod, -1)
        motion.session.bind_claims(row, place)
        motion.session.bind(row, place)
        node = motion.cluster.nodes.names[place]
        pod = self._kubelets.started(replace(pod, node=node, phase="Running"))
        motion.update(pod)
        motion.messages.pop(row, None)
        motion.outcomes.pop(row, None)
        motion.circles.note(pod, 1)
        motion.log.add_pod(StepEvent.BOUND, pod)
        motion.notice(PodAdded(info))
        bound = motion.infos[row]
        status = replace(bound.pod.status, start_time=stamp(motion.now))
        motion.cluster.update(row, become(bound, replace(bound.pod, status=status)))
        if pod.is_ready:
            motion.log.add_pod(StepEvent.READY, pod, of_time=True)
        self.on_bound(row)

    def cordon(self, nodes: Iterable[str]) -> None:
        self._set_schedulable(nodes, schedulable=False)

    def uncordon(self, name: str) -> None:
        nodes = self._motion.cluster.nodes
        if nodes.unschedulable[nodes.row_of[name]]:
            self._set_schedulable([name], schedulable=True)

    def _set_schedulable(self, names: Iterable[str], *, schedulable: bool) -> None:
        before = self._motion.cluster.nodes
        rows = [before.row_of[name] for name in names]
        self._motion.session.set_schedulable(rows, schedulable=schedulable)
        for row in rows:
            former, node = before.nodes[row], self._motion.cluster.nodes.nodes[row]
            if schedulable:
                self._motion.notice(NodeUncordoned(node))
            if node.spec.taints != former.spec.taints:
                self._motion.notice(NodeChanged(former, node))
