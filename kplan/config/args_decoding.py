"""Decoding of plugin arguments, with their defaults.

Upstream: staging kube-scheduler/config/v1/types.go decodeNestedObjects, apis/config/v1/defaults.go.
"""

from __future__ import annotations

from kplan.config.args import ARGS_TYPES, DynamicResourcesArgs, PluginArgs, defaulted
from kplan.config.decoding import decode
from kplan.config.foreign import API_GROUP, API_VERSION
from kplan.config.problems import Problems, child, go_value


def decode_args(name: str, value: object, path: str, problems: Problems) -> PluginArgs:
    """Decode the arguments of the in-tree plugin `name`; absent ones get their defaults.

    `apiVersion` and `kind` may be absent, and must be right where they are present.
    """
    kind = f"{name}Args"
    if isinstance(value, dict):
        stated_kind, stated_version = value.get("kind") or kind, value.get("apiVersion") or API_VERSION
        if stated_version != API_VERSION:
            message = f"no kind {go_value(stated_kind)} is registered for version {go_value(stated_version)}"
            problems.add(child(path, "apiVersion"), message, f"write: apiVersion: {API_VERSION}, or leave it out")
        elif stated_kind != kind:
            got = f"{stated_kind}.{API_GROUP}" if isinstance(stated_kind, str) else go_value(stated_kind)
            message = f"args for plugin {name} were not of type {kind}.{API_GROUP}, got {got}"
            problems.add(child(path, "kind"), message, f"write: kind: {kind}, or leave it out")
    decoded = decode({} if value is None else value, ARGS_TYPES[name], path, problems, type_meta=True)
    args = defaulted(decoded, problems.release)
    if isinstance(value, dict) and isinstance(args, DynamicResourcesArgs):
        _refuse_disabled_timeouts(args, value, path, problems)
    return args


def _refuse_disabled_timeouts(
    args: DynamicResourcesArgs, value: dict[str, object], path: str, problems: Problems
) -> None:
    """Record the timeouts whose features are off, which a file must not set (ValidateDynamicResourcesArgs)."""
    for field, timeout, gates in (
        ("filterTimeout", args.filter_timeout, "DRASchedulingFilterTimeout"),
        ("bindingTimeout", args.binding_timeout, "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"),
    ):
        is_known = (type(args).__name__, field) not in problems.release.absent_fields
        if timeout is None and value.get(field) is not None and is_known:
            hint = "remove it, or turn the gate on"
            problems.forbidden(child(path, field), f"{gates} feature gate is disabled", hint)
