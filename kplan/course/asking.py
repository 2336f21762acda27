"""How an answer is computed and how much of it its document holds; many questions about one cluster."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from kplan.cluster.base import Base, Progress
    from kplan.course.answers.placement import NodesShown
    from kplan.documents.base import Condition
T = TypeVar("T")

Notify = Callable[[int, int], None]  #: called with the number of answered questions (or runs), and the number of all


AskAll = Callable[..., Iterable[Any]]
"""Answers picklable questions about a cluster in parallel, in their order, such as `kplan.sweeps.ask_all`."""


def answers(
    base: Base, questions: Sequence[Callable[[Base], T]], ask_all: AskAll | None, *, progress: Notify | None = None
) -> list[T]:
    """Return the answers to questions, in order; without `ask_all` one is answered after the other."""
    if ask_all is not None:
        return list(ask_all(base, questions, progress=progress))
    ready: list[T] = []
    for question in questions:
        ready.append(question(base))
        if progress is not None:
            progress(len(ready), len(questions))
    return ready


A_co = TypeVar("A_co", covariant=True)


class Asks(Protocol[A_co]):
    """A question whose answer has this type: by it, type checkers know what `Planner.ask` returns."""

    def subject(self, base: Base) -> Any:
        """Return what it is about, in this cluster."""

    def answer_about(self, subject: Any, showing: Showing = ..., /) -> A_co:
        """Return the document that answers it."""


class Showing(msgspec.Struct, frozen=True):
    """How an answer is computed, and how much of it its document holds; the defaults are those of Python."""

    #: what makes the verdict a failure; None for the default of the question
    fail_on: Sequence[Condition] | None = None
    #: the nodes that a decision explains where tables show it in full; absent for the default of the question
    nodes: NodesShown | UnsetType = UNSET
    others: NodesShown = None  #: the nodes that other decisions explain
    is_outlined: bool = False  #: other decisions are left out, because no format shows them
    only_outcomes: bool = False  #: nothing of where pods are placed is explained, because only the outcomes count
    explain: bool = False  #: everything that is known about each decision
    is_whole: bool = False  #: a format holds the whole document, with the decision about each pod
    with_map: bool = False  #: every node before and after
    max_listed: int | None = None  #: the number of pods in the document; the others are counted; None for all
    ask_all: AskAll | None = None  #: answers what can be answered in parallel; None for one after the other
    progress: Progress | None = None  #: called while the answer is computed
    on_no_effect: Callable[[str, str], None] | None = None  #: called with a parameter without effect, and the reason

    @property
    def explained(self) -> NodesShown:
        """The nodes that a decision explains; all of them by default."""
        return None if self.nodes is UNSET else self.nodes

    def explains_all_alike(self, n: int) -> bool:
        """Return whether every one of `n` decisions is explained, for the same few nodes."""
        has_all = not (self.is_outlined or self.only_outcomes) and (self.max_listed is None or n <= self.max_listed)
        return has_all and self.others is not None and self.nodes == self.others

    def nodes_of(self, n: int, in_full: Container[int], others: NodesShown) -> dict[int, NodesShown]:
        """Return the nodes to explain for each of `n` decisions: some are shown in full, the others as `others`."""
        assert self.nodes is not UNSET  # noqa: S101 - asked for by formats only
        n_listed = 0 if self.is_outlined else n if self.max_listed is None else self.max_listed
        indexes = (index for index in range(n) if index in in_full or index < n_listed)
        return {index: self.nodes if index in in_full else others for index in indexes}

    def tell_no_effect(self, parameter: str, because: str) -> None:
        if self.on_no_effect is not None:
            self.on_no_effect(parameter, because)


PLAIN = Showing()
