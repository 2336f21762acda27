"""Snapshots of live clusters: all kinds that the API server serves, several lists at a time.

Which those are, two requests tell in the aggregated form of discovery (Kubernetes 1.27 and newer); older servers answer
with a list of groups, and each group that kplan reads takes a further request.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from kplan.errors import ApiError, ForbiddenError, LiveClusterError
from kplan.facts import MissingKind
from kplan.live import RESOURCES, SYSTEM_NAMESPACE, LiveOptions, Resource
from kplan.live.connections import UNREADABLE, side_by_side
from kplan.live.kubeconfig import load_access
from kplan.live.reader import (
    NO_SERVER_HINT,
    ListedObjects,
    Reader,
    Transport,
    decode_object,
    page_decoder,
    prepare,
    read_list,
)
from kplan.reading.files import ReadProgress
from kplan.snapshot import model
from kplan.snapshot.build import build_snapshot
from kplan.snapshot.model import FORBIDDEN, FORBIDDEN_IN, LIVE, READ_IN, Snapshot

S = TypeVar("S", bound=msgspec.Struct)

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_ROOTS = ("/api", "/apis")
_ACCEPT = f"{_AGGREGATED.format('v2')},{_AGGREGATED.format('v2beta1')},application/json"
N_LISTS = 6  #: number of lists that are read in parallel

Warn = Callable[[str], None]  #: called with one sentence


class _Collected(msgspec.Struct, frozen=True):
    """The objects of one kind, or why there are none."""

    resource: Resource
    objects: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    refused: str = ""
    refused_in: tuple[str, ...] = ()


def collect_snapshot(
    options: LiveOptions,
    progress: ReadProgress | None = None,
    warn: Warn | None = None,
    begin: Callable[[str], None] | None = None,
) -> Snapshot:
    """Return a snapshot of a live cluster, with all that scheduling depends on.

    Raises KubeconfigError when no kubeconfig can be used, UnreachableError or UnauthorizedError when the server does
    not answer or does not know the user, ApiError for an unexpected answer, and ForbiddenError where nodes or pods may
    not be listed; any other such kind is only missing from the snapshot.

    `progress` is called after every page, from several threads, one at a time; `warn` with warnings about the
    connection, and `begin` with name and address of the server before the first request.
    """
    access = load_access(options)
    if warn is not None and not access.verifies_tls:
        warn(
            f"the certificate of {access.server} is not checked: whoever answers there can read the credentials and "
            "make up the cluster"
        )
    if begin is not None:
        begin(f"{access.name} at {access.server}")
    transport = Transport(access, request_timeout=options.request_timeout, n_connections=N_LISTS)
    try:
        return collect(transport, options, source=f"{LIVE}{access.name}", progress=progress)
    except LiveClusterError as error:
        # The server's message may repeat credentials that it was sent; a traceback shows the causes, too.
        error.hide(access.secrets.hide)
        raise error.with_traceback(None) from None
    finally:
        transport.close()


def collect(
    transport: Transport, options: LiveOptions, *, source: str, progress: ReadProgress | None = None
) -> Snapshot:
    """Return a snapshot as :func:`collect_snapshot` does, through a given transport."""
    stop = threading.Event()
    reader = Reader(transport, sleep=stop.wait)
    taken_at = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    version, versions = _ask_what_is_served(reader)
    prepare(resource.kind.type for resource in versions)
    with ThreadPoolExecutor(1) as decoding:
        collector = _Collector(reader, options, progress, decoding)
        tasks = [partial(collector.collect, *served) for served in versions.items()]
        try:
            in_order = sorted(side_by_side(tasks, N_LISTS), key=lambda collected: RESOURCES.index(collected.resource))
        except BaseException:
            stop.set()  # requests that wait for a busy server end
            raise
    return build_snapshot(
        (obj for collected in in_order for obj in collected.objects),
        source=source,
        taken_at=taken_at,
        server_version=version or None,
        warnings=[
            model.Warning(code="InconsistentList", object=entry.resource.kind.resource, message=note)
            for entry in in_order
            for note in entry.notes
        ],
        missing=_missing(in_order, options),
        whole=dict(_autoscaler_deployments(reader, in_order, versions)),
    )


def _ask_what_is_served(reader: Reader) -> tuple[str, dict[Resource, str]]:
    """Return the server's version, and the version of each kind; raises ApiError where it lacks a required one."""
    version, versions = "", dict[Resource, str]()
    requests: list[Callable[[], str | dict[Resource, str]]] = [
        lambda: read_version(reader),
        lambda: discover(reader, RESOURCES),
    ]
    for answer in side_by_side(requests, len(requests)):
        if isinstance(answer, str):
            version = answer
        else:
            versions = answer
    for resource in RESOURCES:
        if resource.required and resource not in versions:
            raise ApiError(f"the server does not serve {resource.kind.resource}", status=404)
    return version, versions


def _autoscaler_deployments(
    reader: Reader, collected: Iterable[_Collected], versions: Mapping[Resource, str]
) -> Iterator[tuple[str, msgspec.Raw]]:
    """Yield the deployments of a cluster-autoscaler with all their fields: its flags are on its command line."""
    for entry in collected:
        for deployment in entry.objects if entry.resource.kind.attribute == "deployments" else ():
            images = [container.image for container in deployment.spec.template.spec.containers]
            if any("cluster-autoscaler" in image for image in images):
                metadata = deployment.metadata
                path = f"{entry.resource.path(versions[entry.resource], metadata.namespace)}/{metadata.name}"
                with contextlib.suppress(LiveClusterError):
                    yield f"Deployment/{metadata.key}", msgspec.Raw(reader.get(path).body)


class _Collector:
    """Reads the objects of kinds; every method may run in several threads at once."""

    def __init__(self, reader: Reader, options: LiveOptions, progress: ReadProgress | None, decoding: Executor) -> None:
        self._reader = reader
        self._options = options
        self._progress = progress
        self._telling = threading.Lock()
        self._decoding = decoding

    def collect(self, resource: Resource, version: str) -> _Collected:
        """Read all objects of one kind that this user may see."""
        kind, namespaces = resource.kind, self._options.namespaces
        try:
            if kind.names:
                return self._read_named(resource, version)
            if kind.is_namespaced and namespaces and not kind.namespace:
                return self._read_namespaces(resource, version)
            listed = self._read(resource, version, kind.namespace)
            return _Collected(resource, listed.objects, listed.notes)
        except ForbiddenError:
            if resource.required:
                raise
            if kind.attribute == "namespaces" and namespaces:
                return self._read_own_namespaces(resource, version)
            return _Collected(resource, refused=FORBIDDEN)
        except ApiError as error:
            # Discovery is forbidden, or the group was removed meanwhile.
            if error.status != 404 or resource.required:
                raise
            return _Collected(resource)

    def _read(self, resource: Resource, version: str, namespace: str) -> ListedObjects:
        path = resource.path(version, namespace)
        return read_list(
            self._reader,
            path,
            selector=resource.selector,
            page_size=self._options.page_size,
            decode=page_decoder(resource.kind.type, path, is_open=resource.kind.is_open),
            executor=self._decoding,
            progress=partial(self._tell, resource),
        )

    def _read_namespaces(self, resource: Resource, version: str) -> _Collected:
        """Read a kind namespace by namespace; list forbidden namespaces, unless the kind is required."""
        objects: list[Any] = []
        notes: list[str] = []
        refused: list[str] = []
        for namespace in self._options.namespaces:
            try:
                listed = self._read(resource, version, namespace)
            except ForbiddenError:
                if resource.required:
                    raise
                refused.append(namespace)
            else:
                objects += listed.objects
                notes += listed.notes
        reason = FORBIDDEN_IN.format(", ".join(refused)) if refused else ""
        return _Collected(resource, tuple(objects), tuple(dict.fromkeys(notes)), reason, tuple(refused))

    def _read_one(self, resource: Resource, path: str) -> Any:
        return decode_object(self._reader.get(path).body, resource.kind.type, path)

    def _tell(self, resource: Resource, n_read: int, total: int | None) -> None:
        if self._progress is not None:
            with self._telling:
                self._progress(resource.kind.resource, n_read, total)

    def _read_named(self, resource: Resource, version: str) -> _Collected:
        """Read the objects of a kind of which only some names matter, one by one; most clusters have none of them."""
        objects: list[Any] = []
        for name in resource.kind.names:
            try:
                objects.append(self._read_one(resource, f"{resource.path(version, SYSTEM_NAMESPACE)}/{name}"))
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
        self._tell(resource, len(objects), len(objects))
        return _Collected(resource, tuple(objects))

    def _read_own_namespaces(self, resource: Resource, version: str) -> _Collected:
        paths = [f"{resource.path(version)}/{namespace}" for namespace in self._options.namespaces]
        try:
            return _Collected(resource, tuple([self._read_one(resource, path) for path in paths]))
        except ForbiddenError:
            return _Collected(resource, refused=FORBIDDEN)


def _missing(collected: list[_Collected], options: LiveOptions) -> list[MissingKind]:
    missing = [
        MissingKind(entry.resource.kind.resource, entry.refused, entry.resource.blinds, entry.refused_in or UNSET)
        for entry in collected
        if entry.refused
    ]
    if options.namespaces:
        pods = next(entry.resource for entry in collected if entry.resource.kind.attribute == "pods")
        reason = READ_IN.format(", ".join(options.namespaces))
        missing.insert(0, MissingKind(pods.kind.resource, reason, pods.blinds, tuple(options.namespaces)))
    return missing


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
