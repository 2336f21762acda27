"""Discovery: the version of the API server, and which resources it serves.

That takes two requests in the aggregated form (Kubernetes 1.27 and newer); older servers answer with a list of groups,
and each group that kplan reads takes a further request.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

import msgspec

from kplan.errors import ApiError, ForbiddenError
from kplan.live import Resource
from kplan.live.connections import UNREADABLE, side_by_side
from kplan.live.reader import NO_SERVER_HINT, Reader

S = TypeVar("S", bound=msgspec.Struct)

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_ROOTS = ("/api", "/apis")
_ACCEPT = f"{_AGGREGATED.format('v2')},{_AGGREGATED.format('v2beta1')},application/json"


class _Named(msgspec.Struct, frozen=True):
    name: str = ""
    resource: str = ""  #: its name in the aggregated form


class _Version(msgspec.Struct, frozen=True):
    version: str = ""
    resources: tuple[_Named, ...] = ()


class _Group(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()
    versions: tuple[_Version, ...] = ()


class _AggregatedList(msgspec.Struct, frozen=True):
    kind: str = ""
    items: tuple[_Group, ...] = ()


class _Info(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


def read_version(reader: Reader) -> str:
    """Return the server's version; empty where this user may not read it."""
    try:
        return _ask(reader, "/version", _Info).git_version
    except ForbiddenError:
        return ""


def _ask(reader: Reader, path: str, shape: type[S], accept: str = "application/json") -> S:
    body = reader.get(path, accept=accept).body
    try:
        return msgspec.json.decode(body, type=shape)
    except UNREADABLE:
        raise ApiError(f"{path}: not an answer of an API server", status=200, hint=NO_SERVER_HINT) from None


def discover(reader: Reader, resources: tuple[Resource, ...]) -> dict[Resource, str]:
    """Return the best version that the server serves and kplan reads, of each resource that it serves.

    Where this user may not know that, all resources count as served. Raises LiveClusterError as :meth:`Reader.get`.
    """
    try:
        served = _served(reader, resources)
    except ForbiddenError:
        return {resource: resource.kind.versions[0] for resource in resources}
    best: dict[Resource, str] = {}
    for resource in resources:
        for version in resource.kind.versions:
            if resource.kind.resource in served.get((resource.kind.group, version), ()):
                best.setdefault(resource, version)
    return best


def _served(reader: Reader, resources: tuple[Resource, ...]) -> dict[tuple[str, str], set[str]]:
    """Return the plural names that are served in each group and version."""
    served: dict[tuple[str, str], set[str]] = {}

    def ask(root: str) -> tuple[str, _AggregatedList]:
        return root, _ask(reader, root, _AggregatedList, _ACCEPT)

    for root, document in side_by_side([partial(ask, root) for root in _ROOTS], len(_ROOTS)):
        for group in document.items:
            for version in group.versions:
                served[group.metadata.name, version.version] = {named.resource for named in version.resources}
        if document.kind == "APIGroupDiscoveryList":
            continue
        kinds = [resource.kind for resource in resources if (root == "/api") == (resource.kind.group == "")]
        for name, number in sorted({(kind.group, number) for kind in kinds for number in kind.versions}):
            path = f"{root}/{name}/{number}" if name else f"{root}/{number}"
            try:
                served[name, number] = {named.name for named in _ask(reader, path, _Version).resources}
            except ApiError as error:
                if error.status != 404:
                    raise
    return served
