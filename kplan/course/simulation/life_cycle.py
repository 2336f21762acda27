"""The life cycle of pods: they are created, taken over, bound and removed; and nodes are cordoned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from kplan.admission.stored import WholeTemplate
from kplan.api.core import Pod, ReplicationController
from kplan.api.pod import ENDED
from kplan.api.workloads import ReplicaSet, StatefulSet
from kplan.course.simulation.controllers.observed import Create, ObservedPod
from kplan.course.simulation.motion import Motion, Removal
from kplan.course.simulation.observing import adopted_by, stamp
from kplan.course.simulation.owners import ForeignState, Owner
from kplan.course.simulation.pod_creation import with_status
from kplan.course.simulation.timers import MANY, FailedSyncs
from kplan.documents.change import StepEvent
from kplan.engine.cluster import NOWHERE
from kplan.facts import InputWarning
from kplan.framework.interface import NodeUncordoned, PodAdded, PodDeleted
from kplan.rules.pod_info import PodInfo
from kplan.rules.volumes import claims_of

LATER = 2**64
"""Pods that the simulation creates come after all pods of the snapshot."""


class Kubelet(Protocol):
    """What kubelets do with pods."""

    def started(self, pod: ObservedPod, owner: Owner | None) -> ObservedPod:
        """Return a pod that is bound as it is then."""

    def terminating(
        self, pod: ObservedPod, owner: Owner | None, *, by: str | None, by_owner: bool, grace: int | None
    ) -> ObservedPod | None:
        """Return what a pod is from now on that is told to go; None where it is gone at once.

        Parameters are those of `LifeCycle.remove`.
        """

    def stop(self, pod: ObservedPod, owner: Owner | None, grace: int | None) -> None:
        """Have a terminating pod stop; parameters are those of `LifeCycle.remove`."""

    def forget(self, row: int) -> None:
        """Forget a pod that is gone."""


class NodeWatch(Protocol):
    """Watches the pods of nodes."""

    def pod_bound(self, row: int) -> None:
        """Note that a pod has a node."""

    def pod_leaves(self, pod: ObservedPod) -> None:
        """Note that a pod is to go, which its kubelet may not be able to do."""


class LifeCycle:
    """What happens to pods, one event at a time, whoever causes the event."""

    kubelet: Kubelet
    nodes: NodeWatch

    def __init__(self, motion: Motion) -> None:
        self.motion = motion
        #: key of a workload whose pod exceeds a quota -> its failed syncs
        self._over_quota: dict[str, FailedSyncs] = {}
        self._knows_short = False  # workloads of the snapshot that lack pods are among those over quota

    def add_to_listers(self, obj: ReplicaSet | ReplicationController | StatefulSet) -> None:
        """Add an object to the listers: default topology spreading looks up the controller of a pod by its name."""
        listers, key = self.motion.session.listers, (obj.metadata.namespace, obj.metadata.name)
        if isinstance(obj, ReplicaSet):
            listers.replica_sets[key] = obj
        elif isinstance(obj, StatefulSet):
            listers.stateful_sets[key] = obj
        else:
            listers.replication_controllers[key] = obj

    def create(self, owner: Owner, wanted: Create) -> bool:
        """Create a pod; tell whether the API server accepts it."""
        template = owner.template_of(wanted.revision)
        info, refusal = self.motion.maker.make(owner, wanted, self.motion.workloads.templates.whole(template))
        if not refusal and info.key in self.motion.session.pod_ids:
            # Only stateful sets choose names that another pod may have already.
            self.motion.maker.release(info)
            refusal = f'pods "{info.name}" already exists'
        self._note_quota(owner, is_refused=bool(refusal))
        if refusal:
            if refusal != owner.refusal:
                owner.refusal = refusal
                self.motion.log.add(StepEvent.REFUSED, owner=owner, pod=info.key, because=refusal)
            return False
        owner.refusal = ""
        row = self.motion.session.add_pod(info)
        pod = ObservedPod.created_as(info, row, self.motion.now, wanted, LATER + row)
        if isinstance(owner, ForeignState):
            owner.lost.remove(wanted.revision)
        self.motion.pods[row] = pod
        self.motion.newcomers.append(row)
        self.motion.owner_of[row] = owner.ref.key
        self._pair(owner, pod)
        owner.join(pod)
        self.motion.disruptions.join(pod, info, owner)
        self.motion.circles.note(pod, owner, 1)
        self.motion.notify(owner)
        self.motion.messages[row] = ""
        self.motion.log.add(
            StepEvent.CREATED,
            pod=info.key,
            owner=owner,
            because=_with_claims(wanted, self.motion.maker.set_claims.take_fresh()),
        )
        self._enter(row, info)
        return True

    def _note_quota(self, owner: Owner, *, is_refused: bool) -> None:
        """Note whose pod may exceed a quota: its controller tries again when room may have come free."""
        if not is_refused or not self.motion.maker.counts_quota(owner.ref.namespace):
            self._over_quota.pop(owner.ref.key, None)
        else:
            before = self._over_quota.get(owner.ref.key, FailedSyncs(0, self.motion.now))
            self._over_quota[owner.ref.key] = FailedSyncs(before.n + 1, self.motion.now)

    def _note_short(self) -> None:
        """Note which workloads lack pods where quotas count: how often their syncs have failed is not known."""
        self._knows_short = True
        for owner in [*self.motion.workloads.all()]:
            key = owner.ref.key
            if (
                not isinstance(owner, Owner)
                or key in self._over_quota
                or key in self.motion.dirty  # it lacks pods only now, and looks at them anyway
                or not self.motion.maker.counts_quota(owner.ref.namespace)
            ):
                continue
            if any(isinstance(action, Create) for action in owner.actions(self.motion.now)):
                self._over_quota[key] = FailedSyncs(MANY, self.motion.now)

    def _pair(self, owner: Owner, pod: ObservedPod) -> None:
        lost = self.motion.lost.get(owner.workload.key, [])
        for position, gone in enumerate(lost):
            if (gone.index, gone.target) == (pod.index, pod.target):
                self.motion.replaced_by[gone.row] = pod.row
                del lost[position]
                return

    @property
    def unreplaced(self) -> list[ObservedPod]:
        """The pods that are gone, although not their owner told them to go, and that it has not replaced."""
        return [pod for lost in self.motion.lost.values() for pod in lost]

    def hand_over(self, former: Owner, owner: Owner) -> None:
        """Give the pods of a workload that the snapshot does not hold to the applied workload of the same name.

        They count as created from its template, as nothing tells otherwise.
        """
        infos = self.motion.session.cluster.pods.infos
        for pod in tuple(former.pods.values()):
            self.motion.circles.note(pod, former, -1)
            former.leave(pod)
            adopted = self.motion.pods[pod.row] = adopted_by(owner, pod, infos[pod.row])
            owner.join(adopted)
            self.motion.circles.note(adopted, owner, 1)
        self.motion.maker.note_unseen(owner)

    def take_over(self, owner: Owner, pod: ObservedPod, observed: ObservedPod) -> None:
        """Give a pod without a controller to a workload, which sees it as `observed`."""
        self.motion.circles.note(pod, None, -1)
        self.motion.disruptions.leave(pod)
        self.motion.former_workload.setdefault(pod.row, f"Pod/{pod.key}")
        self.motion.pods[pod.row], self.motion.owner_of[pod.row] = observed, owner.ref.key
        owner.join(observed)
        self.motion.disruptions.join(observed, self.motion.session.cluster.pods.infos[pod.row], owner)
        self.motion.circles.note(observed, owner, 1)

    def release(self, owner: Owner, pod: ObservedPod) -> None:
        """Take a pod from a workload whose selector matches it no more."""
        info = self.motion.session.cluster.pods.infos[pod.row]
        self.motion.circles.note(pod, owner, -1)
        self.motion.disruptions.leave(pod)
        owner.leave(pod)
        self.motion.owner_of.pop(pod.row)
        self.motion.disruptions.join(pod, info, None)
        self.motion.circles.note(pod, None, 1)
        self.add_orphan(pod)

    def add_orphan(self, pod: ObservedPod) -> None:
        self.motion.orphans.setdefault(pod.namespace, []).append(pod.row)

    def _enter(self, row: int, info: PodInfo) -> None:
        """Queue a new pod, or bind it to the node that its spec names."""
        node = info.pod.spec.node_name
        if node:
            place = self.motion.session.cluster.nodes.row_of.get(node, NOWHERE)
            if place != NOWHERE:
                self.bind(row, place)
        elif self.motion.session.has_profile_for(info):
            self.motion.queue.add(row)

    def announce(self, row: int) -> None:
        """Have a pod that the session holds already count as created by the question."""
        pod = self.motion.pods[row] = replace(self.motion.pods[row], is_new=True)
        self.motion.newcomers.append(row)
        owner = self.motion.owner(row)
        self.motion.disruptions.settle(pod)
        if owner is not None:
            owner.settle(pod)
        self.motion.log.add(StepEvent.CREATED, pod=pod.key, owner=owner)

    def create_pod(self, pod: Pod, whole: WholeTemplate | None = None) -> tuple[int | None, str]:
        """Create a pod without an owner; return its row, or why the API server refuses it.

        `whole`: the whole manifest, where it is known.
        """
        info, refusal = self.motion.maker.make_bare(pod, whole)
        if refusal:
            self.motion.log.add(StepEvent.REFUSED, pod=info.key, because=refusal)
            return None, refusal
        row = self.motion.session.add_pod(info)
        observed = ObservedPod.created_as(info, row, self.motion.now)
        self.motion.pods[row] = observed
        self.motion.newcomers.append(row)
        self.motion.disruptions.join(observed, info, None)
        self.motion.circles.note(observed, None, 1)
        self.motion.messages[row] = ""
        self.motion.log.add(StepEvent.CREATED, pod=info.key)
        self.add_orphan(observed)
        self._enter(row, info)
        return row, ""

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
        owner = self.motion.owner(pod.row)
        self.motion.removals.append(Removal(pod, by, because, by_owner))
        self.motion.log.add(event, pod=pod.key, node=pod.node or None, owner=owner, because=because, by=by)
        leaving = self.kubelet.terminating(pod, owner, by=by, by_owner=by_owner, grace=grace)
        if leaving is not None:
            self.nodes.pod_leaves(leaving)
        if owner is not None:
            if leaving is None:
                owner.leave(pod)
            else:
                owner.retire(leaving)
            if not by_owner:
                self.motion.lost.setdefault(owner.workload.key, []).append(pod)
                doubt = owner.failed(pod)
                if doubt:
                    self.motion.warn(InputWarning("AssumedExitCode", owner.ref.key, doubt))
                if isinstance(owner, ForeignState):
                    owner.lose(pod, is_node_there=not pod.node or pod.node in self.motion.session.cluster.nodes.row_of)
            if by is not None and not self.motion.replaces_preempted:
                self.motion.not_replaced.setdefault(owner.ref.key, []).append((pod.index, pod.target))
            self.motion.notify(owner)
        if leaving is None:
            self.vanish(pod, owner)
        else:
            self.kubelet.stop(leaving, owner, grace)

    def let_go(self, rows: Iterable[int]) -> None:
        """Remove pods that were terminating in the snapshot; their controllers do not count them any more."""
        for row in tuple(rows):
            self.motion.already_leaving.append(self.motion.pods[row].key)
            self.vanish(self.motion.pods[row], self.motion.owner(row))

    def vanish(self, pod: ObservedPod, owner: Owner | None) -> None:
        """Remove a pod that its owner does not count any more."""
        if not self._knows_short and self.motion.maker.counts_quota(pod.namespace):
            self._note_short()
        info = self.motion.session.cluster.pods.infos[pod.row]
        self.motion.owner_of.pop(pod.row)
        if not pod.is_terminating:  # else it counts as gone since it was told to go
            self.motion.circles.note(pod, owner, -1)
        del self.motion.pods[pod.row]
        self.motion.messages.pop(pod.row, None)
        self.motion.outcomes.pop(pod.row, None)
        self.motion.disruptions.leave(pod)
        self.motion.maker.release(info, owner, pod.index)
        self._let_go_of_claims(info)
        self.motion.session.pod_ids.pop(info.key)
        had_place = self.motion.session.nominator.row_of(pod.row) is not None
        self.motion.session.nominator.drop(pod.row)
        self.motion.queue.take_out(pod.row)
        if self.motion.session.cluster.node_of[pod.row] != NOWHERE:
            self.motion.session.evict(pod.row)
        if pod.node and pod.phase not in ENDED:
            self.motion.queue.notice(PodDeleted(info))
        elif had_place:
            self.motion.queue.notice(PodDeleted(info), info.priority)
        self.kubelet.forget(pod.row)
        for key, failures in self._over_quota.items() if self._over_quota else ():
            refused = self.motion.workloads.owner(key)
            if refused is not None and refused.ref.namespace == pod.namespace:
                self.motion.timers.post(
                    failures.next_retry(self.motion.now), partial(self.motion.enqueue, refused), f"retry of {key}"
                )

    def _let_go_of_claims(self, info: PodInfo) -> None:
        """Remove claims that are being deleted, and that waited for the end of this pod alone.

        Upstream: pkg/controller/volume/pvcprotection, which counts only pods with a node.
        """
        infos = self.motion.session.cluster.pods.infos
        for claim in self.motion.maker.set_claims.going(info.pod):
            names = (
                claims_of(infos[pod.row].pod)
                for pod in self.motion.pods.values()
                if pod.node and pod.namespace == info.namespace
            )
            if claim.metadata.name not in {name for several in names for name in several}:
                self.motion.maker.set_claims.remove(claim)

    def bind(self, row: int, place: int) -> None:
        info = self.motion.session.cluster.pods.infos[row]
        pod = self.motion.pods[row]
        owner = self.motion.owner(row)
        self.motion.circles.note(pod, owner, -1)
        self.motion.session.bind_claims(row, place)
        self.motion.session.bind(row, place)
        node = self.motion.session.cluster.nodes.names[place]
        pod = self.motion.pods[row] = self.kubelet.started(replace(pod, node=node, phase="Running"), owner)
        self.motion.disruptions.settle(pod)
        self.motion.messages.pop(row, None)
        self.motion.outcomes.pop(row, None)
        if owner is not None:
            owner.settle(pod)
            self.motion.notify(owner)
        self.motion.circles.note(pod, owner, 1)
        self.motion.log.add(StepEvent.BOUND, pod=info.key, node=pod.node, owner=owner)
        self.motion.queue.notice(PodAdded(info))
        cluster = self.motion.session.cluster
        cluster.update(row, with_status(cluster.pods.infos[row], start_time=stamp(self.motion.now)))
        if pod.is_ready:
            self.motion.log.add(StepEvent.READY, pod=pod.key, node=pod.node, owner=owner, of_time=True)
        self.nodes.pod_bound(row)

    def cordon(self, nodes: Iterable[str]) -> None:
        row_of = self.motion.session.cluster.nodes.row_of
        self.motion.session.set_schedulable([row_of[name] for name in nodes], schedulable=False)

    def uncordon(self, name: str) -> None:
        nodes = self.motion.session.cluster.nodes
        row = nodes.row_of[name]
        if nodes.unschedulable[row]:
            self.motion.session.set_schedulable([row], schedulable=True)
            self.motion.queue.notice(NodeUncordoned(self.motion.session.cluster.nodes.nodes[row]))


def _with_claims(wanted: Create, claims: Sequence[str]) -> str:
    """Return why a pod is created, and with which new claims."""
    if not claims:
        return wanted.because
    return f"{wanted.because}, with new claim{'s' * (len(claims) > 1)} {', '.join(claims)}"
