import base64
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from kplan.errors import KubeconfigError, UsageError
from kplan.live import LiveOptions
from kplan.live.credentials import MOST_BYTES, read_small
from kplan.live.kubeconfig import Access, context_names, context_namespace, load_access
from tests.cli.commands import written

TWO_CLUSTERS: dict[str, Any] = {
    "current-context": "one",
    "contexts": [
        {"name": "one", "context": {"cluster": "c1", "user": "u1", "namespace": "shop"}},
        {"name": "two", "context": {"cluster": "c2", "user": "u2"}},
    ],
    "clusters": [
        {"name": "c1", "cluster": {"server": "https://one.example.com:6443/"}},
        {"name": "c2", "cluster": {"server": "https://two.example.com", "insecure-skip-tls-verify": True}},
    ],
    "users": [{"name": "u1", "user": {"token": "t1"}}, {"name": "u2", "user": {"token": "t2"}}],
}
BARE = TWO_CLUSTERS | {"contexts": [], "current-context": ""}
ONE, TWO = "https://one.example.com:6443", "https://two.example.com"


def write(directory: Path, document: Any, name: str = "config") -> str:
    path = directory / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def with_user(user: dict[str, Any]) -> dict[str, Any]:
    return TWO_CLUSTERS | {"users": [{"name": "u1", "user": user}, {"name": "u2", "user": {}}]}


def with_cluster(**cluster: str) -> dict[str, Any]:
    named = {key.replace("_", "-"): value for key, value in cluster.items()}
    return TWO_CLUSTERS | {"clusters": [{"name": "c1", "cluster": {"server": "https://x", **named}}]}


def load(directory: Path, document: Any = TWO_CLUSTERS, **flags: Any) -> Access:
    return load_access(LiveOptions(kubeconfig=write(directory, document), **flags))


def facts(access: Access) -> tuple[str, str, str | None]:
    return access.name, access.server, dict(access.headers()).get("Authorization")


@pytest.mark.parametrize(
    ("document", "flags", "expected"),
    [
        (TWO_CLUSTERS, {}, ("one", ONE, "Bearer t1")),
        (TWO_CLUSTERS, {"context": "two"}, ("two", TWO, "Bearer t2")),
        (TWO_CLUSTERS, {"cluster": "c2"}, ("one", TWO, "Bearer t1")),
        (TWO_CLUSTERS, {"user": "u2"}, ("one", ONE, "Bearer t2")),
        (TWO_CLUSTERS, {"context": "two", "cluster": "c1", "user": "u1"}, ("two", ONE, "Bearer t1")),
        (BARE, {"cluster": "c1", "user": "u2"}, ("c1", ONE, "Bearer t2")),
    ],
)  # fmt: skip
def test_flags_replace_the_current_context_and_its_parts(
    tmp_path: Path, document: Any, flags: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert facts(load(tmp_path, document, **flags)) == expected


def test_several_files_are_joined_and_missing_ones_passed_over(tmp_path: Path) -> None:
    first = write(tmp_path, {key: TWO_CLUSTERS[key] for key in ("contexts", "current-context")}, "first")
    second = write(tmp_path, {key: TWO_CLUSTERS[key] for key in ("clusters", "users")}, "second")
    access = load_access(LiveOptions(kubeconfig=f"{first}:{tmp_path / 'absent'}:{second}", context="two"))
    assert access.server == TWO


def test_the_file_in_the_home_directory_is_the_default(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", TWO_CLUSTERS)
    assert load_access(LiveOptions()).name == "one"


def test_insecure_comes_from_the_file_or_the_flag(tmp_path: Path) -> None:
    assert load(tmp_path).verifies_tls
    assert not load(tmp_path, context="two").verifies_tls
    assert not load(tmp_path, insecure_skip_tls_verify=True).verifies_tls


def test_impersonation_comes_from_the_file_and_flags_win(tmp_path: Path) -> None:
    user = {"token": "t", "as": "jane", "as-groups": ["a", "b"], "as-uid": "7", "as-user-extra": {"scopes": ["x"]}}

    assert load(tmp_path, with_user(user)).impersonation == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes", "x"),
    )
    assert load(tmp_path, with_user(user), impersonate_user="joe").impersonation == (("Impersonate-User", "joe"),)
    with pytest.raises(UsageError, match="--as-group needs --as"):
        load(tmp_path, impersonate_groups=("devs",))


def exec_user(command: str, **more: Any) -> dict[str, Any]:
    return with_user({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command, **more}})


def plugin(directory: Path, text: str) -> str:
    path = written(directory / "plugin.sh", f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def provided(**config: str) -> dict[str, Any]:
    return with_user({"auth-provider": {"name": "oidc", "config": config}})


def web_token(expiry: int) -> str:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': expiry})}.signature"


def test_plugins_and_providers_give_the_token(tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    valid = web_token(4_000_000_000)
    printed = exec_user(plugin(tmp_path, f"echo '{json.dumps(answer)}'"))
    assert facts(load(tmp_path, printed))[2] == "Bearer from-plugin"
    assert facts(load(tmp_path, provided(**{"id-token": valid})))[2] == f"Bearer {valid}"


EXPIRED = provided(**{"id-token": web_token(1_000_000_000), "refresh-token": "r"})
ABSENT = "exec plugin no-such-plugin of user u1 cannot be run: No such file"


@pytest.mark.parametrize(
    ("document", "flags", "message", "hint"),
    [
        (TWO_CLUSTERS, {"context": "three"}, "no context named 'three'", "it has: one, two"),
        (TWO_CLUSTERS, {"cluster": "c3"}, "no cluster named 'c3'", "it has: c1, c2"),
        (TWO_CLUSTERS, {"user": "u3"}, "no user named 'u3'", "it has: u1, u2"),
        (TWO_CLUSTERS | {"current-context": ""}, {}, "has no current context", "one, two"),
        (TWO_CLUSTERS | {"users": []}, {}, "no user named 'u1'", "no users at all"),
        ("", {}, "file is empty", "get a new kubeconfig"),
        ("just text", {}, "cannot be read", "get a new kubeconfig"),
        ("a: [1", {}, "cannot be read: it is not valid at line", "get a new kubeconfig"),
        ("[1, 2]", {}, r"cannot be read: \$: expected an object", "get a new kubeconfig"),
        (with_cluster(server="one.example.com"), {}, "cluster c1 has no usable server address", "https://"),
        (with_cluster(certificate_authority="/no/file"), {}, "no such file: /no/file", "get a new kubeconfig"),
        (with_cluster(certificate_authority_data="not base64!x"), {}, "authority-data is not base64", "get a new"),
        (exec_user("no-such-plugin", installHint="get it at\n  example.com"), {}, ABSENT, "^get it at example.com$"),
        (exec_user("no-such-plugin"), {}, ABSENT, "install the exec plugin"),
        (EXPIRED, {}, "has run out", "run a kubectl command once"),
    ],
)  # fmt: skip
def test_a_kubeconfig_that_leads_nowhere_says_why_and_stays_as_it_is(
    tmp_path: Path, document: Any, flags: dict[str, str], message: str, hint: str
) -> None:
    path = Path(write(tmp_path, document))
    before = path.read_bytes()
    with pytest.raises(KubeconfigError, match=message) as caught:
        load_access(LiveOptions(kubeconfig=str(path), **flags))
    assert re.search(hint, caught.value.hint)
    assert path.read_bytes() == before


def test_an_exec_plugin_that_fails_is_quoted(tmp_path: Path) -> None:
    document = exec_user(plugin(tmp_path, "echo 'please log in' >&2; exit 3"))
    with pytest.raises(KubeconfigError, match="of user u1 ended with 3: please log in") as caught:
        load(tmp_path, document)
    assert "log in" in caught.value.hint


def test_a_file_that_is_not_there_is_named() -> None:
    for ask in (load_access, context_namespace):
        with pytest.raises(KubeconfigError, match="no such kubeconfig: /no/such/config"):
            ask(LiveOptions(kubeconfig="/no/such/config"))


def test_without_any_kubeconfig_and_outside_a_pod_there_is_no_cluster() -> None:
    with pytest.raises(KubeconfigError, match="no cluster to ask") as caught:
        load_access(LiveOptions())
    assert "--snapshot demo" in caught.value.hint


def test_inside_a_pod_its_account_and_namespace_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.config import incluster_config

    for name, content in (("token", "pod-token"), ("ca.crt", "certificate"), ("namespace", "tools\n")):
        (tmp_path / name).write_text(content)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr("kplan.live.kubeconfig._POD_NAMESPACE", str(tmp_path / "namespace"))

    assert facts(load_access(LiveOptions())) == ("in-cluster", "https://10.0.0.1:443", "bearer pod-token")
    assert context_namespace(LiveOptions()) == "tools"
    with pytest.raises(KubeconfigError, match="--context prod"):
        load_access(LiveOptions(context="prod"))
    (tmp_path / "namespace").unlink()
    assert context_namespace(LiveOptions()) == ""


def test_contexts_are_listed_as_they_stand_and_have_namespaces(tmp_path: Path) -> None:
    path = write(tmp_path, TWO_CLUSTERS)
    assert context_names(path) == ["one", "two"]
    namespaces = [context_namespace(LiveOptions(kubeconfig=path, context=name)) for name in ("", "two", "none")]
    assert namespaces == ["shop", "", ""]


def test_what_might_never_end_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "whole").write_bytes(b"x" * MOST_BYTES)
    (tmp_path / "large").write_bytes(b"x" * (MOST_BYTES + 1))
    assert len(read_small(str(tmp_path / "whole"))) == MOST_BYTES
    for name in (tmp_path / "pipe", "/dev/zero", "/dev/null", tmp_path, tmp_path / "large"):
        with pytest.raises(OSError, match=r"regular file|more than 1 MiB|Is a directory"):
            read_small(str(name))
    for name in ("/dev/zero", "pipe"):
        access = load(tmp_path, with_user({"tokenFile": str(tmp_path / name)}))
        with pytest.raises(KubeconfigError, match="cannot be read: it is not a regular file"):
            list(access.headers())
        with pytest.raises(KubeconfigError, match="cannot be read: it is not a regular file"):
            load_access(LiveOptions(kubeconfig=str(tmp_path / name)))
