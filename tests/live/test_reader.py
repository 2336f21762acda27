import email.utils
import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from kplan.errors import ApiError, ForbiddenError, UnauthorizedError, UnreachableError
from kplan.live.connections import BrokenAnswerError
from kplan.live.reader import ExpiredListError, Reader, Response

from .server import recordings


class Script:
    """A transport that gives one answer after the other, and raises those that are errors."""

    def __init__(self, *answers: Response | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json") -> Response:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


OK = Response(200, {}, b"{}")


def busy(status: int = 429, **headers: str) -> Response:
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"too many requests")


def recorded(name: str) -> Response:
    response = recordings()[name]["response"]
    body = response["body"]
    return Response(response["status"], {}, (body if isinstance(body, str) else json.dumps(body)).encode())


def ask(*answers: Response | Exception) -> tuple[Response, list[float], int]:
    script, waits = Script(*answers), []
    response = Reader(script, sleep=waits.append).get("/api/v1/pods")
    return response, waits, script.asked


CUT = BrokenAnswerError("cut")


@pytest.mark.parametrize(
    ("troubles", "expected"),
    [
        *(([busy(status, Retry_After="3")], [3.0]) for status in (429, 500, 502, 503, 504)),
        ([busy(), busy(), busy()], [0.5, 1.0, 2.0]),
        ([busy(Retry_After="soon")], [0.5]),
        ([CUT], [0.5]),
    ],
)
def test_passing_trouble_is_waited_out_as_long_as_the_server_asks(troubles: list[Any], expected: list[float]) -> None:
    assert ask(*troubles, OK) == (OK, expected, len(troubles) + 1)


def test_retry_after_may_be_a_date() -> None:
    _, (wait,), _ = ask(busy(Retry_After=email.utils.formatdate(time.time() + 10, usegmt=True)), OK)
    assert 8 <= wait <= 10


@pytest.mark.parametrize(
    ("answer", "stops", "attempts"),
    [(busy(503), False, 6), (CUT, False, 6), (busy(503), True, 1), (CUT, True, 1), (UnreachableError("no"), False, 1)],
)
def test_patience_ends_after_six_attempts_or_a_stop(answer: Response | Exception, stops: bool, attempts: int) -> None:
    script = Script(answer)
    with pytest.raises(UnreachableError if isinstance(answer, Exception) else ApiError):
        Reader(script, sleep=lambda _seconds: stops).get("/api/v1/pods")
    assert script.asked == attempts


def test_a_server_that_asks_for_an_hour_is_not_waited_for() -> None:
    waits: list[float] = []
    with pytest.raises(ApiError, match=r"too many requests \(429, asked 1 time\)") as caught:
        Reader(Script(busy(Retry_After="3600")), sleep=waits.append).get("/api/v1/pods")
    assert waits == []
    assert "try again later" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "kind", "message", "hint"),
    [
        ("error-401-bad-token", UnauthorizedError, "does not know who asks: Unauthorized", "log in again"),
        ("error-403-anonymous", ForbiddenError, 'User "system:anonymous" cannot list resource', "snapshot rbac"),
        ("error-404-unknown-group", ApiError, "404 page not found", "server address"),
        ("error-404-unknown-resource", ApiError, "could not find the requested resource", "server address"),
        ("error-410-expired-continue", ExpiredListError, "continue parameter is too old", "again"),
    ],
)
def test_what_a_real_server_refuses_becomes_an_error_with_a_next_step(
    name: str, kind: type[ApiError], message: str, hint: str
) -> None:
    answer = recorded(name)
    with pytest.raises(kind, match=message) as caught:
        ask(answer)
    assert caught.value.status == answer.status
    assert hint in caught.value.hint


def test_a_page_that_is_no_status_is_shown_from_its_beginning_only() -> None:
    page = Response(418, {}, b"<html>" + b"secret " * 1000)
    with pytest.raises(ApiError) as caught:
        ask(page)
    assert len(caught.value.message) < 320
