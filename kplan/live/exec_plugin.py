"""Exec plugins: programs in a kubeconfig that print credentials, run as kubectl does, with limits.

A plugin has limits of time and output, and reads kplan's standard input only where the user can answer it.
Its standard output is never shown.
Upstream: k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go, pkg/apis/clientauthentication.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec.structs import replace

from kplan.errors import KubeconfigError
from kplan.live.kubeconfig_file import Cluster, ExecConfig, read_small
from kplan.live.secrets import Secrets
from kplan.live.waiting import OutOfTimeError, in_time, side_by_side

#: Time limits of a plugin in seconds; a plugin that asks the user has longer.
LIMIT_SECONDS = 60.0
INTERACTIVE_LIMIT_SECONDS = 300.0

_MOST_OUTPUT = 1 << 20
_MOST_QUOTED = 500
_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXTENSION = "client.authentication.k8s.io/exec"


class Credential(msgspec.Struct, frozen=True):
    """The credential that a plugin prints: a token, or a certificate with its key."""

    token: str
    certificate: str
    key: str


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status = msgspec.field(default_factory=_Status)


def run_plugin(config: ExecConfig, user: str, cluster: Cluster, secrets: Secrets, *, stdin_is_free: bool) -> Credential:
    """Run a plugin and return its credential.

    Raises KubeconfigError when it cannot be run, takes too long, fails, or prints no usable credential.

    Parameters
    ----------
    user : name of the user in the kubeconfig
    secrets : hidden in messages of the plugin; receives the credential
    stdin_is_free : kplan itself does not read standard input
    """
    name = f"the exec plugin {Path(config.command).name} of user {user}"
    is_interactive = _is_interactive(config, name, stdin_is_free=stdin_is_free)
    environment = {**os.environ, **{variable.name: variable.value for variable in config.env}}
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(_exec_info(config, cluster, is_interactive=is_interactive))
    try:
        code, out, err = _run([config.command, *config.args], environment, is_interactive=is_interactive)
    except TimeoutError as error:
        raise KubeconfigError(
            f"{name} did not end within {error.args[0]:g} s",
            hint="run it by hand to see what it waits for, and log in if it asks for that",
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name, arguments or environment hold what no program can be given"
        hint = " ".join(config.install_hint.split()) or "install the exec plugin, or fix its path in the kubeconfig"
        raise KubeconfigError(f"{name} cannot be run: {why}", hint=hint) from None
    if code:
        output = secrets.hide(" ".join(err.decode("utf-8", "replace").split()))[-_MOST_QUOTED:]
        raise KubeconfigError(
            f"{name} ended with {code}" + (f": {output}" if output else ""),
            hint="run it by hand to see what it says, and log in again if it asks for that",
        )
    credential = _credential(out, config, name)
    secrets.add(credential.token, credential.certificate, credential.key)
    return credential


def _is_interactive(config: ExecConfig, name: str, *, stdin_is_free: bool) -> bool:
    """Tell whether the plugin may ask the user."""
    if config.api_version not in _API_VERSIONS:
        known = " or ".join(_API_VERSIONS)
        raise KubeconfigError(f"{name} is of an API version that is not known", hint=f"apiVersion must be {known}")
    if not config.command:
        raise KubeconfigError(f"{name} has no command", hint="get a new kubeconfig")
    has_somebody = stdin_is_free and sys.stdin is not None and sys.stdin.isatty()
    if config.interactive_mode == "Always" and not has_somebody:
        why = "is not a terminal" if stdin_is_free else "is read by kplan"
        raise KubeconfigError(
            f"{name} must ask somebody (interactiveMode: Always), and standard input {why}",
            hint="run kplan in a terminal, with files instead of -",
        )
    return has_somebody and config.interactive_mode != "Never"


def _exec_info(config: ExecConfig, cluster: Cluster, *, is_interactive: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {"interactive": is_interactive}
    if config.provide_cluster_info:
        extensions = (entry.get("extension") for entry in cluster.extensions if entry.get("name") == _EXTENSION)
        shown = replace(
            cluster, certificate_authority="", certificate_authority_data=_authority(cluster), extensions=()
        )
        cluster_info = {**msgspec.to_builtins(shown), "config": next(extensions, None)}
        spec["cluster"] = {key: value for key, value in cluster_info.items() if value or key == "server"}
    return {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}


def _authority(cluster: Cluster) -> str:
    import base64

    if cluster.certificate_authority_data or not cluster.certificate_authority:
        return cluster.certificate_authority_data
    with contextlib.suppress(OSError, ValueError):
        return base64.b64encode(read_small(cluster.certificate_authority)).decode()
    return ""


def _run(command: list[str], environment: dict[str, str], *, is_interactive: bool) -> tuple[int, bytes, bytes]:
    """Run a program and return its exit code and output; raises TimeoutError with its time limit.

    A program that is not interactive has its own session, so that all its processes can be ended together.
    """
    limit = INTERACTIVE_LIMIT_SECONDS if is_interactive else LIMIT_SECONDS
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
    except OutOfTimeError:
        raise TimeoutError(limit) from None
    finally:
        if process.returncode is None:
            _end(process, has_session=not is_interactive)


def _end(process: subprocess.Popen[bytes], *, has_session: bool) -> None:
    with contextlib.suppress(OSError):
        if has_session:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _finish(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Wait for a program, and return its exit code and the beginning of its output; then the pipes are closed."""

    def read(stream: IO[bytes] | None) -> tuple[IO[bytes] | None, bytes]:
        if stream is not None:
            with stream, contextlib.suppress(OSError, ValueError):
                return stream, stream.read(_MOST_OUTPUT)
        return stream, b""

    streams = (process.stdout, process.stderr)
    begins = dict(side_by_side([functools.partial(read, stream) for stream in streams], len(streams)))
    return process.wait(), begins[process.stdout], begins[process.stderr]


def _credential(out: bytes, config: ExecConfig, name: str) -> Credential:
    """Decode an ExecCredential; no message quotes it."""
    hint = "run it by hand: it must print an ExecCredential as JSON, with a token or a certificate and its key"
    try:
        answer = msgspec.json.decode(out, type=_Answer)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise KubeconfigError(f"{name} did not print an ExecCredential", hint=hint) from None
    status = answer.status
    if answer.api_version != config.api_version or answer.kind != "ExecCredential":
        raise KubeconfigError(
            f"{name} printed another kind or version than the kubeconfig asks for",
            hint=f"it must print an ExecCredential of {config.api_version}",
        )
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise KubeconfigError(f"{name} gave neither a token nor a certificate and key", hint=hint)
    return Credential(status.token, status.client_certificate_data, status.client_key_data)
