"""Everything that kplan raises on purpose.

::

    KplanError
    ├── InputError              a file or object that cannot be used; carries every problem found
    │   ├── SnapshotError       a cluster file
    │   ├── ManifestError       a pod or workload to place
    │   └── ConfigError         a KubeSchedulerConfiguration
    ├── NotFoundError           a pod, node or profile that is not in the snapshot
    ├── UsageError              a question that makes no sense
    │   └── ParameterError      because of two of its parameters
    └── LiveClusterError        the API server
        ├── KubeconfigError     no usable way in
        ├── UnreachableError    no answer, or none in time
        ├── UnauthorizedError   401
        ├── ForbiddenError      403
        └── ApiError            any other status that is not a success

A pod that fits nowhere is never an exception: it is a Placement with its reasons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """One problem of an input, with its place as far as that is known."""

    message: str
    path: str = ""
    document: int | None = None
    json_path: str = ""
    hint: str = ""
    line: int | None = None
    wants_quotes: bool = False  #: the hint is to put quotes around the value; a file shows how that is written

    def below(self, path: str) -> Problem:
        return self._replace(json_path=path + self.json_path.removeprefix("$"))

    def __str__(self) -> str:
        within = [f"document {self.document}"] if self.document is not None else []
        within += [f"line {self.line}"] if self.line is not None else []
        place = f"{self.path} ({', '.join(within)})" if within else self.path
        return ": ".join(part for part in (place, self.json_path, self.message) if part)


class KplanError(Exception):
    """Base of all errors of kplan; `hint` is the suggested next step, or empty."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


_PARAMETER = r"\{(\w+)\}"
ENOUGH_PROBLEMS = 100  #: after so many problems no further object of an input is checked, but only counted


class InputError(KplanError):
    """An input that cannot be used.

    `problems` holds its problems, in reading order; after `ENOUGH_PROBLEMS` the objects that follow are not checked,
    and `unchecked` is their number.
    """

    def __init__(self, problems: Iterable[Problem] | str, *, hint: str = "", unchecked: int = 0) -> None:
        all_problems = (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        hints = [problem.hint for problem in all_problems if problem.hint]
        super().__init__("\n".join(str(problem) for problem in all_problems), hint=hint or (hints[0] if hints else ""))
        self.problems = all_problems
        self.unchecked = unchecked


class SnapshotError(InputError):
    """A cluster file or object that cannot be read."""


class ManifestError(InputError):
    """A manifest that an API server would refuse or that kplan cannot read."""


class ConfigError(InputError):
    """A scheduler configuration that kube-scheduler would refuse."""


class NotFoundError(KplanError):
    """Something with a name that is not in the snapshot."""


class UsageError(KplanError):
    """A question that makes no sense."""


class ParameterError(UsageError):
    """Parameters of a question that do not go together; its texts name them in braces, such as ``{one_by_one}``."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self._texts = message, hint
        named, named_hint = self._named(lambda name: name)
        super().__init__(named, hint=named_hint)

    def naming(self, name_of: Callable[[str], str]) -> UsageError:
        """Return the error for who calls the parameters otherwise, such as by the options of a command."""
        message, hint = self._named(name_of)
        return UsageError(message, hint=hint)

    def _named(self, name_of: Callable[[str], str]) -> tuple[str, str]:
        message, hint = (re.sub(_PARAMETER, lambda match: name_of(match[1]), text) for text in self._texts)
        return message, hint


class LiveClusterError(KplanError):
    """The API server cannot be used."""

    def hide(self, secret_to_text: Callable[[str], str]) -> None:
        """Remove secrets from the message and the hint."""
        self.message, self.hint = secret_to_text(self.message), secret_to_text(self.hint)
        self.args = (self.message,)


class KubeconfigError(LiveClusterError):
    """No kubeconfig, or one that cannot be used."""


class UnreachableError(LiveClusterError):
    """The API server does not answer, or not in time, or its certificate is not trusted."""


class ApiError(LiveClusterError):
    """The API server answered with a status that is not a success."""

    def __init__(self, message: str, *, status: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class UnauthorizedError(ApiError):
    """401: the API server does not know who asks."""


class ForbiddenError(ApiError):
    """403: the API server knows who asks, and says no."""
