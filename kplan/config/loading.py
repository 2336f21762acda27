"""Loading a KubeSchedulerConfiguration: from a file or memory, or as that of a kube-scheduler started without one.

And the effective configuration as a document, with its differences from the default. The document says everything and
leaves nothing to defaults, so that loading it gives the same configuration. Private keys of extenders are left out, as
the output may end up in logs.

Upstream: apis/config/v1/defaults.go, apis/config/validation/validation.go, component-base config/validation.
"""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from kplan.api.decode import DecodeError
from kplan.api.field_errors import shown
from kplan.api.names import label_key_problems
from kplan.api.time import format_duration
from kplan.config import model
from kplan.config.args import NodeResourcesFitArgs, PluginArgs, args_type, default_args, filled
from kplan.config.problems import API_VERSION, KIND, FieldPath, Problems, below, check_type_meta
from kplan.config.releases import Release, chosen_release, newest, reference, with_gates
from kplan.config.releases.model import release_notes
from kplan.errors import ConfigError, Problem, UsageError
from kplan.facts import Document, InputWarning
from kplan.reading.arguments import PlannerSettings, checked_by, plain
from kplan.reading.documents import read_documents
from kplan.reading.files import SETTINGS
from kplan.rules.resources import is_extended
from kplan.snapshot.defaults import DEFAULT_SCHEDULER_NAME

_EXPECTED = "a KubeSchedulerConfiguration; begin with: apiVersion: kubescheduler.config.k8s.io/v1"
_NOT_EXTENDED = "is an invalid extended resource name"
Source = str | os.PathLike[str] | dict[str, object] | None


def validate_configuration(wire: model.KubeSchedulerConfiguration, field: FieldPath) -> None:
    if wire.client_connection.burst < 0:
        hint = "write 0 or more; the default is 100"
        field["clientConnection"]["burst"].invalid(wire.client_connection.burst, "must be non-negative", hint)
    _leader_election(filled(wire.leader_election), field["leaderElection"])
    if wire.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        field["parallelism"].invalid(wire.parallelism, detail, "write 1 or more; the default is 16")
    field["percentageOfNodesToScore"].check_percentage(wire.percentage_of_nodes_to_score)
    initial, longest = wire.pod_initial_backoff_seconds, wire.pod_max_backoff_seconds
    if initial <= 0:
        hint = "write 1 or more; the default is 1"
        field["podInitialBackoffSeconds"].invalid(initial, "must be greater than 0", hint)
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        field["podMaxBackoffSeconds"].invalid(longest, detail, f"write {initial} or more; the default is 10")
    _extenders(wire.extenders, field["extenders"])


def settings_of(wire: model.KubeSchedulerConfiguration) -> dict[str, object]:
    """Return the fields that do not affect scheduling, with defaults, as values of the document."""
    profiling, contention = wire.enable_profiling, wire.enable_contention_profiling
    return {
        "leaderElection": model.plain(filled(wire.leader_election)),
        "clientConnection": model.plain(filled(wire.client_connection)),
        "enableProfiling": profiling,
        "enableContentionProfiling": profiling if contention is None else contention,
        "delayCacheUntilActive": wire.delay_cache_until_active,
    }


def _leader_election(election: model.LeaderElection, field: FieldPath) -> None:
    if not election.leader_elect:
        return
    for name, duration in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if duration <= 0:
            field[name].invalid(format_duration(duration), "must be greater than zero", "write a duration: 15s")
    if election.lease_duration <= election.renew_deadline:
        hint = f"write more than renewDeadline ({format_duration(election.renew_deadline)}), or lower that too"
        lease = format_duration(election.lease_duration)
        field["leaseDuration"].invalid(lease, "must be greater than `RenewDeadline`", hint)
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        field["resourceLock"].invalid(election.resource_lock, detail, "write leases or leave it out")


def _extenders(extenders: tuple[model.Extender, ...], field: FieldPath) -> None:
    names: set[str] = set()
    for at, extender in field.walk(extenders):
        if extender.prioritize_verb and extender.weight <= 0:
            hint = "write weight: 1 or more, or remove prioritizeVerb"
            at["weight"].invalid(extender.weight, "must have a positive weight applied to it", hint)
        for resource_at, resource in at["managedResources"].walk(extender.managed_resources):
            own, name_at = resource.name, resource_at["name"]
            hint = "write an extended resource with its domain, such as example.com/device"
            for error in label_key_problems(own) or ([] if is_extended(own) else [_NOT_EXTENDED]):
                name_at.invalid(own, error, hint)
            if own in names:
                detail = "duplicate extender managed resource name"
                name_at.invalid(own, detail, "let one extender manage it, named once")
            names.add(own)
        tls = extender.tls_config
        if tls is not None and tls.insecure and (tls.ca_file or tls.ca_data):
            detail = "specifying a root certificates file with the insecure flag is not allowed"
            at["tlsConfig"]["insecure"].invalid(tls.insecure, detail, "remove insecure, or caFile and caData")
    binders = [at.path for at, extender in field.walk(extenders) if extender.bind_verb]
    if len(binders) > 1:
        what = f"found {len(binders)} extenders implementing bind"
        field.invalid(what, "only one extender can implement bind", f"remove bindVerb from {' or '.join(binders)}")


def default_profile(release: Release) -> model.Profile:
    plugins = {
        point: tuple(
            model.PluginRef(name, (weight or 1) if point == "score" else 0)
            for name, weight in release.default_plugins
            if point in release.implements[name]
        )
        for point in model.EXTENSION_POINTS
    }
    args = {name: default_args(name, release) for name, _ in release.default_plugins if args_type(name, release)}
    return model.Profile(DEFAULT_SCHEDULER_NAME, plugins=MappingProxyType(plugins), args=MappingProxyType(args))


@lru_cache(maxsize=16)
def default_configuration(release: Release) -> model.SchedulerConfiguration:
    """Return the default configuration: one profile, `default-scheduler`, every default plugin of the release."""
    return model.SchedulerConfiguration(
        profiles=(default_profile(release),),
        settings=MappingProxyType(settings_of(model.KubeSchedulerConfiguration())),
        release=release,
        warnings=release_warnings(release),
    )


def release_warnings(release: Release) -> tuple[InputWarning, ...]:
    """Return the warnings about a release that kplan only partly knows."""
    name = f"Kubernetes {release.minor}"
    return tuple(InputWarning("ReleaseNotCompared", name, note) for note in release_notes(release))


def configuration_of(problems: Problems) -> model.SchedulerConfiguration:
    """Return the configuration in a document, which has the problems of reading it; raises ConfigError with all."""
    from kplan.config.profiles import build_profiles

    whole, source = FieldPath(problems), problems.file or "object"
    if not check_type_meta(problems.document, whole):
        problems.raise_if_any(in_order=False)
    if problems.others:
        text = f"only the first document is read, as by kube-scheduler; {problems.others} more in the file"
        problems.warn("IgnoredConfiguration", source, text)
    wire = model.decode(problems.document, model.KubeSchedulerConfiguration, whole)
    validate_configuration(wire, whole)
    profiles = _ignore_extender_resources(build_profiles(wire.profiles, problems), wire.extenders, whole["extenders"])
    problems.raise_if_any()
    return model.SchedulerConfiguration(
        profiles=profiles,
        percentage_of_nodes_to_score=wire.percentage_of_nodes_to_score,
        parallelism=wire.parallelism,
        pod_initial_backoff_seconds=wire.pod_initial_backoff_seconds,
        pod_max_backoff_seconds=wire.pod_max_backoff_seconds,
        extenders=tuple(map(filled, wire.extenders)),
        source=source,
        warnings=(*release_warnings(problems.release), *problems.warnings),
        settings=MappingProxyType(settings_of(wire)),
        release=problems.release,
        document=problems.document,
        other_documents=problems.others,
    )


def _ignore_extender_resources(
    profiles: tuple[model.Profile, ...], extenders: tuple[model.Extender, ...], field: FieldPath
) -> tuple[model.Profile, ...]:
    """Return profiles whose NodeResourcesFit ignores the extenders' resources, not its own (buildExtenders)."""
    ignored = {
        at["ignoredByScheduler"]: resource.name
        for extender_at, extender in field.walk(extenders)
        for at, resource in extender_at["managedResources"].walk(extender.managed_resources)
        if resource.ignored_by_scheduler
    }
    names = tuple(ignored.values())
    changed = []
    for profile in profiles if ignored else ():
        fit = profile.args.get("NodeResourcesFit")
        if not isinstance(fit, NodeResourcesFitArgs):
            hint = f"enable NodeResourcesFit in profile {profile.scheduler_name}, or remove ignoredByScheduler"
            next(iter(ignored)).add("can't find NodeResourcesFitArgs in plugin config", hint)
            continue
        if fit.ignored_resources:
            text = f"the ignoredResources of NodeResourcesFit give way to those of the extenders: {', '.join(names)}"
            field.problems.warn("IgnoredConfiguration", f"profile {profile.scheduler_name}", text)
        args = {**profile.args, "NodeResourcesFit": replace(fit, ignored_resources=names)}
        changed.append(replace(profile, args=MappingProxyType(args)))
    return tuple(changed) if ignored else profiles


def read_file(path: str, release: Release | None = None) -> Problems:
    """Read the first document of a file, or of standard input for `-`; raises ConfigError where there is none."""
    unread: list[Problem] = []
    documents = list(read_documents(path, unread, limits=SETTINGS, expected=_EXPECTED))
    if unread:
        raise ConfigError(unread)
    if not documents:
        raise ConfigError([Problem("holds comments only", path=path, hint=f"expected {_EXPECTED}")])
    first = documents[0]
    try:
        value = first.value()
    except DecodeError as error:
        raise ConfigError([first.locate(problem) for problem in error.problems]) from None
    problems = Problems(first.file, value, others=len(documents) - 1, lines=first.lines, release=release)
    for repeated in first.duplicates():
        at = FieldPath(problems, repeated.path.removeprefix("$").removeprefix("."))
        at.add(f"duplicate field {shown(at.path)}", "keep one of the two")
    return problems


@checked_by(PlannerSettings, "load_scheduler_config")
def load_scheduler_config(
    source: Source = None, *, kubernetes: str | None = None, feature_gates: Mapping[str, bool] | None = None
) -> model.SchedulerConfiguration:
    """Load a scheduler configuration as kube-scheduler reads it.

    Parameters
    ----------
    source : the path of a YAML or JSON file, `-` for standard input, the document itself as a dictionary, or None for
        the defaults
    kubernetes : the minor that reads it, such as ``1.34``; None for the newest that was compared with its own code, or
        else any newer one, until a planner knows the server's
    feature_gates : feature gates of that kube-scheduler that differ from their defaults

    Raises
    ------
    UsageError
        When there is no such release, or a feature gate cannot be set.
    ConfigError
        When kube-scheduler refuses it; `problems` holds every reason with its path and a hint.
    """
    gates = feature_gates or {}
    chosen = chosen_release(kubernetes, gates)
    if chosen is not None:
        return replace(read_configuration(source, chosen), is_release_explicit=True)
    try:
        return read_configuration(source, with_gates(reference(), gates))
    except ConfigError:
        # A planner reads it again, with the gates and the server's release that it knows: what some known release
        # accepts may be right there.
        if gates or newest() is reference():
            raise
        with suppress(ConfigError):
            return read_configuration(source, newest())
        raise


def read_configuration(source: Source, release: Release) -> model.SchedulerConfiguration:
    """Load a scheduler configuration as a release reads it; source and errors as for `load_scheduler_config`."""
    if source is None:
        return default_configuration(release)
    if isinstance(source, dict):
        return configuration_of(Problems("", plain(source, "load_scheduler_config"), release=release))
    if not isinstance(source, str | os.PathLike):
        raise UsageError(f"{source!r} is no configuration", hint="give a path, a dict, or None for the defaults")
    return configuration_of(read_file(os.fspath(source), release))


def read_again(config: model.SchedulerConfiguration, release: Release) -> model.SchedulerConfiguration:
    """Return the configuration as another release reads the same file; raises ConfigError when that refuses it."""
    if config.release == release:
        return config
    if config.document is None:
        return default_configuration(release)
    file = "" if config.source == "object" else config.source
    return configuration_of(Problems(file, config.document, others=config.other_documents, release=release))


class Difference(Document, frozen=True):
    """A field of the configuration whose value is not the default."""

    path: str
    default: Any  #: null for a value that is absent
    effective: Any  #: null for a value that is absent


def to_document(config: model.SchedulerConfiguration) -> dict[str, object]:
    """Return the configuration as a document that kube-scheduler accepts, in plain JSON values."""
    document: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "parallelism": config.parallelism,
        "percentageOfNodesToScore": config.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": config.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": config.pod_max_backoff_seconds,
        **config.settings,
        "profiles": [_profile(profile) for profile in config.profiles],
    }
    if config.extenders:
        document["extenders"] = [model.plain(extender) for extender in config.extenders]
    return document


def args_document(profile: model.Profile) -> dict[str, typing.Any]:
    """Return the arguments of a profile's plugins by plugin name, as in a file."""
    return {name: model.plain(args) for name, args in sorted(profile.args.items())}


def differences(config: model.SchedulerConfiguration) -> tuple[Difference, ...]:
    """Return the differences from the default configuration, in the order of the document.

    A list counts as one value. Every profile is compared with the default one, except for its name.
    """
    default_config = default_configuration(config.release)
    effective, default = to_document(config), to_document(default_config)
    differing = _compare("", {**default, "profiles": None}, {**effective, "profiles": None})
    default_profile = default_config.profiles[0]
    for i, profile in enumerate(config.profiles):
        differing += _compare(f"profiles[{i}]", _comparable(default_profile, profile), _comparable(profile, profile))
    return tuple(differing)


def _comparable(profile: model.Profile, positions: model.Profile) -> dict[str, object]:
    """Return a profile by what is compared; arguments stand where another profile has them."""
    args = args_document(profile)
    return {
        "schedulerName": profile.scheduler_name,
        "percentageOfNodesToScore": profile.percentage_of_nodes_to_score,
        "plugins": {model.POINT_NAMES[point]: {"enabled": _refs(refs)} for point, refs in profile.plugins.items()},
        **{f"pluginConfig[{i}]": {"args": args.get(name)} for i, name in enumerate(sorted(positions.args))},
    }


def _compare(path: str, default: object, effective: object) -> list[Difference]:
    if isinstance(default, dict) and isinstance(effective, dict):
        fields = dict.fromkeys((*default, *effective))
        return [one for name in fields for one in _compare(below(path, name), default.get(name), effective.get(name))]
    return [] if default == effective else [Difference(path, default, effective)]


def _profile(profile: model.Profile) -> dict[str, object]:
    plugins: dict[str, object] = {"multiPoint": {"disabled": [{"name": "*"}]}}
    for point, refs in profile.plugins.items():
        if refs:
            plugins[model.POINT_NAMES[point]] = {"enabled": _refs(refs)}
    document: dict[str, object] = {"schedulerName": profile.scheduler_name}
    if profile.percentage_of_nodes_to_score is not None:
        document["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    document["plugins"] = plugins
    document["pluginConfig"] = [
        # Arguments of an in-tree plugin have their apiVersion and kind, which a file may leave out.
        {"name": name, "args": {"apiVersion": API_VERSION, "kind": f"{name}Args", **args}}
        if isinstance(profile.args[name], PluginArgs)
        else {"name": name, "args": args}
        for name, args in args_document(profile).items()
    ]
    return document


def _refs(refs: tuple[model.PluginRef, ...]) -> list[dict[str, object]]:
    return [{"name": ref.name, "weight": ref.weight} if ref.weight else {"name": ref.name} for ref in refs]
