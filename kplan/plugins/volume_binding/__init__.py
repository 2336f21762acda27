"""VolumeBinding: a pod needs nodes that reach its bound volumes, and where its other claims can be bound.

PreFilter sorts the claims, Filter finds volumes for all nodes, Reserve reserves those of one node.

Without the gate StorageCapacityScoring upstream creates no scorer, so Score is always skipped; with it every pod is
scored, by how much of their storage the unbound claims take, and 0 where it has no claims to bind.

Upstream: plugins/volumebinding/volume_binding.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import msgspec
import numpy as np

from kplan.api.core import PersistentVolumeClaim, Pod
from kplan.api.labels import quoted
from kplan.config.args import STORAGE_SCORING_GATE, VolumeBindingArgs
from kplan.engine.arrays import Int64Array
from kplan.engine.details import Detail
from kplan.engine.resource_scoring import utilization_table
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework import interface as fwk
from kplan.plugins.volume_binding.catalogue import (
    NO_VOLUME,
    AssumedVolumes,
    BindingError,
    VolumeCatalogue,
    bound_to,
    identity_of,
)
from kplan.plugins.volume_binding.finding import (
    REASON_BIND_CONFLICT,
    REASON_NODE_CONFLICT,
    REASON_NOT_ENOUGH_SPACE,
    REASON_PV_NOT_EXIST,
    Finding,
    PodClaims,
    storage_scores,
)
from kplan.rules import volumes as volume_rules
from kplan.rules.pod_info import read_by_volume_plugins
from kplan.rules.volumes import claim_class

REASON_UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class _Reservation(msgspec.Struct):
    """What takes back what Reserve changed, step by step."""

    undoing: list[Callable[[], object]] = []


class VolumeBinding:
    """Rejects nodes on which a pod's claims cannot be satisfied, and reserves the volumes for the chosen node."""

    name: ClassVar[str] = "VolumeBinding"
    scope: ClassVar[fwk.Scope] = fwk.Scope.CLUSTER
    reads = staticmethod(read_by_volume_plugins)
    queueing_hint = staticmethod(fwk.no_event_helps)  # it waits for other volumes, classes or nodes
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
        finding = state.finding = state.finding or Finding(self.assumed, state)

        def reason(text: str, explain: Callable[[int], list[Detail]]) -> Reason:
            return Reason(text, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, lambda position: explain(nodes.row(position)))

        reasons = (
            reason(REASON_NODE_CONFLICT, finding.node_conflicts),
            reason(REASON_BIND_CONFLICT, finding.bind_conflicts),
            reason(REASON_NOT_ENOUGH_SPACE, finding.space_shortages),
            reason(REASON_PV_NOT_EXIST, lambda _row: finding.missing_volumes()),
            *(Reason(text, Code.ERROR) for text in finding.errors),
        )
        return Verdicts(nodes.take(finding.bits), reasons)

    def pre_score(self, cycle: fwk.CycleState, nodes: NodeView) -> fwk.PreScoreResult | None:
        return fwk.PreScoreResult.SKIP_SHAPE if self._by_utilization is None else None

    def constant_score(self, cycle: fwk.CycleState) -> int | None:
        pod = cycle.pod.pod
        return None if any(volume_rules.claim_name(pod, volume) for volume in pod.spec.volumes) else 0

    def score(self, cycle: fwk.CycleState, nodes: NodeView) -> Int64Array:
        """Score by how much of the nodes' storage the claims take; 0 where no claim has to be bound."""
        state = cycle.find(PodClaims)
        if self._by_utilization is None or state is None or state.finding is None:
            return np.zeros(len(nodes), np.int64)
        return nodes.take(storage_scores(state.finding, self._by_utilization))

    def score_details(self, cycle: fwk.CycleState, row: int) -> list[str]:
        state = cycle.find(PodClaims)
        if state is None or not state.delayed:
            return ["no claim of the pod has to be bound"]
        return [f"unbound claims: {', '.join(claim.metadata.key for claim in state.delayed)}"]

    def reserve(self, cycle: fwk.CycleState, row: int) -> fwk.Status:
        """Promise the node's volumes to their claims, and select the node for claims to be provisioned."""
        state = cycle.find(PodClaims)
        if state is None or state.finding is None or not state.delayed:
            return fwk.SUCCESS
        reservation = _Reservation()
        to_provision = list(state.finding.selected)
        for match in state.finding.matches:
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
