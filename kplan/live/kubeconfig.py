"""Address, TLS settings and credentials from kubeconfig flags, as in kubectl.

The `kubernetes` client opens the connections and knows proxies and in-cluster accounts. Files are read here, as errors
of that client quote parts of the file. Nothing is written back to a kubeconfig, and messages contain only names and
addresses of it. Exec plugins, programs that print credentials, have limits of time and output, and read standard input
only where the user can answer; their standard output is never shown.
Upstream: k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go, pkg/apis/clientauthentication.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import json
import math
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import msgspec
import urllib3
from msgspec.structs import replace
from urllib3.util.ssl_ import create_urllib3_context

from kplan.errors import KubeconfigError, UsageError
from kplan.live import LiveOptions
from kplan.live import kubeconfig_file as files
from kplan.live.connections import UNREADABLE, OutOfTimeError, Pem, TlsFiles, in_time, side_by_side

#: Time limits of a plugin in seconds; a plugin that asks the user has longer.
LIMIT_SECONDS = 60.0
INTERACTIVE_LIMIT_SECONDS = 300.0

_MOST_OUTPUT = 1 << 20  # bytes; a credential has some kilobytes
_MOST_QUOTED = 500  # characters of what a plugin says, the last ones, which tell why it ends
_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXTENSION = "client.authentication.k8s.io/exec"


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
    config: files.ExecConfig, user: str, cluster: files.Cluster, secrets: files.Secrets, *, stdin_is_free: bool
) -> Credential:
    """Run the plugin of a user and return its credential, which becomes one of the secrets.

    Raises KubeconfigError when it cannot be run, takes too long, fails, or prints no usable credential.
    """
    name = f"the exec plugin {Path(config.command).name} of user {user}"
    is_interactive = _is_interactive(config, name, stdin_is_free=stdin_is_free)
    environment = {**os.environ, **{variable.name: variable.value for variable in config.env}}
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(_exec_info(config, cluster, is_interactive=is_interactive))
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


def _is_interactive(config: files.ExecConfig, name: str, *, stdin_is_free: bool) -> bool:
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


def _exec_info(config: files.ExecConfig, cluster: files.Cluster, *, is_interactive: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {"interactive": is_interactive}
    if config.provide_cluster_info:
        extensions = (entry.get("extension") for entry in cluster.extensions if entry.get("name") == _EXTENSION)
        authority = cluster.certificate_authority_data
        if cluster.certificate_authority and not authority:
            with contextlib.suppress(OSError, ValueError):
                authority = base64.b64encode(files.read_small(cluster.certificate_authority)).decode()
        shown = replace(cluster, certificate_authority="", certificate_authority_data=authority, extensions=())
        cluster_info = {**msgspec.to_builtins(shown), "config": next(extensions, None)}
        spec["cluster"] = {key: value for key, value in cluster_info.items() if value or key == "server"}
    return {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}


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


def _credential(out: bytes, config: files.ExecConfig, name: str) -> Credential:
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


_DEFAULT_PATH = "~/.kube/config"
_POD_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


class Access(msgspec.Struct, frozen=True):
    """How to reach one API server as one user."""

    name: str  #: name of the context, or ``in-cluster``
    configuration: Any  #: a ``kubernetes.client.Configuration``
    authorization: Callable[[], str]  #: the Authorization header, or ""; called again when the server refuses it
    impersonation: tuple[tuple[str, str], ...] = ()  #: headers that impersonate another user
    secrets: files.Secrets = msgspec.field(default_factory=files.Secrets)  #: texts that no message may contain
    tls: TlsFiles = TlsFiles()  #: certificates of both sides, and the key

    @property
    def server(self) -> str:
        """The address, without a slash at its end."""
        return str(self.configuration.host).rstrip("/")

    @property
    def verifies_tls(self) -> bool:
        return bool(self.configuration.verify_ssl)

    def open_pool(self, connections: int) -> urllib3.PoolManager:
        """Return a pool as that of the `kubernetes` client; KubeconfigError for an unusable proxy or certificate."""
        from kubernetes.client.rest import RESTClientObject

        self.configuration.connection_pool_maxsize = connections
        try:
            pool = RESTClientObject(self.configuration).pool_manager
            context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if self.verifies_tls else ssl.CERT_NONE)
            self.tls.load_into(context)
        except Exception:  # noqa: BLE001 - settings of proxies and certificates raise many errors
            hint = "look at proxy-url and the certificates in the kubeconfig; a SOCKS proxy needs PySocks"
            raise KubeconfigError(f"the connection settings of {self.name} cannot be used", hint=hint) from None
        pool.connection_pool_kw["ssl_context"] = context
        return pool

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers for authentication; an exec plugin runs again when its token has expired."""
        if value := self.authorization().strip():
            yield "Authorization", value
        yield from self.impersonation


def load_access(options: LiveOptions) -> Access:
    """Return the access to the cluster of `options`.

    The order is kubectl's: the kubeconfig of the options, else ``~/.kube/config``, else the pod's service account.
    Raises KubeconfigError without a kubeconfig, or for one that cannot be used: unreadable, no such context, failing
    exec plugin, expired token.
    """
    if options.impersonate_groups and not options.impersonate_user:
        hint = "name the user too, for example --as system:serviceaccount:NS:NAME"
        raise UsageError("--as-group needs --as", hint=hint)
    config = _kubeconfig(options.kubeconfig)
    access = _from_files(config, options) if config else _from_pod(options)
    if options.insecure_skip_tls_verify:
        access.configuration.verify_ssl = False
    return access


def context_names(kubeconfig: str) -> list[str]:
    """Return the names of all contexts; raises KubeconfigError."""
    config = _kubeconfig(kubeconfig)
    return [*config.contexts] if config else []


def context_namespace(options: LiveOptions) -> str:
    """Return the namespace of the context, or of kplan's own pod; empty for none. Raises KubeconfigError."""
    if config := _kubeconfig(options.kubeconfig):
        context = config.contexts.get(options.context or config.current_context)
        return context.namespace if context else ""
    try:
        return files.read_small(_POD_NAMESPACE).decode().strip()
    except (OSError, ValueError):
        return ""


def _kubeconfig(paths: str) -> files.Kubeconfig | None:
    """Read the files that exist of some joined as in ``KUBECONFIG``; None where there is no default either."""
    named = [path for path in paths.split(os.pathsep) if path]
    existing = [path for path in named or [_DEFAULT_PATH] if _exists(path)]
    if named and not existing:
        hint = "look at --kubeconfig and KUBECONFIG, or use a file with --snapshot"
        raise KubeconfigError(f"no such kubeconfig: {paths}", hint=hint)
    return files.read_kubeconfig(existing, os.pathsep) if existing else None


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def _from_pod(options: LiveOptions) -> Access:
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # the client has no annotations here
    except (ConfigException, OSError, ValueError):
        hint = "give --kubeconfig or set KUBECONFIG, or use a file with --snapshot (try --snapshot demo)"
        raise KubeconfigError("no cluster to ask: no kubeconfig, and not inside a pod", hint=hint) from None
    for flag, value in (("--context", options.context), ("--cluster", options.cluster), ("--user", options.user)):
        if value:
            raise KubeconfigError(f"{flag} {value}: there is no kubeconfig to find it in", hint="give --kubeconfig")

    def authorization() -> str:
        try:
            return str(configuration.auth_settings().get("BearerToken", {}).get("value") or "")
        except (ConfigException, OSError, ValueError):
            hint = "is it still mounted in this container?"
            raise KubeconfigError("the token of the pod's account cannot be read", hint=hint) from None

    tls = TlsFiles(authority=configuration.ssl_ca_cert or None)
    configuration.ssl_ca_cert = None
    return Access("in-cluster", configuration, authorization, _impersonation(options, files.AuthInfo()), tls=tls)


def _from_files(config: files.Kubeconfig, options: LiveOptions) -> Access:
    from kubernetes.client import Configuration

    context, cluster_name, user_name = _choose(config, options)
    cluster, user = config.clusters[cluster_name], config.users.get(user_name, files.AuthInfo())
    secrets = files.Secrets.of(user, cluster)
    where = f"the kubeconfig {config.where}, context {context},"
    host = files.address(cluster.server)
    if not host.startswith(("https://", "http://")):
        message = f"the kubeconfig {config.where}: cluster {cluster_name} has no usable server address"
        raise KubeconfigError(message, hint="an address looks like https://203.0.113.7:6443")
    configuration = Configuration()
    configuration.host = host
    configuration.verify_ssl = not cluster.insecure_skip_tls_verify
    if cluster.tls_server_name:
        configuration.tls_server_name = cluster.tls_server_name
    if cluster.proxy_url:
        _set_proxy(configuration, cluster.proxy_url, where)
    authority = _pem(where, "certificate-authority", cluster.certificate_authority_data, cluster.certificate_authority)
    authorization, credential = _sign_in(user, user_name, cluster, secrets, options)
    if credential is not None and credential.client_certificate_data:
        tls = TlsFiles(authority, credential.client_certificate_data.encode(), credential.client_key_data.encode())
    else:
        certificate = _pem(where, "client-certificate", user.client_certificate_data, user.client_certificate)
        tls = TlsFiles(authority, certificate, _pem(where, "client-key", user.client_key_data, user.client_key))
    return Access(context, configuration, authorization, _impersonation(options, user), secrets, tls)


def _choose(config: files.Kubeconfig, options: LiveOptions) -> tuple[str, str, str]:
    """Return the names of context, cluster and user, with `--context`, `--cluster` and `--user` applied."""
    if not (context := options.context or config.current_context) and not options.cluster:
        names = ", ".join(config.contexts)
        hint = f"give --context, one of: {names}" if names else "get a new kubeconfig"
        raise KubeconfigError(f"the kubeconfig {config.where} has no current context", hint=hint)
    entry = config.contexts.get(context, files.Context())
    cluster, user = options.cluster or entry.cluster, options.user or entry.user
    for what, name, known in (
        ("context", context, config.contexts),
        ("cluster", cluster, config.clusters),
        ("user", user, config.users),
    ):
        if name not in known and (name or what == "cluster"):
            hint = f"it has: {', '.join(known)}" if known else f"it has no {what}s at all"
            raise KubeconfigError(f"the kubeconfig {config.where} has no {what} named {name!r}", hint=hint)
    return context or cluster, cluster, user


def _set_proxy(configuration: Any, url: str, where: str) -> None:
    shown = files.address(url)
    if "://" not in shown:
        hint = "a proxy looks like http://proxy.example.com:3128"
        raise KubeconfigError(f"{where} has no usable proxy-url", hint=hint)
    split = urlsplit(url)
    configuration.proxy = shown
    if split.username is not None:
        account = f"{unquote(split.username)}:{unquote(split.password or '')}"
        configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=account)


def _pem(where: str, what: str, data: str, path: str) -> Pem | None:
    """Return what base64 data hold, else the path; None without either."""
    if data:
        try:
            return base64.b64decode(data, validate=False)
        except (binascii.Error, ValueError):
            raise KubeconfigError(f"{where} cannot be used: {what}-data is not base64", hint=files.NEW_HINT) from None
    if path and not Path(path).is_file():
        raise KubeconfigError(f"{where} cannot be used: no such file: {path} ({what})", hint=files.NEW_HINT)
    return path or None


def _sign_in(
    user: files.AuthInfo, name: str, cluster: files.Cluster, secrets: files.Secrets, options: LiveOptions
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
        free = options.stdin_is_free
        run = functools.partial(run_plugin, user.exec, name, cluster, secrets, stdin_is_free=free)
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


def _read_token(path: str, name: str, secrets: files.Secrets) -> str:
    try:
        token = files.read_small(path).decode().strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise KubeconfigError(f"the token file of user {name} cannot be read: {why}", hint=files.NEW_HINT) from None
    secrets.add(token)
    return token


def _token_of_provider(provider: str, settings: dict[str, str], user: str) -> str:
    """Return the token in an auth-provider entry, without renewing it.

    Renewing asks the identity provider with POST and would have to write the new refresh token into the kubeconfig;
    kplan does neither.
    """
    token = settings.get("id-token") or settings.get("access-token") or ""
    if not token or _token_expiry(token) <= time.time():
        message = f"the token of user {user} ({provider or 'auth-provider'}) has run out"
        raise KubeconfigError(message, hint="run a kubectl command once, which renews it, and try again")
    return token


class _Claims(msgspec.Struct):
    exp: float = math.inf


def _token_expiry(token: str) -> float:
    """Return the expiry of a JSON web token, in seconds since 1970; infinite where it has none."""
    parts = token.split(".")
    if len(parts) == 3:
        with contextlib.suppress(*UNREADABLE, ValueError):
            return msgspec.json.decode(base64.urlsafe_b64decode(f"{parts[1]}==="), type=_Claims).exp
    return math.inf


def _impersonation(options: LiveOptions, user: files.AuthInfo) -> tuple[tuple[str, str], ...]:
    if options.impersonate_user:
        user = files.AuthInfo(impersonate=options.impersonate_user, as_groups=options.impersonate_groups)
    if not user.impersonate:
        return ()
    extra = [(f"Impersonate-Extra-{key}", value) for key, values in user.as_user_extra.items() for value in values]
    return (
        ("Impersonate-User", user.impersonate),
        *([("Impersonate-Uid", user.as_uid)] if user.as_uid else []),
        *(("Impersonate-Group", group) for group in user.as_groups),
        *extra,
    )
