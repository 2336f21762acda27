"""An API server that replays recordings over HTTPS, and misbehaves on demand.

Lists are cut into pages as the recorded server cut them (the continue tokens are byte for byte the same), field
selectors on the phase and namespaced paths filter, users come from bearer tokens, and every request is kept.
"""

import base64
import functools
import gzip
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

HERE = Path(__file__).parent
CERTIFICATES = HERE / "certificates"
ADMIN_TOKEN = "admin-token"
READER_TOKEN = "reader-token"


@functools.cache
def recordings() -> dict[str, Any]:
    with gzip.open(HERE / "recordings" / "api.json.gz") as file:
        return json.load(file)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: list[tuple[str, str]]

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    @property
    def user(self) -> str:
        token = (self.header("Authorization") or [""])[0].partition(" ")[2]
        return {ADMIN_TOKEN: "demo-admin", READER_TOKEN: "demo-reader", "": "system:anonymous"}.get(token, "")


@dataclass
class Answer:
    """What goes back; `cut_after` hangs up after so many bytes, `pause` sends byte by byte with that pause between."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    cut_after: int | None = None
    pause: float = 0.0
    chunked: bool = False


def answer(body: Any, code: int = 200) -> Answer:
    return Answer(code, json.dumps(body).encode())


@functools.cache
def served_groups() -> frozenset[str]:
    items = recordings()["apis-aggregated"]["response"]["body"]["items"]
    return frozenset(item["metadata"]["name"] for item in items)


def replay(name: str) -> Answer:
    response = recordings()[name]["response"]
    body = response["body"]
    return Answer(
        response["status"],
        body.encode() if isinstance(body, str) else json.dumps(body).encode(),
        {"Content-Type": response["headers"]["Content-Type"]},
    )


def status(code: int, reason: str, message: str, **metadata: str) -> Answer:
    told = {"status": "Failure", "message": message, "reason": reason, "code": code}
    return answer({"kind": "Status", "apiVersion": "v1", "metadata": metadata, **told}, code)


#: Looks at a request and may answer in place of the cluster.
Fault = Callable[[Request], "Answer | None"]


@dataclass
class Cluster:
    """The recorded cluster with the rights and faults of one test."""

    aggregated_discovery: bool = True
    forbidden: frozenset[str] = frozenset()
    groups_not_served: frozenset[str] = frozenset()
    git_version: str = "v1.36.2"
    accepts_client_certificates: bool = False
    extra_pods: tuple[dict[str, Any], ...] = ()
    fault: Fault | None = None

    def answer(self, request: Request, *, has_certificate: bool = False) -> Answer:
        if request.method != "GET":
            return status(405, "MethodNotAllowed", f"{request.method} is not allowed here")
        if self.fault and (instead := self.fault(request)):
            return instead
        user = "demo-admin" if has_certificate else request.user
        if not user:
            return replay("error-401-bad-token")
        if user == "system:anonymous":
            return replay("error-403-anonymous")
        return self._serve(request, user)

    def _serve(self, request: Request, user: str) -> Answer:
        if request.path == "/version":
            return answer(recordings()["version"]["response"]["body"] | {"gitVersion": self.git_version})
        if request.path in {"/api", "/apis"}:
            return self._discovery(request)
        parts = request.path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        if group in self.groups_not_served | (({group} - served_groups()) if group else set()):
            return replay("error-404-unknown-group")
        if not rest:
            return self._group_resources(request.path)
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 1:
            if len(rest) == 2:
                return self._one("namespaces", rest[1])
            namespace, rest = rest[1], rest[2:]
        if user == "demo-reader" and rest[0] in self.forbidden:
            scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            denied = f'User "{user}" cannot list resource "{rest[0]}" in API group "{group}" {scope}'
            return status(403, "Forbidden", f"{rest[0]} is forbidden: {denied}")
        if len(rest) > 1:
            return self._one(rest[0], rest[1])
        return self._list(rest[0], namespace, request.query)

    def _discovery(self, request: Request) -> Answer:
        name = request.path.strip("/")
        aggregated = self.aggregated_discovery and "g=apidiscovery.k8s.io" in request.header("Accept")[0]
        recorded = replay(f"{name}-aggregated" if aggregated else name)
        body = json.loads(recorded.body)
        if aggregated:
            hidden = self.groups_not_served
            body["items"] = [item for item in body["items"] if item["metadata"].get("name") not in hidden]
        return Answer(200, json.dumps(body).encode(), recorded.headers)

    def _group_resources(self, path: str) -> Answer:
        """The resources of one group version, as recorded or as the aggregated form has them."""
        parts = path.strip("/").split("/")
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        name = f"{'-'.join(parts)}-resources".replace(".k8s.io", "")
        if name in recordings():
            return replay(name)
        for item in recordings()["apis-aggregated"]["response"]["body"]["items"]:
            for served in item["versions"]:
                if (item["metadata"].get("name", ""), served["version"]) == (group, version):
                    resources = [{"name": entry["resource"]} for entry in served["resources"]]
                    return answer({"kind": "APIResourceList", "resources": resources})
        return replay("error-404-unknown-version")

    def _one(self, plural: str, name: str) -> Answer:
        recorded = recordings().get(plural)
        items = [] if recorded is None else recorded["response"]["body"]["items"]
        found = next((item for item in items if item["metadata"]["name"] == name), None)
        if found is None:
            return status(404, "NotFound", f'{plural} "{name}" not found')
        return answer(found)

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> Answer:
        if plural not in recordings():
            return answer({"kind": "List", "metadata": {"resourceVersion": "845"}, "items": []})
        body = recordings()[plural]["response"]["body"]
        items = list(body["items"])
        if plural == "pods":
            items += self.extra_pods
        items = [item for item in items if not namespace or item["metadata"].get("namespace") == namespace]
        for term in filter(None, query.get("fieldSelector", "").split(",")):
            path, _, value = term.partition("!=")
            assert path == "status.phase"
            items = [item for item in items if item["status"].get("phase") != value]
        page, metadata = cut_page(items, query)
        return answer(body | {"metadata": metadata, "items": page})


def cut_page(items: list[dict[str, Any]], query: dict[str, str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return one page and its ListMeta, with the token that the recorded server gives."""
    keyed = sorted((_key(item), item) for item in items)
    start = ""
    if token := query.get("continue"):
        padded = token + "=" * (-len(token) % 4)
        start = json.loads(base64.urlsafe_b64decode(padded))["start"].removeprefix("/")
    keyed = [(key, item) for key, item in keyed if key >= start]
    limit = int(query.get("limit", "0")) or len(keyed)
    page, rest = keyed[:limit], keyed[limit:]
    metadata: dict[str, Any] = {"resourceVersion": "845"}
    if rest:
        place = {"v": "meta.k8s.io/v1", "rv": 845, "start": f"/{page[-1][0]}\0"}
        text = json.dumps(place, separators=(",", ":")).encode()
        metadata["continue"] = base64.urlsafe_b64encode(text).decode().rstrip("=")
        if "fieldSelector" not in query:
            metadata["remainingItemCount"] = len(rest)
    return [item for _, item in page], metadata


def _key(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]


class ApiServer:
    """A running server; `requests` holds all that was asked."""

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.cluster = cluster
        self.url = url
        self.requests: list[Request] = []

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


@contextmanager
def serving(cluster: Cluster, *, certificate: str = "server", tls: bool = True) -> Iterator[ApiServer]:
    """Run an API server on a free port of the loopback interface."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    httpd.daemon_threads = True
    api = ApiServer(cluster, f"{'https' if tls else 'http'}://127.0.0.1:{httpd.server_port}")
    httpd.RequestHandlerClass = functools.partial(_Handler, api)
    if tls:
        httpd.socket = _tls(cluster, certificate).wrap_socket(
            httpd.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def _tls(cluster: Cluster, certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / f"{certificate}.pem", CERTIFICATES / f"{certificate}-key.pem")
    if cluster.accepts_client_certificates:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(CERTIFICATES / "ca.pem")
    return context


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, api: ApiServer, *args: Any) -> None:
        self.api = api
        super().__init__(*args)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            # Refused handshakes and clients that hang up are what some tests are about.
            self.close_connection = True

    def _answer(self) -> None:
        split = urlsplit(self.path)
        request = Request(self.command, split.path, dict(parse_qsl(split.query)), list(self.headers.items()))
        self.api.requests.append(request)
        connection = self.connection
        certified = bool(isinstance(connection, ssl.SSLSocket) and connection.getpeercert())
        self._send(self.api.cluster.answer(request, has_certificate=certified))

    def __getattr__(self, name: str) -> Any:
        # The standard library looks for do_GET and so on; every verb is answered, and recorded, in one place.
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def _send(self, answer: Answer) -> None:
        body = answer.body
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        if answer.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in _parts(body, 1000)) + b"0\r\n\r\n"
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if answer.cut_after is not None:
            self.wfile.write(body[: answer.cut_after])
            self.wfile.flush()
            self.close_connection = True
        elif answer.pause:
            for part in _parts(body, 1):
                self.wfile.write(part)
                self.wfile.flush()
                time.sleep(answer.pause)
        else:
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def _parts(body: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def kubeconfig(
    directory: Path,
    url: str,
    *,
    token: str | None = ADMIN_TOKEN,
    user: dict[str, Any] | None = None,
    authority: str = "ca",
    cluster: dict[str, Any] | None = None,
    name: str = "config",
) -> Path:
    """Write a kubeconfig with one context, ``demo``, and return its path."""
    entry: dict[str, Any] = {"server": url}
    if url.startswith("https"):
        entry["certificate-authority-data"] = base64.b64encode(
            (CERTIFICATES / f"{authority}.pem").read_bytes()
        ).decode()
    credentials = user if user is not None else ({"token": token} if token else {})
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "demo",
        "contexts": [{"name": "demo", "context": {"cluster": "demo-cluster", "user": "demo-user"}}],
        "clusters": [{"name": "demo-cluster", "cluster": entry | (cluster or {})}],
        "users": [{"name": "demo-user", "user": credentials}],
    }
    path = directory / name
    path.write_text(json.dumps(document))
    return path
