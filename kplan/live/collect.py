"""Snapshots of live clusters: which resources the API server serves, and whole lists of them, page by page.

Discovery takes two requests in the aggregated form (Kubernetes 1.27 and newer); older servers answer with a list of
groups, and each group that kplan reads takes a further request. A page is decoded while the next one comes.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET

from kplan.api.decode import DecodeError, convert, decode, decoder
from kplan.errors import ApiError, ForbiddenError, LiveClusterError
from kplan.facts import MissingKind
from kplan.live import RESOURCES, SYSTEM_NAMESPACE, LiveOptions, Resource
from kplan.live.connections import UNREADABLE, side_by_side
from kplan.live.kubeconfig import load_access
from kplan.live.reader import NO_SERVER_HINT, ExpiredListError, ListMeta, Reader, Transport
from kplan.reading.files import MAX_OBJECT, ReadProgress
from kplan.reading.items import is_too_large, too_large
from kplan.snapshot import model
from kplan.snapshot.build import build_snapshot
from kplan.snapshot.model import FORBIDDEN, FORBIDDEN_IN, LIVE, READ_IN, Snapshot

MAX_RESTARTS = 3  #: how often a list is restarted before its expiry is an error
MAX_PAGES = 20_000  #: more pages than any cluster has of a kind
_LONGEST_EMPTY = 64  #: bytes; a list without items is no longer, and a long one is not copied to look at it
MAX_EMPTY_PAGES = 1_000  #: pages of which a field selector may leave nothing; kube-apiserver fills them up instead

_LARGE_HINT = "an API server stores 1.5 MiB at most: something between here and the API server answers in its place"
_ENDLESS_HINT = "something between here and the API server answers in its place; ask it with kubectl get --raw"

T = TypeVar("T")

PageDecoder = Callable[[bytes], tuple[Any, ...]]  #: decodes the body of one page into objects

#: Called after each page with the objects so far, and their total where the server sends it.
PageProgress = Callable[[int, int | None], None]


class _Head(msgspec.Struct, frozen=True):
    """A page without decoded objects: enough to request the next one."""

    metadata: ListMeta = ListMeta()
    items: msgspec.Raw = msgspec.Raw(b"[]")

    @property
    def is_empty(self) -> bool:
        return bytes(memoryview(self.items)[:_LONGEST_EMPTY]).strip(b"[] \t\r\n") in (b"", b"null")


class ListedObjects(msgspec.Struct, frozen=True):
    """All objects of a list, in the server's order; `notes` has warnings where they are not of one instant."""

    objects: tuple[Any, ...]
    notes: tuple[str, ...] = ()


def read_list(
    reader: Reader,
    path: str,
    *,
    selector: str,
    page_size: int,
    decode: PageDecoder,
    decoder: Executor,
    progress: PageProgress,
) -> ListedObjects:
    """Return all objects of the list at `path`, read with `limit` and `continue`.

    When the list expires on the server (410), the rest is read in its present state if the server offers a token for
    that, else the list is restarted; both add a note. Raises LiveClusterError as :meth:`Reader.get`, and when a page or
    an object does not have the shape it must have, or the list does not end.
    """
    query = {"limit": str(page_size)}
    if selector:
        query["fieldSelector"] = selector
    pages: list[Future[tuple[Any, ...]]] = []
    notes: list[str] = []
    n_read = 0
    for page in _pages(reader, path, query, notes):
        if page is None:
            pages, n_read = [], 0
            continue
        body, head = page
        pages.append(decoder.submit(decode, body))
        if head.continue_token and len(pages) > 1:
            # Decoded while this page was on its way; waiting for it keeps at most two bodies in memory.
            n_read += len(pages[-2].result())
            progress(n_read, None if head.remaining is None else n_read + page_size + head.remaining)
    objects = tuple(item for decoded in pages for item in decoded.result())
    progress(len(objects), len(objects))
    if notes:  # what was read before and after the list expired may be the same
        objects = tuple({(item.metadata.namespace, item.metadata.name): item for item in objects}.values())
    return ListedObjects(objects, tuple(dict.fromkeys(notes)))


def _pages(
    reader: Reader, path: str, query: Mapping[str, str], notes: list[str]
) -> Iterator[tuple[bytes, ListMeta] | None]:
    """Yield the pages of a list, each with where it goes on; None where the list is begun anew, and a note then."""
    token, restarts, n_empty = "", 0, 0
    offered: str | None = None  # the token of the last 410
    tokens: set[str] = set()  # since the list was last begun anew
    for n_pages in itertools.count(1):
        page: tuple[bytes, ListMeta] | None = None
        try:
            body = reader.get(path, {**query, "continue": token} if token else query).body
        except ExpiredListError as error:
            tokens.clear()
            if error.continue_token and token != offered:  # what it offered does not expire at once
                token = offered = error.continue_token
                notes.append("it changed while it was being read: the rest is of a later moment")
            elif restarts == MAX_RESTARTS:
                raise
            else:
                token, restarts = "", restarts + 1
                notes.append("it expired while it was being read and was begun anew")
                yield None
        else:
            head = _read_head(body, path)
            page = body, head.metadata
            token, n_empty = head.metadata.continue_token, n_empty + head.is_empty
        what = ": the server repeats a continue token" if token in tokens else ""
        if n_pages > MAX_PAGES or n_empty > MAX_EMPTY_PAGES:
            what = f" after {MAX_PAGES:,} pages" if n_pages > MAX_PAGES else f" after {MAX_EMPTY_PAGES:,} empty pages"
        if what:
            raise ApiError(f"{path}: the list does not end{what}", status=200, hint=_ENDLESS_HINT)
        if page is not None:
            yield page
            if not token:
                return
        tokens |= {token} - {""}


def _read_head(body: bytes, path: str) -> _Head:
    try:
        return msgspec.json.decode(body, type=_Head)
    except UNREADABLE as error:
        what = "not a list" if isinstance(error, msgspec.ValidationError) else "not JSON"
        raise ApiError(f"{path}: the answer is {what}", status=200, hint=NO_SERVER_HINT) from None


class _Page(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...] = ()


def page_decoder(kind: Any, path: str, *, is_open: bool = False) -> PageDecoder:
    """Return the decoder of a page of such objects; others raise ApiError, or are left out if `is_open`."""

    def decode_page(body: bytes) -> tuple[Any, ...]:
        # An API server stores no larger objects.
        for index, item in enumerate(_items(body, msgspec.Raw, path) if len(body) > MAX_OBJECT else ()):
            if is_too_large(item):
                message = f"{path}: items[{index}] is {too_large().message}"
                raise ApiError(message, status=200, hint=_LARGE_HINT)
        try:
            return _items(body, kind, path)
        except ApiError:
            if not is_open:
                raise
        return tuple(_matching(_items(body, msgspec.Raw, path), kind))

    return decode_page


def _items(body: bytes, kind: Any, path: str) -> tuple[Any, ...]:
    return tuple(_decode(body, _Page[kind], path).items)


def _matching(items: Iterable[msgspec.Raw], kind: Any) -> Iterator[Any]:
    for item in items:
        with contextlib.suppress(DecodeError):
            yield decode(item, kind)


def prepare(kinds: Iterable[Any]) -> None:
    """Create the decoders of structs before threads use them: while msgspec makes one, others may see it unfinished."""
    for kind in kinds:
        decoder(_Page[kind])  # type: ignore[valid-type]  # made here


def decode_object(body: bytes, kind: Any, path: str) -> Any:
    """Decode one object into the struct `kind`; raises ApiError when it does not match."""
    if is_too_large(msgspec.Raw(body)):
        raise ApiError(f"{path}: {too_large().message}", status=200, hint=_LARGE_HINT)
    return _decode(body, kind, path)


def _decode(body: bytes, shape: Any, path: str) -> Any:
    """Decode strictly, which is quick, else leniently, with nulls as in Go and all problems."""
    try:
        try:
            return decoder(shape).decode(body)
        except msgspec.ValidationError:
            return convert(msgspec.json.decode(body), shape)
    except (DecodeError, *UNREADABLE) as error:
        problem = "nested too deep" if isinstance(error, RecursionError) else "not JSON"
        message = f"{path}: the answer is not what Kubernetes documents: "
        message += str(error) if isinstance(error, DecodeError) else problem
        hint = "is this a Kubernetes API server, of a version that kplan knows?"
        raise ApiError(message, status=200, hint=hint) from None


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
    with ThreadPoolExecutor(1) as decoder:
        collector = _Collector(reader, options, progress, decoder)
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

    def __init__(self, reader: Reader, options: LiveOptions, progress: ReadProgress | None, decoder: Executor) -> None:
        self._reader = reader
        self._options = options
        self._progress = progress
        self._telling = threading.Lock()
        self._decoder = decoder

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
            decoder=self._decoder,
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
