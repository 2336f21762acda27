"""Host ports, of which every node has one each.

Upstream: scheduling/hostportusage.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from kplan.api.core import Pod

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
    """Return the host ports of a pod's containers."""
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
