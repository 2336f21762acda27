"""Connections: waiting with limits of time and size, errors in the user's terms, and certificates and keys.

OpenSSL reads client certificates and keys from files only. What a kubeconfig or an exec plugin holds is handed to it as
a file without a name, in memory, and never stays on a disk; where the system has no such files, as a private one that
is gone again before the first request.
"""

from __future__ import annotations

import errno
import http.client
import math
import os
import queue
import ssl
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

import msgspec
import urllib3
from urllib3 import exceptions

from kplan.errors import UnreachableError

T = TypeVar("T")

_CHUNK_BYTES = 1 << 16  #: older versions of urllib3 unpack it whole, and gzip unfolds to a thousand times its size

#: Errors of msgspec for what is no JSON, or of another shape.
UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

_LOOKS_UP = 0.2  #: seconds after which a thread that waits looks whether a signal has come
CONNECT_SECONDS = 10.0  #: time limit of a connection; a server that does not accept it in time counts as absent
Pem = bytes | str  #: certificates or a key: the content itself, or the path of a file with it


class OutOfTimeError(Exception):
    """A task that has not ended within its time limit."""


class BodyTooLargeError(Exception):
    """A body that is larger than an allowance."""


class Allowance:
    """How many bytes bodies may have together, unpacked; several threads may read them."""

    def __init__(self, n_bytes: int) -> None:
        self._left = n_bytes
        self._lock = threading.Lock()

    def take(self, n_bytes: int) -> None:
        with self._lock:
            self._left -= n_bytes
        if self._left < 0:
            raise BodyTooLargeError


def in_time(seconds: float | None, task: Callable[[], T]) -> T:
    """Return the result of `task`, or raise its error, or OutOfTimeError after so many seconds (None: never).

    Time-outs of sockets count from one byte to the next, and looking up a name has none at all. So the task runs in a
    separate thread, which is abandoned when the time is up.
    """
    return next(side_by_side([task], 1, seconds))


def side_by_side(tasks: Sequence[Callable[[], T]], n_threads: int, seconds: float | None = None) -> Iterator[T]:
    """Run tasks in threads and yield their results as they come; raise the first error, which ends it.

    An interrupt, or the end of the program, does not wait for a server that does not answer, unlike with the threads of
    an executor. Tasks that have not begun by then are dropped. Raises OutOfTimeError after so many seconds (None:
    never).
    """
    waiting = deque(tasks)
    done: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
    deadline = math.inf if seconds is None else time.monotonic() + seconds

    def work() -> None:
        with suppress(IndexError):
            while True:
                task, ended = waiting.popleft(), Future[T]()
                try:
                    ended.set_result(task())
                except BaseException as error:  # noqa: BLE001 - `result` raises it again
                    waiting.clear()
                    ended.set_exception(error)
                done.put(ended)

    for _ in range(min(n_threads, len(tasks))):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in tasks:
            yield _next(done, deadline).result()
    finally:
        waiting.clear()


def _next(done: queue.SimpleQueue[Future[T]], deadline: float) -> Future[T]:
    """Return what has ended next, or raise OutOfTimeError.

    It looks up now and then: a signal that comes just before the main thread waits, or to another thread, wakes nobody.
    """
    while (left := deadline - time.monotonic()) > 0:
        with suppress(queue.Empty):
            return done.get(timeout=min(left, _LOOKS_UP))
    raise OutOfTimeError


def read_body(answer: urllib3.HTTPResponse, deadline: float | None, *allowances: Allowance) -> bytes:
    """Return a whole body, unpacked, and give the connection back; it is closed where that fails.

    Raises BodyTooLargeError for more than the allowances have left, and OutOfTimeError after a deadline on the
    monotonic clock, from which on nothing waits for the body any more.
    """
    try:
        body = b"".join(_chunks(answer, deadline, allowances))
    except BaseException:
        answer.close()
        raise
    answer.release_conn()
    return body


def _chunks(answer: urllib3.HTTPResponse, deadline: float | None, allowances: Iterable[Allowance]) -> Iterator[bytes]:
    while chunk := answer.read1(_CHUNK_BYTES, decode_content=True):
        yield chunk
        for allowance in allowances:
            allowance.take(len(chunk))
        if deadline is not None and time.monotonic() > deadline:
            raise OutOfTimeError


class BrokenAnswerError(UnreachableError):
    """A connection that ended before the answer; another attempt may succeed."""


#: Errors of a request, with message and hint; the first match applies.
_FAULTS: tuple[tuple[tuple[type[Exception], ...], str, str], ...] = (
    (
        (exceptions.ProxyError,),
        "the proxy on the way to {server} does not let the request through: {cause}",
        "look at proxy-url in the kubeconfig, and at HTTPS_PROXY and NO_PROXY",
    ),
    (
        (exceptions.NameResolutionError,),
        "the host name of {server} is unknown",
        "look at the server address in the kubeconfig; does reaching it need a VPN?",
    ),
    (
        (exceptions.NewConnectionError,),
        "cannot connect to {server}: {cause}",
        "is the API server running, and is the address in the kubeconfig right?",
    ),
    (
        (exceptions.ConnectTimeoutError,),
        "no connection to {server} in time",
        "is the cluster up, and does reaching it need a VPN or a proxy?",
    ),
    ((exceptions.LocationParseError,), "not an address: {server}", "look at the server address in the kubeconfig"),
    (
        (exceptions.ReadTimeoutError, OutOfTimeError),
        "no complete answer from {server}{within}",
        "give it more time with --request-timeout, for example --request-timeout 2m",
    ),
    (
        (exceptions.ProtocolError,),
        "the connection to {server} broke off in the middle of an answer: {cause}",
        "try again; a proxy or load balancer on the way may be cutting long answers short",
    ),
    ((Exception,), "cannot ask {server}: {cause}", ""),
)

#: Part of OpenSSL's message, with message and hint, for failed handshakes.
_HANDSHAKES: tuple[tuple[str, str, str], ...] = (
    ("wrong_version_number", "{server} does not speak TLS", "should the server address begin with http://?"),
    (
        "alert",
        "{server} refused the TLS connection: {cause}",
        "the client certificate in the kubeconfig may have expired or be of another cluster",
    ),
    (
        "",
        "no TLS connection to {server}: {cause}",
        "look at the certificates in the kubeconfig; they must be PEM and belong together",
    ),
)

#: Part of OpenSSL's reason, and the hint, for certificates that are not trusted.
_UNTRUSTED: tuple[tuple[str, str], ...] = (
    ("ostname", "the server address must be a name in the certificate; tls-server-name in the kubeconfig sets another"),
    ("IP address", "the server address must be in the certificate; tls-server-name in the kubeconfig sets a name"),
    ("expired", "the certificate of the API server must be renewed; is the clock of this machine right?"),
    ("", "the kubeconfig's certificate authority is of another cluster or out of date; get a new kubeconfig"),
)

#: Errors of libraries without an error of the operating system as cause.
_REASONS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((exceptions.NameResolutionError,), "the host name is unknown"),
    ((exceptions.ConnectTimeoutError,), "no connection in time"),
    ((exceptions.ReadTimeoutError,), "no answer in time"),
    ((exceptions.IncompleteRead, http.client.IncompleteRead), "the answer is shorter than announced"),
    ((http.client.RemoteDisconnected,), "it hung up without an answer"),
    ((exceptions.DecodeError,), "the answer cannot be unpacked"),
    ((exceptions.LocationParseError,), "that is no address"),
)


def explain(error: Exception, server: str, timeout: float | None) -> UnreachableError:
    """Return the error to raise for a request that ended without a complete answer."""
    cause = error.args[0] if isinstance(error, exceptions.SSLError) and error.args else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = cause.verify_message or reason_of(cause)
        hint = next(hint for part, hint in _UNTRUSTED if part in reason)
        return UnreachableError(f"the certificate of {server} is not trusted: {reason}", hint=hint)
    if isinstance(error, exceptions.SSLError):
        words = str(cause).lower()
        message, hint = next((message, hint) for part, message, hint in _HANDSHAKES if part in words)
        reason = reason_of(cause) if isinstance(cause, ssl.SSLError) else "a certificate or key cannot be used"
    else:
        message, hint = next((message, hint) for kinds, message, hint in _FAULTS if isinstance(error, kinds))
        reason = reason_of(error)
    within = "" if timeout is None else f" within {timeout:g} s"
    kind = BrokenAnswerError if isinstance(error, exceptions.ProtocolError) else UnreachableError
    return kind(message.format(server=server, cause=reason, within=within), hint=hint)


def reason_of(error: BaseException) -> str:
    """Return the reason of an error in lower-case words of the operating system or of TLS, not of a library."""
    visited: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        current = waiting.pop(0)
        if not isinstance(current, BaseException) or current in visited:
            continue
        visited.append(current)
        if isinstance(current, ssl.SSLError):
            return (current.reason or "the handshake failed").replace("_", " ").lower()
        if isinstance(current, OSError) and current.strerror:
            return current.strerror[:1].lower() + current.strerror[1:]
        waiting += [current.__cause__, current.__context__, *current.args]
    for kinds, reason in _REASONS:
        if any(isinstance(error, kinds) for error in visited):
            return reason
    return "it does not speak HTTP as it should"


class TlsFiles(msgspec.Struct, frozen=True):
    """The certificates of a connection; None for none, which for the authority are those of the system."""

    authority: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None  #: None where it stands beside the certificate

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load all of them; raises OSError or ValueError for what OpenSSL cannot use."""
        if self.authority is None:
            context.load_default_certs()
        else:
            with _readable(self.authority) as path:
                context.load_verify_locations(cafile=path)
        if self.certificate is not None:
            with _readable(self.certificate) as path, _readable(self.key or self.certificate) as key_path:
                # Without a password of its own OpenSSL would ask for one on the terminal.
                context.load_cert_chain(path, key_path, lambda: "")


@contextmanager
def _readable(pem: Pem) -> Iterator[str]:
    """Yield the path of a file that exists only during the context, or that was there before."""
    if isinstance(pem, str):
        # OpenSSL would wait for a pipe without end.
        if Path(pem).exists() and not Path(pem).is_file():
            raise OSError(errno.EINVAL, "is not a regular file", pem)
        yield pem
        return
    file, path = _private_file()
    with file:
        file.write(pem)
        file.flush()
        yield path


def _private_file() -> tuple[IO[bytes], str]:
    """Return a file that is gone once it is closed, in memory where the system has such files, and its path."""
    with suppress(AttributeError, OSError):
        nameless = os.fdopen(os.memfd_create("kplan"), "wb")
        if Path(path := f"/proc/self/fd/{nameless.fileno()}").exists():
            return nameless, path
        nameless.close()
    named = tempfile.NamedTemporaryFile(prefix="kplan-")  # noqa: SIM115 - the caller closes it
    return named, named.name
