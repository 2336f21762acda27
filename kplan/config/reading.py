"""From a file to plain values, with every repeated field noted, for which kube-scheduler refuses a file."""

from __future__ import annotations

from dataclasses import dataclass

from kplan.api.decode import DecodeError
from kplan.config.problems import Problems, go_value
from kplan.errors import ConfigError, Problem
from kplan.reading import SETTINGS, read_documents

_EXPECTED = "a KubeSchedulerConfiguration; begin with: apiVersion: kubescheduler.config.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """A document of a file, as plain values."""

    value: object
    problems: Problems
    others: int = 0  # documents of the file that follow it


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
