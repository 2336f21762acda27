"""From kubeconfig flags to an address, a trust and credentials, as kubectl would find them.

The `kubernetes` client reads the files, runs exec plugins and knows proxies and in-cluster accounts. What kubectl does
and that client does not is added here: `--cluster` and `--user`, impersonation in the kubeconfig, and errors that stop
instead of being logged while the request goes out without credentials. Nothing is written back to a kubeconfig.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kplan.errors import KubeconfigError, UsageError
from kplan.live.options import LiveOptions

if TYPE_CHECKING:
    import urllib3

__all__ = ["Access", "load_access"]

#: The name of the context that stands for `--cluster` and `--user`.
_OVERRIDE = "kplan-flags"

_DEFAULT_PATH = "~/.kube/config"


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one API server as one user.

    Attributes
    ----------
    name : str
        What people call the cluster: the context's name, or ``in-cluster``.
    configuration
        A ``kubernetes.client.Configuration``.
    impersonation : tuple of (str, str)
        Headers that act as somebody else.
    """

    name: str
    configuration: Any
    impersonation: tuple[tuple[str, str], ...] = ()

    @property
    def server(self) -> str:
        """The address, without a slash at its end."""
        return str(self.configuration.host).rstrip("/")

    @property
    def verifies_tls(self) -> bool:
        """Whether the server's certificate is checked."""
        return bool(self.configuration.verify_ssl)

    def open_pool(self, connections: int) -> urllib3.PoolManager:
        """Open connections as the `kubernetes` client would: certificates, server name, proxies.

        Raises
        ------
        KubeconfigError
            When a proxy or a certificate cannot be used.
        """
        from kubernetes.client.rest import RESTClientObject

        self.configuration.connection_pool_maxsize = connections
        try:
            return RESTClientObject(self.configuration).pool_manager
        except Exception as error:
            raise KubeconfigError(
                f"the connection settings of {self.name} cannot be used: {error}",
                hint="look at proxy-url and the certificates in the kubeconfig; a SOCKS proxy needs PySocks",
            ) from error

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers that say who asks; an exec plugin is run anew when its token has run out."""
        with _errors_raised("the credentials cannot be renewed"):
            token = self.configuration.auth_settings().get("BearerToken", {}).get("value")
        if token:
            yield "Authorization", str(token).strip()
        yield from self.impersonation


def load_access(options: LiveOptions) -> Access:
    """Find the way to the cluster that `options` name.

    The order is kubectl's: the given kubeconfig files, else ``~/.kube/config``, else the account of the pod around.

    Raises
    ------
    KubeconfigError
        No kubeconfig, or one that cannot be used: unreadable, no such context, failing exec plugin, expired token.
    """
    if options.impersonate_groups and not options.impersonate_user:
        raise UsageError(
            "--as-group needs --as", hint="name the user too, for example --as system:serviceaccount:NS:NAME"
        )
    paths = _existing_paths(options.kubeconfig)
    access = _from_files(paths, options) if paths else _from_pod(options)
    if options.insecure_skip_tls_verify:
        access.configuration.verify_ssl = False
    return access


def _existing_paths(kubeconfig: str) -> tuple[str, ...]:
    from kubernetes.config.kube_config import ENV_KUBECONFIG_PATH_SEPARATOR

    named = [path for path in kubeconfig.split(ENV_KUBECONFIG_PATH_SEPARATOR) if path]
    existing = tuple(path for path in named or [_DEFAULT_PATH] if Path(path).expanduser().is_file())
    if named and not existing:
        raise KubeconfigError(
            f"no such kubeconfig: {kubeconfig}",
            hint="look at --kubeconfig and KUBECONFIG, or ask a file instead with --snapshot",
        )
    return existing


def _from_pod(options: LiveOptions) -> Access:
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # the client has no annotations here
    except ConfigException as error:
        raise KubeconfigError(
            "no cluster to ask: no kubeconfig, and not inside a pod",
            hint="give --kubeconfig or set KUBECONFIG, or ask a file with --snapshot (try --snapshot demo)",
        ) from error
    for flag, value in (("--context", options.context), ("--cluster", options.cluster), ("--user", options.user)):
        if value:
            raise KubeconfigError(f"{flag} {value}: there is no kubeconfig to find it in", hint="give --kubeconfig")
    return Access("in-cluster", configuration, _impersonation(options, {}))


def _from_files(paths: tuple[str, ...], options: LiveOptions) -> Access:
    from kubernetes.client import Configuration
    from kubernetes.config.kube_config import ENV_KUBECONFIG_PATH_SEPARATOR, KubeConfigLoader, KubeConfigMerger

    where = ENV_KUBECONFIG_PATH_SEPARATOR.join(paths)
    with _errors_raised(f"the kubeconfig {where} cannot be read"):
        merged = KubeConfigMerger(where).config  # type: ignore[no-untyped-call]  # the client has no annotations here
        name = _choose_context(merged.value, options, where)
    user = _entry(merged.value, "users", name.user).get("user") or {}
    _resolve_auth_provider(user, name.user)
    configuration = Configuration()
    with _errors_raised(f"the kubeconfig {where}, context {name.context}, cannot be used", _install_hint(user)):
        loader = KubeConfigLoader(config_dict=merged, active_context=name.loaded, config_base_path=None)  # type: ignore[no-untyped-call]  # the client has no annotations here
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]  # the client has no annotations here
        cluster = _entry(merged.value, "clusters", name.cluster)["cluster"]
        if cluster.get("proxy-url"):
            # Older clients pass over it.
            configuration.proxy = cluster["proxy-url"]
    if not str(configuration.host).startswith(("https://", "http://")):
        raise KubeconfigError(
            f"the kubeconfig {where}: cluster {name.cluster} has no usable server address: {configuration.host}",
            hint="an address looks like https://203.0.113.7:6443",
        )
    return Access(name.context, configuration, _impersonation(options, user))


@dataclass(frozen=True, slots=True)
class _Names:
    """Which entries of the kubeconfig are meant; `loaded` is the context that joins them."""

    context: str
    cluster: str
    user: str
    loaded: str


def _choose_context(config: dict[str, Any], options: LiveOptions, where: str) -> _Names:
    """Apply `--context`, `--cluster` and `--user`, and check that what they name is there."""
    context = options.context or config.get("current-context") or ""
    contexts = _names(config, "contexts")
    if not context and not options.cluster:
        raise KubeconfigError(
            f"the kubeconfig {where} has no current context",
            hint=f"give --context, one of: {', '.join(contexts)}" if contexts else "fetch the kubeconfig anew",
        )
    if context and context not in contexts:
        raise _unknown("context", context, contexts, where)
    entry = _entry(config, "contexts", context).get("context") or {}
    cluster = options.cluster or entry.get("cluster") or ""
    user = options.user or entry.get("user") or ""
    if cluster not in _names(config, "clusters"):
        raise _unknown("cluster", cluster, _names(config, "clusters"), where)
    if user and user not in _names(config, "users"):
        raise _unknown("user", user, _names(config, "users"), where)
    loaded = context
    if options.cluster or options.user:
        loaded = _OVERRIDE
        config["contexts"].append({"name": loaded, "context": {"cluster": cluster, "user": user}})
    return _Names(context or cluster, cluster, user, loaded)


def _unknown(what: str, name: str, known: list[str], where: str) -> KubeconfigError:
    return KubeconfigError(
        f"the kubeconfig {where} has no {what} named {name!r}",
        hint=f"it has: {', '.join(known)}" if known else f"it has no {what}s at all",
    )


def _plain(node: Any) -> Any:
    """Return the value inside the client's ConfigNode, or the value itself."""
    return getattr(node, "value", node)


def _names(config: dict[str, Any], section: str) -> list[str]:
    return [str(_plain(entry)["name"]) for entry in _plain(config.get(section)) or ()]


def _entry(config: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    entries = (_plain(entry) for entry in _plain(config.get(section)) or ())
    return next((entry for entry in entries if entry.get("name") == name), {})


def _resolve_auth_provider(user: dict[str, Any], name: str) -> None:
    """Use the token that an auth-provider entry holds, and never renew it.

    Renewing asks the identity provider with POST and would have to write the new refresh token into the kubeconfig;
    both are kubectl's business.
    """
    provider = user.get("auth-provider")
    if not provider:
        return
    settings = provider.get("config") or {}
    token = settings.get("id-token") or settings.get("access-token")
    expiry = _token_expiry(token) if token else None
    if not token or (expiry is not None and expiry <= time.time()):
        raise KubeconfigError(
            f"the token of user {name} ({provider.get('name', 'auth-provider')}) has run out",
            hint="run a kubectl command once, which renews it, and try again",
        )
    del user["auth-provider"]
    user["token"] = token


def _token_expiry(token: str) -> float | None:
    """Seconds since the epoch at which a JSON web token ends; None when it does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return None
    expiry = claims.get("exp") if isinstance(claims, dict) else None
    return float(expiry) if isinstance(expiry, int | float) else None


def _install_hint(user: dict[str, Any]) -> str:
    plugin = user.get("exec") or {}
    return " ".join(str(plugin.get("installHint") or "").split())


def _impersonation(options: LiveOptions, user: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the headers that act as somebody else; flags win over the kubeconfig's own ``as``."""
    if options.impersonate_user:
        headers = [("Impersonate-User", options.impersonate_user)]
        headers += [("Impersonate-Group", group) for group in options.impersonate_groups]
        return tuple(headers)
    if not user.get("as"):
        return ()
    headers = [("Impersonate-User", str(user["as"]))]
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(user["as-uid"])))
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{key}", str(value)) for value in values]
    return tuple(headers)


class _Collected(logging.Handler):
    """Keeps the messages of log records."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def _errors_raised(what: str, hint: str = "") -> Iterator[None]:
    """Turn whatever the `kubernetes` client raises or logs into a KubeconfigError.

    The client logs a failing exec plugin to the root logger and goes on without credentials, which ends as a 401
    that says nothing; its other errors are of many types, down to KeyError.
    """
    collected = _Collected()
    root = logging.getLogger()
    root.addHandler(collected)
    try:
        yield
    except KubeconfigError:
        raise
    except Exception as error:
        raise KubeconfigError(
            f"{what}: {str(error) or type(error).__name__}", hint=hint or _hint_for(str(error))
        ) from error
    finally:
        root.removeHandler(collected)
    if collected.messages:
        message = collected.messages[0]
        raise KubeconfigError(f"{what}: {message}", hint=hint or _hint_for(message))


def _hint_for(message: str) -> str:
    if "No such file or directory" in message or "Permission denied" in message:
        return "the kubeconfig names a program or file that is not here; install the exec plugin or fix the path"
    if message.startswith("exec:"):
        return "run the plugin by hand to see what it says, and log in again if it asks for that"
    return "fetch the kubeconfig anew, or give another one with --kubeconfig"
