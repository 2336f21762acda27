"""The question what to do so that pending pods run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.documents.remedies import Kind
from kplan.questions.base import PLAIN, Question, Showing

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.remedies import RemedyReport


class Remedy(Question, frozen=True):
    """Asks for the least set of actions after which pending pods run.

    Attributes
    ----------
    pods : NAMESPACE/NAME of pending pods; if empty, all of them
    only : kinds of actions that may be taken; if empty, all of them
    without : kinds of actions that may not be taken
    """

    pods: tuple[str, ...] = ()
    only: tuple[Kind, ...] = ()
    without: tuple[Kind, ...] = ()

    def answer(self, base: Base, showing: Showing = PLAIN) -> RemedyReport:
        """Return the RemedyReport."""
        from kplan.actions.actions import allowed_kinds
        from kplan.questions.remedy.report import remedy_report

        base.resolve(self.pods)
        return remedy_report(
            base, self.pods or None, kinds=allowed_kinds(self.only, self.without), fail_on=showing.fail_on
        )
