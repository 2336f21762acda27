"""Loading a KubeSchedulerConfiguration from a file or from memory, as a release reads it; all problems at once.

Duplicate fields are problems, too, as kube-scheduler refuses such a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import msgspec

from kplan.api.decode import DecodeError
from kplan.config.defaults import default_configuration
from kplan.config.model import SchedulerConfiguration
from kplan.config.problems import Problems, go_value
from kplan.config.releases import Release, chosen_release, newest, reference, with_gates
from kplan.errors import ConfigError, Problem, UsageError
from kplan.reading.documents import read_documents
from kplan.reading.limits import SETTINGS

_EXPECTED = "a KubeSchedulerConfiguration; begin with: apiVersion: kubescheduler.config.k8s.io/v1"


class ConfigDocument(msgspec.Struct, frozen=True):
    """A document of a file, as plain values."""

    value: object
    problems: Problems
    others: int = 0  #: documents of the file that follow it


def read_file(path: str) -> ConfigDocument:
    """Read the first document of a file, or of standard input for `-`.

    Raises ConfigError when the file is missing, is no text, or neither YAML nor JSON.
    """
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
    problems = Problems(first.file, lines=first.lines)
    for repeated in first.duplicates():
        place = repeated.path.removeprefix("$").removeprefix(".")
        problems.add(place, f"duplicate field {go_value(place)}", "keep one of the two")
    return ConfigDocument(value, problems, others=len(documents) - 1)


def load_scheduler_config(
    source: str | os.PathLike[str] | dict[str, object] | None = None,
    *,
    kubernetes: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
) -> SchedulerConfiguration:
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


def read_configuration(
    source: str | os.PathLike[str] | dict[str, object] | None, release: Release
) -> SchedulerConfiguration:
    """Load a scheduler configuration as a release reads it; source and errors as for `load_scheduler_config`."""
    if source is None:
        return default_configuration(release)
    if isinstance(source, dict):
        return _load(source, "object", Problems("", release=release), others=0)
    if not isinstance(source, str | os.PathLike):
        raise UsageError(f"{source!r} is no configuration", hint="give a path, a dict, or None for the defaults")
    document = read_file(os.fspath(source))
    document.problems.release = release
    return _load(document.value, document.problems.file, document.problems, document.others)


def read_again(config: SchedulerConfiguration, release: Release) -> SchedulerConfiguration:
    """Return the configuration as another release reads the same file.

    Raises ConfigError when that release refuses it.
    """
    if config.release == release:
        return config
    if config.document is None:
        return default_configuration(release)
    file = "" if config.source == "object" else config.source
    return _load(config.document, config.source, Problems(file, release=release), others=config.other_documents)


def _load(value: object, source: str, problems: Problems, others: int) -> SchedulerConfiguration:
    from kplan.config.document import configuration_of  # most clusters run the default configuration

    return configuration_of(value, source, problems, others)
