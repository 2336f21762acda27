"""Errors of connections, in the user's terms."""

from __future__ import annotations

import http.client
import ssl

from urllib3.exceptions import (
    ConnectTimeoutError,
    DecodeError,
    HTTPError,
    IncompleteRead,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from kplan.errors import UnreachableError

#: Time limit of a connection; a server that does not accept it in time counts as absent.
CONNECT_SECONDS = 10.0


class BrokenAnswerError(UnreachableError):
    """A connection that ended before the answer; another attempt may succeed."""


#: Error of the transport, its message and hint; the first match applies.
_FAULTS: tuple[tuple[type[HTTPError], str, str], ...] = (
    (
        ProxyError,
        "the proxy on the way to {server} does not let the request through: {cause}",
        "look at proxy-url in the kubeconfig, and at HTTPS_PROXY and NO_PROXY",
    ),
    (
        NameResolutionError,
        "the host name of {server} is unknown",
        "look at the server address in the kubeconfig; does reaching it need a VPN?",
    ),
    (
        NewConnectionError,
        "cannot connect to {server}: {cause}",
        "is the API server running, and is the address in the kubeconfig right?",
    ),
    (
        ConnectTimeoutError,
        "no connection to {server} in time",
        "is the cluster up, and does reaching it need a VPN or a proxy?",
    ),
    (LocationParseError, "not an address: {server}", "look at the server address in the kubeconfig"),
)

#: Part of OpenSSL's reason, and the hint, for certificates that are not trusted.
_UNTRUSTED: tuple[tuple[str, str], ...] = (
    ("ostname", "the server address must be a name in the certificate; tls-server-name in the kubeconfig sets another"),
    ("IP address", "the server address must be in the certificate; tls-server-name in the kubeconfig sets a name"),
    ("expired", "the certificate of the API server must be renewed; is the clock of this machine right?"),
    ("", "the kubeconfig's certificate authority is of another cluster or out of date; get a new kubeconfig"),
)

#: Part of OpenSSL's message, with message and hint, for other failed handshakes.
_HANDSHAKES: tuple[tuple[str, str, str], ...] = (
    ("wrong_version_number", "{server} does not speak TLS", "should the server address begin with http://?"),
    (
        "alert",
        "{server} refused the TLS connection: {error}",
        "the client certificate in the kubeconfig may have expired or be of another cluster",
    ),
    (
        "",
        "no TLS connection to {server}: {error}",
        "look at the certificates in the kubeconfig; they must be PEM and belong together",
    ),
)


#: Errors of libraries without an error of the operating system as cause.
_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (NameResolutionError, "the host name is unknown"),
    (ConnectTimeoutError, "no connection in time"),
    (ReadTimeoutError, "no answer in time"),
    (IncompleteRead, "the answer is shorter than announced"),
    (http.client.RemoteDisconnected, "it hung up without an answer"),
    (http.client.IncompleteRead, "the answer is shorter than announced"),
    (DecodeError, "the answer cannot be unpacked"),
    (LocationParseError, "that is no address"),
)


def explain(error: HTTPError, server: str, timeout: float | None) -> UnreachableError:
    """Return the error to raise for a request that ended without a complete answer."""
    if isinstance(error, SSLError):
        return _explain_tls(error, server)
    for kind, message, hint in _FAULTS:
        if isinstance(error, kind):
            return UnreachableError(message.format(server=server, cause=reason_of(error)), hint=hint)
    if isinstance(error, ReadTimeoutError):
        return too_slow(server, timeout)
    if isinstance(error, ProtocolError):
        return BrokenAnswerError(
            f"the connection to {server} broke off in the middle of an answer: {reason_of(error)}",
            hint="try again; a proxy or load balancer on the way may be cutting long answers short",
        )
    return UnreachableError(f"cannot ask {server}: {reason_of(error)}")


def too_slow(server: str, timeout: float | None) -> UnreachableError:
    within = "" if timeout is None else f" within {timeout:g} s"
    return UnreachableError(
        f"no complete answer from {server}{within}",
        hint="give it more time with --request-timeout, for example --request-timeout 2m",
    )


def reason_of(error: BaseException) -> str:
    """Return the reason of an error in the words of the operating system or of TLS, not of a library."""
    visited: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        current = waiting.pop(0)
        if not isinstance(current, BaseException) or current in visited:
            continue
        visited.append(current)
        if isinstance(current, ssl.SSLError):
            return tls_reason(current)
        if isinstance(current, OSError) and current.strerror:
            return current.strerror[:1].lower() + current.strerror[1:]
        waiting += [current.__cause__, current.__context__, *current.args]
    for kind, reason in _REASONS:
        if any(isinstance(error, kind) for error in visited):
            return reason
    return "it does not speak HTTP as it should"


def tls_reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason in lower-case words: ``certificate verify failed``."""
    return (error.reason or "the handshake failed").replace("_", " ").lower()


def _explain_tls(error: SSLError, server: str) -> UnreachableError:
    cause = error.args[0] if error.args else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = cause.verify_message or tls_reason(cause)
        hint = next(hint for part, hint in _UNTRUSTED if part in reason)
        return UnreachableError(f"the certificate of {server} is not trusted: {reason}", hint=hint)
    description = str(cause).lower()
    message, hint = next((text, hint) for part, text, hint in _HANDSHAKES if part in description)
    reason = tls_reason(cause) if isinstance(cause, ssl.SSLError) else "a certificate or key cannot be used"
    return UnreachableError(message.format(server=server, error=reason), hint=hint)
