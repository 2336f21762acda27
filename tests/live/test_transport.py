import http.client
import inspect
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from urllib3 import exceptions

from kplan.errors import KubeconfigError, UnreachableError
from kplan.live import LiveOptions, reader
from kplan.live.connections import explain
from kplan.live.kubeconfig import load_access
from kplan.live.reader import Transport
from tests.cli.commands import written

from .conftest import Start
from .server import CERTIFICATES, Answer, Cluster, kubeconfig


def connect(options: LiveOptions) -> Transport:
    return Transport(load_access(options), request_timeout=options.request_timeout)


def test_the_seam_offers_get_and_no_way_to_say_another_verb() -> None:
    public = {name for name, _ in inspect.getmembers(Transport) if not name.startswith("_")}
    assert public == {"close", "get", "server"}
    assert list(inspect.signature(Transport.get).parameters) == ["self", "path", "query", "accept"]


def test_only_the_seam_knows_the_network() -> None:
    """Extenders are no API servers: they are called by their own client, when somebody asks for that."""
    room = Path(reader.__file__).parent
    requesting = {path.name for path in room.glob("*.py") if ".request(" in path.read_text()}
    assert requesting - {"extenders.py"} == {"reader.py"}
    assert (room / "reader.py").read_text().count(".request(") == 1
    assert '.request(\n            "GET",' in (room / "reader.py").read_text()


def test_query_and_credentials_reach_the_server(start: Start) -> None:
    anything = Cluster(fault=lambda _request: Answer(200, b"{}"))
    api, options = start(anything, impersonate_user="jane", impersonate_groups=("devs", "ops & more"))
    connect(options).get("/api/v1/nodes", {"limit": "5", "continue": "a+b/c="})
    (request,) = api.requests
    assert request.query == {"limit": "5", "continue": "a+b/c="}
    assert request.header("Authorization") == ["Bearer admin-token"]
    assert request.header("Impersonate-User") == ["jane"]
    assert request.header("Impersonate-Group") == ["devs", "ops & more"]


def test_chunked_and_compressed_bodies_arrive_whole(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_is_loopback", lambda _server: False)
    body = b'{"x": "' + b"y" * 100_000 + b'"}'
    _, options = start(Cluster(fault=lambda _request: Answer(200, body, chunked=True)))
    response = connect(options).get("/api/v1/pods")
    assert response.headers["Content-Encoding"] == "gzip"
    assert response.body == body


OWN_CERTIFICATE = {
    "client-certificate": str(CERTIFICATES / "client.pem"),
    "client-key": str(CERTIFICATES / "client-key.pem"),
}


@pytest.mark.parametrize(
    ("cluster", "settings", "path", "code"),
    [
        pytest.param({}, {}, "/apis/nosuch.example.com/v1/things", 404, id="statuses are answers, not errors"),
        pytest.param({"accepts_client_certificates": True}, {"user": OWN_CERTIFICATE}, "/api", 200, id="a certificate"),
        pytest.param({}, {"tls": False}, "/version", 200, id="a server without TLS"),
        pytest.param({}, {"authority": "stranger", "insecure_skip_tls_verify": True}, "/version", 200,
                     id="nobody looks"),
        pytest.param({}, {"certificate": "elsewhere", "cluster_entry": {"tls-server-name": "elsewhere.example.com"}},
                     "/version", 200, id="tls-server-name makes the other host right"),
    ],
)  # fmt: skip
def test_a_server_answers(start: Start, cluster: Any, settings: Any, path: str, code: int) -> None:
    _, options = start(Cluster(**cluster), **settings)
    assert connect(options).get(path).status == code


SILENT = {"fault": lambda _request: time.sleep(2)}
SLOW = {"fault": lambda _request: Answer(200, b"x" * 1000, pause=0.05)}


def cut_short(*, chunked: bool) -> dict[str, Any]:
    return {"fault": lambda _request: Answer(200, b'{"items": []}' * 500, cut_after=100, chunked=chunked)}


@pytest.mark.parametrize(
    ("cluster", "settings", "message", "hint"),
    [
        ({}, {"authority": "stranger"}, "is not trusted: unable to get local issuer", "certificate authority"),
        ({}, {"certificate": "elsewhere"}, "IP address mismatch", "tls-server-name"),
        (SILENT, {"request_timeout": 0.2}, r"no complete answer from .* within 0\.2 s", "--request-timeout"),
        (SLOW, {"request_timeout": 0.3}, r"within 0\.3 s", "--request-timeout"),
        (cut_short(chunked=False), {}, "broke off in the middle of an answer", "try again"),
        (cut_short(chunked=True), {}, "broke off in the middle of an answer", "try again"),
    ],
    ids=["an untrusted certificate", "another host", "silence", "a trickle", "cut short", "cut short in chunks"],
)
def test_what_keeps_an_answer_away_is_told_with_a_way_on(
    start: Start, cluster: Any, settings: Any, message: str, hint: str
) -> None:
    _, options = start(Cluster(**cluster), **settings)
    with pytest.raises(UnreachableError, match=message) as caught:
        connect(options).get("/version")
    assert hint in caught.value.hint


def test_what_is_no_api_server_is_told_by_its_address(start: Start, tmp_path: Path) -> None:
    def told(url: str, **settings: Any) -> UnreachableError:
        path = kubeconfig(tmp_path, url, **settings)
        with pytest.raises(UnreachableError) as caught:
            connect(LiveOptions(kubeconfig=str(path))).get("/version")
        return caught.value

    plain = start(tls=False)[0].url.replace("http://", "https://")
    assert "does not speak TLS" in told(plain).message
    with socket.socket() as taken:  # nobody listens, and nobody else can
        taken.bind(("127.0.0.1", 0))
        nowhere = f"https://127.0.0.1:{taken.getsockname()[1]}"
        refused = told(nowhere)
        by_proxy = told(nowhere, cluster={"proxy-url": nowhere.replace("https://", "http://")})
    assert f"cannot connect to {nowhere}: connection refused" in refused.message
    assert "is the API server running" in refused.hint
    unknown = "https://no-such-host.invalid:6443"
    assert f"the host name of {unknown} is unknown" in told(unknown).message
    assert "the proxy on the way" in by_proxy.message
    assert "proxy-url" in by_proxy.hint


def test_a_user_name_that_breaks_the_line_is_refused_here(start: Start) -> None:
    _, options = start(impersonate_user="jane\nX-Evil: 1")
    with pytest.raises(KubeconfigError, match="cannot be sent") as caught:
        connect(options).get("/version")
    assert "line breaks" in caught.value.hint


def test_credentials_renewed_by_one_thread_serve_the_others(start: Start) -> None:
    _, options = start()
    reader = connect(options)
    refused = reader._headers
    first, second = reader._renew(refused), reader._renew(refused)
    assert first is second
    assert first is not refused


def test_credentials_that_ran_out_are_read_anew_once(start: Start, tmp_path: Path) -> None:
    """As with the tokens of exec plugins: the first is refused, the plugin is run again and gives another."""
    counter = tmp_path / "calls"
    plugin = written(
        tmp_path / "plugin.sh",
        "#!/bin/sh\n"
        f"echo x >> {counter}\n"
        f"if [ $(wc -l < {counter}) -gt 1 ]; then token=admin-token; else token=old-token; fi\n"
        'echo "{\\"apiVersion\\": \\"client.authentication.k8s.io/v1\\", \\"kind\\": \\"ExecCredential\\",'
        ' \\"status\\": {\\"token\\": \\"$token\\", \\"expirationTimestamp\\": \\"2020-01-01T00:00:00Z\\"}}"\n',
    )
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    api, options = start(user=user)

    assert connect(options).get("/version").status == 200
    assert len(api.requests) <= 2


def _failed(kind: type[ssl.SSLError], reason: str) -> Exception:
    cause = kind(1, f"[SSL: {reason}] failed (_ssl.c:1)")
    cause.reason = cause.verify_message = reason
    return exceptions.SSLError(cause)


def test_every_fault_is_told_with_a_way_on(golden: Callable[[str, str], None]) -> None:
    nobody: Any = None
    faults = [
        *(_failed(ssl.SSLError, reason) for reason in ("WRONG_VERSION_NUMBER", "TLSV13_ALERT_EXPIRED", "PEM_LIB")),
        *(_failed(ssl.SSLCertVerificationError, reason) for reason in ("Hostname", "IP address", "expired", "issuer")),
        exceptions.ProxyError("no", ConnectionRefusedError(111, "Connection refused")),
        exceptions.NameResolutionError("kube", nobody, socket.gaierror()),
        exceptions.ConnectTimeoutError(),
        exceptions.LocationParseError("kube:x"),
        exceptions.ReadTimeoutError(nobody, "/", "no"),
        exceptions.ProtocolError("no", http.client.RemoteDisconnected()),
        exceptions.ProtocolError("no", http.client.IncompleteRead(b"")),
        exceptions.DecodeError("no"),
    ]
    told = (explain(fault, "kube", 5) for fault in faults)
    golden("live.txt", "".join(f"{error.args[0]}\n  {error.hint}\n" for error in told))
