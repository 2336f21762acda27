"""Requests with retries, and errors with hints."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable, Mapping

import msgspec

from kplan.errors import ApiError, ForbiddenError, UnauthorizedError
from kplan.live.faults import BrokenAnswerError
from kplan.live.transport import Getter, Response

#: Maximum number of attempts of a request.
MAX_ATTEMPTS = 6

#: Maximum time between the attempts of a request in total, in seconds.
MAX_WAIT_SECONDS = 60.0

#: Seconds before the second attempt where the server sends no time; doubled for each further one.
FIRST_WAIT_SECONDS = 0.5

#: Maximum length of texts of an answer that is not a Status.
_TEXT_LIMIT = 256


class ListMeta(msgspec.Struct, frozen=True, rename={"continue_token": "continue", "remaining": "remainingItemCount"}):
    """Where a list goes on, and how many objects are left."""

    continue_token: str = ""
    remaining: int | None = None


class _Status(msgspec.Struct, frozen=True):
    """An API server's answer to a failed request (meta/v1 Status)."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    metadata: ListMeta = ListMeta()


_STATUS_DECODER = msgspec.json.Decoder(_Status)


class ExpiredListError(ApiError):
    """410: the state of a list has expired on the server.

    `continue_token`, where it is not empty, continues the list in its present state.
    """

    def __init__(self, message: str, *, continue_token: str) -> None:
        super().__init__(message, status=410, hint="run the command again")
        self.continue_token = continue_token


class Reader:
    """Sends requests through a transport, again after 429, 5xx and incomplete answers.

    Parameters
    ----------
    transport : sends one request
    sleep : waits a number of seconds; tests pass their own clock
    """

    def __init__(self, transport: Getter, *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._transport = transport
        self._sleep = sleep

    def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json") -> Response:
        """Return a successful answer to GET `path`.

        Raises
        ------
        UnreachableError
            No complete answer.
        UnauthorizedError, ForbiddenError, ExpiredListError, ApiError
            The server answered 401, 403, 410 or another status that is not a success.
        """
        waited = 0.0
        attempt = 1
        while True:
            try:
                response = self._transport.get(path, query, accept=accept)
            except BrokenAnswerError:
                if attempt == MAX_ATTEMPTS:
                    raise
                wait = _backoff(attempt)
            else:
                if 200 <= response.status < 300:
                    return response
                retry_after = _retry_after(response) if _is_passing(response.status) else None
                wait = _backoff(attempt) if retry_after is None else retry_after
                if not _is_passing(response.status) or attempt == MAX_ATTEMPTS or waited + wait > MAX_WAIT_SECONDS:
                    raise _error(response, path, attempt)
            self._sleep(wait)
            waited += wait
            attempt += 1


def _is_passing(status: int) -> bool:
    return status == 429 or 500 <= status < 600


def _backoff(attempt: int) -> float:
    return float(FIRST_WAIT_SECONDS * 2 ** (attempt - 1))


def _retry_after(response: Response) -> float | None:
    """Return the seconds of Retry-After, in either form; None without it."""
    value = (response.headers.get("Retry-After") or "").strip()
    try:
        if value.isdecimal():
            return float(value)
        moment = email.utils.parsedate_to_datetime(value)
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _error(response: Response, path: str, attempts: int) -> ApiError:
    status = _read_status(response)
    message = status.message or f"answered {response.status}"
    if response.status == 401:
        return UnauthorizedError(
            f"the API server does not know who asks: {message} (401)",
            status=401,
            hint="the token or certificate may have expired: log in again; kubectl auth whoami shows who you are",
        )
    if response.status == 403:
        return ForbiddenError(
            message,
            status=403,
            hint="kplan snapshot rbac prints a role with just the rights that kplan needs; "
            "--namespaces reads only the namespaces you may see",
        )
    if response.status == 410:
        return ExpiredListError(message, continue_token=status.metadata.continue_token)
    if _is_passing(response.status):
        return ApiError(
            f"{path}: {message} ({response.status}, asked {attempts} times)",
            status=response.status,
            hint="the API server is overloaded or unwell; try again later",
        )
    return ApiError(
        f"{path}: {message} ({response.status})",
        status=response.status,
        hint="is the server address in the kubeconfig that of a Kubernetes API server?",
    )


def _read_status(response: Response) -> _Status:
    """Return the Status in the body, or one with the beginning of another body as its message."""
    try:
        status = _STATUS_DECODER.decode(response.body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        status = _Status()
    if status.kind == "Status":
        return status
    text = " ".join(response.body[: 4 * _TEXT_LIMIT].decode("utf-8", "replace").split())
    return _Status(message=text[:_TEXT_LIMIT])
