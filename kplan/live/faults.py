"""Why there was no answer, in words of the user's world."""

from __future__ import annotations

import ssl

from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from kplan.errors import UnreachableError

__all__ = ["CONNECT_SECONDS", "BrokenAnswerError", "explain", "too_slow"]

#: A server that does not even take the connection within this time is not there.
CONNECT_SECONDS = 10.0


class BrokenAnswerError(UnreachableError):
    """The connection ended before the answer did; asking again may help."""


#: Error of the transport to what to say and what to try; the first that fits counts.
_FAULTS: tuple[tuple[type[HTTPError], str, str], ...] = (
    (
        ProxyError,
        "the proxy on the way to {server} does not let the request through: {error}",
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

#: Part of OpenSSL's reason to what to try, for certificates that are not trusted.
_UNTRUSTED: tuple[tuple[str, str], ...] = (
    ("ostname", "the server address must be a name in the certificate; tls-server-name in the kubeconfig sets another"),
    ("IP address", "the server address must be in the certificate; tls-server-name in the kubeconfig sets a name"),
    ("expired", "the certificate of the API server must be renewed; is the clock of this machine right?"),
    (
        "",
        "the kubeconfig's certificate authority is of another cluster or out of date; fetch the kubeconfig anew",
    ),
)

#: Part of OpenSSL's message to what happened and what to try, for other failed handshakes.
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


def explain(error: HTTPError, server: str, timeout: float | None) -> UnreachableError:
    """Return the error to raise for a request that ended without a complete answer."""
    if isinstance(error, SSLError):
        return _explain_tls(error, server)
    for kind, message, hint in _FAULTS:
        if isinstance(error, kind):
            return UnreachableError(message.format(server=server, error=error, cause=_cause(error)), hint=hint)
    if isinstance(error, ReadTimeoutError):
        return too_slow(server, timeout)
    if isinstance(error, ProtocolError):
        return BrokenAnswerError(
            f"the connection to {server} broke off in the middle of an answer: {error}",
            hint="try again; a proxy or load balancer on the way may be cutting long answers short",
        )
    return UnreachableError(f"cannot ask {server}: {error}")


def too_slow(server: str, timeout: float | None) -> UnreachableError:
    """Return the error for an answer that did not end in time."""
    within = "" if timeout is None else f" within {timeout:g} s"
    return UnreachableError(
        f"no complete answer from {server}{within}",
        hint="give it more time with --request-timeout, for example --request-timeout 2m",
    )


def _explain_tls(error: SSLError, server: str) -> UnreachableError:
    cause = error.args[0] if error.args else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = cause.verify_message or str(cause)
        hint = next(hint for part, hint in _UNTRUSTED if part in reason)
        return UnreachableError(f"the certificate of {server} is not trusted: {reason}", hint=hint)
    said = str(cause)
    message, hint = next((text, hint) for part, text, hint in _HANDSHAKES if part in said.lower())
    return UnreachableError(message.format(server=server, error=said), hint=hint)


def _cause(error: BaseException) -> str:
    cause = error.__cause__ or error.__context__
    return str(getattr(cause, "strerror", None) or cause or error)
