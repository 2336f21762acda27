"""VolumeBinding: a pod needs nodes that reach its bound volumes, and where its other claims can be bound.

PreFilter sorts the claims, Filter finds volumes for all nodes, Reserve reserves those of one node.

Without the gate StorageCapacityScoring upstream creates no scorer, so Score is always skipped; with it every pod is
scored, by how much of their storage the unbound claims take, and 0 where it has no claims to bind.

Upstream: plugins/volumebinding/volume_binding.go, binder.go FindPodVolumes, scorer.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kplan.api.field_errors import quoted
from kplan.api.quantity import Quantity, value
from kplan.api.storage import StorageClass
from kplan.config.args import STORAGE_SCORING_GATE, VolumeBindingArgs
from kplan.engine.arrays import BitArray, BoolArray, Int64Array, round_half_away
from kplan.engine.cluster import NOWHERE
from kplan.engine.details import Detail, LostVolume, UnboundClaim, UnreachableVolume
from kplan.engine.resource_scoring import utilization_table
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework import interface as fwk
from kplan.plugins.volume_binding.catalogue import (
    NO_SPACE,
    NO_VOLUME,
    AssumedVolumes,
    BindingError,
    ClassVolumes,
    Rejections,
    VolumeCatalogue,
    bound_to,
    can_provision,
    claim_nanos,
    identity_of,
)
from kplan.rules import volumes as volume_rules
from kplan.rules.pod_info import PodInfo, read_by_volume_plugins
from kplan.rules.resources import NANO
from kplan.rules.volumes import STORAGE, claim_class, claims_of, in_tree_plugin

REASON_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
REASON_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
REASON_PV_NOT_EXIST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, PV_NOT_EXIST, FIRST_ERROR = (1 << k for k in range(5))
"""Bits of `PodVolumes`, in the order in which reasons are reported."""


class PodClaims(msgspec.Struct):
    """A pod's claims, an entry per volume, and what the first Filter of the cycle finds for them (`pod_volumes`).

    Nothing within a cycle changes them, not even the pods on nodes, so all views share it.
    """

    bound: tuple[PersistentVolumeClaim, ...]  #: claims with a volume
    delayed: tuple[PersistentVolumeClaim, ...]  #: claims that are bound once the pod has a node
    pod_volumes: PodVolumes | None = None


class StaticMatch(msgspec.Struct):
    """The existing volume that a claim gets on each node."""

    claim: PersistentVolumeClaim
    volumes: ClassVolumes
    indices: Int64Array  #: int64 array of shape (n_nodes,); index into `volumes`, or NO_VOLUME


class PodVolumes:
    """On which nodes the claims of a pod cannot be satisfied, and why; read from what reservations leave."""

    def __init__(self, assumed: AssumedVolumes, claims: PodClaims) -> None:
        self.assumed = assumed
        self._claims = claims
        self._nodes = assumed.catalogue.nodes
        self.bits: BitArray = np.zeros(len(self._nodes), np.uint32)  #: shape (n_nodes,), 0 where all are satisfied
        self.errors: list[str] = []  #: texts of the bits from FIRST_ERROR on
        self.matches: list[StaticMatch] = []  #: claims for which existing volumes were searched, in that order
        self.selected: list[PersistentVolumeClaim] = []  #: to be provisioned for a node that was selected earlier
        self._check_bound()
        if claims.delayed:
            self._check_delayed()

    def _passing(self, pending: BoolArray, passes: BoolArray, bit: int) -> BoolArray:
        """Reject those of some nodes that do not pass, and return the others; bool arrays of shape (n_nodes,)."""
        self.bits[pending & ~passes] |= np.uint32(bit)
        return pending & passes

    def _fail(self, nodes: BoolArray, text: str) -> None:
        """Replace all reasons for some nodes by an error."""
        if nodes.any():
            if text not in self.errors:
                self.errors.append(text)
            self.bits[nodes] = FIRST_ERROR << self.errors.index(text)

    def _check_bound(self) -> None:
        """Reject nodes that do not reach a bound volume; the first claim that fails decides."""
        pending: BoolArray = np.ones(len(self._nodes), np.bool_)
        for claim in self._claims.bound:
            volume = self.assumed.listers.persistent_volumes.get(claim.spec.volume_name)
            if volume is None:
                self._passing(pending, np.zeros_like(pending), PV_NOT_EXIST)
                break
            # All nodes certainly reach a volume that has no node affinity and needs no translation.
            if volume.spec.node_affinity is None and in_tree_plugin(volume.spec) is None:
                continue
            is_reachable, untranslated, problem = self.assumed.catalogue.reach(volume)
            if untranslated is not None:
                self._fail(pending & untranslated, problem)
                pending &= ~untranslated
            pending = self._passing(pending, is_reachable, NODE_CONFLICT)

    def _check_delayed(self) -> None:
        """Match claims with existing volumes, smallest claims first; the others have to be provisioned."""
        pending: BoolArray = self.bits < FIRST_ERROR
        to_match = []
        for claim in self._claims.delayed:
            reach = self.assumed.reach.get(identity_of(claim))
            selected = self.assumed.selected_node(claim)
            if reach is not None:
                pending = self._passing(pending, reach, NODE_CONFLICT)
            elif selected is None:
                to_match.append(claim)
            else:
                self.selected.append(claim)
                is_selected = np.arange(len(self._nodes)) == self._nodes.row_of.get(selected, NOWHERE)
                pending = self._passing(pending, is_selected, BIND_CONFLICT)
        try:
            for claim in sorted(to_match, key=claim_nanos):
                volumes = self.assumed.of_class[claim_class(claim)]
                used = [match.indices for match in self.matches if match.volumes is volumes]
                self.matches.append(StaticMatch(claim, volumes, volumes.match(claim, used)))
        except BindingError as error:
            self.matches = []
            self._fail(pending, str(error))
            return
        provisioning = self.assumed.catalogue.provisioning
        for claim, is_missing in self.to_provision:
            if not (pending & is_missing).any():
                continue
            storage_class = self._class_of(claim)
            is_possible = provisioning.allowed(storage_class) & can_provision(storage_class)
            pending = self._passing(pending, is_possible | ~is_missing, BIND_CONFLICT)
            has_space = provisioning.has_space(storage_class, claim)
            if has_space is not None:
                pending = self._passing(pending, has_space | ~is_missing, NOT_ENOUGH_SPACE)

    @property
    def to_provision(self) -> list[tuple[PersistentVolumeClaim, BoolArray]]:
        """The claims that get no existing volume, and on which nodes, bool arrays of shape (n_nodes,)."""
        everywhere = np.ones(len(self._nodes), np.bool_)
        return [
            *((claim, everywhere) for claim in self.selected),
            *((match.claim, match.indices == NO_VOLUME) for match in self.matches),
        ]

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass:
        return self.assumed.listers.storage_classes[claim_class(claim)]

    def node_conflicts(self, row: int) -> Iterator[Detail]:
        """Yield the bound volumes that a node does not reach, with their node affinity."""
        for claim, volume, is_reachable in self._bound:
            if not is_reachable[row]:
                requires = self.assumed.catalogue.requirements_on(volume, row)
                yield UnreachableVolume(claim=claim.metadata.key, volume=volume.metadata.name, requires=requires)

    def missing_volumes(self) -> Iterator[Detail]:
        for claim in self._claims.bound:
            if claim.spec.volume_name not in self.assumed.listers.persistent_volumes:
                yield LostVolume(claim=claim.metadata.key, volume=claim.spec.volume_name)

    def bind_conflicts(self, row: int) -> Iterator[Detail]:
        """Yield the claims that neither match a volume on a node nor can be provisioned there."""
        for claim in self.selected:
            selected = self.assumed.selected_node(claim)
            if selected != self._nodes.names[row]:
                yield replace(_unbound(claim), selected_node=selected or "")
            else:
                yield from self._provision_conflicts(_unbound(claim), claim, row)
        for match, obstacle in zip(self.matches, self._unmatched, strict=True):
            if match.indices[row] == NO_VOLUME:
                unbound = _unbound(match.claim)
                if isinstance(obstacle, str):
                    unbound = replace(unbound, promised_volume=obstacle)
                elif obstacle is not None:
                    unbound = replace(unbound, volumes_rejected={why: str(n) for why, n in obstacle.on(row).items()})
                yield from self._provision_conflicts(unbound, match.claim, row)

    def space_shortages(self, row: int) -> Iterator[Detail]:
        """Yield the claims that are larger than the storage that a node reaches."""
        provisioning = self.assumed.catalogue.provisioning
        for claim, is_missing in self.to_provision:
            if not is_missing[row]:
                continue
            storage_class = self._class_of(claim)
            has_space = provisioning.has_space(storage_class, claim)
            if has_space is not None and not has_space[row]:
                largest = int(provisioning.largest[storage_class.metadata.name][row])
                free = None if largest == NO_SPACE else str(Quantity(largest * NANO, "BinarySI"))
                yield replace(_unbound(claim), largest_volume=free)

    @cached_property
    def _bound(self) -> list[tuple[PersistentVolumeClaim, PersistentVolume, BoolArray]]:
        known, reach = self.assumed.listers.persistent_volumes, self.assumed.catalogue.reach
        bound = [(claim, known.get(claim.spec.volume_name)) for claim in self._claims.bound]
        return [(claim, volume, reach(volume)[0]) for claim, volume in bound if volume is not None]

    @cached_property
    def _unmatched(self) -> list[Rejections | str | None]:
        """For each claim without a volume: why existing volumes are rejected, or the volume promised to the claim."""
        obstacles: list[Rejections | str | None] = []
        for match in self.matches:
            volumes = match.volumes.volumes
            names = [volumes[index].metadata.name for index in match.volumes.promised_to(match.claim)]
            obstacles.append(names[0] if names else match.volumes.rejections(match.claim) if volumes else None)
        return obstacles

    def _provision_conflicts(self, unbound: UnboundClaim, claim: PersistentVolumeClaim, row: int) -> Iterator[Detail]:
        storage_class = self._class_of(claim)
        if not can_provision(storage_class):
            yield replace(unbound, provisioner=storage_class.provisioner, provisions=False)
        elif not self.assumed.catalogue.provisioning.allowed(storage_class)[row]:
            topologies = tuple(
                ",".join(f"{one.key} in ({','.join(one.values)})" for one in term.match_label_expressions)
                for term in storage_class.allowed_topologies
            )
            yield replace(unbound, allowed_topologies=topologies)


def _unbound(claim: PersistentVolumeClaim) -> UnboundClaim:
    requested = str(claim.spec.resources.requests.get(STORAGE, "0"))
    return UnboundClaim(claim=claim.metadata.key, storage_class=claim_class(claim) or "", requested=requested)


_FULL = 100
_MAX_EXACT = np.iinfo(np.int64).max // _FULL  # beyond it, a hundredfold overflows int64


_ClassSums = defaultdict[str, tuple[Int64Array, Int64Array, BoolArray]]
"""Requested bytes, capacity in bytes and whether the class counts, by storage class; arrays of shape (n_nodes,)."""


def storage_scores(pod_volumes: PodVolumes, by_utilization: Int64Array) -> Int64Array:
    """Score every node by the storage that the pod's unbound claims take there, int64 of shape (n_nodes,).

    Where an existing volume would be bound, only such volumes count; else the claims that would be provisioned from
    storage whose capacity is reported. Volumes of a class add up, but the reported capacity of a class is one. The
    scores by percentage stand in `by_utilization`, int64 of shape (101,).
    """
    n_nodes = len(pod_volumes.bits)

    def no_sums() -> tuple[Int64Array, Int64Array, BoolArray]:
        return np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.bool_)

    def score(sums: _ClassSums) -> Int64Array:
        """Return the rounded mean of the classes' scores on each node, 0 where no class counts."""
        total, n_classes, _ = no_sums()
        for requested, capacity, counts in sums.values():
            total += np.where(counts, by_utilization[_utilization(requested, capacity)], 0)
            n_classes += counts
        return round_half_away(total / np.maximum(n_classes, 1))

    binds = np.zeros(n_nodes, np.bool_)
    static, dynamic = _ClassSums(no_sums), _ClassSums(no_sums)
    for match in pod_volumes.matches:
        is_bound = match.indices != NO_VOLUME
        binds |= is_bound
        if is_bound.any():
            capacities = [value(volume.spec.capacity.get(STORAGE, 0)) for volume in match.volumes.volumes]
            requested, capacity, counts = static[claim_class(match.claim)]
            capacity[is_bound] += np.asarray(capacities, np.int64)[match.indices[is_bound]]
            requested[is_bound] += value(match.claim.spec.resources.requests.get(STORAGE, 0))
            counts |= is_bound
    for claim, is_missing in pod_volumes.to_provision:
        storage_class = pod_volumes.assumed.listers.storage_classes.get(claim_class(claim))
        provisioning = pod_volumes.assumed.catalogue.provisioning
        reported = None if storage_class is None else provisioning.reported(storage_class, claim)
        if storage_class is not None and reported is not None:
            is_provisioned = is_missing & (reported != NO_SPACE)
            requested, capacity, counts = dynamic[storage_class.metadata.name]
            capacity[is_provisioned] = reported[is_provisioned]
            requested[is_provisioned] += value(claim.spec.resources.requests[STORAGE])
            counts |= is_provisioned
    return np.where(binds, score(static), score(dynamic))


def _utilization(requested: Int64Array, capacity: Int64Array) -> Int64Array:
    fits = (capacity > 0) & (requested <= capacity)
    divisor = np.where(fits, capacity, 1)
    if int(requested.max(initial=0)) <= _MAX_EXACT:
        percent = np.where(fits, requested, 1) * _FULL // divisor
    else:  # int64 would wrap around, as it does upstream, whose score then means nothing
        percent = (requested.astype(np.object_) * _FULL // divisor.astype(np.object_)).clip(0, _FULL).astype(np.int64)
    return np.where(fits, percent, _FULL)


REASON_UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class _Reservation(msgspec.Struct):
    """What takes back what Reserve changed, step by step."""

    undoing: list[Callable[[], object]] = []


class VolumeBinding:
    """Rejects nodes on which a pod's claims cannot be satisfied, and reserves the volumes for the chosen node."""

    name: ClassVar[str] = "VolumeBinding"
    scope: ClassVar[fwk.Scope] = fwk.Scope.CLUSTER
    reads = staticmethod(read_by_volume_plugins)
    ignores_pods: ClassVar[bool] = True

    def __init__(self, args: VolumeBindingArgs | None, handle: fwk.Handle) -> None:
        self.listers = handle.listers
        self.nodes = handle.cluster.nodes
        catalogue = self.listers.catalogue(VolumeCatalogue, self.nodes)
        self.assumed = handle.session_state(AssumedVolumes, catalogue, self.listers)
        #: int64 array of shape (101,), score by percentage of used storage; None where storage is not scored
        self._by_utilization: Int64Array | None = None
        if handle.release.is_on(STORAGE_SCORING_GATE):
            shape = (args or VolumeBindingArgs()).defaulted(handle.release).shape
            self._by_utilization = utilization_table(shape or ())

    def queueing_hint(self, pod: PodInfo, event: fwk.Event) -> bool:
        """Wait for a pod that uses one of the same claims, which is bound with it; else for other volumes or nodes."""
        if not isinstance(event, fwk.PodAdded) or event.info.namespace != pod.namespace:
            return False
        return not set(claims_of(pod.pod)).isdisjoint(claims_of(event.info.pod))

    def pre_filter(self, cycle: fwk.CycleState) -> fwk.PreFilterResult | None:
        """Reject pods with claims that are missing, lost, being deleted, another pod's or should be bound by now."""
        pod = cycle.pod.pod
        claims = self._claims(pod)
        if isinstance(claims, str):
            return fwk.PreFilterResult(status=fwk.Status.unresolvable(claims))
        if not claims:
            return fwk.SKIP_SHAPE
        bound, delayed, has_immediate = [], [], False
        for claim in claims:
            if volume_rules.is_fully_bound(claim):
                bound.append(claim)
                continue
            waits = self._waits_for_consumer(claim)
            if isinstance(waits, fwk.Status):
                return fwk.PreFilterResult(status=waits)
            if waits and not claim.spec.volume_name:
                delayed.append(claim)
            else:
                has_immediate = True
        if has_immediate:
            return fwk.PreFilterResult(status=fwk.Status.unresolvable(REASON_UNBOUND_IMMEDIATE))
        cycle.write(PodClaims(tuple(bound), tuple(delayed)))
        return None

    def _claims(self, pod: Pod) -> list[PersistentVolumeClaim] | str:
        """Return the claims of a pod's volumes, or what is wrong with the first that cannot be used."""
        claims = []
        for volume in pod.spec.volumes:
            name = volume_rules.claim_name(pod, volume)
            if name is None:
                continue
            is_ephemeral = volume.persistent_volume_claim is None
            claim = self.listers.persistent_volume_claims.get((pod.metadata.namespace, name))
            shown = f"persistentvolumeclaim {quoted(name)}"
            if claim is None:
                if is_ephemeral:
                    return f"waiting for ephemeral volume controller to create the {shown}"
                return volume_rules.not_found("persistentvolumeclaim", name)
            if claim.status.phase == "Lost":
                return f"{shown} bound to non-existent persistentvolume {quoted(claim.spec.volume_name)}"
            if claim.metadata.deletion_timestamp is not None:
                return f"{shown} is being deleted"
            if is_ephemeral and (problem := volume_rules.ephemeral_problem(pod, claim)):
                return problem
            claims.append(claim)
        return claims

    def _waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool | fwk.Status:
        name = claim_class(claim)
        storage_class = self.listers.storage_classes.get(name) if name else None
        if storage_class is None:
            return False
        if storage_class.volume_binding_mode is None:
            return fwk.Status.error(f"VolumeBindingMode not set for StorageClass {quoted(name)}")
        return storage_class.volume_binding_mode == volume_rules.WAIT_FOR_FIRST_CONSUMER

    def filter(self, cycle: fwk.CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes that do not reach a bound volume, or on which a claim can be neither bound nor provisioned."""
        state = cycle.find(PodClaims)
        if state is None:
            return Verdicts.error(len(nodes), "not found")  # PreFilter is disabled in the profile
        pod_volumes = state.pod_volumes = state.pod_volumes or PodVolumes(self.assumed, state)

        def reason(text: str, explain: Callable[[int], Iterable[Detail]]) -> Reason:
            return Reason(text, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, lambda position: explain(nodes.row(position)))

        reasons = (
            reason(REASON_NODE_CONFLICT, pod_volumes.node_conflicts),
            reason(REASON_BIND_CONFLICT, pod_volumes.bind_conflicts),
            reason(REASON_NOT_ENOUGH_SPACE, pod_volumes.space_shortages),
            reason(REASON_PV_NOT_EXIST, lambda _row: pod_volumes.missing_volumes()),
            *(Reason(text, Code.ERROR) for text in pod_volumes.errors),
        )
        return Verdicts(nodes.take(pod_volumes.bits), reasons)

    def pre_score(self, cycle: fwk.CycleState, nodes: NodeView) -> fwk.PreScoreResult | None:
        return fwk.PreScoreResult.SKIP_SHAPE if self._by_utilization is None else None

    def constant_score(self, cycle: fwk.CycleState) -> int | None:
        pod = cycle.pod.pod
        return None if any(volume_rules.claim_name(pod, volume) for volume in pod.spec.volumes) else 0

    def score(self, cycle: fwk.CycleState, nodes: NodeView) -> Int64Array:
        """Score by how much of the nodes' storage the claims take; 0 where no claim has to be bound."""
        state = cycle.find(PodClaims)
        if self._by_utilization is None or state is None or state.pod_volumes is None:
            return np.zeros(len(nodes), np.int64)
        return nodes.take(storage_scores(state.pod_volumes, self._by_utilization))

    def score_details(self, cycle: fwk.CycleState, row: int) -> list[str]:
        state = cycle.find(PodClaims)
        if state is None or not state.delayed:
            return ["no claim of the pod has to be bound"]
        return [f"unbound claims: {', '.join(claim.metadata.key for claim in state.delayed)}"]

    def reserve(self, cycle: fwk.CycleState, row: int) -> fwk.Status:
        """Promise the node's volumes to their claims, and select the node for claims to be provisioned."""
        state = cycle.find(PodClaims)
        if state is None or state.pod_volumes is None or not state.delayed:
            return fwk.SUCCESS
        reservation = _Reservation()
        to_provision = list(state.pod_volumes.selected)
        for match in state.pod_volumes.matches:
            index = int(match.indices[row])
            if index == NO_VOLUME:
                to_provision.append(match.claim)
            else:
                promised = match.volumes.promise(index, identity_of(match.claim))
                reservation.undoing.append(partial(match.volumes.promise, index, promised))
        node_name = self.nodes.names[row]
        for claim in to_provision:
            selected = self.assumed.select_node(claim, node_name)
            reservation.undoing.append(partial(self.assumed.select_node, claim, selected))
        cycle.write(reservation)
        return fwk.SUCCESS

    def reserved_objects(self) -> fwk.ReservedObjects:
        return fwk.ReservedObjects(tuple(self.assumed.changed_objects()))

    def bound_at_once(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return a new claim, bound to the closest volume where its class does not wait for a pod.

        Upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncUnboundClaim.
        """
        if claim.spec.volume_name or self._waits_for_consumer(claim) is not False:
            return claim
        volumes = self.assumed.of_class[claim_class(claim)]
        try:
            index = volumes.closest(claim)
        except BindingError:
            return claim
        if index == NO_VOLUME:
            return claim
        volumes.promise(index, identity_of(claim))
        return bound_to(volumes.volumes[index], claim)

    def bind_claims(self, pod: Pod, row: int) -> tuple[PersistentVolumeClaim, ...]:
        """Provision volumes for a pod's claims on its node; return the claims that have an existing volume now."""
        claims = self._claims(pod)
        bound = []
        for claim in () if isinstance(claims, str) else claims:
            if volume_rules.is_fully_bound(claim):
                continue
            volumes = self.assumed.of_class[claim_class(claim)]
            promised = volumes.promised_to(claim)
            if promised:
                bound.append(bound_to(volumes.volumes[promised[0]], claim))
            elif self.assumed.selected_node(claim) == self.nodes.names[row]:
                storage_class = self.listers.storage_classes.get(claim_class(claim))
                driver = "" if storage_class is None else storage_class.provisioner
                reach = self.assumed.catalogue.provisioning.reach(driver, row)
                self.assumed.reach.setdefault(identity_of(claim), reach)
        return tuple(bound)

    def unreserve(self, cycle: fwk.CycleState, row: int) -> None:
        """Undo what Reserve changed, last first: a pod may use a claim twice."""
        reservation = cycle.find(_Reservation)
        if reservation is not None:
            for undo in reversed(reservation.undoing):
                undo()
