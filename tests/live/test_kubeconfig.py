import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kplan.errors import KubeconfigError, UsageError
from kplan.live.kubeconfig import Access, context_names, context_namespace, load_access
from kplan.live.kubeconfig_file import MOST_BYTES, read_small
from kplan.live.options import LiveOptions

TWO_CLUSTERS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "one",
    "contexts": [
        {"name": "one", "context": {"cluster": "c1", "user": "u1"}},
        {"name": "two", "context": {"cluster": "c2", "user": "u2"}},
    ],
    "clusters": [
        {"name": "c1", "cluster": {"server": "https://one.example.com:6443/"}},
        {"name": "c2", "cluster": {"server": "https://two.example.com", "insecure-skip-tls-verify": True}},
    ],
    "users": [{"name": "u1", "user": {"token": "t1"}}, {"name": "u2", "user": {"token": "t2"}}],
}


def write(directory: Path, document: Any, name: str = "config") -> str:
    path = directory / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def with_user(user: dict[str, Any]) -> dict[str, Any]:
    return TWO_CLUSTERS | {"users": [{"name": "u1", "user": user}, {"name": "u2", "user": {}}]}


def load(directory: Path, document: Any = TWO_CLUSTERS, **flags: Any) -> Access:
    return load_access(LiveOptions(kubeconfig=write(directory, document), **flags))


def token(access: Access) -> str | None:
    return dict(access.headers()).get("Authorization")


def test_the_current_context_counts(tmp_path: Path) -> None:
    access = load(tmp_path)

    assert (access.name, access.server, token(access)) == ("one", "https://one.example.com:6443", "Bearer t1")
    assert access.verifies_tls


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"context": "two"}, ("two", "https://two.example.com", "Bearer t2")),
        ({"cluster": "c2"}, ("one", "https://two.example.com", "Bearer t1")),
        ({"user": "u2"}, ("one", "https://one.example.com:6443", "Bearer t2")),
        ({"context": "two", "cluster": "c1", "user": "u1"}, ("two", "https://one.example.com:6443", "Bearer t1")),
    ],
)
def test_flags_replace_the_context_and_its_parts(
    tmp_path: Path, flags: dict[str, str], expected: tuple[str, ...]
) -> None:
    access = load(tmp_path, **flags)

    assert (access.name, access.server, token(access)) == expected


def test_a_cluster_by_flag_needs_no_context(tmp_path: Path) -> None:
    bare = TWO_CLUSTERS | {"contexts": [], "current-context": ""}

    access = load(tmp_path, bare, cluster="c1", user="u2")

    assert (access.name, access.server, token(access)) == ("c1", "https://one.example.com:6443", "Bearer t2")


def test_several_files_are_joined_and_missing_ones_passed_over(tmp_path: Path) -> None:
    first = write(tmp_path, {key: TWO_CLUSTERS[key] for key in ("contexts", "current-context")}, "first")
    second = write(tmp_path, {key: TWO_CLUSTERS[key] for key in ("clusters", "users")}, "second")

    access = load_access(LiveOptions(kubeconfig=f"{first}:{tmp_path / 'absent'}:{second}", context="two"))

    assert access.server == "https://two.example.com"


def test_the_file_in_the_home_directory_is_the_default(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", TWO_CLUSTERS)

    assert load_access(LiveOptions()).name == "one"


def test_insecure_comes_from_the_file_or_the_flag(tmp_path: Path) -> None:
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


def test_groups_without_a_user_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--as-group needs --as"):
        load(tmp_path, impersonate_groups=("devs",))


def exec_user(command: str, **more: Any) -> dict[str, Any]:
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command, **more}}


def plugin(directory: Path, text: str) -> str:
    path = directory / "plugin.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_an_exec_plugin_gives_the_token(tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    command = plugin(tmp_path, f"echo '{json.dumps(answer)}'")

    assert token(load(tmp_path, with_user(exec_user(command)))) == "Bearer from-plugin"


def test_an_exec_plugin_that_is_not_installed_stops_with_its_own_hint(tmp_path: Path) -> None:
    user = exec_user("no-such-plugin", installHint="install it from\n  example.com")

    with pytest.raises(
        KubeconfigError, match="exec plugin no-such-plugin of user u1 cannot be run: No such file"
    ) as caught:
        load(tmp_path, with_user(user))

    assert caught.value.hint == "install it from example.com"


def test_an_exec_plugin_without_a_hint_gets_one(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError) as caught:
        load(tmp_path, with_user(exec_user("no-such-plugin")))

    assert "install the exec plugin" in caught.value.hint


def test_an_exec_plugin_that_fails_is_quoted(tmp_path: Path) -> None:
    command = plugin(tmp_path, "echo 'please log in' >&2; exit 3")

    with pytest.raises(KubeconfigError, match="of user u1 ended with 3: please log in") as caught:
        load(tmp_path, with_user(exec_user(command)))

    assert "log in" in caught.value.hint


def web_token(expiry: int) -> str:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': expiry})}.signature"


def test_a_valid_token_of_an_auth_provider_is_used_as_it_is(tmp_path: Path) -> None:
    valid = web_token(4_000_000_000)
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": valid}}}

    assert token(load(tmp_path, with_user(user))) == f"Bearer {valid}"


def test_an_expired_token_of_an_auth_provider_is_not_renewed_here(tmp_path: Path) -> None:
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": web_token(1_000_000_000), "refresh-token": "r"}}}
    path = write(tmp_path, with_user(user))
    before = Path(path).read_bytes()

    with pytest.raises(KubeconfigError, match="has run out") as caught:
        load_access(LiveOptions(kubeconfig=path))

    assert "kubectl" in caught.value.hint
    assert Path(path).read_bytes() == before


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
        ("a: [1", {}, "cannot be read", "get a new kubeconfig"),
        ("[1, 2]", {}, "cannot be read", "get a new kubeconfig"),
        (
            TWO_CLUSTERS | {"clusters": [{"name": "c1", "cluster": {"server": "one.example.com"}}]},
            {},
            "cluster c1 has no usable server address",
            "https://",
        ),
        (
            TWO_CLUSTERS
            | {
                "clusters": [
                    {"name": "c1", "cluster": {"server": "https://x", "certificate-authority": "/no/such/file.pem"}}
                ]
            },
            {},
            "no such file: /no/such/file.pem",
            "get a new kubeconfig",
        ),
        (
            TWO_CLUSTERS
            | {
                "clusters": [
                    {"name": "c1", "cluster": {"server": "https://x", "certificate-authority-data": "not base64!x"}}
                ]
            },
            {},
            "certificate-authority-data is not base64",
            "get a new kubeconfig",
        ),
    ],
)
def test_a_kubeconfig_that_leads_nowhere_says_why(
    tmp_path: Path, document: Any, flags: dict[str, str], message: str, hint: str
) -> None:
    with pytest.raises(KubeconfigError, match=message) as caught:
        load(tmp_path, document, **flags)

    assert hint in caught.value.hint


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(KubeconfigError, match="no such kubeconfig: /no/such/config"):
        load_access(LiveOptions(kubeconfig="/no/such/config"))


def test_without_any_kubeconfig_and_outside_a_pod_there_is_no_cluster() -> None:
    with pytest.raises(KubeconfigError, match="no cluster to ask") as caught:
        load_access(LiveOptions())

    assert "--snapshot demo" in caught.value.hint


def test_inside_a_pod_its_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.config import incluster_config

    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "ca.crt").write_text("certificate")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))

    access = load_access(LiveOptions())

    assert (access.name, access.server, token(access)) == ("in-cluster", "https://10.0.0.1:443", "bearer pod-token")
    with pytest.raises(KubeconfigError, match="--context prod"):
        load_access(LiveOptions(context="prod"))


# --- contexts ---------------------------------------------------------------------------------------------------------

CONFIG = """
current-context: prod
contexts:
- {name: prod, context: {cluster: c, user: u, namespace: shop}}
- {name: dev, context: {cluster: c, user: u}}
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    return write(tmp_path, CONFIG)


def test_the_namespace_is_that_of_the_context(kubeconfig: str) -> None:
    assert context_namespace(LiveOptions(kubeconfig=kubeconfig)) == "shop"
    assert context_namespace(LiveOptions(kubeconfig=kubeconfig, context="dev")) == ""
    assert context_namespace(LiveOptions(kubeconfig=kubeconfig, context="none")) == ""


def test_contexts_are_listed_as_they_stand(kubeconfig: str) -> None:
    assert context_names(kubeconfig) == ["prod", "dev"]


def test_a_kubeconfig_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError):
        context_namespace(LiveOptions(kubeconfig=str(tmp_path / "none")))


def test_inside_a_pod_it_is_the_namespace_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "namespace"
    path.write_text("tools\n")
    monkeypatch.setattr("kplan.live.kubeconfig._DEFAULT_PATH", str(tmp_path / "none"))
    monkeypatch.setattr("kplan.live.kubeconfig._POD_NAMESPACE", str(path))

    assert context_namespace(LiveOptions()) == "tools"
    monkeypatch.setattr("kplan.live.kubeconfig._POD_NAMESPACE", str(tmp_path / "nowhere"))
    assert context_namespace(LiveOptions()) == ""


# --- small files ------------------------------------------------------------------------------------------------------


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"x" * MOST_BYTES)
    assert len(read_small(str(tmp_path / "token"))) == MOST_BYTES


def test_what_might_never_end_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * (MOST_BYTES + 1))
    for name in (tmp_path / "pipe", "/dev/zero", "/dev/null", tmp_path, tmp_path / "large"):
        with pytest.raises(OSError, match=r"regular file|more than 1 MiB|Is a directory"):
            read_small(str(name))


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_a_token_file_without_end_is_an_error_of_the_kubeconfig(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(KubeconfigError, match="cannot be read: it is not a regular file"):
        list(load(tmp_path, with_user({"tokenFile": str(tmp_path / name)})).headers())
