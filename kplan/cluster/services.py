"""The services of a cluster: what a manifest makes of one, and which addresses and node ports are taken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import msgspec
from msgspec.structs import replace

from kplan.admission.gates import NEWEST
from kplan.api.core import HEADLESS, Service, ServiceSpec
from kplan.api.field_errors import FieldError, errors_in, invalid
from kplan.api.names import object_name
from kplan.snapshot.model import Snapshot

_PORTS = "ports"


class Services:
    """The services of a cluster, to which manifests are applied one after the other."""

    def __init__(self, snapshot: Snapshot, minor: int = NEWEST) -> None:
        self._snapshot, self._minor = snapshot, minor
        self._addresses: dict[str, str] = {}
        self._node_ports: dict[int, str] = {}
        self._ranges = tuple(_ranges(snapshot))
        # A server that serves ServiceCIDRs has at least one, so without any nothing is known of them.
        self._knows_ranges = any(service_cidr.spec.cidrs for service_cidr in snapshot.service_cidrs)
        for service in snapshot.services:
            self._take(service)

    def apply(self, live: Service | None, written: Service) -> tuple[Service, list[FieldError]]:
        """Return a service after a manifest was applied to it, and why the API server refuses that.

        Where kubectl's note of what it applied last is not known, the ports and the selector are taken to come from the
        manifests, and all other fields to be set by others: they stay.
        """
        service, errors = (written, []) if live is None else self._changed(live, written)
        errors = errors or list(self._taken(service))
        if not errors:
            if live is not None:
                self._release(live)
            self._take(service)
        return service, errors

    def _changed(self, live: Service, written: Service) -> tuple[Service, list[FieldError]]:
        from kplan.admission.validation.services import updated_service
        from kplan.workloads.merging import MERGE_KEYS, identity, last_applied, merged, whole_object, without_dropped

        wanted = msgspec.to_builtins(written.spec)
        whole = whole_object(self._snapshot, _name(live))
        last = {} if whole is None else last_applied(whole)
        before = msgspec.to_builtins(live.spec)
        if last:
            remaining = without_dropped(before, last, wanted)
        else:
            keys = MERGE_KEYS[_PORTS]
            named = {identity(port, keys) for port in wanted.get(_PORTS, ())}
            ports = [port for port in before.get(_PORTS, ()) if identity(port, keys) in named]
            remaining = {**before, "selector": {}, _PORTS: ports}
        after, errors = updated_service(before, merged(remaining, wanted))
        return replace(written, spec=msgspec.convert(after, ServiceSpec)), [*errors_in(self._minor, errors)]

    def _taken(self, service: Service) -> Iterator[FieldError]:
        """Yield an error for the first address or node port that is not to be had (`allocIPs`, `initNodePorts`)."""
        name, addresses = _name(service), service.spec.cluster_ips or (service.spec.cluster_ip,)
        for address in addresses:
            owner = self._addresses.get(address)
            if owner is None and self._is_outside(address):
                words = "the provided network does not match the current range"
            elif owner not in (None, name):
                words = "provided IP is already allocated"
            else:
                continue
            yield invalid("spec.clusterIPs", list(addresses), f"failed to allocate IP {address}: {words}")
            return
        for index, port in enumerate(service.spec.ports):
            if self._node_ports.get(port.node_port, name) != name:
                at = f"spec.ports[{index}].nodePort"
                yield invalid(at, port.node_port, "provided port is already allocated")
                return

    def _is_outside(self, address: str) -> bool:
        """Tell whether no ServiceCIDR has an address (`MetaAllocator.getAllocator`, `PrefixContainsIP`)."""
        if not self._knows_ranges or address in ("", HEADLESS):
            return False
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        return not any(
            ip in network and ip != network.network_address and (ip.version == 6 or ip != network.broadcast_address)
            for network in self._ranges
        )

    def _take(self, service: Service) -> None:
        name = _name(service)
        self._addresses.update(dict.fromkeys(_addresses(service), name))
        self._node_ports.update(dict.fromkeys(_node_ports(service), name))

    def _release(self, service: Service) -> None:
        """Free what a service has, of which it takes again what it keeps (`releaseUpdate`)."""
        name = _name(service)
        for address in _addresses(service):
            if self._addresses.get(address) == name:
                del self._addresses[address]
        for port in _node_ports(service):
            if self._node_ports.get(port) == name:
                del self._node_ports[port]


def _ranges(snapshot: Snapshot) -> Iterator[IPv4Network | IPv6Network]:
    """Yield the ranges of which services get addresses now: those that are ready and stay."""
    for cidr in snapshot.service_cidrs:
        # Like the API server, take one without the condition for ready.
        is_ready = all(condition.status == "True" for condition in cidr.status.conditions if condition.type == "Ready")
        for written in cidr.spec.cidrs if is_ready and not cidr.metadata.deletion_timestamp else ():
            with suppress(ValueError):
                yield ip_network(written, strict=False)


def _addresses(service: Service) -> set[str]:
    return {*service.spec.cluster_ips, service.spec.cluster_ip} - {"", HEADLESS}


def _node_ports(service: Service) -> set[int]:
    return {service.spec.health_check_node_port, *(port.node_port for port in service.spec.ports)} - {0}


def _name(service: Service) -> str:
    return object_name("Service", service.metadata.namespace, service.metadata.name)
