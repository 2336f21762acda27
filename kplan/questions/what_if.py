"""A question about a cluster that is different."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.changes.values import Change
from kplan.course.asking import PLAIN, Showing
from kplan.questions.base import Question
from kplan.questions.capacity import Capacity, Headroom, Shapes, Shrink
from kplan.questions.drain import Drain, InTurn
from kplan.questions.explain import Explain
from kplan.questions.many_runs import ManyRuns
from kplan.questions.nodes import Nodes
from kplan.questions.place import Place
from kplan.questions.plan import Plan, Queue
from kplan.questions.preempt import Preempt
from kplan.reading.arguments import Manifest

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.subject import Subject
    from kplan.documents.base import Report

Plain = (
    Place | Plan | Queue | Preempt | Drain | Explain | Capacity | Shapes | Headroom | Shrink | Nodes | InTurn | ManyRuns
)
"""Questions about a cluster as it is."""


class WhatIf(Question, frozen=True):
    """Asks what the answer would be if the cluster were different.

    Attributes
    ----------
    question : the question
    objects : files, directories or objects to add, or to put in place of those of the same name
    without : objects to remove: KIND/[NS/]NAME, or KIND?label=value
    add_nodes : N=NODE: N more nodes like this one
    cordon, uncordon : names of nodes, or globs
    scale : KIND/[NS/]NAME=N
    settle : then let everything move until nothing does
    changes : further changes, such as ``{change: cordon, nodes: [node-1]}``
    """

    question: Plain
    objects: tuple[Manifest, ...] = ()
    without: tuple[str, ...] = ()
    add_nodes: tuple[str, ...] = ()
    cordon: tuple[str, ...] = ()
    uncordon: tuple[str, ...] = ()
    scale: tuple[str, ...] = ()
    settle: bool = False
    changes: tuple[Change, ...] = ()

    def subject(self, base: Base) -> Subject:
        from kplan.changes.timed import changes_of
        from kplan.course.what_if import changed

        changes = changes_of(
            with_=self.objects,
            without=self.without,
            add_nodes=self.add_nodes,
            cordon=self.cordon,
            uncordon=self.uncordon,
            scale=self.scale,
            settle=self.settle,
        )
        return self.question.subject(changed(base, [*changes, *self.changes]))

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> Report:
        return self.question.answer_about(subject, showing)
