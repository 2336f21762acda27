"""Reading of whole lists, page by page, while earlier pages are decoded into typed objects.

Discovery of the resources that the API server serves, so that kplan requests no others.

Two requests with the aggregated form (Kubernetes 1.27 and newer); older servers answer with a list of groups, and each
group that kplan reads takes a further request.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from kplan.api.decode import DecodeError, convert, decode
from kplan.errors import ApiError, ForbiddenError
from kplan.live.connections import side_by_side
from kplan.live.reader import ExpiredListError, ListMeta, Reader
from kplan.live.resources import Resource
from kplan.reading.files import MAX_OBJECT
from kplan.reading.items import is_too_large, too_large

#: How often a list is restarted before its expiry is an error.
MAX_RESTARTS = 3

#: More pages, or bytes in all pages, than any cluster has of a kind.
MAX_PAGES = 20_000
MAX_BYTES = 4 << 30

#: The hint for an answer that no API server sends.
NO_SERVER_HINT = "is the server address in the kubeconfig that of a Kubernetes API server?"

_LARGE_HINT = "an API server stores 1.5 MiB at most: something between here and the API server answers in its place"
_ENDLESS_HINT = "something between here and the API server answers in its place; ask it with kubectl get --raw"

T = TypeVar("T")

#: Decodes the body of one page into objects.
PageDecoder = Callable[[bytes], tuple[Any, ...]]

#: Called after each page with the objects so far, and their total where the server sends it.
PageProgress = Callable[[int, int | None], None]


class _Head(msgspec.Struct, frozen=True):
    """A page without decoded objects: enough to request the next one."""

    metadata: ListMeta = ListMeta()
    items: msgspec.Raw = msgspec.Raw(b"[]")


_HEAD_DECODER = msgspec.json.Decoder(_Head)


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
    that, else the list is restarted; both add a note.

    Raises
    ------
    LiveClusterError
        As :meth:`Reader.get`, and when a page or an object does not have the shape it must have, or the list does not
        end.
    """
    query = {"limit": str(page_size)}
    if selector:
        query["fieldSelector"] = selector
    pages: list[Future[tuple[Any, ...]]] = []
    notes: list[str] = []
    token, n_read, restarts = "", 0, 0
    length = _Length(path)
    while True:
        try:
            body = reader.get(path, query | {"continue": token} if token else query).body
        except ExpiredListError as error:
            if error.continue_token and error.continue_token != token:
                length.begin_anew()
                token = length.follow(error.continue_token)
                notes.append("it changed while it was being read: the rest is of a later moment")
                continue
            restarts += 1
            if restarts > MAX_RESTARTS:
                raise
            pages, token, n_read = [], "", 0
            length.begin_anew()
            notes.append("it expired while it was being read and was begun anew")
            continue
        head = _read_head(body, path)
        length.add(body)
        pages.append(decoder.submit(decode, body))
        token = length.follow(head.metadata.continue_token)
        if not token:
            break
        if len(pages) > 1:
            # Decoded while this page was on its way; waiting for it keeps at most two bodies in memory.
            n_read += len(pages[-2].result())
            remaining = head.metadata.remaining
            progress(n_read, None if remaining is None else n_read + page_size + remaining)
    objects = tuple(item for page in pages for item in page.result())
    progress(len(objects), len(objects))
    return ListedObjects(_without_repeats(objects) if notes else objects, tuple(dict.fromkeys(notes)))


class _Length:
    """Detects a list that does not end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._tokens: set[str] = set()
        self._n_pages = 0
        self._n_bytes = 0

    def add(self, body: bytes) -> None:
        """Count a page; raises ApiError when there are more than any cluster has."""
        self._n_pages += 1
        self._n_bytes += len(body)
        if self._n_pages > MAX_PAGES or self._n_bytes > MAX_BYTES:
            limit = f"{MAX_PAGES:,} pages" if self._n_pages > MAX_PAGES else f"{MAX_BYTES >> 30} GiB"
            raise ApiError(f"{self._path}: the list does not end after {limit}", status=200, hint=_ENDLESS_HINT)

    def begin_anew(self) -> None:
        """Clear the tokens, which may now repeat; this counts as a page, so that the list ends."""
        self.add(b"")
        self._tokens.clear()

    def follow(self, token: str) -> str:
        """Return the token of the next page; raises ApiError for a repeated one."""
        if token in self._tokens:
            raise ApiError(
                f"{self._path}: the list does not end: the server repeats a continue token",
                status=200,
                hint=_ENDLESS_HINT,
            )
        if token:
            self._tokens.add(token)
        return token


def _read_head(body: bytes, path: str) -> _Head:
    try:
        return _HEAD_DECODER.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        what = "not a list" if isinstance(error, msgspec.ValidationError) else "not JSON"
        raise ApiError(f"{path}: the answer is {what}", status=200, hint=NO_SERVER_HINT) from None


def _without_repeats(objects: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple({(item.metadata.namespace, item.metadata.name): item for item in objects}.values())


class _Page(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...] = ()


def page_decoder(kind: Any, path: str, *, is_open: bool = False) -> PageDecoder:
    """Return the decoder of a page of a list, for objects of the struct `kind`.

    The decoder raises ApiError when an object does not match its kind; if `is_open`, such objects are left out.
    """
    decoder = _page_decoder(kind)

    def decode_page(body: bytes) -> tuple[Any, ...]:
        _check_sizes(body, path)
        try:
            return tuple(_decode(body, decoder, _Page[kind], path).items)
        except ApiError:
            if not is_open:
                raise
        return tuple(_matching(_decode(body, _page_decoder(msgspec.Raw), _Page[msgspec.Raw], path).items, kind))

    return decode_page


def _check_sizes(body: bytes, path: str) -> None:
    """Raise ApiError for an object that is larger than any that an API server stores."""
    if len(body) <= MAX_OBJECT:
        return
    for index, item in enumerate(_decode(body, _page_decoder(msgspec.Raw), _Page[msgspec.Raw], path).items):
        if is_too_large(item):
            problem = too_large()
            raise ApiError(f"{path}: items[{index}] is {problem.message}", status=200, hint=_LARGE_HINT)


def _matching(items: Iterable[msgspec.Raw], kind: Any) -> Iterator[Any]:
    for item in items:
        with contextlib.suppress(DecodeError):
            yield decode(item, kind)


def prepare(kinds: Iterable[Any]) -> None:
    """Create the decoders of these structs before threads use them.

    msgspec analyses a struct at its first use, and other threads may see the unfinished result.
    """
    for kind in kinds:
        _page_decoder(kind)


@functools.cache
def _page_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Page[kind])


def decode_object(body: bytes, kind: Any, path: str) -> Any:
    """Decode one object into the struct `kind`; raises ApiError when it does not match."""
    if is_too_large(msgspec.Raw(body)):
        raise ApiError(f"{path}: {too_large().message}", status=200, hint=_LARGE_HINT)
    return _decode(body, msgspec.json.Decoder(kind), kind, path)


def _decode(body: bytes, decoder: msgspec.json.Decoder[Any], shape: Any, path: str) -> Any:
    """Decode strictly, which is quick, else leniently, with nulls as in Go and all problems."""
    hint = "is this a Kubernetes API server, of a version that kplan knows?"
    what = f"{path}: the answer is not what Kubernetes documents"
    try:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:
            return convert(msgspec.json.decode(body), shape)
    except DecodeError as error:
        raise ApiError(f"{what}: {error}", status=200, hint=hint) from None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        problem = "nested too deep" if isinstance(error, RecursionError) else "not JSON"
        raise ApiError(f"{what}: {problem}", status=200, hint=hint) from None


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
        return _decode_group(reader.get("/version").body, _Info, "/version").git_version
    except ForbiddenError:
        return ""


def _decode_group(body: bytes, shape: type[S], path: str) -> S:
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
    return root, _decode_group(reader.get(root, accept=_ACCEPT).body, _AggregatedList, root)


def _ask_group(reader: Reader, group: str, resources: tuple[Resource, ...]) -> dict[tuple[str, str], frozenset[str]]:
    served: dict[tuple[str, str], frozenset[str]] = {}
    ours = [resource for resource in resources if resource.kind.group == group]
    versions = dict.fromkeys(version for resource in ours for version in resource.kind.versions)
    for version in versions:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            listed = _decode_group(reader.get(path).body, _ResourceList, path)
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            served[group, version] = frozenset(resource.name for resource in listed.resources)
    return served
