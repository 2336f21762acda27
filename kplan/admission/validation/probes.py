"""Probes and lifecycle hooks of containers (pkg/apis/core/validation validateProbe, validateLifecycle)."""

from __future__ import annotations

from kplan.admission.validation.checks import (
    Object,
    choice,
    field,
    must,
    needed,
    not_negative,
    one_of,
    rules,
)
from kplan.admission.validation.errors import Errors, invalid
from kplan.admission.validation.texts import PORT, header_name


def _header_errors(headers: list[Object], path: str) -> Errors:
    for name in (header.get("name", "") for header in headers):
        yield from (invalid(path, name, problem) for problem in header_name(name))


_port = field("port", PORT, absent=0)
_scheme = field("scheme", one_of("HTTP", "HTTPS"), absent="")
_ACTIONS = {
    "exec": needed("command"),
    "httpGet": rules(needed("path"), _port, _scheme, field("httpHeaders", _header_errors)),
    "tcpSocket": _port,
}
_probe = rules(
    choice({**_ACTIONS, "grpc": _port}, "handler type"),
    field("initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold", not_negative),
    field("terminationGracePeriodSeconds", must(lambda seconds: seconds > 0, "must be greater than 0")),
)
_once = field("successThreshold", must(lambda number: number == 1, "must be 1"), absent=0)
_no_grace = field("terminationGracePeriodSeconds", must(lambda _: False, "must not be set for readinessProbes"))
probe_errors = rules(
    field("livenessProbe", _probe, _once),
    field("readinessProbe", _probe, _no_grace),
    field("startupProbe", _probe, _once),
)
"""The check of the probes of a container or sidecar."""


def lifecycle_errors(container: Object, grace: int | None, path: str) -> Errors:
    """Return what is wrong with the hooks of a container; `grace` is the pod's termination grace period."""

    def sleep(action: Object, at: str) -> Errors:
        seconds = action.get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            yield invalid(at, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})")

    handler = choice({**_ACTIONS, "sleep": sleep}, "handler type")
    return field("lifecycle", field("postStart preStop", handler))(container, path)
