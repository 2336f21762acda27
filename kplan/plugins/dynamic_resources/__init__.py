"""DynamicResources: allocates devices to the resource claims of pods, and rejects nodes where that is impossible.

Upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from functools import cache, partial
from typing import ClassVar

import msgspec
import numpy as np

from kplan.api import resource as dra
from kplan.api.affinity import compile_node_selector
from kplan.api.core import Pod
from kplan.api.time import to_micros
from kplan.config.args import DynamicResourcesArgs
from kplan.engine.arrays import BoolArray, Int64Array, NDArray, RowArray, default_normalize_score
from kplan.engine.details import Detail, MissingDevices, MissingResource, UnavailableClaim
from kplan.engine.matching import match_node_selector
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework import interface as fwk
from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.listers import key_of
from kplan.framework.pod_groups import CLAIMS_GATE, PodGroups, group_of
from kplan.framework.results import PluginError
from kplan.plugins.dynamic_resources import requests
from kplan.plugins.dynamic_resources.allocator import with_claim_names
from kplan.plugins.dynamic_resources.claims import (
    allocated_rank,
    allocation_result,
    explain_alternatives,
    unreserve_group,
)
from kplan.plugins.dynamic_resources.cluster_devices import (
    ClaimState,
    ClusterDevices,
    DeviceCounter,
    NodeOutcomes,
    SearchOutcome,
)
from kplan.plugins.dynamic_resources.node_allocatable import GATE as NODE_ALLOCATABLE_GATE
from kplan.plugins.dynamic_resources.node_allocatable import ClaimHolders, claim_statuses, shortage, with_statuses
from kplan.rules.pod_info import PodInfo

MOST_LISTED = 3  #: so many nodes are named on which the devices of a claim can be used
NO_STATE = "not found"  #: upstream's error where PreFilter did not run, because the profile disables it
NOTHING_HELPS = "still not schedulable"
REASON_NOT_ALLOCATED = "cannot allocate all claims"
REASON_NOT_AVAILABLE = "resourceclaim not available on the node"
REASON_INVALID_POOLS = "invalid resource pools were encountered"
REASON_STALE_CLAIM = "cannot schedule extended resource claim"
REASON_NO_RESOURCE = "cannot fit resource"

#: A search step per microsecond of upstream's filter timeout. Counting steps keeps results reproducible.
_NANOS_PER_STEP = 1000

_MAX_ERRORS = 24  #: how many different error texts the verdicts distinguish; the text of the first node is reported

_encoder = msgspec.json.Encoder(order="sorted")


class DynamicResources:
    """Rejects nodes on which a pod's claims cannot be allocated or, once allocated, cannot be used."""

    name: ClassVar[str] = "DynamicResources"
    scope: ClassVar[fwk.Scope] = fwk.Scope.CLUSTER

    def __init__(self, args: DynamicResourcesArgs | None, handle: fwk.Handle) -> None:
        self._args = args or DynamicResourcesArgs()
        self._nodes = handle.cluster.nodes
        self._snapshot_time = handle.listers.snapshot.taken_at
        self._devices = handle.session_state(ClusterDevices, handle.cluster, handle.listers, handle.release)
        self._tracker, self._inventory = self._devices.tracker, self._devices.catalogue.inventory
        self._extended_classes = handle.listers.extended_resource_classes
        self._groups = handle.session_state(PodGroups, handle.cluster, handle.listers)
        self._of_groups = handle.release.is_on(CLAIMS_GATE)
        self._holders = None
        if handle.release.is_on(NODE_ALLOCATABLE_GATE):
            self._holders = handle.session_state(ClaimHolders, handle.cluster)
        self.ignores_pods = self._holders is None  #: whether the verdicts are the same whichever pods run on a node
        handle.device_totals = DeviceCounter(self._nodes, self._devices, self._extended_classes)

    def _user_claims(self, pod: Pod) -> list[dra.ResourceClaim]:
        return requests.user_claims(pod, self._tracker.claims, self._tracker.inherited, of_groups=self._of_groups)

    def reads(self, pod: PodInfo) -> Hashable:
        """Return the pod's namespace, and whether it may need devices: the plugin skips pods that need none."""
        return pod.namespace, self._may_need_devices(pod.pod)

    def _may_need_devices(self, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims or requests.requested_resources(pod, self._extended_classes))

    def pre_enqueue(self, pod: PodInfo) -> fwk.Status:
        """Keep a pod out of the queue until all its claims exist."""
        self._devices.catch_up()
        try:
            self._user_claims(pod.pod)
        except requests.ClaimProblem as problem:
            return fwk.Status.unresolvable(str(problem))
        return fwk.SUCCESS

    def queueing_hint(self, pod: PodInfo, event: fwk.Event) -> bool:
        """Wait for claims to be released, by a plugin or because the pods that hold them are gone."""
        if isinstance(event, fwk.PodDeleted):
            gone = event.info.pod
            return self._may_need_devices(gone) or gone.status.extended_resource_claim_status is not None
        return isinstance(event, fwk.ClaimFreed)

    def pre_filter(self, cycle: fwk.CycleState) -> fwk.PreFilterResult | None:
        """Collect the pod's claims; reject a pod with a missing claim or device class."""
        pod = cycle.pod.pod
        state = ClaimState(pod.metadata.namespace)
        cycle.write(state)
        self._devices.catch_up()
        try:
            claims = tuple(self._user_claims(pod))
        except requests.ClaimProblem as problem:
            return fwk.PreFilterResult(status=fwk.Status.unresolvable(str(problem)))
        resources = requests.requested_resources(pod, self._extended_classes)
        if not claims and not resources:
            return fwk.SKIP if pod.spec.resource_claims else fwk.SKIP_SHAPE
        for claim in claims:
            rejection = requests.rejection_of(claim, self._devices.catalogue.classes)
            if rejection is not None:
                return fwk.PreFilterResult(status=rejection)
        state.claims, state.resources = claims, resources
        state.to_allocate = tuple(claim for claim in claims if claim.status.allocation is None)
        state.leftover = self._tracker.extended_claim_of(pod) if resources else None
        state.unavailable = tuple(self._unavailable(claims))
        return None

    def _unavailable(self, claims: tuple[dra.ResourceClaim, ...]) -> Iterator[tuple[dra.ResourceClaim, BoolArray]]:
        """Yield the allocated claims that some nodes cannot use, with those nodes."""
        now = time.time_ns() // 1000 if self._snapshot_time is None else to_micros(self._snapshot_time)
        # Upstream looks at the nodes of an allocation only once it is written: a claim that another member of the group
        # was given in this cycle is usable everywhere.
        pending = set() if self._groups.cycle is None else self._groups.cycle.pending_claims
        for claim in claims:
            allocation = claim.status.allocation
            if allocation is None or key_of(claim) in pending:
                continue
            if requests.is_broken(claim, now, (self._args.binding_timeout or 0) // 1000):
                yield claim, np.ones(len(self._nodes), np.bool_)
            elif allocation.node_selector is not None:
                yield claim, ~match_node_selector(self._nodes, compile_node_selector(allocation.node_selector))

    def _unavailable_claim(self, claim: dra.ResourceClaim, unavailable: BoolArray) -> UnavailableClaim:
        usable = np.flatnonzero(~unavailable)
        users = (one.name for one in claim.status.reserved_for if one.resource == "pods")
        return UnavailableClaim(
            claim=claim.metadata.key,
            used_by=tuple(f"{claim.metadata.namespace}/{name}" for name in users),
            usable_on=tuple(self._nodes.names[row] for row in usable[:MOST_LISTED].tolist()),
            and_more=max(len(usable) - MOST_LISTED, 0),
        )

    def filter(self, cycle: fwk.CycleState, nodes: NodeView) -> Verdicts:
        state, n_nodes = cycle.find(ClaimState), len(self._nodes)
        if state is None:
            return Verdicts.error(len(nodes), NO_STATE)
        if state.is_stale:
            stale = Reason(REASON_STALE_CLAIM, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
            return Verdicts.where(np.ones(len(nodes), np.bool_), stale)
        rows = np.arange(len(nodes)) if nodes.rows is None else nodes.rows
        codes = np.full(n_nodes, SearchOutcome.FOUND, np.uint8)
        messages: dict[int, str] = {}
        lacking, cases = self._cases(cycle, state, rows)
        has_claims = np.zeros(n_nodes, np.bool_)
        n_steps = -(-self._args.filter_timeout // _NANOS_PER_STEP) if self._args.filter_timeout else None
        for case_rows, specs in cases:
            has_claims[case_rows] = True
            if specs:
                key = _encoder.encode((specs, n_steps))
                outcomes = self._devices.solve(specs, key, case_rows, n_steps)
                codes[case_rows] = outcomes.codes[case_rows]
                messages.update(
                    (row, text) for row, text in outcomes.messages.items() if codes[row] == SearchOutcome.ERROR
                )
                group = state.node_outcomes.setdefault(key, NodeOutcomes(np.zeros(n_nodes, np.bool_), outcomes))
                group.is_searched[case_rows] = True
        unavailable = np.zeros(n_nodes, np.bool_)
        for _, is_unavailable in state.unavailable:
            unavailable |= is_unavailable
        return self._verdicts(
            cycle.pod,
            state,
            nodes,
            lacking=lacking[rows],
            codes=codes[rows],
            unavailable=(unavailable & has_claims)[rows],
            messages=messages,
        )

    def _cases(
        self, cycle: fwk.CycleState, state: ClaimState, rows: RowArray
    ) -> tuple[BoolArray, list[tuple[RowArray, tuple[requests.ClaimSpec, ...]]]]:
        """Group nodes by the claims to allocate on them.

        Return which nodes lack a requested extended resource that no device class provides, bool of shape (n_nodes,),
        and pairs of rows and claims, without the nodes for which the pod has no claim, allocated or not.
        """
        specs = tuple(requests.claim_spec(claim.spec) for claim in state.to_allocate)
        lacking = np.zeros(len(self._nodes), np.bool_)
        if not state.resources:
            return lacking, [(rows, specs)]
        backed = np.zeros(len(self._nodes), np.int64)
        resources = sorted(state.resources)
        for bit, resource in enumerate(resources):
            by_devices = (self._nodes.allocatable(resource) == 0) & (resource in self._extended_classes)
            backed |= np.where(by_devices, 1 << bit, 0)
            lacking |= ~by_devices & ~self._lists(resource)
        cases = []
        for code in np.unique(backed[rows]).tolist():
            if code or state.claims:
                named_resources = [resource for bit, resource in enumerate(resources) if code >> bit & 1]
                extended = requests.extended_claim_spec(cycle.pod.pod, named_resources, self._extended_classes)
                cases.append((rows[(backed[rows] == code) & ~lacking[rows]], (*specs, extended)))
        return lacking, cases

    def _lists(self, resource: str) -> BoolArray:
        """Return the nodes that list an extended resource at all, bool of shape (n_nodes,)."""
        return self._nodes.derived(
            ("lists", resource),
            lambda: np.asarray([resource in node.status.allocatable for node in self._nodes.nodes], np.bool_),
        )

    def _verdicts(
        self,
        pod: PodInfo,
        state: ClaimState,
        nodes: NodeView,
        *,
        lacking: BoolArray,
        codes: NDArray[np.uint8],
        unavailable: BoolArray,
        messages: dict[int, str],
    ) -> Verdicts:
        unresolvable = Code.UNSCHEDULABLE_AND_UNRESOLVABLE

        def explain(position: int) -> Iterator[MissingDevices]:
            return self._devices.missing(self._nodes.nodes[nodes.row(position)], state.to_allocate)

        unavailable_claim = cache(lambda number: self._unavailable_claim(*state.unavailable[number]))

        def explain_claims(position: int) -> list[Detail]:
            row = nodes.row(position)
            return [unavailable_claim(number) for number, (_, rows) in enumerate(state.unavailable) if rows[row]]

        def explain_resources(position: int) -> list[Detail]:
            allocatable = self._nodes.nodes[nodes.row(position)].status.allocatable
            absent = sorted(state.resources.keys() - allocatable.keys() - self._extended_classes.keys())
            return [MissingResource(resource=name, requested=str(state.resources[name])) for name in absent]

        failures = [
            (lacking, Reason(REASON_NO_RESOURCE, unresolvable, explain_resources)),
            *(() if self._holders is None else self._holders.failures(pod, state, nodes)),
            (codes == SearchOutcome.NOT_FOUND, Reason(REASON_NOT_ALLOCATED, unresolvable, explain)),
            (codes == SearchOutcome.FAILED, Reason(REASON_INVALID_POOLS, unresolvable)),
        ]
        if messages:
            texts = [messages.get(nodes.row(position), "") for position in range(len(nodes))]
            column = np.asarray(texts)
            failures += [
                (column == text, Reason(with_claim_names(text, state.names), Code.ERROR))
                for text in list(dict.fromkeys(filter(None, texts)))[:_MAX_ERRORS]
            ]
            failures.append((codes == SearchOutcome.ERROR, Reason("too many different errors", Code.ERROR)))
        last = unavailable & (codes == SearchOutcome.FOUND), Reason(REASON_NOT_AVAILABLE, unresolvable, explain_claims)
        if self._holders is None or not state.node_outcomes or not self._inventory.has_node_resources:
            return Verdicts.first_of(*failures, last)
        searched = Verdicts.first_of(*failures)
        demand = shortage(pod.pod, state, nodes, np.flatnonzero(searched.bits == 0).tolist())
        return (searched if demand is None else searched.then(demand)).then(Verdicts.first_of(last))

    def post_filter(self, cycle: fwk.CycleState, outcome: FilterOutcome) -> fwk.PostFilterResult:
        """Deallocate a claim that makes the pod unschedulable, if no other pod reserves it.

        Upstream chooses any of several such claims; here it is the first.
        """
        state = cycle.find(ClaimState)
        if state is None:
            return fwk.PostFilterResult(fwk.Status.error(NO_STATE))
        if state.is_empty:
            return fwk.PostFilterResult(fwk.Status.unschedulable("no new claims to deallocate"))
        rows = _rows_not_available(outcome)
        identity = cycle.pod.pod.metadata.identity
        for claim, is_unavailable in state.unavailable:
            users = claim.status.reserved_for
            is_own = not users or (len(users) == 1 and users[0].uid == identity)
            if is_own and bool(is_unavailable[rows].any()):
                return self._freeing(claim, "deallocation of ResourceClaim completed")
        if state.leftover is not None:
            return self._freeing(state.leftover, "deletion of ResourceClaim completed")
        of_group = unreserve_group(cycle.pod, self._groups, self._tracker) if self._of_groups else None
        return of_group or fwk.PostFilterResult(fwk.Status.unschedulable(NOTHING_HELPS))

    def _freeing(self, claim: dra.ResourceClaim, text: str) -> fwk.PostFilterResult:
        return fwk.PostFilterResult(
            fwk.Status.unschedulable(text), effects=(partial(self._tracker.deallocate, key_of(claim)),)
        )

    def constant_score(self, cycle: fwk.CycleState) -> int | None:
        state = cycle.find(ClaimState)
        return 0 if state is not None and state.is_empty and not cycle.pod.pod.spec.resource_claims else None

    def score(self, cycle: fwk.CycleState, nodes: NodeView) -> Int64Array:
        state = cycle.find(ClaimState)
        if state is None:
            raise PluginError.in_score(self.name, NO_STATE)
        return nodes.take(state.ranks(len(self._nodes), sum(map(allocated_rank, state.claims))))

    def normalize_score(self, cycle: fwk.CycleState, scores: Int64Array) -> Int64Array:
        """Scale scores so that the best nodes have 100."""
        return default_normalize_score(scores, reverse=False)

    def score_details(self, cycle: fwk.CycleState, row: int) -> list[str]:
        state = cycle.read(ClaimState)
        solution = state.solution(row) or []
        return [
            f"claim {claim.metadata.key}: {line}"
            for claim, devices in zip(state.to_allocate, solution, strict=False)
            for line in explain_alternatives(claim, devices)
        ]

    def reserve(self, cycle: fwk.CycleState, row: int) -> fwk.Status:
        """Allocate the devices of the node's solution to the pod's claims, and reserve these for the pod."""
        state = cycle.find(ClaimState)
        if state is None:
            return fwk.Status.error(NO_STATE)
        if state.is_empty:
            return fwk.SUCCESS
        pod = cycle.pod.pod
        # A pod of a group is reserved again once its group fits, and other members may have been searched for since.
        solution = state.reserved.setdefault(row, state.solution(row))
        group_key = group_of(cycle.pod) if self._of_groups else None
        group = None if group_key is None else self._groups.groups.get(group_key)
        if solution is None and state.to_allocate:
            return fwk.Status.error("claim allocation not found for node")
        remaining = list(solution or ())
        node_name = self._nodes.names[row]
        for claim in state.claims:
            allocation = None
            if claim.status.allocation is None:
                share = claim.metadata.identity
                allocation = allocation_result(remaining.pop(0), node_name, share)
                if self._groups.cycle is not None:
                    self._groups.cycle.pending_claims.add(key_of(claim))
            if self._groups.cycle is not None and not requests.is_reserved_for(claim, cycle.pod):
                self._groups.cycle.pending_reservations.add(key_of(claim))
            self._tracker.assign(pod, key_of(claim), allocation, group)
        for devices in remaining:
            self._tracker.assign_unnamed(
                pod, allocation_result(devices, node_name, cycle.pod.key + requests.UNNAMED_CLAIM)
            )
        if self._holders is not None and self._inventory.has_node_resources:
            statuses = claim_statuses(pod, state, solution)
            self._holders.place(cycle.pod_id, PodInfo(with_statuses(pod, statuses)))
        return fwk.SUCCESS

    def reserved_objects(self) -> fwk.ReservedObjects:
        return self._tracker.reserved_objects()

    def unreserve(self, cycle: fwk.CycleState, row: int) -> None:
        self._tracker.take_back(cycle.pod.pod)
        if self._groups.cycle is not None:
            state = cycle.find(ClaimState) or ClaimState()
            self._groups.cycle.pending_claims -= {key_of(claim) for claim in state.to_allocate}
        if self._holders is not None:
            self._holders.place(cycle.pod_id, cycle.pod)


def _rows_not_available(outcome: FilterOutcome) -> RowArray:
    """Return the nodes that this plugin is the first to reject, because a claim is not available there."""
    for index, (name, verdicts) in enumerate(outcome.verdicts):
        if name == DynamicResources.name:
            texts = [reason.text for reason in verdicts.reasons]
            if REASON_NOT_AVAILABLE in texts:
                bit = 1 << texts.index(REASON_NOT_AVAILABLE)
                positions = np.flatnonzero((outcome.first == index) & ((verdicts.bits & bit) != 0))
                return positions if outcome.rows is None else outcome.rows[positions]
    return np.zeros(0, np.intp)
