"""Discovery of the resources that the API server serves, so that kplan requests no others.

Two requests with the aggregated form (Kubernetes 1.27 and newer); older servers answer with a list of groups, and each
group that kplan reads takes a further request.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

import msgspec

from kplan.errors import ApiError, ForbiddenError
from kplan.live.lists import NO_SERVER_HINT
from kplan.live.reader import Reader
from kplan.live.resources import Resource
from kplan.live.waiting import side_by_side

S = TypeVar("S", bound=msgspec.Struct)

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_ROOTS = ("/api", "/apis")
_ACCEPT = f"{_AGGREGATED.format('v2')},{_AGGREGATED.format('v2beta1')},application/json"


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Discovered(msgspec.Struct, frozen=True):
    resource: str = ""


class _Version(msgspec.Struct, frozen=True):
    version: str = ""
    resources: tuple[_Discovered, ...] = ()


class _Group(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()
    versions: tuple[_Version, ...] = ()


class _AggregatedList(msgspec.Struct, frozen=True):
    kind: str = ""
    items: tuple[_Group, ...] = ()


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_Named, ...] = ()


class _Info(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


class Discovery:
    """The version of each resource to request.

    Parameters
    ----------
    served : dict or None
        Group and version to the plural names served there; None where this user may not know.
    """

    def __init__(self, served: dict[tuple[str, str], frozenset[str]] | None) -> None:
        self._served = served

    def version_of(self, resource: Resource) -> str | None:
        """Return the best version that the server serves and kplan reads; None where there is none."""
        if self._served is None:
            return resource.kind.versions[0]
        for version in resource.kind.versions:
            if resource.kind.resource in self._served.get((resource.kind.group, version), ()):
                return version
        return None


def read_version(reader: Reader) -> str:
    """Return the server's version; empty where this user may not read it."""
    try:
        return _decode(reader.get("/version").body, _Info, "/version").git_version
    except ForbiddenError:
        return ""


def _decode(body: bytes, shape: type[S], path: str) -> S:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise ApiError(f"{path}: not an answer of an API server", status=200, hint=NO_SERVER_HINT) from None


def discover(reader: Reader, resources: tuple[Resource, ...]) -> Discovery:
    """Return which of `resources` the server serves.

    Raises
    ------
    LiveClusterError
        As :meth:`Reader.get`; a forbidden request is not an error.
    """
    served: dict[tuple[str, str], frozenset[str]] = {}
    groups = {resource.kind.group for resource in resources}
    try:
        for root, document in side_by_side([partial(_ask_root, reader, root) for root in _ROOTS], len(_ROOTS)):
            if document.kind == "APIGroupDiscoveryList":
                for group in document.items:
                    for version in group.versions:
                        names = frozenset(resource.resource for resource in version.resources)
                        served[group.metadata.name, version.version] = names
            else:
                wanted = {""} if root == "/api" else groups - {""}
                for name in sorted(wanted):
                    served.update(_ask_group(reader, name, resources))
    except ForbiddenError:
        return Discovery(None)
    return Discovery(served)


def _ask_root(reader: Reader, root: str) -> tuple[str, _AggregatedList]:
    return root, _decode(reader.get(root, accept=_ACCEPT).body, _AggregatedList, root)


def _ask_group(reader: Reader, group: str, resources: tuple[Resource, ...]) -> dict[tuple[str, str], frozenset[str]]:
    """Return the resources of each version of a group that kplan can read."""
    served: dict[tuple[str, str], frozenset[str]] = {}
    ours = [resource for resource in resources if resource.kind.group == group]
    versions = dict.fromkeys(version for resource in ours for version in resource.kind.versions)
    for version in versions:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            listed = _decode(reader.get(path).body, _ResourceList, path)
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            served[group, version] = frozenset(resource.name for resource in listed.resources)
    return served
