"""Gather the causes why a pod has no node from a decision that is live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.admission import limits
from kplan.api.affinity import COMPARISON_GATE, Taint, required_node_affinity
from kplan.api.core import REQUESTS, Node, PersistentVolumeClaim, Pod, add_resources, container_totals, parsed
from kplan.api.labels import HOSTNAME, POOL_LABELS
from kplan.api.names import nearest_texts
from kplan.api.provisioning import NodePool
from kplan.api.quantity import Quantity, grouped
from kplan.api.quantity import value as quantity_value
from kplan.diagnosis import causes as c
from kplan.diagnosis import intended
from kplan.diagnosis.explanation import details_at
from kplan.engine import details as d
from kplan.engine.arrays import RowArray
from kplan.engine.matching import first_untolerated_hard_taints
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Verdicts
from kplan.framework.cycle import CycleResult
from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.listers import Listers
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.health.nodes import UnusableResource, unusable_resources
from kplan.rules.pod_info import PodInfo, daemon_set_of
from kplan.rules.resources import PODS, is_counted, quantity_text
from kplan.rules.volumes import STORAGE, WAIT_FOR_FIRST_CONSUMER, claim_class, claim_name, is_fully_bound
from kplan.snapshot.defaults import default_class
from kplan.snapshot.model import Snapshot

_MOST_GROUPS = 64
_MOST_PODS = 8
_MOST_UNUSABLE = 64
_SAME_SCHEDULER = 0.85
"""How alike a scheduler's name must be to be a misspelt one: many are called SOMETHING-scheduler."""
_DEVICES = "DynamicResources"
_MOST_WITH_DEVICES = 50  #: the devices of so many nodes are counted
_RESOURCES = "NodeResourcesFit"
_TAINTS = "TaintToleration"


def gather(session: Session, result: CycleResult) -> c.Causes:
    """Return why the pod of a decision has no node; the decision must be live."""
    info = session.cluster.pods.infos[result.pod]
    if result.filter is None or result.outcome is not Outcome.UNSCHEDULABLE:
        return c.Causes((_before_filters(session, result, info),))
    outcome, n_nodes = result.filter, len(session.cluster)
    promised = _promised(session, result.pod, info)
    if outcome.pre_filter_status is not None:
        claims = tuple(_claim_causes(info.pod, session.listers))
        missing = tuple(_missing_named_nodes(session.cluster.nodes, info.pod))
        devices = tuple(islice(_device_causes(info.pod, session.listers.snapshot), 1))
        others = claims or missing or devices or (c.BeforeNodes(outcome.pre_filter_status.message),)
        return c.Causes((*promised, *others), n_nodes)
    nodes = session.cluster.nodes
    if outcome.rows is None:
        whole = tuple(_for_all_nodes(session, info))
    else:
        whole = () if len(outcome.rows) else tuple(_missing_named_nodes(nodes, info.pod))
    named: tuple[str, ...] = ()
    if outcome.absent is not None and outcome.rows is not None:
        named = tuple(nodes.names[row] for row in outcome.rows[:_MOST_PODS].tolist())
    groups = [*_filtered(session, info, outcome), *_overridden(session, outcome)]
    out = tuple(sorted(groups, key=lambda group: (-group.nodes, group.plugin, group.reasons)))
    unusable = tuple(islice(_unusable(nodes, info), _MOST_UNUSABLE))
    return c.Causes((*promised, *whole), n_nodes, named, out, _surpluses(session, info.pod), unusable)


def _before_filters(session: Session, result: CycleResult, info: PodInfo) -> c.Whole:
    spec = info.pod.spec
    if result.pod in session.refused:
        return _refused(session, result.pod, info)
    if result.framework is None:
        return c.OtherScheduler(spec.scheduler_name, meant_scheduler(session, info.pod))
    if info.is_terminating:
        return c.Leaving()
    # Plugins keep pods out of the queue for other causes than gates, too, such as a claim that does not exist.
    if result.outcome is Outcome.GATED and spec.scheduling_gates:
        return c.Gated(tuple(gate.name for gate in spec.scheduling_gates))
    if result.outcome is Outcome.GATED:
        return next(_device_causes(info.pod, session.listers.snapshot), c.BeforeNodes(result.message))
    return c.BeforeNodes(result.message) if len(session.cluster) else c.NoNodes()


def meant_scheduler(session: Session, pod: Pod) -> str:
    """Return the scheduler of the configuration that a pod's misspelt one stands for; empty for that of others."""
    return next(iter(nearest_texts(pod.spec.scheduler_name, tuple(session.frameworks), 1, _SAME_SCHEDULER)), "")


def _refused(session: Session, pod: int, info: PodInfo) -> c.Whole:
    message, snapshot = session.refused[pod], session.listers.snapshot
    namespaces = [namespace.metadata.name for namespace in snapshot.namespaces]
    if namespaces and info.namespace not in namespaces:
        return c.MissingNamespace(info.namespace, intended.nearest(info.namespace, namespaces))
    if (lacks := intended.missing_name(snapshot, info.pod, message)) is not None:
        return c.Refused(message, lacks)
    infos, ledger = session.cluster.pods.infos, limits.QuotaLedger(snapshot)
    known = {one.metadata.key for one in snapshot.pods}
    new = [row for row, one in enumerate(infos) if one.namespace == info.namespace and one.key not in known]
    admitted = [row for row in new if row not in session.refused]
    try:
        _charge(ledger, (infos[row] for row in admitted if row < pod))
        limits.check(info.pod, snapshot.limit_ranges)
        ledger.charge(info.pod)
    except limits.Rejection as rejection:
        if str(rejection) in message:
            because = rejection.because
            _charge(ledger, (infos[row] for row in admitted if row > pod))
            refused = [(infos[row].pod, 1) for row in new if row in session.refused]
            raises = tuple(ledger.lacking(refused)) if because.uses else ()
            return c.Refused(str(rejection), by=because.by, uses=because.uses, raises=raises)
    return c.Refused(message)


def _charge(ledger: limits.QuotaLedger, pods: Iterable[PodInfo]) -> None:
    """Count further pods in quotas, as far as these take them."""
    for info in pods:
        with suppress(limits.Rejection):
            ledger.charge(info.pod)


def _device_causes(pod: Pod, snapshot: Snapshot) -> Iterator[c.MissingOfDevices | c.ClaimNotMade]:
    """Yield what the pod needs for its devices and what does not exist, in the order of its claims."""
    namespace = pod.metadata.namespace
    known = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    claims = {one.metadata.name: one for one in snapshot.resource_claims if one.metadata.namespace == namespace}
    templates = {one.metadata.name for one in snapshot.resource_claim_templates if one.metadata.namespace == namespace}
    classes = {obj.metadata.name for obj in snapshot.device_classes}
    are_unread = any(kind.resource == "resourceclaimtemplates" for kind in snapshot.missing)
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or known.get(entry.name)
        if name is None and entry.name not in known and (template := entry.resource_claim_template_name):
            key = f"{namespace}/{template}"
            if template in templates or are_unread:
                yield c.ClaimNotMade(key)
            else:
                yield c.MissingOfDevices("ResourceClaimTemplate", key, intended.nearest(template, templates))
        elif name is not None and (claim := claims.get(name)) is None:
            yield c.MissingOfDevices("ResourceClaim", f"{namespace}/{name}", intended.nearest(name, claims))
        elif name is not None and claim is not None and claim.status.allocation is None:
            requests = (one for wish in claim.spec.devices.requests for one in (wish.exactly, *wish.first_available))
            for wanted in {request.device_class_name: None for request in requests if request is not None}:
                if wanted and wanted not in classes:
                    near = intended.nearest(wanted, classes)
                    yield c.MissingOfDevices("DeviceClass", wanted, near, claim.metadata.key)


def _claim_causes(pod: Pod, listers: Listers) -> Iterator[c.Whole]:
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is None:
            continue
        claim = listers.persistent_volume_claims.get((namespace, name))
        if claim is None:
            known = [other for of, other in listers.persistent_volume_claims if of == namespace]
            yield c.MissingClaim(f"{namespace}/{name}", intended.nearest(name, known))
            continue
        if claim.metadata.deletion_timestamp is not None:
            yield c.LeavingClaim(claim.metadata.key)
            continue
        if claim.status.phase == "Lost":
            yield _lost(claim, listers)
            continue
        if is_fully_bound(claim):
            continue
        class_name = claim_class(claim)
        storage_class = listers.storage_classes.get(class_name)
        if storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            continue
        is_known = storage_class is not None or not class_name
        suggested = "" if is_known else intended.nearest(class_name, listers.storage_classes)
        provisioner = "" if storage_class is None else storage_class.provisioner
        released = _released(claim, class_name, listers)
        exists = storage_class is not None
        names_none = claim.spec.storage_class_name is None and not class_name
        has_default = bool(default_class(listers.storage_classes.values()))
        classes = tuple(sorted(listers.storage_classes)) if names_none and not has_default else ()
        yield c.UnboundClaim(claim.metadata.key, class_name, exists, suggested, provisioner, released, classes)


def _lost(claim: PersistentVolumeClaim, listers: Listers) -> c.LostClaim:
    key, name = claim.metadata.key, claim.spec.volume_name
    if (volume := listers.persistent_volumes.get(name)) is None:
        return c.LostClaim(key, name)
    of = volume.spec.claim_ref
    holder = "" if of is None else f"{of.namespace}/{of.name}"
    is_own = of is not None and holder == key and of.uid in ("", claim.metadata.uid)
    return c.LostClaim(key, name, "" if is_own else holder)


def _released(claim: PersistentVolumeClaim, class_name: str, listers: Listers) -> c.Released | None:
    """Return a volume of the claim's class that its former claim left."""
    wanted = quantity_value(claim.spec.resources.requests.get(STORAGE, "0"))
    for name, volume in sorted(listers.persistent_volumes.items()):
        spec, former = volume.spec, volume.spec.claim_ref
        if volume.status.phase != "Released" or former is None or spec.storage_class_name != class_name:
            continue
        has_modes = set(claim.spec.access_modes).issubset(spec.access_modes)
        if has_modes and quantity_value(spec.capacity.get(STORAGE, "0")) >= wanted:
            return c.Released(name, f"{former.namespace}/{former.name}")
    return None


def _missing_named_nodes(nodes: NodeTable, pod: Pod) -> Iterator[c.NoSuchNode]:
    required = required_node_affinity(pod.spec.affinity)
    terms = required.node_selector_terms if required is not None else ()
    fields = (field for term in terms for field in term.match_fields if field.operator == "In")
    for name in (value for field in fields for value in field.values):
        if name not in nodes.row_of:
            yield c.NoSuchNode(len(nodes), name, intended.nearest(name, nodes.names))


def _promised(session: Session, pod: int, info: PodInfo) -> tuple[c.Promised, ...]:
    """Return the pods that are still being deleted on the node that the pod is nominated to."""
    row = session.nominator.row_of(pod)
    if row is None:
        return ()
    others = (session.cluster.pods.infos[other] for other in session.cluster.pods_on[row])
    leaving = tuple(other.key for other in others if other.is_terminating and other.priority < info.priority)
    return (c.Promised(session.cluster.nodes.names[row], leaving),) if leaving else ()


def _for_all_nodes(session: Session, info: PodInfo) -> Iterator[c.Whole]:
    """Yield causes each of which alone rules out every node."""
    nodes, pod = session.cluster.nodes, info.pod
    n_nodes, of_devices = len(nodes), session.listers.extended_resource_classes
    if pod.spec.node_name and pod.spec.node_name not in nodes.row_of:
        yield c.NoSuchNode(n_nodes, pod.spec.node_name, intended.nearest(pod.spec.node_name, nodes.names))
    of_class = runtime_class_labels(pod, session.listers.snapshot)
    name = pod.spec.runtime_class_name or ""
    for cause in _missing_labels(nodes, list(wanted_labels(pod)), session.listers.snapshot.node_pools):
        is_of_class = isinstance(cause, c.NoSuchLabel) and cause.label in of_class
        yield replace(cause, runtime_class=name, nearest="") if is_of_class else cause
    for resource, amount in info.requests.items():
        if amount <= 0 or resource == PODS or not is_counted(resource) or resource in of_devices:
            continue
        allocatable = nodes.allocatable(resource)
        row = int(allocatable.argmax())
        if allocatable[row] < amount:
            largest = quantity_text(resource, int(allocatable[row]))
            suggested = "" if allocatable[row] else intended.nearest(resource, known_resources(nodes))
            yield c.TooLarge(n_nodes, resource, quantity_text(resource, amount), largest, nodes.names[row], suggested)


def _missing_labels(
    nodes: NodeTable, wanted: Sequence[tuple[str, tuple[str, ...]]], pools: Sequence[NodePool]
) -> Iterator[c.Whole]:
    """Yield the labels that no node has; when there are none, the combination of labels that no node has."""
    has_all = np.ones(len(nodes), np.bool_)
    counts: list[tuple[str, int]] = []
    for label, values in wanted:
        column = nodes.label(label)
        codes = [column.code_of[value] for value in values if value in column.code_of]
        if not codes:
            keys = () if column.values else {key for node in nodes.nodes for key in node.metadata.labels}
            names = [pool.metadata.name for pool in pools if label == POOL_LABELS[0]]  # which may have no node yet
            there = [*column.values, *names]
            suggested = intended.nearest(values[0], there) if there else intended.nearest_key(label, keys)
            is_meant = intended.is_fact(label) or values[0] in names
            known = tuple(sorted(column.values))
            yield c.NoSuchLabel(len(nodes), label, values, known, "" if is_meant else suggested)
        has_label = np.isin(column.codes, codes)
        has_all &= has_label
        counts.append((" or ".join(f"{label}={value}" for value in values), int(has_label.sum())))
    if len(counts) > 1 and not has_all.any() and all(count for _, count in counts):
        yield c.NoSuchCombination(len(nodes), tuple(counts))


def runtime_class_labels(pod: Pod, snapshot: Snapshot) -> Mapping[str, str]:
    """Return the labels of nodes that the runtime class of a pod adds to its nodeSelector."""
    known = snapshot.runtime_classes if pod.spec.runtime_class_name else ()
    of_pod = (one.scheduling for one in known if one.metadata.name == pod.spec.runtime_class_name)
    return next((one.node_selector for one in of_pod if one is not None), {})


def known_resources(nodes: NodeTable) -> set[str]:
    return {name for node in nodes.nodes for name in node.status.allocatable}


def wanted_labels(pod: Pod) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the labels that a node must have, with the accepted values of each.

    Several affinity terms count only where all of them are about the same label.
    """
    for key, value in pod.spec.node_selector.items():
        yield key, (value,)
    required = required_node_affinity(pod.spec.affinity)
    terms = required.node_selector_terms if required is not None else ()
    if len(terms) == 1:
        for condition in terms[0].match_expressions:
            if condition.operator == "In" and condition.values:
                yield condition.key, condition.values
        return
    alone = [term.match_expressions[0] for term in terms if len(term.match_expressions) == 1 and not term.match_fields]
    kinds = {(condition.key, condition.operator) for condition in alone}
    if terms and len(alone) == len(terms) and kinds == {(alone[0].key, "In")}:
        yield alone[0].key, tuple(value for condition in alone for value in condition.values)


class _PluginVerdict(msgspec.Struct, frozen=True):
    """The verdict of one plugin on a pod; `rows` are the node rows by position."""

    session: Session
    info: PodInfo
    plugin: str
    verdict: Verdicts
    rows: RowArray

    @property
    def compares(self) -> bool:
        """Whether tolerations may compare numbers."""
        return self.session.config.release.is_on(COMPARISON_GATE)


def _filtered(session: Session, info: PodInfo, outcome: FilterOutcome) -> Iterator[c.NodesOut]:
    counted = outcome.verdicts_count
    for index, (plugin, verdict) in enumerate(outcome.verdicts):
        rejected = np.flatnonzero((outcome.first == index) & counted)
        if len(rejected):
            judged = _PluginVerdict(session, info, plugin, verdict, outcome.filtered_rows)
            yield from (_nodes_of(judged, group) for group in _groups(judged, rejected))


def _groups(judged: _PluginVerdict, rejected: RowArray) -> Iterator[RowArray]:
    """Split the positions that a plugin rejects by its reasons; those that TaintToleration rejects, by taint."""
    if judged.plugin == _TAINTS:
        table, tolerations = judged.session.cluster.nodes, judged.info.pod.spec.tolerations
        codes = first_untolerated_hard_taints(table, tolerations, compares=judged.compares)[0][judged.rows[rejected]]
    else:
        codes = judged.verdict.bits[rejected]
    distinct = np.unique(codes)
    yield from (rejected[codes == code] for code in distinct) if len(distinct) <= _MOST_GROUPS else (rejected,)


def _nodes_of(judged: _PluginVerdict, group: RowArray) -> c.NodesOut:
    reasons = judged.verdict.reasons_at(int(group[0]))
    measured = [None if one.shortfall is None else int(group[one.shortfall(group).argmin()]) for one in reasons]
    closest = next((best for best in measured if best is not None), int(group[0]))
    nodes, rows = judged.session.cluster.nodes, judged.rows
    details: list[d.Detail] = []
    for reason, best in zip(reasons, measured, strict=True):
        details += details_at((reason,), closest if best is None else best)
    largest = _largest(judged, details, rows[group]) if judged.plugin == _RESOURCES else {}
    key = next((detail.topology_key for detail in details if isinstance(detail, d.TooMuchSkew | d.AntiAffinity)), "")
    domains = len(np.unique(nodes.label(key).codes[rows[group]])) if key else 0
    return c.NodesOut(
        nodes=len(group),
        closest=nodes.names[int(rows[closest])],
        plugin=judged.plugin,
        reasons=tuple(reason.text for reason in reasons),
        details=tuple(details),
        largest=largest,
        domains=domains,
        meant=_meant(judged, details, nodes.nodes[int(rows[closest])]),
        devices=_devices_of(judged, group),
    )


def _devices_of(judged: _PluginVerdict, group: RowArray) -> c.DevicesOut:
    """Return how many devices nodes have that a claim could take, and which pods use them.

    Devices that several nodes can reach are not counted, nor those of many nodes.
    """
    if judged.plugin != _DEVICES or len(group) > _MOST_WITH_DEVICES:
        return c.DevicesOut()
    positions = map(int, group)
    details = (one for position in positions for one in details_at(judged.verdict.reasons_at(position), position))
    missing = [one for one in details if isinstance(one, d.MissingDevices)]
    held_by = tuple(dict.fromkeys(pod for one in missing for pod in one.held_by))
    tainted = tuple(dict.fromkeys(taint for one in missing for taint in one.tainted or ()))
    is_local = all(one.spec.node_name for one in judged.session.listers.snapshot.resource_slices)
    is_counted = is_local and len({(one.claim, one.request) for one in missing}) == 1
    return c.DevicesOut(held_by, tainted, sum(int(one.matching) for one in missing) if is_counted else None)


def _meant(  # noqa: PLR0911 - one case a kind, in one place
    judged: _PluginVerdict, details: Sequence[d.Detail], node: Node
) -> c.Meant:
    """Return what the pod's rule was probably meant to say where it matches nothing."""
    pod, nodes = judged.info.pod, judged.session.cluster.nodes
    # What is said about taints, hangs on all of them together.
    n_taints = sum(isinstance(detail, d.UntoleratedTaint) for detail in details)
    for detail in details:
        match detail:
            case d.UntoleratedTaint() if n_taints == 1:
                taints = intended.untolerated(pod, node, compares=judged.compares)
                return _instead(pod, taints[0], nodes) if len(taints) == 1 else c.Meant()
            case d.SpreadLabelMissing() | d.AffinityLabelMissing():
                return c.Meant(suggested=intended.suggested_topology_key(detail.missing_label, nodes))
            case d.TakenHostPort(pods=(name, *_)) if (holder := judged.session.find(name)) is not None:
                other = judged.session.cluster.pods.infos[holder]
                if name := daemon_set_of(other.pod):
                    return c.Meant(daemon_set=f"{other.namespace}/{name}")
            case d.UnreachableVolume(requires=(only,)) if only.startswith(f"{HOSTNAME}="):
                name = only.partition("=")[2]
                return c.Meant(lost_node="" if name in nodes.label(HOSTNAME).code_of else name)
            case d.UnmetAffinity() if not detail.domains_with_matching_pods:
                for guess_of_pods in intended.suggested_pods(judged.session, judged.info):
                    if isinstance(guess_of_pods, intended.MeantNamespace):
                        return c.Meant(runs_in=guess_of_pods.namespace)
                    return c.Meant(suggested="=".join(guess_of_pods.to))
            case _:
                pass
    return c.Meant()


def _instead(pod: Pod, taint: Taint, nodes: NodeTable) -> c.Meant:
    """Return the toleration that was meant for a taint, or that is for another value of its key."""
    guess = intended.suggested_toleration(pod, taint, nodes)
    if guess is not None:
        return c.Meant(intended.toleration_text(guess.to), intended.toleration_text(guess.old))
    same_key = (one for one in pod.spec.tolerations if one.key == taint.key and one.operator in ("", "Equal"))
    other = next((one for one in same_key if not intended.is_used(one, nodes)), None)
    return c.Meant() if other is None else c.Meant(instead=intended.toleration_text(other))


def _largest(judged: _PluginVerdict, details: Iterable[d.Detail], rows: RowArray) -> dict[str, str]:
    nodes, requests = judged.session.cluster.nodes, judged.info.requests
    names = [one.resource for one in details if isinstance(one, d.InsufficientResource) and one.resource != PODS]
    most = {name: int(nodes.allocatable(name)[rows].max()) for name in names}
    return {name: quantity_text(name, most[name]) for name in names if most[name] < requests.get(name, 0)}


def _overridden(session: Session, outcome: FilterOutcome) -> Iterator[c.NodesOut]:
    """Yield groups of nodes that are rejected because of nominated pods or by an extender."""
    statuses = ((row, outcome.status(row)) for row in sorted(outcome.overrides))
    groups = grouped(((status.plugin, status.texts), (row, status)) for row, status in statuses if status is not None)
    for (plugin, texts), rows in groups.items():
        first, status = rows[0]
        details = tuple(details_at(status.reasons, status.position))
        reserved_for = tuple(session.cluster.pods.infos[pod].key for pod in session.nominator.pods_for(first))
        yield c.NodesOut(
            len(rows), session.cluster.nodes.names[first], plugin, texts, details, reserved_for=reserved_for
        )


def _unusable(nodes: NodeTable, info: PodInfo) -> Iterator[tuple[str, UnusableResource]]:
    """Yield the nodes that have a resource that the pod requests, and of which nothing, or too little, can be used."""
    for resource, amount in info.requests.items():
        if amount <= 0 or resource == PODS or not is_counted(resource):
            continue
        short = (nodes.nodes[row] for row in np.flatnonzero(nodes.allocatable(resource) < amount))
        for node in (node for node in short if resource in node.status.capacity):
            own = (one for one in unusable_resources(node) if one.resource == resource)
            enough = (one for one in own if one.allocatable == "0" or quantity_value(one.capacity) >= amount)
            yield from ((node.metadata.name, one) for one in enough)


def _surpluses(session: Session, pod: Pod) -> dict[str, c.Surplus]:
    """Return why the pod requests what its containers, or its manifest, do not."""
    surplus = dict(_surplus(pod))
    for resource in limits.defaulted(pod):
        for limit_range in limits.of_namespace(pod, session.listers.snapshot.limit_ranges):
            items = [item for item in limit_range.spec.limits if item.type == "Container"]
            if any(resource in {**item.default, **item.default_request} for item in items):
                known = surplus.get(resource, c.Surplus())
                surplus[resource] = replace(known, limit_range=limit_range.metadata.key)
    return surplus


def _surplus(pod: Pod) -> Iterator[tuple[str, c.Surplus]]:
    """Yield resources of which the pod requests more than its containers do together, each with why it does."""
    spec = pod.spec
    if not spec.overhead and not spec.init_containers:
        return
    running: dict[str, Quantity] = {}
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    for container in (*spec.containers, *sidecars):
        add_resources(running, container.resources.requests)
    starting = () if spec.resources is not None else (one for one in spec.init_containers if one not in sidecars)
    most: dict[str, tuple[Quantity, str]] = {}
    for container in starting:
        for resource, amount in parsed(container.resources.requests).items():
            if resource not in most or amount.nanos > most[resource][0].nanos:
                most[resource] = amount, container.name
    peaks = container_totals(spec, REQUESTS)
    for resource in dict.fromkeys((*spec.overhead, *most)):
        is_peak = resource in peaks and (resource not in running or peaks[resource].nanos > running[resource].nanos)
        name = most[resource][1] if is_peak and resource in most else ""
        overhead = str(spec.overhead.get(resource, ""))
        if name or overhead:
            yield resource, c.Surplus(overhead, spec.runtime_class_name or "", name)
