"""What all questions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from kplan.answers.placement import NodesShown
    from kplan.cluster.asking import AskAll
    from kplan.cluster.base import Base, Progress
    from kplan.documents.base import Condition, Head

Manifest = str | dict[str, Any]
"""A file, a directory, or an object."""

PodName = str | dict[str, Any]
"""NAMESPACE/NAME of a pending pod, or a pod object."""


class Showing(msgspec.Struct, frozen=True):
    """How an answer is computed, and how much of it its document holds; the defaults are those of Python.

    Attributes
    ----------
    fail_on : what makes the verdict a failure; None for the default of the question
    nodes : the nodes that a decision explains where tables show it in full; absent for the default of the question
    others : the nodes that other decisions explain
    is_outlined : other decisions are left out, because no format shows them
    explain : everything that is known about each decision
    is_whole : a format holds the whole document, with the decision about each pod
    with_map : every node before and after
    max_listed : the number of pods in the document; the others are counted; None for all
    ask_all : answers what can be answered in parallel; None for one after the other
    progress : called while the answer is computed
    """

    fail_on: Sequence[Condition] | None = None
    nodes: NodesShown | UnsetType = UNSET
    others: NodesShown = None
    is_outlined: bool = False
    explain: bool = False
    is_whole: bool = False
    with_map: bool = False
    max_listed: int | None = None
    ask_all: AskAll | None = None
    progress: Progress | None = None


PLAIN = Showing()


def _tag(name: str) -> str:
    return f"{name}Question"


class Question(
    msgspec.Struct, frozen=True, tag_field="kind", tag=_tag, rename="camel", omit_defaults=True, kw_only=True
):
    """A question with all of its parameters.

    As a document it has ``apiVersion: kplan/v1``, its ``kind``, such as ``DrainQuestion``, and its parameters.
    """

    api_version: Literal["kplan/v1"] = "kplan/v1"

    def answer(self, base: Base, showing: Showing = PLAIN) -> Head:
        """Return the document that answers the question, as the command prints it with ``-o json``.

        Parameters
        ----------
        base : the cluster; is not changed

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
