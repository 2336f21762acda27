"""Secrets in every place where one can stand: none of them is in anything that kplan prints or writes."""

import base64
import contextlib
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from kplan.report.registry import FORMATS
from kplan.snapshot.redact import KEPT
from tests.cli.commands import listed, written
from tests.live.conftest import Start, _no_surroundings, start  # noqa: F401 - fixtures
from tests.live.server import Answer, Cluster, Request, kubeconfig, status
from tests.objects import node, pod
from tests.recorded import sample

from .commands import invoke

CANARY = "kanarienvogel"
ENCODED = base64.b64encode(CANARY.encode()).decode().rstrip("=")
LIVE = [
    ["plan"],
    ["preempt"],
    ["explain", "batch/pending-missing-pvc"],
    ["snapshot", "show"],
    ["snapshot", "check"],
    ["snapshot", "save", "-"],
]


def check_silent(found: Result) -> None:
    """Look at both streams, and at the traceback that `--debug` would show."""
    trace = traceback.format_exception(found.exception) if found.exception is not None else []
    text = found.stdout + found.stderr + "".join(trace)
    for secret in (CANARY, ENCODED[:-2]):
        at = text.find(secret)
        assert at < 0, text[max(0, at - 200) : at + 100]


def live(*arguments: str | Path, **environment: str) -> Result:
    return invoke(*arguments, KPLAN_SNAPSHOT="", **environment)


# --- kubeconfigs ------------------------------------------------------------------------------------------------------


def with_exec(script: str) -> Callable[[Path], dict[str, Any]]:
    def user(directory: Path) -> dict[str, Any]:
        program = written(directory / "plugin.sh", f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": str(program),
                "args": [CANARY, f"--secret={CANARY}"],
                "env": [{"name": "PASSWORD", "value": CANARY}],
            }
        }

    return user


def printing(**status: str) -> str:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(credential)}'"


USERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "token": lambda _: {"token": CANARY},
    "token that no header holds": lambda _: {"token": f"{CANARY}\nX-Other: {CANARY}"},
    "token beyond latin": lambda _: {"token": f"{CANARY}\u2028"},
    "token file": lambda directory: {"tokenFile": str(written(directory / "token", CANARY))},
    "password": lambda _: {"username": "somebody", "password": CANARY},
    "certificate": lambda _: {"client-certificate-data": ENCODED + "==", "client-key-data": ENCODED + "=="},
    "broken key": lambda _: {"client-certificate-data": CANARY, "client-key-data": f"{CANARY}!"},
    "auth provider": lambda _: {"auth-provider": {"name": "oidc", "config": {"id-token": CANARY, "secret": CANARY}}},
    "expired auth provider": lambda _: {"auth-provider": {"name": "oidc", "config": {"refresh-token": CANARY}}},
    "impersonation": lambda _: {"token": CANARY, "as": "x", "as-user-extra": {"k": [CANARY, f"{CANARY}\n"]}},
    "plugin": with_exec(printing(token=CANARY)),
    "plugin with a certificate": with_exec(printing(clientCertificateData=CANARY, clientKeyData=CANARY)),
    "plugin that talks": with_exec(f'echo "$PASSWORD $*" >&2; echo {CANARY}; exit 1'),
    "plugin that prints no credential": with_exec('echo "{$PASSWORD $1"'),
    "shapes": lambda _: {"token": [CANARY], "password": {"x": CANARY}, "exec": CANARY, "as-groups": CANARY},
    "shapes of a plugin": lambda _: {"exec": {"command": [CANARY], "env": {"PASSWORD": CANARY}, "args": CANARY}},
}  # fmt: skip


def repeating(code: int) -> Callable[[Request], Answer]:
    """A server that repeats what it was sent, as some proxies do."""
    return lambda request: status(code, "Failure", f"you sent {request.headers} to {request.path}")


SERVERS: dict[str, Callable[[Request], Answer] | None] = {
    "refuses": repeating(401),
    "forbids": repeating(403),
    "is missing": repeating(404),
    "is broken": repeating(400),
    "is no API server": lambda request: Answer(200, f"<html>{request.headers}".encode()),
}


@pytest.mark.parametrize(
    ("user", "server"), [*((user, "refuses") for user in USERS), *(("token", server) for server in list(SERVERS)[1:])]
)
def test_no_secret_of_a_user_is_shown(user: str, server: str, start: Start, tmp_path: Path) -> None:  # noqa: F811 - a fixture
    _, options = start(Cluster(fault=SERVERS[server]), user=USERS[user](tmp_path))
    check_refused("--kubeconfig", options.kubeconfig, "-v")


def check_refused(*options: str | Path) -> None:
    for debug in ((), ("--debug",)):
        found = live("plan", *options, *debug)
        assert found.exit_code != 0
        check_silent(found)


@pytest.mark.parametrize("arguments", sample(LIVE, 6, 1), ids=" ".join)
def test_no_command_shows_the_token_it_asks_with(arguments: list[str], start: Start) -> None:  # noqa: F811 - a fixture
    def anybody(request: Request) -> Answer | None:
        return None if request.user else cluster.answer(_as_admin(request))

    cluster = Cluster()
    api, options = start(Cluster(fault=anybody), token=CANARY)

    found = live(*arguments, "--kubeconfig", options.kubeconfig)

    assert any(CANARY in request.header("Authorization")[0] for request in api.requests)
    assert found.exit_code in (0, 1), found.stderr
    check_silent(found)


def _as_admin(request: Request) -> Request:
    headers = [(key, "Bearer admin-token" if key == "Authorization" else value) for key, value in request.headers]
    return Request(request.method, request.path, request.query, headers)


CLUSTERS: dict[str, dict[str, Any]] = {
    "account": {"server": f"http://somebody:{CANARY}@127.0.0.1:9"},
    "account and no port": {"server": f"http://somebody:{CANARY}@127.0.0.1:port/{CANARY}"},
    "query": {"server": f"http://127.0.0.1:9/?token={CANARY}"},
    "no address": {"server": CANARY},
    "proxy": {"server": "http://127.0.0.1:9", "proxy-url": f"http://somebody:{CANARY}@127.0.0.1:9"},
    "proxy that is none": {"server": "http://127.0.0.1:9", "proxy-url": f"{CANARY}://x:{CANARY}@[::1"},
    "authority": {"server": "https://127.0.0.1:9", "certificate-authority-data": ENCODED + "=="},
    "broken authority": {"server": "https://127.0.0.1:9", "certificate-authority-data": f"{CANARY}!"},
    "shape": {"server": [CANARY]},
}  # fmt: skip


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_no_secret_of_a_cluster_entry_is_shown(cluster: str, tmp_path: Path) -> None:
    check_refused("--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:9", cluster=CLUSTERS[cluster], token=CANARY))


@pytest.mark.parametrize(
    "text",
    [
        f"users: [{{user: {{token: {CANARY}", f"token: *{CANARY}", f"token: !{CANARY} x", f"{CANARY}", f"[{CANARY}]",
        f"users: {CANARY}", f'{{"users": [{{"user": {{"token": "{CANARY}}}]',
        f"users: [{{name: u, user: {{token: {CANARY}, token: {CANARY}}}}}]\n{CANARY}", f"? [{CANARY}]\n: {CANARY}",
        f"%{CANARY}\n---\n\t{CANARY}", f"users: {{{CANARY}: 1}}", f"current-context: {{x: {CANARY}}}",
    ],
)  # fmt: skip
def test_no_piece_of_a_broken_kubeconfig_is_shown(text: str, tmp_path: Path) -> None:
    check_refused("--kubeconfig", written(tmp_path / "config", text))


# --- clusters ---------------------------------------------------------------------------------------------------------


def hiding_cluster() -> list[dict[str, Any]]:
    """Objects with a secret in every field that scheduling does not read."""
    applied = {"kubectl.kubernetes.io/last-applied-configuration": CANARY, "example.com/password": CANARY}
    mounts = {"volume.beta.kubernetes.io/mount-options": f"password={CANARY}"}
    container = {
        "name": "c",
        "image": "i",
        "env": [{"name": "PASSWORD", "value": CANARY}],
        "command": ["run", CANARY],
        "args": [f"--token={CANARY}"],
        "livenessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "Authorization", "value": CANARY}]}},
        "lifecycle": {"preStop": {"exec": {"command": [CANARY]}}},
        "resources": {"requests": {"cpu": "1"}},
    }
    csi = {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"password": CANARY},
           "nodeStageSecretRef": {"name": CANARY, "namespace": CANARY}}  # fmt: skip

    def with_secrets(obj: dict[str, Any]) -> dict[str, Any]:
        obj["metadata"] |= {"annotations": {**applied, **mounts}, "uid": f"u-{obj['metadata']['name']}"}
        obj["metadata"]["managedFields"] = [{"manager": CANARY}]
        if obj["kind"] == "Pod":
            obj["spec"] |= {"containers": [container], "initContainers": [container | {"name": "i"}]}
            obj["spec"]["imagePullSecrets"] = [{"name": CANARY}]
            obj["spec"]["volumes"] = [{"name": "v", "flexVolume": {"driver": "x", "options": {"password": CANARY}}}]
            obj["status"] = {**obj.get("status", {}), "message": CANARY}
            obj["status"]["conditions"] = [{"type": "Ready", "status": "False", "message": CANARY}]
        return obj

    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": csi,
                 "mountOptions": [f"password={CANARY}"]},
        "status": {"phase": "Available", "message": CANARY},
    }  # fmt: skip
    storage = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "d",
        "parameters": {"restuserkey": CANARY}, "mountOptions": [CANARY],
    }  # fmt: skip
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"x": CANARY}}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"x": CANARY}}
    attachment = {
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "va"},
        "spec": {"attacher": "d", "nodeName": "a", "source": {"persistentVolumeName": "pv"}},
        "status": {"attached": True, "attachmentMetadata": {"token": CANARY}, "attachError": {"message": CANARY}},
    }  # fmt: skip
    objects = [
        node("a"),
        node("b"),
        pod("running", cpu="1"),
        pod("waiting", cpu="1"),
        pod("big", cpu="999"),
        volume,
        storage,
        attachment,
    ]
    objects[2]["spec"]["nodeName"] = "a"
    return [*map(with_secrets, objects), secret, settings]


@pytest.fixture(scope="module")
def cluster_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return listed(tmp_path_factory.mktemp("canaries") / "cluster.json", *hiding_cluster())


@pytest.mark.parametrize(
    "question", [["plan"], ["preempt"], ["place", "default/waiting", "default/big"], ["explain", "default/big"]]
)
def test_no_answer_shows_what_scheduling_does_not_read(question: list[str], cluster_file: Path, tmp_path: Path) -> None:
    reports = [word for name in FORMATS for word in ("--report", f"{name}={tmp_path / name}")]
    found = invoke(*question, "-s", cluster_file, *reports, "--explain", "--all-nodes", "-v")
    assert found.exit_code in (0, 1), found.stderr
    check_silent(found)
    assert [name for name in FORMATS if CANARY in (tmp_path / name).read_text()] == []


@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
@pytest.mark.parametrize("redact", [[], ["--redact"]], ids=["plain", "redacted"])
def test_no_snapshot_holds_what_scheduling_does_not_read(
    redact: list[str], name: str, cluster_file: Path, tmp_path: Path
) -> None:
    found = invoke("snapshot", "save", tmp_path / name, *redact, "-s", cluster_file)
    assert found.exit_code == 0
    assert CANARY not in (tmp_path / name).read_text()
    for command in ("show", "check"):
        check_silent(invoke("snapshot", command, tmp_path / name, "-o", "json"))
        check_silent(invoke("snapshot", command, cluster_file, "-o", "json"))


def test_a_snapshot_of_a_live_cluster_holds_no_annotation_of_others(start: Start, tmp_path: Path) -> None:  # noqa: F811 - a fixture
    hiding = tuple(each for each in hiding_cluster() if each["kind"] == "Pod")
    _, options = start(Cluster(extra_pods=hiding))
    found = live("snapshot", "save", tmp_path / "x.json", "--kubeconfig", options.kubeconfig)
    assert found.exit_code == 0
    assert CANARY not in (tmp_path / "x.json").read_text()
    assert '"big"' in (tmp_path / "x.json").read_text()


@pytest.mark.parametrize("at", range(0, 100, 20))
def test_a_file_that_ends_too_soon_is_not_quoted(at: int, cluster_file: Path, tmp_path: Path) -> None:
    text = cluster_file.read_text()
    for name, content in (("x.json", text), ("x.yaml", f"# yaml\n{text}")):
        (tmp_path / name).write_text(content[: len(content) * at // 100])
        check_silent(invoke("plan", "-s", tmp_path / name))


# --- what else is promised --------------------------------------------------------------------------------------------


def test_a_server_whose_certificate_is_not_checked_is_told(start: Start) -> None:  # noqa: F811 - a fixture
    _, options = start()
    found = live("snapshot", "show", "--kubeconfig", options.kubeconfig, "--insecure-skip-tls-verify")
    quiet = live("snapshot", "show", "--kubeconfig", options.kubeconfig, "--insecure-skip-tls-verify", "-q")
    checked = live("snapshot", "show", "--kubeconfig", options.kubeconfig)
    assert found.exit_code == checked.exit_code == 0
    assert found.stderr.startswith("warning: the certificate of https://127.0.0.1")
    assert "is not checked" not in checked.stderr + quiet.stderr


def test_what_redacting_keeps_is_in_the_help_and_in_the_file(cluster_file: Path, tmp_path: Path) -> None:
    told = " ".join(invoke("snapshot", "save", "--help-all").stdout.split())
    assert all(each in told for each in KEPT)
    redacted, again, plain = (tmp_path / name for name in ("redacted.json", "again.json", "plain.json"))
    invoke("snapshot", "save", redacted, "--redact", "-s", cluster_file)
    invoke("snapshot", "save", again, "-s", redacted)
    invoke("snapshot", "save", plain, "-s", cluster_file)
    kept = [json.loads(path.read_text())["metadata"].get("kept") for path in (redacted, again, plain)]
    assert kept == [list(KEPT), list(KEPT), None]


@pytest.mark.parametrize("command", [["config", "show"], ["config", "check"]], ids=" ".join)
@pytest.mark.parametrize("output", ["table", "json"])
def test_no_secret_of_a_scheduler_configuration_is_shown(command: list[str], output: str, tmp_path: Path) -> None:
    path = tmp_path / "scheduler.json"
    extender = {
        "urlPrefix": f"http://somebody:{CANARY}@127.0.0.1:9/x",
        "filterVerb": "filter",
        "tlsConfig": {"keyData": base64.b64encode(CANARY.encode()).decode(), "certData": "Y2VydA=="},
    }
    path.write_text(json.dumps(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "extenders": [extender]}
    ))  # fmt: skip

    check_silent(invoke(*command, path, "-o", output))
    with contextlib.suppress(StopIteration):
        check_silent(invoke("plan", "--scheduler-config", path, "-o", output, "--extenders", "call"))
        check_silent(invoke("plan", "--scheduler-config", path, "-o", output))
