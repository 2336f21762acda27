"""Whole lists of objects, read page by page: a page is decoded while the next one comes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from typing import Any, Generic, TypeVar

import msgspec

from kplan.api.decode import DecodeError, convert, decode, decoder
from kplan.errors import ApiError
from kplan.live.connections import UNREADABLE
from kplan.live.reader import NO_SERVER_HINT, ExpiredListError, ListMeta, Reader
from kplan.reading.files import MAX_OBJECT
from kplan.reading.items import is_too_large, too_large

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
    executor: Executor,
    progress: PageProgress,
) -> ListedObjects:
    """Return all objects of the list at `path`, read with `limit` and `continue`.

    When the list expires on the server (410), the rest is read in its present state if the server offers a token for
    that, else the list is restarted; both add a note. Raises LiveClusterError as :meth:`Reader.get`, and when a page or
    an object does not have the shape it must have, or the list does not end. `executor` decodes the pages.
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
        pages.append(executor.submit(decode, body))
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
