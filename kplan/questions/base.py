"""What all questions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from kplan.documents.base import Condition, Head
    from kplan.planner.planner import Planner

AskAll = Callable[..., Any]
"""Answers many questions in parallel, in order, such as ``functools.partial(kplan.sweeps.ask_all, planner)``."""

Manifest = str | dict[str, Any]
"""A file, a directory, or an object."""

PodName = str | dict[str, Any]
"""NAMESPACE/NAME of a pending pod, or a pod object."""


def _tag(name: str) -> str:
    return f"{name}Question"


class Question(
    msgspec.Struct, frozen=True, tag_field="kind", tag=_tag, rename="camel", omit_defaults=True, kw_only=True
):
    """A question with all of its parameters.

    As a document it has ``apiVersion: kplan/v1``, its ``kind``, such as ``DrainQuestion``, and its parameters.
    """

    api_version: Literal["kplan/v1"] = "kplan/v1"

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> Head:
        """Return the document that answers the question, as the command prints it with ``-o json``.

        Parameters
        ----------
        planner : is not changed
        fail_on : what makes the verdict a failure; None for the default of the question
        ask_all : answers what can be answered in parallel; None for one after the other

        Raises
        ------
        KplanError
            When the question does not fit the cluster, or its manifests are invalid.
        """
        raise NotImplementedError(type(self).__name__)

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a document of plain values."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": self.api_version, **fields}
