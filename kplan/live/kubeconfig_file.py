"""Kubeconfig files as typed values: decoded, checked and merged as in kubectl.

The content of a file is secret: messages contain only file names, paths and expected types.
Upstream: k8s.io/client-go/tools/clientcmd/api/v1/types.go, clientcmd/loader.go.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kplan.api.decode import DecodeError, convert
from kplan.errors import KubeconfigError, Problem
from kplan.reading.documents import read_document
from kplan.reading.limits import SETTINGS

S = TypeVar("S", bound=msgspec.Struct)

MOST_BYTES = 1 << 20
"""Size of a file that a kubeconfig names: a token or a certificate."""

_HINT = "get a new kubeconfig, or give another one with --kubeconfig"


class _Kebab(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Base of the entries whose fields have hyphens in their names."""


class Cluster(_Kebab, frozen=True):
    """How to reach an API server."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[dict[str, Any], ...] = ()


class AuthProvider(_Kebab, frozen=True):
    """A provider of tokens that was formerly built into kubectl."""

    name: str = ""
    config: dict[str, str] = {}


class _EnvVar(msgspec.Struct, frozen=True):
    name: str = ""
    value: str = ""


class ExecConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A program that prints credentials."""

    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[_EnvVar, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthInfo(_Kebab, frozen=True):
    """The credentials of a user."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    impersonate: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    username: str = ""
    password: str = ""
    auth_provider: AuthProvider | None = None
    exec: ExecConfig | None = None


class Context(msgspec.Struct, frozen=True):
    """A cluster and a user that belong together, with a default namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: Cluster = Cluster()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str = ""
    user: AuthInfo = AuthInfo()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str = ""
    context: Context = Context()


class _Config(_Kebab, frozen=True):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


class Kubeconfig(msgspec.Struct, frozen=True):
    """All files together; the first entry of a name applies."""

    where: str  #: the files, for messages
    current_context: str
    clusters: dict[str, Cluster]
    users: dict[str, AuthInfo]
    contexts: dict[str, Context]


def read_kubeconfig(paths: Sequence[str], separator: str) -> Kubeconfig:
    """Return the merged content of kubeconfig files.

    Raises KubeconfigError when a file cannot be read, or is not a kubeconfig.

    Parameters
    ----------
    paths : the files, the most important first
    separator : separates their names in messages
    """
    configs = [_absolute(_read(path), Path(path).expanduser().parent) for path in paths]
    return Kubeconfig(
        where=separator.join(paths),
        current_context=next((config.current_context for config in configs if config.current_context), ""),
        clusters=_first((cluster.name, cluster.cluster) for config in configs for cluster in config.clusters),
        users=_first((user.name, user.user) for config in configs for user in config.users),
        contexts=_first((context.name, context.context) for config in configs for context in config.contexts),
    )


def _first(named: Iterable[tuple[str, S]]) -> dict[str, S]:
    entries: dict[str, S] = {}
    for name, entry in named:
        entries.setdefault(name, entry)
    return entries


def _read(path: str) -> _Config:
    problems: list[Problem] = []
    read = read_document(Path(path).expanduser(), problems, limits=SETTINGS, expected="a kubeconfig")
    try:
        content = read.value() if read else None
        if read and content is not None:
            return convert(content, _Config, shows_values=False)
    except DecodeError as error:
        problems += error.problems
    raise _unreadable(path, "; ".join(map(_in_words, problems)) or "it holds nothing")


def _in_words(problem: Problem) -> str:
    """Return a problem as text, without the parser's message, which may quote the line."""
    if problem.line is not None:
        return f"it is not valid at line {problem.line}"
    return f"{problem.json_path}: {problem.message}" if problem.json_path else problem.message


def _unreadable(path: str, why: str) -> KubeconfigError:
    return KubeconfigError(f"the kubeconfig {path} cannot be read: {why}", hint=_HINT)


def _absolute(config: _Config, directory: Path) -> _Config:
    """Return a kubeconfig with absolute paths; in a file they are relative to it."""
    clusters = tuple(
        replace(named, cluster=_located(named.cluster, directory, "certificate_authority")) for named in config.clusters
    )
    return replace(config, clusters=clusters, users=tuple(_absolute_user(user, directory) for user in config.users))


def _absolute_user(named: _NamedUser, directory: Path) -> _NamedUser:
    user = _located(named.user, directory, "client_certificate", "client_key", "token_file")
    # A bare name is looked up in PATH.
    if user.exec and "/" in user.exec.command:
        user = replace(user, exec=_located(user.exec, directory, "command"))
    return replace(named, user=user)


def _located(entry: S, directory: Path, *fields: str) -> S:
    """Return an entry with absolute paths in some fields; empty ones stay empty."""
    paths = {field: text for field in fields if (text := getattr(entry, field))}
    return replace(entry, **{field: str((directory / text).absolute()) for field, text in paths.items()})


def read_small(path: str) -> bytes:
    """Return the content of a regular file of at most a mebibyte.

    Raises OSError for what is no such file: a pipe or a device might never end.
    """
    # Opening a pipe would wait for somebody who writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES >> 20} MiB")
    return content
