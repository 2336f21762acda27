"""The credentials of a user: as a kubeconfig has them, what they send, and what of them no message may show.

Exec plugins, programs that print credentials, have limits of time and output, and read standard input only where the
user can answer; their standard output is never shown. A server or a plugin may repeat what it was sent, so all quoted
messages pass through `Secrets`.
Upstream: k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go, pkg/apis/clientauthentication.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import functools
import json
import math
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from kplan.errors import KubeconfigError
from kplan.live.connections import UNREADABLE, OutOfTimeError, in_time, side_by_side

MOST_BYTES = 1 << 20  #: size of a file that a kubeconfig names: a token or a certificate

NEW_HINT = "get a new kubeconfig, or give another one with --kubeconfig"
ClusterInfo = Callable[[], dict[str, Any]]  #: returns what a plugin may know of the cluster

#: Time limits of a plugin in seconds; a plugin that asks the user has longer.
LIMIT_SECONDS = 60.0
INTERACTIVE_LIMIT_SECONDS = 300.0

_MOST_OUTPUT = 1 << 20  # bytes; a credential has some kilobytes
_MOST_QUOTED = 500  # characters of what a plugin says, the last ones, which tell why it ends
_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class AuthProvider(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
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


class AuthInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
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
    def of(cls, user: AuthInfo, *urls: str) -> Secrets:
        entries: dict[str, object] = msgspec.to_builtins(user)
        secrets = cls(text for field, value in entries.items() if field not in _KNOWN for text in _texts(value))
        for url in urls:
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
        shown, end = [], 0
        for start in range(len(text) - _PIECE + 1) if self._pieces else ():
            if text[start : start + _PIECE] in self._pieces:
                if start >= end:
                    shown += [text[end:start], _HIDDEN]
                end = start + _PIECE
        return _TELLTALE.sub(_HIDDEN, "".join([*shown, text[end:]]))


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
    with contextlib.suppress(ValueError):
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


class Credential(msgspec.Struct, frozen=True, rename="camel"):
    """The credential that a plugin prints: a token, or a certificate with its key."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: Credential = Credential()


def run_plugin(
    config: ExecConfig, user: str, cluster_info: ClusterInfo, secrets: Secrets, *, stdin_is_free: bool
) -> Credential:
    """Run the plugin of a user and return its credential, which becomes one of the secrets.

    Raises KubeconfigError when it cannot be run, takes too long, fails, or prints no usable credential.
    """
    name = f"the exec plugin {Path(config.command).name} of user {user}"
    is_interactive = _is_interactive(config, name, stdin_is_free=stdin_is_free)
    environment = {**os.environ, **{variable.name: variable.value for variable in config.env}}
    spec = {"interactive": is_interactive, **({"cluster": cluster_info()} if config.provide_cluster_info else {})}
    exec_info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(exec_info)
    limit = INTERACTIVE_LIMIT_SECONDS if is_interactive else LIMIT_SECONDS
    try:
        code, out, err = _run([config.command, *config.args], environment, limit, is_interactive=is_interactive)
    except OutOfTimeError:
        hint = "run it by hand to see what it waits for, and log in if it asks for that"
        raise KubeconfigError(f"{name} did not end within {limit:g} s", hint=hint) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name, arguments or environment hold what no program can be given"
        hint = " ".join(config.install_hint.split()) or "install the exec plugin, or fix its path in the kubeconfig"
        raise KubeconfigError(f"{name} cannot be run: {why}", hint=hint) from None
    if code:
        output = secrets.hide(" ".join(err.decode("utf-8", "replace").split()))[-_MOST_QUOTED:]
        message = f"{name} ended with {code}" + (f": {output}" if output else "")
        hint = "run it by hand to see what it says, and log in again if it asks for that"
        raise KubeconfigError(message, hint=hint)
    credential = _credential(out, config, name)
    secrets.add(*msgspec.structs.astuple(credential))
    return credential


def _is_interactive(config: ExecConfig, name: str, *, stdin_is_free: bool) -> bool:
    if config.api_version not in _API_VERSIONS:
        hint = f"apiVersion must be {' or '.join(_API_VERSIONS)}"
        raise KubeconfigError(f"{name} is of an API version that is not known", hint=hint)
    if not config.command:
        raise KubeconfigError(f"{name} has no command", hint="get a new kubeconfig")
    has_somebody = stdin_is_free and sys.stdin is not None and sys.stdin.isatty()
    if config.interactive_mode == "Always" and not has_somebody:
        why = "is not a terminal" if stdin_is_free else "is read by kplan"
        message = f"{name} must ask somebody (interactiveMode: Always), and standard input {why}"
        raise KubeconfigError(message, hint="run kplan in a terminal, with files instead of -")
    return has_somebody and config.interactive_mode != "Never"


def _run(
    command: list[str], environment: dict[str, str], limit: float, *, is_interactive: bool
) -> tuple[int, bytes, bytes]:
    """Run a program and return its exit code and output; raises OutOfTimeError.

    A program that is not interactive has its own session, so that all its processes can be ended together.
    """
    process = subprocess.Popen(  # noqa: S603 - what the user's own kubeconfig names
        command,
        stdin=None if is_interactive else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if is_interactive else subprocess.PIPE,
        env=environment,
        start_new_session=not is_interactive,
    )
    try:
        return in_time(limit, functools.partial(_finish, process))
    finally:
        if process.returncode is None:
            with contextlib.suppress(OSError):
                if is_interactive:
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _finish(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Wait for a program, and return its exit code and the beginning of its output; then the pipes are closed."""
    begins = {process.stdout: b"", process.stderr: b""}

    def read(stream: IO[bytes]) -> None:
        with stream, contextlib.suppress(OSError, ValueError):
            begins[stream] = stream.read(_MOST_OUTPUT)

    tasks = [functools.partial(read, stream) for stream in begins if stream is not None]
    list(side_by_side(tasks, len(tasks)))
    return process.wait(), begins[process.stdout], begins[process.stderr]


def _credential(out: bytes, config: ExecConfig, name: str) -> Credential:
    """Decode an ExecCredential; no message quotes it."""
    hint = "run it by hand: it must print an ExecCredential as JSON, with a token or a certificate and its key"
    try:
        answer = msgspec.json.decode(out, type=_Answer)
    except UNREADABLE:
        raise KubeconfigError(f"{name} did not print an ExecCredential", hint=hint) from None
    status = answer.status
    if answer.api_version != config.api_version or answer.kind != "ExecCredential":
        message = f"{name} printed another kind or version than the kubeconfig asks for"
        raise KubeconfigError(message, hint=f"it must print an ExecCredential of {config.api_version}")
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise KubeconfigError(f"{name} gave neither a token nor a certificate and key", hint=hint)
    return status


def sign_in(
    user: AuthInfo, name: str, cluster_info: ClusterInfo, secrets: Secrets, *, stdin_is_free: bool
) -> tuple[Callable[[], str], Credential | None]:
    """Return the source of the Authorization header, and the first credential of a plugin."""
    if user.auth_provider is not None:
        token = _token_of_provider(user.auth_provider.name, user.auth_provider.config, name)
        return lambda: f"Bearer {token}", None
    if user.token_file:
        return lambda: f"Bearer {_read_token(user.token_file, name, secrets)}", None
    if user.token:
        return lambda: f"Bearer {user.token}", None
    if user.exec is not None:
        run = functools.partial(run_plugin, user.exec, name, cluster_info, secrets, stdin_is_free=stdin_is_free)
        waiting = [run()]

        def authorization() -> str:
            # A second call means that the token was refused.
            credential = waiting.pop() if waiting else run()
            return f"Bearer {credential.token}" if credential.token else ""

        return authorization, waiting[0]
    if user.username or user.password:
        account = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        secrets.add(account)
        return lambda: f"Basic {account}", None
    return str, None


def _read_token(path: str, name: str, secrets: Secrets) -> str:
    try:
        token = read_small(path).decode().strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise KubeconfigError(f"the token file of user {name} cannot be read: {why}", hint=NEW_HINT) from None
    secrets.add(token)
    return token


def _token_of_provider(provider: str, settings: dict[str, str], user: str) -> str:
    """Return the token in an auth-provider entry, without renewing it.

    Renewing asks the identity provider with POST and would have to write the new refresh token into the kubeconfig;
    kplan does neither.
    """
    token = settings.get("id-token") or settings.get("access-token") or ""
    expiry, parts = math.inf, token.split(".")
    if len(parts) == 3:  # a JSON web token
        with contextlib.suppress(*UNREADABLE, ValueError):
            expiry = msgspec.json.decode(base64.urlsafe_b64decode(f"{parts[1]}==="), type=_Claims).exp
    if not token or expiry <= time.time():
        message = f"the token of user {user} ({provider or 'auth-provider'}) has run out"
        raise KubeconfigError(message, hint="run a kubectl command once, which renews it, and try again")
    return token


class _Claims(msgspec.Struct):
    exp: float = math.inf  #: in seconds since 1970
