"""Requests with retries, and errors with hints.

Everything that reads a live cluster goes through :meth:`Transport.get`, which can send only GET: there is no argument
for the verb and none for a body. The `kubernetes` client opens the connections (addresses, TLS, proxies, credentials);
its model classes are not used.
"""

from __future__ import annotations

import contextlib
import email.utils
import functools
import ipaddress
import threading
import time
from collections.abc import Callable, Mapping
from typing import cast
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from kplan import errors
from kplan.api.quantity import count
from kplan.live import connections
from kplan.live.kubeconfig import Access

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
        """The address of the API server."""
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
