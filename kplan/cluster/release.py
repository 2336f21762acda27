"""The release of Kubernetes whose rules a planner follows, with warnings about it, and the moment of a question."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from kplan.api.time import to_micros
from kplan.config.defaults import default_configuration
from kplan.config.loading import read_again
from kplan.config.model import SchedulerConfiguration
from kplan.config.releases import chosen_release, nearest, parse_version, with_gates
from kplan.config.releases.servers import version_note
from kplan.documents.base import now as present
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot


def moment_of(now: str | None, snapshot: Snapshot) -> int:
    """Return microseconds since 1970.

    Parameters
    ----------
    now : RFC 3339; None for the time of the snapshot, or the present if that is unknown

    Raises
    ------
    UsageError
        When it is not a time.
    """
    try:
        return to_micros(now or snapshot.taken_at or present())
    except ValueError as error:
        raise UsageError(f"now: {error}") from None


Ties = Literal["scheduler", "name", "even"]
TIES: Final[tuple[Ties, ...]] = get_args(Ties)


def as_decided(
    config: SchedulerConfiguration | None,
    snapshot: Snapshot,
    kubernetes: str | None,
    feature_gates: Mapping[str, bool] | None,
    out_of_tree: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> SchedulerConfiguration:
    """Return the configuration as the chosen release reads it.

    That is the release `kubernetes`, else the one that the configuration was loaded for, else that of the snapshot's
    server, else the newest.

    Parameters
    ----------
    out_of_tree : name of an out-of-tree plugin -> its extension points

    Raises
    ------
    ConfigError
        When that release would refuse the configuration.
    UsageError
        When there is no such release, or a feature gate cannot be set, or `config` is no configuration.
    """
    if not isinstance(config, SchedulerConfiguration | None):
        hint = "load it: kplan.load_scheduler_config(path)"
        raise UsageError(f"{config!r} is no scheduler configuration", hint=hint)
    gates = {**({} if config is None else config.release.switched), **(feature_gates or {})}
    release = chosen_release(kubernetes, gates)
    if release is None and config is not None and config.is_release_explicit:
        release = with_gates(config.release, gates)
    if release is None:
        release = with_gates(nearest(snapshot.server_version), gates)
    release = release.with_plugins(out_of_tree)
    return default_configuration(release) if config is None else read_again(config, release)


def server_warnings(config: SchedulerConfiguration, snapshot: Snapshot, *, is_explicit: bool) -> Iterator[InputWarning]:
    """Yield a warning if no known release is the server's, unless the release was chosen by hand."""
    server = snapshot.server_version
    if not server or is_explicit:
        return
    version = parse_version(server)
    note = version_note(server, None if version is None else version[0], config.release)
    if note:
        yield InputWarning("ServerVersion", server, note)


def tie_rule(ties: Ties | None, seed: int | None) -> Ties:
    """Return the rule by which one of several equal best nodes is chosen; a seed alone means even draws.

    Raises UsageError for an unknown rule, and for a seed with a rule that draws nothing.
    """
    if ties is None:
        return "scheduler" if seed is None else "even"
    if ties not in TIES:
        raise UsageError(f"unknown ties: {ties!r}", hint=f"use {', '.join(TIES)}")
    if seed is not None and ties != "even":
        hint = "leave the seed out, or use ties even"
        raise UsageError(f"a seed is for draws, and ties {ties} draws none", hint=hint)
    return ties


def _mapping_proxy(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


# Configurations hold mapping proxies, which Python cannot pickle by itself.
copyreg.pickle(MappingProxyType, lambda view: (_mapping_proxy, (dict(view),)))
