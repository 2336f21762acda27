"""The only class that sends requests to the API server; it can send only GET.

There is no argument for the verb and none for a body; everything that reads a live cluster goes through
:meth:`Transport.get`.
The `kubernetes` client opens the connections (addresses, TLS, proxies, credentials); its model classes are not used.
"""

from __future__ import annotations

import functools
import ipaddress
import threading
import time
from collections.abc import Mapping
from typing import Protocol, cast
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from kplan.errors import KubeconfigError, UnreachableError
from kplan.live.faults import CONNECT_SECONDS, explain, reason_of, too_slow
from kplan.live.kubeconfig import Access
from kplan.live.waiting import BodyTooLargeError, OutOfTimeError, in_time, read_body

#: An object has at most one and a half megabytes, and a page some hundred objects.
_MOST_BYTES = 1 << 30
_USER_AGENT = "kplan (read-only)"


class Response(msgspec.Struct, frozen=True):
    """An answer of the API server, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Getter(Protocol):
    """A source of answers to GET requests: the transport, or a wrapper with retries."""

    def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json") -> Response:
        """Return the answer to GET `path`."""


class Transport:
    """Sends GET requests to one API server as one user.

    Parameters
    ----------
    access : address, TLS settings and credentials
    request_timeout : seconds for one whole request, the body included; None for no limit
    connections : number of connections that stay open
    """

    def __init__(self, access: Access, *, request_timeout: float | None, connections: int = 8) -> None:
        self._access = access
        self._timeout = request_timeout
        self._headers_lock = threading.Lock()
        self._pool = access.open_pool(connections)
        self._headers = self._build_headers()
        if not access.verifies_tls:
            urllib3.disable_warnings(InsecureRequestWarning)

    @property
    def server(self) -> str:
        """The address of the API server."""
        return self._access.server

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json") -> Response:
        """Return the answer to GET `path`, whatever its status.

        After a 401 the credentials are read again once, as tokens of exec plugins and service accounts expire.

        Raises
        ------
        UnreachableError
            When there is no complete answer: no connection, no trusted certificate, or not in time.
        KubeconfigError
            When the credentials cannot be sent or renewed.
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
            return in_time(self._timeout, functools.partial(self._exchange, url, headers))
        except OutOfTimeError:
            raise too_slow(self.server, self._timeout) from None
        except HTTPError as error:
            raise explain(error, self.server, self._timeout) from None
        except OSError as error:
            raise UnreachableError(f"cannot ask {self.server}: {reason_of(error)}") from None
        except ValueError:
            raise KubeconfigError(
                f"the request to {self.server} cannot be sent: a header cannot hold what it should",
                hint="look for line breaks and other control characters in the token and in --as and --as-group",
            ) from None

    def _exchange(self, url: str, headers: urllib3.HTTPHeaderDict) -> Response:
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        timeout = urllib3.Timeout(connect=min(CONNECT_SECONDS, self._timeout or CONNECT_SECONDS), read=self._timeout)
        answer = self._pool.request(
            "GET", url, headers=headers, timeout=timeout, retries=False, redirect=False, preload_content=False
        )
        try:
            body = read_body(cast("urllib3.HTTPResponse", answer), deadline, _MOST_BYTES)
        except BodyTooLargeError:
            raise UnreachableError(
                f"an answer of {self.server} has more than {_MOST_BYTES >> 30} GiB",
                hint="is the server address in the kubeconfig that of a Kubernetes API server?",
            ) from None
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
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
