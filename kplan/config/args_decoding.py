"""Decoding of plugin arguments, with their defaults.

Upstream: staging kube-scheduler/config/v1/types.go decodeNestedObjects, apis/config/v1/defaults.go.
"""

from __future__ import annotations

import msgspec

from kplan.config.args import (
    ARGS_TYPES,
    DEFAULT_RESOURCES,
    DynamicResourcesArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    VolumeBindingArgs,
    has_binding_timeout,
    has_filter_timeout,
    with_default_shape,
)
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
    args = decode({} if value is None else value, ARGS_TYPES[name], path, problems, type_meta=True)
    if isinstance(args, DynamicResourcesArgs):
        return _without_disabled_timeouts(args, value, path, problems)
    if isinstance(args, VolumeBindingArgs):
        return with_default_shape(args, problems.release)
    return _apply_defaults(args)


def _without_disabled_timeouts(
    args: DynamicResourcesArgs, value: object, path: str, problems: Problems
) -> DynamicResourcesArgs:
    """Remove the timeouts whose features are off, which a file must not set.

    Upstream: SetDefaults_DynamicResourcesArgs, ValidateDynamicResourcesArgs.
    """
    fields, release = value if isinstance(value, dict) else {}, problems.release
    for field, name, is_on, gates in (
        ("filter_timeout", "filterTimeout", has_filter_timeout(release), "DRASchedulingFilterTimeout"),
        (
            "binding_timeout",
            "bindingTimeout",
            has_binding_timeout(release),
            "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus",
        ),
    ):
        if is_on:
            continue
        if fields.get(name) is not None and (type(args).__name__, name) not in release.absent_fields:
            problems.forbidden(child(path, name), f"{gates} feature gate is disabled", "remove it, or turn the gate on")
        args = msgspec.structs.replace(args, **{field: None})
    return args


def _apply_defaults(args: PluginArgs) -> PluginArgs:
    """Fill in the defaults of an empty list, an empty string or a weight of 0."""
    if isinstance(args, NodeResourcesFitArgs):
        strategy = msgspec.structs.replace(
            args.scoring_strategy, resources=_default_resources(args.scoring_strategy.resources)
        )
        return msgspec.structs.replace(args, scoring_strategy=strategy)
    if isinstance(args, NodeResourcesBalancedAllocationArgs):
        return msgspec.structs.replace(args, resources=_default_resources(args.resources))
    if isinstance(args, PodTopologySpreadArgs):
        return msgspec.structs.replace(args, defaulting_type=args.defaulting_type or "System")
    return args


def _default_resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    weighed = (msgspec.structs.replace(spec, weight=spec.weight or 1) for spec in resources)
    return tuple(weighed) or DEFAULT_RESOURCES
