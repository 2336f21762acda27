"""Kubeconfig files as typed values: decoded, checked and merged as in kubectl; and what of them no message may show.

The content of a file is secret: kplan's own messages contain only file names, paths and expected types. A server or a
plugin may repeat what it was sent, so all quoted messages pass through `Secrets`.
Upstream: k8s.io/client-go/tools/clientcmd/api/v1/types.go, clientcmd/loader.go.
"""

from __future__ import annotations

import base64
import errno
import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec.structs import replace

from kplan.api.decode import DecodeError, convert
from kplan.errors import KubeconfigError, Problem
from kplan.reading.documents import read_document
from kplan.reading.files import SETTINGS

S = TypeVar("S", bound=msgspec.Struct)

MOST_BYTES = 1 << 20  #: size of a file that a kubeconfig names: a token or a certificate

NEW_HINT = "get a new kubeconfig, or give another one with --kubeconfig"


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


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _NamedCluster(_Named, frozen=True):
    cluster: Cluster = Cluster()


class _NamedUser(_Named, frozen=True):
    user: AuthInfo = AuthInfo()


class _NamedContext(_Named, frozen=True):
    context: Context = Context()


class _Config(_Kebab, frozen=True):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


class Kubeconfig(msgspec.Struct):
    """All files together; the first entry of a name applies."""

    where: str  #: the files, for messages
    current_context: str = ""
    clusters: dict[str, Cluster] = {}
    users: dict[str, AuthInfo] = {}
    contexts: dict[str, Context] = {}


def read_kubeconfig(paths: Sequence[str], separator: str) -> Kubeconfig:
    """Return the merged content of kubeconfig files, the most important first; `separator` is between their names.

    Raises KubeconfigError when a file cannot be read, or is not a kubeconfig.
    """
    config = Kubeconfig(where=separator.join(paths))
    for path in paths:
        read, directory = _read(path), Path(path).expanduser().parent
        config.current_context = config.current_context or read.current_context
        for cluster in read.clusters:
            config.clusters.setdefault(cluster.name, _located(cluster.cluster, directory, "certificate_authority"))
        for user in read.users:
            located = _located(user.user, directory, "client_certificate", "client_key", "token_file")
            # A bare name is looked up in PATH.
            if located.exec and "/" in located.exec.command:
                located = replace(located, exec=_located(located.exec, directory, "command"))
            config.users.setdefault(user.name, located)
        for context in read.contexts:
            config.contexts.setdefault(context.name, context.context)
    return config


def _read(path: str) -> _Config:
    problems: list[Problem] = []
    read = read_document(Path(path).expanduser(), problems, limits=SETTINGS, expected="a kubeconfig")
    try:
        content = read.value() if read else None
        if read and content is not None:
            return convert(content, _Config, shows_values=False)
    except DecodeError as error:
        problems += error.problems
    why = "; ".join(map(_in_words, problems)) or "it holds nothing"
    raise KubeconfigError(f"the kubeconfig {path} cannot be read: {why}", hint=NEW_HINT)


def _in_words(problem: Problem) -> str:
    if problem.line is not None:
        return f"it is not valid at line {problem.line}"
    return f"{problem.json_path}: {problem.message}" if problem.json_path else problem.message


def _located(entry: S, directory: Path, *fields: str) -> S:
    """Return an entry with absolute paths, which are relative to the file; empty ones stay empty."""
    paths = {field: text for field in fields if (text := getattr(entry, field))}
    return replace(entry, **{field: str((directory / text).absolute()) for field, text in paths.items()})


def read_small(path: str) -> bytes:
    """Return the content of a regular file of at most a mebibyte, else raise OSError: a pipe might never end."""
    # Opening a pipe would wait for somebody who writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES >> 20} MiB")
    return content


_LEAST_LENGTH = 4  #: shorter texts may occur by chance
_PIECE = 12  #: parts of a token with so many characters are hidden, too
_KINDS = (str.islower, str.isupper, str.isdecimal)  #: a token has letters of all these kinds

_HIDDEN = "(hidden)"

#: Fields of a user that are not secret: names and paths.
_KNOWN = frozenset({"username", "client-certificate", "client-key", "tokenFile", "as", "as-groups", "as-uid"})

#: Any web tokens, keys, certificates and passwords in URLs and headers.
_TELLTALE = re.compile(
    r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|$)|"
    r"(?<=://)[^/\s@]+(?=@)|(?i:(?<=bearer )|(?<=basic ))[\w.~+/=-]{4,}",
    re.DOTALL,
)


class Secrets:
    """Texts that must not be shown."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: set[str] = set()
        self._pieces: set[str] = set()
        self.add(*texts)

    @classmethod
    def of(cls, user: AuthInfo, cluster: Cluster) -> Secrets:
        entries: dict[str, object] = msgspec.to_builtins(user)
        secrets = cls(text for field, value in entries.items() if field not in _KNOWN for text in _texts(value))
        for url in (cluster.server, cluster.proxy_url):
            if split := _split(url):
                secrets.add(split.username or "", split.password or "", split.query)
        return secrets

    def add(self, *texts: str) -> None:
        for word in (word for text in texts for word in (text, *text.split()) if len(word) >= _LEAST_LENGTH):
            self._texts.update((word, *_in_base64(word)))
            # A text that looks like a token, of which no part occurs by chance.
            if len(word) >= 2 * _PIECE and all(any(map(kind, word)) for kind in _KINDS):
                self._pieces.update(word[start : start + _PIECE] for start in range(len(word) - _PIECE + 1))

    def hide(self, text: str) -> str:
        for secret in sorted(self._texts, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return _TELLTALE.sub(_HIDDEN, self._without_pieces(text))

    def _without_pieces(self, text: str) -> str:
        if not self._pieces:
            return text
        pieces, end = [], 0
        for start in range(len(text) - _PIECE + 1):
            if text[start : start + _PIECE] in self._pieces:
                if start >= end:
                    pieces += [text[end:start], _HIDDEN]
                end = start + _PIECE
        return "".join([*pieces, text[end:]])


def _in_base64(text: str) -> Iterable[str]:
    """Yield a text in both alphabets of base64, wherever it begins, without the ends that hang on what is around it."""
    data = text.encode("utf-8", "surrogatepass")
    for n_before, n_changed in ((0, 0), (1, 2), (2, 3)):
        whole = bytes(n_before) + data
        whole = whole[: len(whole) - len(whole) % 3]
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            form = encode(whole).decode()[n_changed:]
            if len(form) >= _LEAST_LENGTH:
                yield form


def address(url: str) -> str:
    """Return the public part of a URL: without user, password, query and fragment."""
    if (split := _split(url)) is None:
        return "(no usable address)"
    return f"{split.scheme}://{split.netloc.rpartition('@')[2]}{split.path}".rstrip("/")


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL; None where it has no host, or a port that is none."""
    with suppress(ValueError):
        split = urlsplit(url)
        if split.hostname and (split.port is None or split.port >= 0):
            return split
    return None


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            # Names of settings and variables, and words of the protocol, are not secret.
            if key == "args":
                yield from (argument.partition("=")[2] if argument.startswith("-") else argument for argument in item)
            elif key not in ("name", "apiVersion", "interactiveMode", "installHint", "command"):
                yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
