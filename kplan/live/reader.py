"""Requests with retries, errors with hints, and whole lists: a page is decoded while the next one comes.

Everything that reads a live cluster goes through :meth:`Transport.get`, which can send only GET: there is no argument
for the verb and none for a body. The `kubernetes` client opens the connections (addresses, TLS, proxies, credentials);
its model classes are not used.
"""

from __future__ import annotations

import contextlib
import email.utils
import functools
import ipaddress
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from kplan import errors
from kplan.api.decode import DecodeError, convert, decode, decoder
from kplan.api.quantity import count
from kplan.live import connections
from kplan.live.kubeconfig import Access
from kplan.reading.files import MAX_OBJECT
from kplan.reading.items import is_too_large, too_large

_MOST_BYTES = 1 << 30  #: an object has at most one and a half megabytes, and a page some hundred objects
_MOST_IN_ALL = 4 << 30  #: of all answers together: as many as a snapshot's file may have
_USER_AGENT = "kplan (read-only)"

#: The hint for an answer that no API server sends.
NO_SERVER_HINT = "is the server address in the kubeconfig that of a Kubernetes API server?"
MAX_ATTEMPTS = 6  #: maximum number of attempts of a request
MAX_WAIT_SECONDS = 60.0  #: maximum time between the attempts of a request in total, in seconds
#: Seconds before the second attempt where the server sends no time; doubled for each further one.
FIRST_WAIT_SECONDS = 0.5
_TEXT_LIMIT = 256  #: maximum length of texts of an answer that is not a Status
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


class Response(msgspec.Struct, frozen=True):
    """An answer of the API server, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """Sends GET requests to an API server as one user, for one snapshot.

    The timeout in seconds is that of a whole request, None for none.
    """

    def __init__(self, access: Access, *, request_timeout: float | None, n_connections: int = 8) -> None:
        self._access = access
        self._timeout = request_timeout
        self._headers_lock = threading.Lock()
        self._allowance = connections.Allowance(_MOST_IN_ALL)
        self._pool = access.open_pool(n_connections)
        self._headers = self._build_headers()
        if not access.verifies_tls:
            urllib3.disable_warnings(InsecureRequestWarning)

    @property
    def server(self) -> str:
        return self._access.server

    def close(self) -> None:
        """Close the connections; those in use are closed by who uses them."""
        self._pool.pools.dispose_func = urllib3.HTTPConnectionPool.close
        self._pool.clear()

    def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json") -> Response:
        """Return the answer to GET `path`, whatever its status.

        After a 401 the credentials are read again once, as tokens of exec plugins and service accounts expire. Raises
        UnreachableError when there is no complete answer, and KubeconfigError for credentials that cannot be sent or
        renewed.
        """
        sent = self._headers
        response = self._get_once(path, query, accept, sent)
        if response.status == 401 and (renewed := self._renew(sent)) != sent:
            response = self._get_once(path, query, accept, renewed)
        return response

    def _get_once(
        self, path: str, query: Mapping[str, str] | None, accept: str, credentials: urllib3.HTTPHeaderDict
    ) -> Response:
        url = self.server + path + (f"?{urlencode(query)}" if query else "")
        headers = credentials.copy()
        headers["Accept"] = accept
        # Messages of the libraries' errors may contain headers with credentials: they are not even the cause.
        try:
            return connections.in_time(self._timeout, functools.partial(self._exchange, url, headers))
        except connections.BodyTooLargeError:
            limits = f"more than {_MOST_BYTES >> 30} GiB, or all of them have more than {_MOST_IN_ALL >> 30} GiB"
            message = f"an answer of {self.server} has {limits}"
            raise errors.UnreachableError(message, hint=NO_SERVER_HINT) from None
        except (connections.OutOfTimeError, HTTPError, OSError) as error:
            raise connections.explain(error, self.server, self._timeout) from None
        except ValueError:
            message = f"the request to {self.server} cannot be sent: a header cannot hold what it should"
            hint = "look for line breaks and other control characters in the token and in --as and --as-group"
            raise errors.KubeconfigError(message, hint=hint) from None

    def _exchange(self, url: str, headers: urllib3.HTTPHeaderDict) -> Response:
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        seconds = min(connections.CONNECT_SECONDS, self._timeout or connections.CONNECT_SECONDS)
        timeout = urllib3.Timeout(connect=seconds, read=self._timeout)
        answer = self._pool.request(
            "GET", url, headers=headers, timeout=timeout, retries=False, redirect=False, preload_content=False
        )
        allowances = (connections.Allowance(_MOST_BYTES), self._allowance)
        body = connections.read_body(cast("urllib3.HTTPResponse", answer), deadline, *allowances)
        return Response(status=answer.status, headers=answer.headers, body=body)

    def _build_headers(self) -> urllib3.HTTPHeaderDict:
        headers = urllib3.HTTPHeaderDict({"User-Agent": _USER_AGENT})
        for name, value in self._access.headers():
            headers.add(name, value)
        # On the same machine, compression costs more than it saves.
        headers["Accept-Encoding"] = "identity" if _is_loopback(self.server) else "gzip"
        return headers

    def _renew(self, refused: urllib3.HTTPHeaderDict) -> urllib3.HTTPHeaderDict:
        """Return newer credentials than the refused ones, which another thread may have read already."""
        with self._headers_lock:
            if self._headers is refused:
                self._headers = self._build_headers()
            return self._headers


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class ListMeta(msgspec.Struct, frozen=True, rename={"continue_token": "continue", "remaining": "remainingItemCount"}):
    """Where a list goes on, and how many objects are left."""

    continue_token: str = ""
    remaining: int | None = None


class _Status(msgspec.Struct, frozen=True):
    """An API server's answer to a failed request (meta/v1 Status)."""

    kind: str = ""
    message: str = ""
    metadata: ListMeta = ListMeta()


class ExpiredListError(errors.ApiError):
    """410: the state of a list has expired; `continue_token`, if any, continues it in its present state."""

    def __init__(self, message: str, *, continue_token: str) -> None:
        super().__init__(message, status=410, hint="run the command again")
        self.continue_token = continue_token


class Reader:
    """Sends requests through a transport, again after 429, 5xx and incomplete answers.

    `sleep` waits seconds, and returns true where no further attempt is to be made.
    """

    def __init__(self, transport: Transport, *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._transport = transport
        self._sleep = sleep

    def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json") -> Response:
        """Return a successful answer to GET `path`.

        Raises UnreachableError when there is no complete answer, and UnauthorizedError, ForbiddenError,
        ExpiredListError or ApiError for 401, 403, 410 or another status that is not a success.
        """
        waited, attempt = 0.0, 0
        while True:
            attempt += 1
            wait = FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1)
            try:
                response = self._transport.get(path, query, accept=accept)
            except connections.BrokenAnswerError as error:
                if attempt == MAX_ATTEMPTS:
                    raise
                failure: errors.LiveClusterError = error
            else:
                if 200 <= response.status < 300:
                    return response
                is_passing = response.status == 429 or 500 <= response.status < 600
                wait = _retry_after(response, wait) if is_passing else wait
                failure = _error(response, path, attempt if is_passing else 0)
                if not is_passing or attempt == MAX_ATTEMPTS or waited + wait > MAX_WAIT_SECONDS:
                    raise failure
            if self._sleep(wait):
                raise failure
            waited += wait


def _retry_after(response: Response, otherwise: float) -> float:
    """Return the seconds of Retry-After, in either form; `otherwise` without it."""
    value = (response.headers.get("Retry-After") or "").strip()
    try:
        if value.isdecimal():
            return float(value)
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return otherwise


def _error(response: Response, path: str, attempts: int) -> errors.ApiError:
    """Return the error of an answer; `attempts` is 0 for a status that does not pass by itself."""
    status, code = _read_status(response), response.status
    message = status.message or f"answered {code}"
    if code == 401:
        message = f"the API server does not know who asks: {message} (401)"
        hint = "the token or certificate may have expired: log in again; kubectl auth whoami shows who you are"
        return errors.UnauthorizedError(message, status=code, hint=hint)
    if code == 403:
        hint = (
            "kplan snapshot rbac prints a role with just the rights that kplan needs; "
            "--namespaces reads only the namespaces you may see"
        )
        return errors.ForbiddenError(message, status=code, hint=hint)
    if code == 410:
        return ExpiredListError(message, continue_token=status.metadata.continue_token)
    if attempts:
        hint = "the API server is overloaded or unwell; try again later"
        return errors.ApiError(f"{path}: {message} ({code}, asked {count(attempts, 'time')})", status=code, hint=hint)
    return errors.ApiError(f"{path}: {message} ({code})", status=code, hint=NO_SERVER_HINT)


def _read_status(response: Response) -> _Status:
    """Return the Status in the body, or one with the beginning of another body as its message."""
    with contextlib.suppress(*connections.UNREADABLE):
        status = msgspec.json.decode(response.body, type=_Status)
        if status.kind == "Status":
            return status
    text = " ".join(response.body[: 4 * _TEXT_LIMIT].decode("utf-8", "replace").split())
    return _Status(message=text[:_TEXT_LIMIT])


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
            raise errors.ApiError(f"{path}: the list does not end{what}", status=200, hint=_ENDLESS_HINT)
        if page is not None:
            yield page
            if not token:
                return
        tokens |= {token} - {""}


def _read_head(body: bytes, path: str) -> _Head:
    try:
        return msgspec.json.decode(body, type=_Head)
    except connections.UNREADABLE as error:
        what = "not a list" if isinstance(error, msgspec.ValidationError) else "not JSON"
        raise errors.ApiError(f"{path}: the answer is {what}", status=200, hint=NO_SERVER_HINT) from None


class _Page(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...] = ()


def page_decoder(kind: Any, path: str, *, is_open: bool = False) -> PageDecoder:
    """Return the decoder of a page of such objects; others raise ApiError, or are left out if `is_open`."""

    def decode_page(body: bytes) -> tuple[Any, ...]:
        # An API server stores no larger objects.
        for index, item in enumerate(_items(body, msgspec.Raw, path) if len(body) > MAX_OBJECT else ()):
            if is_too_large(item):
                message = f"{path}: items[{index}] is {too_large().message}"
                raise errors.ApiError(message, status=200, hint=_LARGE_HINT)
        try:
            return _items(body, kind, path)
        except errors.ApiError:
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
        raise errors.ApiError(f"{path}: {too_large().message}", status=200, hint=_LARGE_HINT)
    return _decode(body, kind, path)


def _decode(body: bytes, shape: Any, path: str) -> Any:
    """Decode strictly, which is quick, else leniently, with nulls as in Go and all problems."""
    try:
        try:
            return decoder(shape).decode(body)
        except msgspec.ValidationError:
            return convert(msgspec.json.decode(body), shape)
    except (DecodeError, *connections.UNREADABLE) as error:
        problem = "nested too deep" if isinstance(error, RecursionError) else "not JSON"
        message = f"{path}: the answer is not what Kubernetes documents: "
        message += str(error) if isinstance(error, DecodeError) else problem
        hint = "is this a Kubernetes API server, of a version that kplan knows?"
        raise errors.ApiError(message, status=200, hint=hint) from None
