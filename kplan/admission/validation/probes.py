"""Probes and lifecycle hooks of containers (pkg/apis/core/validation validateProbe, validateLifecycle)."""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.errors import (
    Errors,
    enum_errors,
    forbidden,
    invalid,
    invalids,
    not_negative,
    required,
    required_errors,
)
from kplan.admission.validation.texts import header_name, port_name, port_number

Handler = dict[str, Any]
_SCHEMES = ("HTTP", "HTTPS")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def probe_errors(container: Handler, path: str) -> Errors:
    """Return what is wrong with the probes of a container or sidecar."""
    errors: Errors = []
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if key not in container:
            continue
        probe, at = container[key], f"{path}.{key}"
        errors += _probe_errors(probe, at)
        if key == "readinessProbe":
            if "terminationGracePeriodSeconds" in probe:
                seconds = probe["terminationGracePeriodSeconds"]
                detail = "must not be set for readinessProbes"
                errors.append(invalid(f"{at}.terminationGracePeriodSeconds", seconds, detail))
        elif probe.get("successThreshold", 0) != 1:
            errors.append(invalid(f"{at}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return errors


def _probe_errors(probe: Handler, path: str) -> Errors:
    errors = _handler_errors(probe, ("exec", "httpGet", "tcpSocket", "grpc"), None, path)
    errors += not_negative(probe, path, *_NUMBERS)
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))
    return errors


def lifecycle_errors(container: Handler, grace: int | None, path: str) -> Errors:
    """Return what is wrong with the hooks of a container; `grace` is the pod's termination grace period."""
    lifecycle = container.get("lifecycle", {})
    errors: Errors = []
    for key in ("postStart", "preStop"):
        if key in lifecycle:
            kinds = ("exec", "httpGet", "tcpSocket", "sleep")
            errors += _handler_errors(lifecycle[key], kinds, grace, f"{path}.lifecycle.{key}")
    return errors


def _handler_errors(handler: Handler, kinds: tuple[str, ...], grace: int | None, path: str) -> Errors:
    errors: Errors = []
    stated = [kind for kind in kinds if kind in handler]
    for number, kind in enumerate(stated):
        if number:
            errors.append(forbidden(f"{path}.{kind}", "may not specify more than 1 handler type"))
        else:
            errors += _action_errors(kind, handler[kind], grace, f"{path}.{kind}")
    return errors if stated else [required(path, "must specify a handler type")]


def _action_errors(kind: str, action: Handler, grace: int | None, path: str) -> Errors:
    match kind:
        case "exec":
            return required_errors(action, path, "command")
        case "httpGet":
            errors = required_errors(action, path, "path")
            errors += _port_errors(action.get("port", 0), f"{path}.port")
            errors += enum_errors(action.get("scheme", ""), _SCHEMES, f"{path}.scheme")
            for header in action.get("httpHeaders", []):
                name = header.get("name", "")
                errors += invalids(f"{path}.httpHeaders", name, header_name(name))
            return errors
        case "sleep":
            seconds = action.get("seconds", 0)
            if grace is not None and not 0 <= seconds <= grace:
                detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                return [invalid(path, seconds, detail)]
            return []
        case _:
            return _port_errors(action.get("port", 0), f"{path}.port")


def _port_errors(port: int | str, path: str) -> Errors:
    return invalids(path, port, port_name(port) if isinstance(port, str) else port_number(port))
