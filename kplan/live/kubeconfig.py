"""The access to a cluster by kubeconfig flags, as in kubectl: files decoded, checked and merged, and what they give.

The `kubernetes` client opens the connections and knows proxies and in-cluster accounts. Files are read here, as errors
of that client quote parts of the file. Nothing is written back to a kubeconfig, and its content is secret: messages
contain only names and addresses of it, paths and expected types.
Upstream: k8s.io/client-go/tools/clientcmd/api/v1/types.go, clientcmd/loader.go.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
import urllib3
from msgspec.structs import replace
from urllib3.util.ssl_ import create_urllib3_context

from kplan.api.decode import DecodeError, convert
from kplan.errors import KubeconfigError, Problem, UsageError
from kplan.live import LiveOptions
from kplan.live.connections import Pem, TlsFiles
from kplan.live.credentials import NEW_HINT, AuthInfo, Secrets, address, read_small, sign_in
from kplan.reading.documents import read_document
from kplan.reading.files import SETTINGS

S = TypeVar("S", bound=msgspec.Struct)

_EXTENSION = "client.authentication.k8s.io/exec"
_DEFAULT_PATH = "~/.kube/config"
_POD_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


class Cluster(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """How to reach an API server."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[dict[str, Any], ...] = ()

    def for_plugin(self) -> dict[str, Any]:
        """Return what an exec plugin is told of it, with the content of the authority's file."""
        authority = self.certificate_authority_data
        if self.certificate_authority and not authority:
            with contextlib.suppress(OSError, ValueError):
                authority = base64.b64encode(read_small(self.certificate_authority)).decode()
        shown = replace(self, certificate_authority="", certificate_authority_data=authority, extensions=())
        configs = (entry.get("extension") for entry in self.extensions if entry.get("name") == _EXTENSION)
        info = {**msgspec.to_builtins(shown), "config": next(configs, None)}
        return {key: value for key, value in info.items() if value or key == "server"}


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


class _Config(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
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


class Access(msgspec.Struct, frozen=True):
    """How to reach one API server as one user."""

    name: str  #: name of the context, or ``in-cluster``
    configuration: Any  #: a ``kubernetes.client.Configuration``
    authorization: Callable[[], str]  #: the Authorization header, or ""; called again when the server refuses it
    impersonation: tuple[tuple[str, str], ...] = ()  #: headers that impersonate another user
    secrets: Secrets = msgspec.field(default_factory=Secrets)  #: texts that no message may contain
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
        return read_small(_POD_NAMESPACE).decode().strip()
    except (OSError, ValueError):
        return ""


def _kubeconfig(paths: str) -> Kubeconfig | None:
    """Read and merge those files that exist of some joined as in ``KUBECONFIG``, the most important first.

    Returns None where there is no default either; raises KubeconfigError when a file cannot be read, or is not a
    kubeconfig.
    """
    named = [path for path in paths.split(os.pathsep) if path]
    existing = [path for path in named or [_DEFAULT_PATH] if _exists(path)]
    if named and not existing:
        hint = "look at --kubeconfig and KUBECONFIG, or use a file with --snapshot"
        raise KubeconfigError(f"no such kubeconfig: {paths}", hint=hint)
    if not existing:
        return None
    config = Kubeconfig(where=os.pathsep.join(existing))
    for path in existing:
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
    file = Path(path).expanduser()
    if not file.is_file():  # it is read more than once, and a pipe may wait for its writer without end
        raise KubeconfigError(f"the kubeconfig {path} cannot be read: it is not a regular file", hint=NEW_HINT)
    read = read_document(file, problems, limits=SETTINGS, expected="a kubeconfig")
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
    return Access("in-cluster", configuration, authorization, _impersonation(options, AuthInfo()), tls=tls)


def _from_files(config: Kubeconfig, options: LiveOptions) -> Access:
    from kubernetes.client import Configuration

    context, cluster_name, user_name = _choose(config, options)
    cluster, user = config.clusters[cluster_name], config.users.get(user_name, AuthInfo())
    secrets = Secrets.of(user, cluster.server, cluster.proxy_url)
    where = f"the kubeconfig {config.where}, context {context},"
    host = address(cluster.server)
    if not host.startswith(("https://", "http://")):
        message = f"the kubeconfig {config.where}: cluster {cluster_name} has no usable server address"
        raise KubeconfigError(message, hint="an address looks like https://203.0.113.7:6443")
    configuration = Configuration()
    configuration.host = host
    configuration.verify_ssl = not cluster.insecure_skip_tls_verify
    if cluster.tls_server_name:
        configuration.tls_server_name = cluster.tls_server_name
    if cluster.proxy_url:
        configuration.proxy = address(cluster.proxy_url)
        if "://" not in configuration.proxy:
            hint = "a proxy looks like http://proxy.example.com:3128"
            raise KubeconfigError(f"{where} has no usable proxy-url", hint=hint)
        split = urlsplit(cluster.proxy_url)
        if split.username is not None:
            account = f"{unquote(split.username)}:{unquote(split.password or '')}"
            configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=account)
    authority = _pem(where, "certificate-authority", cluster.certificate_authority_data, cluster.certificate_authority)
    free = options.stdin_is_free
    authorization, credential = sign_in(user, user_name, cluster.for_plugin, secrets, stdin_is_free=free)
    if credential is not None and credential.client_certificate_data:
        tls = TlsFiles(authority, credential.client_certificate_data.encode(), credential.client_key_data.encode())
    else:
        certificate = _pem(where, "client-certificate", user.client_certificate_data, user.client_certificate)
        tls = TlsFiles(authority, certificate, _pem(where, "client-key", user.client_key_data, user.client_key))
    return Access(context, configuration, authorization, _impersonation(options, user), secrets, tls)


def _choose(config: Kubeconfig, options: LiveOptions) -> tuple[str, str, str]:
    """Return the names of context, cluster and user, with `--context`, `--cluster` and `--user` applied."""
    if not (context := options.context or config.current_context) and not options.cluster:
        names = ", ".join(config.contexts)
        hint = f"give --context, one of: {names}" if names else "get a new kubeconfig"
        raise KubeconfigError(f"the kubeconfig {config.where} has no current context", hint=hint)
    entry = config.contexts.get(context, Context())
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


def _pem(where: str, what: str, data: str, path: str) -> Pem | None:
    """Return what base64 data hold, else the path; None without either."""
    if data:
        try:
            return base64.b64decode(data, validate=False)
        except (binascii.Error, ValueError):
            raise KubeconfigError(f"{where} cannot be used: {what}-data is not base64", hint=NEW_HINT) from None
    if path and not Path(path).is_file():
        raise KubeconfigError(f"{where} cannot be used: no such file: {path} ({what})", hint=NEW_HINT)
    return path or None


def _impersonation(options: LiveOptions, user: AuthInfo) -> tuple[tuple[str, str], ...]:
    if options.impersonate_user:
        user = AuthInfo(impersonate=options.impersonate_user, as_groups=options.impersonate_groups)
    if not user.impersonate:
        return ()
    uids = [("Impersonate-Uid", user.as_uid)] if user.as_uid else []
    groups = [("Impersonate-Group", group) for group in user.as_groups]
    extra = [(f"Impersonate-Extra-{key}", value) for key, values in user.as_user_extra.items() for value in values]
    return (("Impersonate-User", user.impersonate), *uids, *groups, *extra)
