"""What Karpenter asks of pods: which are pending, can be moved or hold their node; ports, volumes, costs and budgets.

Taints are compared as numbers, too, where a toleration says so. Volumes say whether pods can be provisioned for, where
these can be, and how many a node takes.

Upstream: utils/pod/scheduling.go, utils/disruption/disruption.go, utils/pdb/pdb.go, scheduling/taints.go,
scheduling/hostportusage.go; k8s.io api core/v1 toleration.go; provisioning/scheduling/volumetopology.go,
scheduling/volumeusage.go, utils/volume/volume.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from kplan.api import affinity
from kplan.api.affinity import NO_SCHEDULE, Taint, Toleration
from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod, requests_of
from kplan.api.labels import DISRUPTED, HOSTNAME, valid_selector
from kplan.api.pod import ENDED
from kplan.api.provisioning import NEVER, NodeClaim
from kplan.api.quantity import grouped
from kplan.api.time import EPOCH, SECOND, parse_duration, to_micros
from kplan.api.workloads import PodDisruptionBudget
from kplan.autoscaling.karpenter.amounts import Amounts, added
from kplan.autoscaling.karpenter.options import Options, Release
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary
from kplan.framework.listers import Listers
from kplan.rules.pod_info import scheduled_condition
from kplan.rules.resources import NANO, PODS, has_no_status_resources, stored_totals
from kplan.rules.volumes import ANNOTATION_BIND_COMPLETED, PLUGIN_BY_NAME, claims_of, not_found
from kplan.snapshot.model import Snapshot

_ANY = "0.0.0.0"  # noqa: S104 - compared with, never bound to


class HostPort(NamedTuple):
    """A port of a node that a container uses."""

    address: IPv4Address | IPv6Address | None  #: None if it is no address
    port: int
    protocol: str

    def matches(self, other: HostPort) -> bool:
        """Tell whether two containers cannot have both on one node."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or any(
            address is not None and address.is_unspecified for address in (self.address, other.address)
        )


class PortConflict(NamedTuple):
    """Two host ports that exclude each other."""

    wanted: HostPort
    existing: HostPort


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(_address(port.host_ip or _ANY), port.host_port, port.protocol)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    )


def conflict(pod: str, wanted: tuple[HostPort, ...], used: Mapping[str, tuple[HostPort, ...]]) -> PortConflict | None:
    """Return the first conflict of a pod's ports with those of other pods on the node."""
    for port in wanted:
        for owner, ports in used.items():
            for existing in ports:
                if owner != pod and port.matches(existing):
                    return PortConflict(port, existing)
    return None


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def untolerated(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    return affinity.untolerated(tolerations, taints, compares=True)


_DISRUPTED_TAINT = (Taint(key=DISRUPTED, effect=NO_SCHEDULE),)
_FLOAT = re.compile(r"[+-]?(\d++(?:\.\d*+)?|\.\d++)([eE][+-]?\d++)?", re.ASCII)


def is_pending(pod: Pod) -> bool:
    return pod.status.phase == "Pending"


def is_terminal(pod: Pod) -> bool:
    return pod.status.phase in ENDED


def is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    return not is_terminal(pod) and not is_terminating(pod)


def is_of_daemon_set(pod: Pod) -> bool:
    return _is_owned(pod, "apps/v1", "DaemonSet")


def _is_of_node(pod: Pod) -> bool:
    return _is_owned(pod, "v1", "Node")


def _is_owned(pod: Pod, api_version: str, kind: str) -> bool:
    return any((owner.api_version, owner.kind) == (api_version, kind) for owner in pod.metadata.owner_references)


def is_provisionable(pod: Pod) -> bool:
    """Tell whether Karpenter makes room for a pod: the scheduler found none, and evicts none for it."""
    if pod.spec.node_name or pod.status.nominated_node_name or is_of_daemon_set(pod) or _is_of_node(pod):
        return False
    condition = scheduled_condition(pod)
    return condition is not None and condition.reason == "Unschedulable"


def is_reschedulable(pod: Pod) -> bool:
    """Tell whether a pod needs a place elsewhere when its node goes."""
    comes_back = is_active(pod) or (_is_owned(pod, "apps/v1", "StatefulSet") and is_terminating(pod))
    return comes_back and not is_of_daemon_set(pod) and not _is_of_node(pod)


def is_evictable(pod: Pod, now: int) -> bool:
    """Tell whether budgets have a say about a pod."""
    may_go = is_active(pod) and not _is_of_node(pod) and not holds_its_node(pod, now)
    return may_go and bool(untolerated(pod.spec.tolerations, _DISRUPTED_TAINT))


def is_disruptable(pod: Pod, now: int) -> bool:
    return not is_active(pod) or not holds_its_node(pod, now)


def holds_its_node(pod: Pod, now: int) -> bool:
    """Tell whether a pod is annotated not to be disrupted, for ever or still for a while."""
    wanted = pod.metadata.annotations.do_not_disrupt
    if wanted is None:
        return False
    if wanted == "true":
        return True
    duration = parse_duration(wanted)
    if duration is None or duration <= 0:
        return False
    started = pod.status.start_time
    return started is None or (now - to_micros(started)) * 1000 < duration


def eviction_cost(pod: Pod) -> float:
    """Return what it costs to evict a pod: by its annotation and priority, from -10 to 10."""
    cost = 1.0
    text = pod.metadata.annotations.deletion_cost
    if text and _FLOAT.fullmatch(text):
        cost += float(text) / 2.0**27
    if pod.spec.priority is not None:
        cost += pod.spec.priority / 2.0**25
    return min(max(cost, -10.0), 10.0)


NODE_COST = 1.0  #: what it costs to drain a node, whatever its pods


def move_cost(pods: Iterable[Pod]) -> float:
    """Return what it costs to drain a node and evict pods; a pod that gladly goes makes it no cheaper."""
    return added((max(0.0, eviction_cost(pod)) for pod in pods), NODE_COST)


def lifetime_remaining(claim: NodeClaim, now: int) -> float:
    """Return the part of its lifetime that a node has before it, from 0 to 1; 1 where it lives for ever."""
    lifetime = None if claim.spec.expire_after in (None, NEVER) else parse_duration(claim.spec.expire_after or "")
    if not lifetime:
        return 1.0 if lifetime is None else 0.0
    total = lifetime / SECOND
    age = (now - to_micros(claim.metadata.creation_timestamp or EPOCH)) / 10**6
    return min(max((total - age) / total, 0.0), 1.0)


def disruption_cost(pods: Iterable[Pod], claim: NodeClaim, now: int) -> float:
    return added(map(eviction_cost, pods)) * lifetime_remaining(claim, now)


class BudgetLimits:
    """The budgets of a cluster, at a moment (microseconds since 1970)."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], now: int) -> None:
        self._now = now
        own = ((one, valid_selector(one.spec.selector)) for one in sorted(budgets, key=lambda one: one.metadata.key))
        self._of_namespace = grouped((budget.metadata.namespace, (budget, selector)) for budget, selector in own)

    def blocking(self, pod: Pod, *, for_ever: bool = False) -> tuple[str, ...]:
        """Return the budgets, NAMESPACE/NAME, that keep a pod from being evicted: now, or with `for_ever` at any time.

        Several budgets of one pod always do.
        """
        if not is_evictable(pod, self._now):
            return ()
        known = self._of_namespace.get(pod.metadata.namespace, ())
        own = [budget for budget, selector in known if selector.matches(pod.metadata.labels)]
        if len(own) > 1:
            return tuple(budget.metadata.key for budget in own)
        for budget in own:
            spec = budget.spec
            if spec.unhealthy_pod_eviction_policy == "AlwaysAllow" and any(
                condition.type == "Ready" and condition.status == "False" for condition in pod.status.conditions
            ):
                return ()
            allows_none = spec.max_unavailable in (0, "0%") or spec.min_available == "100%"
            if allows_none if for_ever else budget.status.disruptions_allowed == 0:
                return (budget.metadata.key,)
        return ()

    def lets_move(self, pod: Pod) -> bool:
        """Tell whether a pod can be moved to another node at present (upstream IsCurrentlyReschedulable)."""
        return is_reschedulable(pod) and is_disruptable(pod, self._now) and not self.blocking(pod, for_ever=True)


Volumes = Mapping[str, frozenset[str]]  #: driver -> claims, NAMESPACE/NAME


class PodFacts:
    """What the objects of a cluster say of its pods, to a release with some settings: amounts, claims and volumes."""

    def __init__(self, snapshot: Snapshot, known: Vocabulary, options: Options, release: Release) -> None:
        self.snapshot, self.known, self.options, self.release = snapshot, known, options, release
        self._requests: dict[int, tuple[Pod, Amounts]] = {}  # id of a pod -> the pod, so that the id stays its own
        listers = Listers(snapshot)
        self._claims, self._volumes = listers.persistent_volume_claims, listers.persistent_volumes
        self._classes = listers.storage_classes

    def requests(self, pod: Pod) -> Amounts:
        """Return the exact requests of a pod, itself as one pod included."""
        known = self._requests.get(id(pod))
        if known is None:
            is_resized = self.release.counts_resizes and not has_no_status_resources(pod)
            requests = stored_totals(pod)[0] if is_resized else requests_of(pod.spec)
            amounts = {name: quantity.nanos for name, quantity in requests.items()}
            amounts[PODS] = NANO
            known = self._requests[id(pod)] = (pod, amounts)
        return known[1]

    def uses_claims(self, pod: Pod) -> bool:
        if self.release.claims_of_pods and pod.spec.resource_claims:
            return True
        return any(container.resources.claims for container in (*pod.spec.init_containers, *pod.spec.containers))

    def _claims_of(self, pod: Pod) -> Iterator[tuple[str, PersistentVolumeClaim | None]]:
        for name in claims_of(pod):
            yield name, self._claims.get((pod.metadata.namespace, name))

    def volume_problems(self, pod: Pod) -> list[str]:
        """Return why a pod's claims keep it from being provisioned for, in Karpenter's words; the first one only."""
        for name, claim in self._claims_of(pod):
            if claim is None:
                missing = not_found("persistentvolumeclaims", name)
                return [f"getting persistent volume claim, {missing} (PersistentVolumeClaim={name})"]
            if problem := next(self._claim_problems(claim), ""):
                return [problem]
        return []

    def _claim_problems(self, claim: PersistentVolumeClaim) -> Iterator[str]:
        key, volume, name = claim.metadata.key, claim.spec.volume_name, claim.spec.storage_class_name or ""
        if claim.metadata.deletion_timestamp is not None:
            yield f"persistentvolumeclaim is being deleted (PersistentVolumeClaim={key})"
        if claim.status.phase == "Lost":
            named = f"(PersistentVolume={volume}, PersistentVolumeClaim={key})"
            yield f"persistentvolumeclaim bound to non-existent persistentvolume {named}"
        yield from self._problems_of_bound(claim) if volume else self._problems_of_unbound(claim)
        driver = self._driver(claim)
        if driver and driver in self.options.unsupported_provisioners:
            named = f"(PersistentVolumeClaim={key}, Provisioner={driver}, StorageClass={name})"
            yield f"failed to validate pvc, provisioner is not supported {named}"

    def _problems_of_bound(self, claim: PersistentVolumeClaim) -> Iterator[str]:
        key, name, volume = claim.metadata.key, claim.spec.volume_name, self._volumes.get(claim.spec.volume_name)
        named = f"(PersistentVolume={name}, PersistentVolumeClaim={key}, "
        named += f"StorageClass={claim.spec.storage_class_name or ''})"
        if volume is None:
            yield f"failed to validate pvc, {not_found('persistentvolumes', name)} {named}"
        elif volume.metadata.deletion_timestamp is not None:
            yield f"failed to validate pvc, persistentvolume is being deleted {named}"
        if ANNOTATION_BIND_COMPLETED not in claim.metadata.annotations:
            named = f"(PersistentVolume={name}, PersistentVolumeClaim={claim.metadata.name}"
            why = "pvc is considered unbound because it does not contain annotation"
            yield f"{why} {named}, annotation={ANNOTATION_BIND_COMPLETED})"

    def _problems_of_unbound(self, claim: PersistentVolumeClaim) -> Iterator[str]:
        name = claim.spec.storage_class_name or ""
        storage_class = self._classes.get(name)
        named = f"PersistentVolumeClaim={claim.metadata.key}, StorageClass={name}"
        if not name:
            yield f"unbound pvc must define a storage class ({named})"
        elif storage_class is None:
            missing = not_found("storageclasses.storage.k8s.io", name)
            yield f"failed to validate pvc, failed to get storage class, {missing} ({named})"
        elif storage_class.volume_binding_mode == "Immediate":
            yield f"failed to validate pvc, pvc with immediate volume binding mode must be bound ({named})"
        else:
            wanted = (key.key for term in storage_class.allowed_topologies for key in term.match_label_expressions)
            for key in wanted:
                if key in self.options.unsupported_topology_keys:
                    why = "failed to validate pvc, storage class uses unsupported topology key"
                    yield f"{why} ({named}, TopologyKey={key})"

    def alternatives(self, pod: Pod) -> tuple[Requirements, ...] | None:
        """Return the requirements of a pod's volumes, of which one must be met; none where all nodes reach them.

        None stands for claims, volumes or classes that do not exist.
        """
        joined: list[Requirements] = []
        for _, claim in self._claims_of(pod):
            own = None if claim is None else self._of_claim(claim)
            if own is None:
                return None
            pairs = [(one, other) for one in joined for other in own]
            # Those that exclude each other count only where all others do, too.
            pairs = [pair for pair in pairs if self.known.overlap(*pair)] or pairs
            joined = [self.known.join(*pair) for pair in pairs] or joined or own
        return tuple(joined)

    def _of_claim(self, claim: PersistentVolumeClaim) -> list[Requirements] | None:
        known, class_name = self.known, claim.spec.storage_class_name
        if claim.spec.volume_name:
            volume = self._volumes.get(claim.spec.volume_name)
            return None if volume is None else self._of_volume(volume)
        if not class_name:
            return []
        storage_class = self._classes.get(class_name)
        if storage_class is None:
            return None
        terms = filter(None, (term.match_label_expressions for term in storage_class.allowed_topologies))
        return [known.of(known.requirement(one.key, "In", one.values) for one in term) for term in terms]

    def _of_volume(self, volume: PersistentVolume) -> list[Requirements]:
        required = None if volume.spec.node_affinity is None else volume.spec.node_affinity.required
        if required is None:
            return []
        is_local = volume.spec.local is not None or volume.spec.host_path is not None
        terms = filter(None, (term.match_expressions for term in required.node_selector_terms))
        return [
            self.known.of_expressions(one for one in term if not (is_local and one.key == HOSTNAME)) for term in terms
        ]

    def volumes(self, pod: Pod) -> Volumes | None:
        """Return the claims of a pod by the driver that counts them; None where a volume is gone."""
        usage: dict[str, frozenset[str]] = {}
        for _, claim in self._claims_of(pod):
            driver = "" if claim is None else self._driver(claim)
            if driver is None:
                return None
            if claim is not None and driver:
                usage[driver] = usage.get(driver, frozenset()) | {claim.metadata.key}
        return usage

    def _driver(self, claim: PersistentVolumeClaim) -> str | None:
        """Return the driver that counts a claim, empty for none; None where its volume is gone."""
        if claim.spec.volume_name:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return None
            if volume.spec.csi is not None:
                return volume.spec.csi.driver
            return "" if volume.spec.aws_elastic_block_store is None else PLUGIN_BY_NAME["kubernetes.io/aws-ebs"].driver
        storage_class = self._classes.get(claim.spec.storage_class_name or "")
        if storage_class is None:
            return ""
        plugin = PLUGIN_BY_NAME.get(storage_class.provisioner)
        return storage_class.provisioner if plugin is None else plugin.driver
