"""Servers, extenders and plugins that never come to an end: each meets a limit."""

import json
import os
import pty
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.api.core import Pod
from kplan.api.meta import ObjectMeta
from kplan.errors import ApiError, KubeconfigError, UnreachableError
from kplan.framework.interface import ExtenderError
from kplan.live import LiveOptions, credentials, extenders, reader
from kplan.live.collect import collect_snapshot
from kplan.live.connections import OutOfTimeError, in_time
from kplan.live.kubeconfig import load_access
from kplan.live.reader import Transport
from tests.cli.processes import PROGRAM
from tests.recorded import sample

from .conftest import CONFIGURATION, Start
from .server import Answer, Cluster, Request, kubeconfig

LIMIT = 0.4
#: A machine that is busy with other tests takes its time.
PATIENCE = 5.0


@contextmanager
def talking(*says: bytes) -> Iterator[str]:
    """Run a server that reads a little and then sends these texts with pauses between; yields its address."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            with suppress(OSError):
                for text in says:
                    self.request.sendall(text)
                    time.sleep(0.05 if len(says) > 1 else 0.0 if text else PATIENCE)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def body(text: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


ENDLESS = {
    "headers": [b"HTTP/1.1 200 OK\r\n", *(b"X-%d: y\r\n" % number for number in range(1000))],
    "a status line": [bytes([letter]) for letter in b"HTTP/1.1 200 " + b"O" * 1000],
    "a body": [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b" "] * 1000],
    "nothing": [b""],
}
endless = pytest.mark.parametrize("says", ENDLESS.values(), ids=ENDLESS)


@endless
def test_the_time_of_a_request_is_over_whatever_the_server_sends(says: list[bytes], tmp_path: Path) -> None:
    with talking(*says) as url:
        access = load_access(LiveOptions(kubeconfig=str(kubeconfig(tmp_path, url)), request_timeout=LIMIT))
        begun = time.monotonic()
        with pytest.raises(UnreachableError, match=r"no complete answer from .* within 0\.4 s"):
            Transport(access, request_timeout=LIMIT).get("/version")
    assert time.monotonic() - begun < PATIENCE


def extender_at(url: str, **fields: Any) -> extenders.HTTPExtender:
    settings = {"urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt"}
    extender = {**settings, "httpTimeout": "400ms", "weight": 1, "nodeCacheCapable": True, **fields}
    config = kplan.load_scheduler_config({**CONFIGURATION, "extenders": [extender]})
    return extenders.http_extenders(config)[0]


POD = Pod(metadata=ObjectMeta(name="p", namespace="default"))


def test_a_message_about_an_extender_holds_no_account_of_its_address() -> None:
    with pytest.raises(ExtenderError, match=r"^(?!.*sesame).*http://127\.0\.0\.1:9/x/filter"):
        extender_at("http://someone:sesame@127.0.0.1:9/x").filter(POD, [])


@endless
def test_an_extender_has_the_time_of_its_configuration(says: list[bytes]) -> None:
    with talking(*says) as url:
        begun = time.monotonic()
        with pytest.raises(ExtenderError, match="context deadline exceeded"):
            extender_at(url).filter(POD, [])
    assert time.monotonic() - begun < PATIENCE


@pytest.mark.parametrize(
    "answer",
    [
        "[]", "1", '"x"', "{", "", "[" * 50_000, "\xff", "null trailing",
        '{"nodeNames": "n"}', '{"nodeNames": [1]}', '{"nodeNames": {}}', '{"nodes": []}', '{"nodes": {"items": {}}}',
        '{"nodes": {"items": [1]}}', '{"nodes": {"items": [{"metadata": 1}]}}', '{"failedNodes": []}',
        '{"failedNodes": {"n": 1}}', '{"error": {}}', '{"failedAndUnresolvableNodes": "x"}',
    ],
)  # fmt: skip
def test_an_extender_that_answers_with_other_shapes_is_an_error_in_words(answer: str) -> None:
    with talking(body(answer.encode("latin-1"))) as url, pytest.raises(ExtenderError, match="did not answer"):
        extender_at(url).filter(POD, [])


@pytest.mark.parametrize("answer", ["{}", "[1]", '[{"host": 1}]', '[{"host": "n", "score": "1"}]', '[{"score": 1e300}]',
                                    '[{"score": 99999999999999999999}]', '[{"score": true}]'])  # fmt: skip
def test_scores_of_other_shapes_are_an_error_in_words(answer: str) -> None:
    with talking(body(answer.encode())) as url, pytest.raises(ExtenderError, match="did not answer as it must"):
        extender_at(url).prioritize(POD, [])


def test_work_in_time_returns_or_raises_as_it_would_alone() -> None:
    assert in_time(5.0, lambda: 7) == 7
    assert in_time(None, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        in_time(5.0, lambda: 1 // 0)
    with pytest.raises(OutOfTimeError):
        in_time(0.01, lambda: time.sleep(1))


# --- lists ------------------------------------------------------------------------------------------------------------


def paged(token: Callable[[Request], str]) -> Cluster:
    """A cluster whose list of pods has one more page, and one more."""

    def fault(request: Request) -> Answer | None:
        if request.path != "/api/v1/pods":
            return None
        page = {"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": token(request)}, "items": []}
        return Answer(200, json.dumps(page).encode())

    return Cluster(fault=fault)


CIRCLE = {"": "a", "a": "b", "b": "c", "c": "a"}


@pytest.mark.parametrize(
    ("token", "limit", "problem"),
    [
        (lambda _seen: "again", "MAX_PAGES", "the server repeats a continue token"),
        (CIRCLE.get, "MAX_PAGES", "the server repeats a continue token"),
        (lambda seen: seen + "x", "MAX_PAGES", "after 20 pages"),
        (lambda seen: seen + "x", "MAX_EMPTY_PAGES", "after 20 empty pages"),
    ],
    ids=["the same token again", "tokens in a circle", "ever new pages", "empty pages"],
)
def test_a_list_without_end_is_noticed(
    token: Callable[[str], str], limit: str, problem: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, limit, 20)
    _, options = start(paged(lambda request: token(request.query.get("continue", ""))))
    with pytest.raises(ApiError, match=f"/api/v1/pods: the list does not end.*{problem}"):
        collect_snapshot(options)


NO_JSON = (b"", b"{", b"<html>", b"\xff\xfe", b"[" * 100_000, b'{"items": [' + b'{"metadata":' * 100_000)
NO_OBJECT = (b"[]", b"null", b"7")
NO_LIST = (b'{"items": 1}', b'{"items": [1]}', b'{"items": {}}', b'{"metadata": []}')


@pytest.mark.parametrize(
    ("path", "body"),
    [(path, body) for path in ("/api/v1/pods", "/version", "/api") for body in NO_JSON + NO_OBJECT]
    + [("/api/v1/pods", body) for body in NO_LIST],
)
def test_answers_that_are_no_lists_are_refused_in_words(start: Start, path: str, body: bytes) -> None:
    def fault(request: Request) -> Answer | None:
        return Answer(200, body) if request.path == path else None

    _, options = start(Cluster(fault=fault))

    with pytest.raises(ApiError) as caught:
        collect_snapshot(options)

    assert caught.value.message.startswith(path)
    assert caught.value.hint
    assert not any(word in caught.value.message for word in ("msgspec", "Expected `", "b'", "recursion"))


@pytest.mark.parametrize("limit", ["_MOST_BYTES", "_MOST_IN_ALL"])
def test_answers_without_end_are_cut(limit: str, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, limit, 1 << 20)
    _, options = start(Cluster(fault=lambda _request: Answer(200, b" " * (2 << 20))))
    with pytest.raises(UnreachableError, match="has more than"):
        collect_snapshot(options)


# --- exec plugins -----------------------------------------------------------------------------------------------------


def with_plugin(directory: Path, script: str, **fields: Any) -> LiveOptions:
    path = directory / "plugin.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    config = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), **fields}
    return LiveOptions(kubeconfig=str(kubeconfig(directory, "http://127.0.0.1:9", user={"exec": config})))


@pytest.mark.parametrize("script", ["sleep 60", "sleep 60 & wait", "trap '' TERM; sleep 60", "exec 1>&-; sleep 60"])
def test_a_plugin_that_does_not_end_is_ended(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "LIMIT_SECONDS", LIMIT)
    begun = time.monotonic()
    with pytest.raises(KubeconfigError, match=r"plugin\.sh of user demo-user did not end within 0\.4 s"):
        load_access(with_plugin(tmp_path, script))
    assert time.monotonic() - begun < PATIENCE


def test_a_plugin_that_prints_without_end_is_cut(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"plugin\.sh of user demo-user"):
        load_access(with_plugin(tmp_path, "exec yes"))


EMPTY_CREDENTIAL = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}'


@pytest.mark.parametrize(
    "answer", ["", "token", "[]", "{}", "7", "null", '{"apiVersion": 1}', "{" * 10_000, EMPTY_CREDENTIAL]
)
def test_what_a_plugin_prints_is_not_quoted(answer: str, tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(answer)
    with pytest.raises(KubeconfigError) as caught:
        load_access(with_plugin(tmp_path, f"cat {tmp_path / 'answer'}"))
    assert caught.value.hint
    assert len(answer) < 3 or answer not in caught.value.message


ASKING = """read line && said=$line || said=no
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "'$said'"}}'"""


def test_a_plugin_is_not_given_what_is_piped_to_kplan(tmp_path: Path) -> None:
    options = with_plugin(tmp_path, f"cat > {tmp_path / 'read'}; exit 1", interactiveMode="IfAvailable")
    done = subprocess.run(
        [*PROGRAM, "place", "-", "--kubeconfig", options.kubeconfig],
        input=b"kind: Pod\n", capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert (tmp_path / "read").read_bytes() == b""


def test_a_plugin_that_must_ask_somebody_says_so_where_nobody_is(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"interactiveMode: Always.* standard input"):
        load_access(with_plugin(tmp_path, ASKING, interactiveMode="Always"))


@pytest.mark.parametrize(
    ("mode", "free", "said"),
    sample(
        [("IfAvailable", True, "hello"), ("", True, "hello"), ("Never", True, "no"), ("IfAvailable", False, "no")], 2, 1
    ),
)
def test_a_plugin_may_ask_somebody_at_a_terminal(mode: str, free: bool, said: str, tmp_path: Path) -> None:
    options = with_plugin(tmp_path, ASKING, interactiveMode=mode)
    program = (
        "import sys; from kplan.live import LiveOptions; from kplan.live.kubeconfig import load_access\n"
        f"options = LiveOptions(kubeconfig={options.kubeconfig!r}, stdin_is_free={free})\n"
        "print(dict(load_access(options).headers())['Authorization'])"
    )
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"hello\n")
        done = subprocess.run(
            [sys.executable, "-c", program], stdin=theirs, capture_output=True, check=True, timeout=60
        )
    finally:
        os.close(ours)
        os.close(theirs)

    assert done.stdout.decode().strip() == f"Bearer {said}"
