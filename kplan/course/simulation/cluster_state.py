"""The events of a simulation: pods are created, bound and removed, and nodes cordoned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kplan.admission.stored import WholeTemplate
from kplan.api.core import Pod, ReplicationController
from kplan.api.workloads import ReplicaSet, StatefulSet
from kplan.course.simulation.controllers.observed import Create, ObservedPod
from kplan.course.simulation.journal import Journal, Removal
from kplan.course.simulation.observing import adopted_by
from kplan.course.simulation.owners import ForeignState, Owner
from kplan.documents.change import StepEvent
from kplan.engine.cluster import NOWHERE
from kplan.facts import InputWarning
from kplan.framework.interface import NodeUncordoned, PodAdded, PodDeleted
from kplan.rules.pod_info import PodInfo
from kplan.rules.volumes import claims_of

ENDED = ("Succeeded", "Failed")
"""Phases of pods that hold no room any more."""

LATER = 2**64
"""Pods that the simulation creates come after all pods of the snapshot."""


class ClusterState(Journal):
    """A cluster in motion, one event at a time, whoever causes the event."""

    def add_to_listers(self, obj: ReplicaSet | ReplicationController | StatefulSet) -> None:
        """Add an object to the listers: default topology spreading looks up the controller of a pod by its name."""
        listers, key = self.session.listers, (obj.metadata.namespace, obj.metadata.name)
        if isinstance(obj, ReplicaSet):
            listers.replica_sets[key] = obj
        elif isinstance(obj, StatefulSet):
            listers.stateful_sets[key] = obj
        else:
            listers.replication_controllers[key] = obj

    def create(self, owner: Owner, wanted: Create) -> bool:
        """Create a pod; tell whether the API server accepts it."""
        template = owner.template_of(wanted.revision)
        info, refusal = self.maker.make(owner, wanted, self.workloads.templates.whole(template))
        if not refusal and info.key in self.session.pod_ids:
            # Only stateful sets choose names that another pod may have already.
            self.maker.release(info)
            refusal = f'pods "{info.name}" already exists'
        if refusal:
            if refusal != owner.refusal:
                owner.refusal = refusal
                self.log(StepEvent.REFUSED, owner=owner, pod=info.key, because=refusal)
            return False
        owner.refusal = ""
        row = self.session.add_pod(info)
        pod = ObservedPod.created_as(info, row, self.now, wanted, LATER + row)
        if isinstance(owner, ForeignState):
            owner.lost.remove(wanted.revision)
        self.pods[row] = pod
        self.newcomers.append(row)
        self._owner_of[row] = owner.ref.key
        self._pair(owner, pod)
        owner.join(pod)
        self.disruptions.join(pod, info, owner)
        self._circles.note(pod, owner, 1)
        self.notify(owner)
        self.messages[row] = ""
        self.log(
            StepEvent.CREATED,
            pod=info.key,
            owner=owner,
            because=_with_claims(wanted, self.maker.set_claims.take_fresh()),
        )
        self._enter(row, info)
        return True

    def _pair(self, owner: Owner, pod: ObservedPod) -> None:
        lost = self._lost.get(owner.workload.key, [])
        for position, gone in enumerate(lost):
            if (gone.index, gone.target) == (pod.index, pod.target):
                self.replaced_by[gone.row] = pod.row
                del lost[position]
                return

    @property
    def unreplaced(self) -> list[ObservedPod]:
        """The pods that are gone, although not their owner told them to go, and that it has not replaced."""
        return [pod for lost in self._lost.values() for pod in lost]

    def hand_over(self, former: Owner, owner: Owner) -> None:
        """Give the pods of a workload that the snapshot does not hold to the applied workload of the same name.

        They count as created from its template, as nothing tells otherwise.
        """
        infos = self.session.cluster.pods.infos
        for pod in tuple(former.pods.values()):
            self._circles.note(pod, former, -1)
            former.leave(pod)
            adopted = self.pods[pod.row] = adopted_by(owner, pod, infos[pod.row])
            owner.join(adopted)
            self._circles.note(adopted, owner, 1)
        self.maker.note_unseen(owner)

    def take_over(self, owner: Owner, pod: ObservedPod, observed: ObservedPod) -> None:
        """Give a pod without a controller to a workload, which sees it as `observed`."""
        self._circles.note(pod, None, -1)
        self.disruptions.leave(pod)
        self.former_workload.setdefault(pod.row, f"Pod/{pod.key}")
        self.pods[pod.row], self._owner_of[pod.row] = observed, owner.ref.key
        owner.join(observed)
        self.disruptions.join(observed, self.session.cluster.pods.infos[pod.row], owner)
        self._circles.note(observed, owner, 1)

    def release(self, owner: Owner, pod: ObservedPod) -> None:
        """Take a pod from a workload whose selector matches it no more."""
        info = self.session.cluster.pods.infos[pod.row]
        self._circles.note(pod, owner, -1)
        self.disruptions.leave(pod)
        owner.leave(pod)
        self._owner_of.pop(pod.row)
        self.disruptions.join(pod, info, None)
        self._circles.note(pod, None, 1)
        self._add_orphan(pod)

    def _add_orphan(self, pod: ObservedPod) -> None:
        self.orphans.setdefault(pod.namespace, []).append(pod.row)

    def _enter(self, row: int, info: PodInfo) -> None:
        """Queue a new pod, or bind it to the node that its spec names."""
        node = info.pod.spec.node_name
        if node:
            place = self.session.cluster.nodes.row_of.get(node, NOWHERE)
            if place != NOWHERE:
                self.bind(row, place)
        elif self.session.framework_for(info) is not None:
            self._queue.add(row)

    def announce(self, row: int) -> None:
        """Have a pod that the session holds already count as created by the question."""
        pod = self.pods[row] = replace(self.pods[row], is_new=True)
        self.newcomers.append(row)
        owner = self.owner(row)
        self.disruptions.settle(pod)
        if owner is not None:
            owner.settle(pod)
        self.log(StepEvent.CREATED, pod=pod.key, owner=owner)

    def create_pod(self, pod: Pod, whole: WholeTemplate | None = None) -> tuple[int | None, str]:
        """Create a pod without an owner; return its row, or why the API server refuses it.

        Parameters
        ----------
        whole : the whole manifest, where it is known
        """
        info, refusal = self.maker.make_bare(pod, whole)
        if refusal:
            self.log(StepEvent.REFUSED, pod=info.key, because=refusal)
            return None, refusal
        row = self.session.add_pod(info)
        observed = ObservedPod.created_as(info, row, self.now)
        self.pods[row] = observed
        self.newcomers.append(row)
        self.disruptions.join(observed, info, None)
        self._circles.note(observed, None, 1)
        self.messages[row] = ""
        self.log(StepEvent.CREATED, pod=info.key)
        self._add_orphan(observed)
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

        Parameters
        ----------
        by : the pod that preempts it
        by_owner : its own controller removes it, and so does not count that as a failure
        grace : seconds in which it has to stop; None for its own grace period
        """
        owner = self.owner(pod.row)
        self.removals.append(Removal(pod, by, because))
        self.log(event, pod=pod.key, node=pod.node or None, owner=owner, because=because, by=by)
        leaving = self.terminating(pod, owner, by=by, by_owner=by_owner, grace=grace)
        if owner is not None:
            if leaving is None:
                owner.leave(pod)
            else:
                owner.retire(leaving)
            if not by_owner:
                self._lost.setdefault(owner.workload.key, []).append(pod)
                doubt = owner.failed(pod)
                if doubt:
                    self.warn(InputWarning("AssumedExitCode", owner.ref.key, doubt))
                if isinstance(owner, ForeignState):
                    owner.lose(pod, is_node_there=not pod.node or pod.node in self.session.cluster.nodes.row_of)
            if by is not None and not self.replaces_preempted:
                self._not_replaced.setdefault(owner.ref.key, []).append((pod.index, pod.target))
            self.notify(owner)
        if leaving is None:
            self.vanish(pod, owner)
        else:
            self.stop(leaving, owner, grace)

    def terminating(
        self, pod: ObservedPod, owner: Owner | None, *, by: str | None, by_owner: bool, grace: int | None
    ) -> ObservedPod | None:
        """Return what a pod is from now on that is told to go; None where it is gone at once.

        Parameters are those of `remove`.
        """
        raise NotImplementedError

    def stop(self, pod: ObservedPod, owner: Owner | None, grace: int | None) -> None:
        """Have a terminating pod stop; parameters are those of `remove`."""
        raise NotImplementedError

    def let_go(self, rows: Iterable[int]) -> None:
        """Remove pods that were terminating in the snapshot; their controllers do not count them any more."""
        for row in tuple(rows):
            self.already_leaving.append(self.pods[row].key)
            self.vanish(self.pods[row], self.owner(row))

    def vanish(self, pod: ObservedPod, owner: Owner | None) -> None:
        """Remove a pod that its owner does not count any more."""
        info = self.session.cluster.pods.infos[pod.row]
        self._owner_of.pop(pod.row)
        if not pod.is_terminating:  # else it counts as gone since it was told to go
            self._circles.note(pod, owner, -1)
        del self.pods[pod.row]
        self.messages.pop(pod.row, None)
        self.outcomes.pop(pod.row, None)
        self.disruptions.leave(pod)
        self.maker.release(info, owner, pod.index)
        self._let_go_of_claims(info)
        self.session.pod_ids.pop(info.key)
        had_place = self.session.nominator.row_of(pod.row) is not None
        self.session.nominator.drop(pod.row)
        self._queue.take_out(pod.row)
        if self.session.cluster.node_of[pod.row] != NOWHERE:
            self.session.evict(pod.row)
        if pod.node and pod.phase not in ENDED:
            self._queue.notice(PodDeleted(info))
        elif had_place:
            self._queue.notice(PodDeleted(info), info.priority)

    def _let_go_of_claims(self, info: PodInfo) -> None:
        """Remove claims that are being deleted, and that waited for the end of this pod alone.

        Upstream: pkg/controller/volume/pvcprotection, which counts only pods with a node.
        """
        infos = self.session.cluster.pods.infos
        for claim in self.maker.set_claims.going(info.pod):
            names = (
                claims_of(infos[pod.row].pod)
                for pod in self.pods.values()
                if pod.node and pod.namespace == info.namespace
            )
            if claim.metadata.name not in {name for several in names for name in several}:
                self.maker.set_claims.remove(claim)

    def bind(self, row: int, place: int) -> None:
        """Bind a pod to a node."""
        info = self.session.cluster.pods.infos[row]
        pod = self.pods[row]
        owner = self.owner(row)
        self._circles.note(pod, owner, -1)
        self.session.bind_claims(row, place)
        self.session.bind(row, place)
        node = self.session.cluster.nodes.names[place]
        pod = self.pods[row] = self.started(replace(pod, node=node, phase="Running"), owner)
        self.disruptions.settle(pod)
        self.messages.pop(row, None)
        self.outcomes.pop(row, None)
        if owner is not None:
            owner.settle(pod)
            self.notify(owner)
        self._circles.note(pod, owner, 1)
        self.log(StepEvent.BOUND, pod=info.key, node=pod.node, owner=owner)
        self._queue.notice(PodAdded(info))

    def started(self, pod: ObservedPod, owner: Owner | None) -> ObservedPod:
        """Return a pod that is bound as it is then."""
        raise NotImplementedError

    def cordon(self, nodes: Iterable[str]) -> None:
        """Mark nodes as unschedulable."""
        row_of = self.session.cluster.nodes.row_of
        self.session.set_schedulable([row_of[name] for name in nodes], schedulable=False)

    def uncordon(self, name: str) -> None:
        """Mark a node as schedulable again."""
        nodes = self.session.cluster.nodes
        row = nodes.row_of[name]
        if nodes.unschedulable[row]:
            self.session.set_schedulable([row], schedulable=True)
            self._queue.notice(NodeUncordoned(self.session.cluster.nodes.nodes[row]))


def _with_claims(wanted: Create, claims: Sequence[str]) -> str:
    """Return why a pod is created, and with which new claims."""
    if not claims:
        return wanted.because
    return f"{wanted.because}, with new claim{'s' * (len(claims) > 1)} {', '.join(claims)}"
