"""The pods of one question: pods of the snapshot and new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kplan.documents.placement import Origin
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo


class QuestionPods(msgspec.Struct, frozen=True):
    """Pods as rows of every session that is forked for the question."""

    rows: tuple[int, ...] = ()  #: the pods, in the order of the question
    added: tuple[PodInfo, ...] = ()  #: the new pods; `enter` adds them to a fresh fork, in this order
    origins: Mapping[int, Origin] = {}  #: row -> the manifest of a pod
    refused: Mapping[int, str] = {}  #: row -> why the API server refuses the pod
    #: row -> number of further replicas like the pod, which are only counted: they have the same outcome
    more: Mapping[int, int] = {}
    #: rows that were pending before and are in the queue besides what is asked about
    pending_before: frozenset[int] = frozenset()

    def enter(self, session: Session) -> None:
        """Add the new pods to a fresh fork."""
        session.refused.update(self.refused)
        for info in self.added:
            row = session.cluster.add_pod(info)
            if row not in self.refused:
                session.pod_ids.setdefault(info.key, row)

    def distinct(self, first: Iterable[int] = ()) -> QuestionPods:
        """Return the rows in `first` and then the pods of the question, without duplicates.

        Where the question has pods, those in `first` are besides.
        """
        rows = tuple(dict.fromkeys((*first, *self.rows)))
        return replace(
            self, rows=rows, pending_before=frozenset(rows).difference(self.rows) if self.rows else frozenset()
        )
