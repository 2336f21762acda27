"""The pods of one question: those of the snapshot, and those that it does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kplan.documents.placement import Origin
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo


@dataclass(frozen=True)
class QuestionPods:
    """Pods as rows of any session that is forked for the question."""

    rows: tuple[int, ...] = ()  #: the pods that are asked about, in order
    #: those of them that the snapshot does not hold; a fork gets them first, in this order
    added: tuple[PodInfo, ...] = ()
    origins: Mapping[int, Origin] = field(default_factory=dict)  #: row -> the manifest that a pod comes from
    refused: Mapping[int, str] = field(default_factory=dict)  #: row -> why the API server would not take the pod
    #: row -> further replicas like the pod that are not looked at one by one, since they end as it does
    more: Mapping[int, int] = field(default_factory=dict)

    def enter(self, session: Session) -> None:
        """Make the pods known that a fresh fork does not hold."""
        for info in self.added:
            session.cluster.add_pod(info)
        session.refused.update(self.refused)

    def distinct(self, first: Iterable[int] = ()) -> QuestionPods:
        """Return the same pods, each once, after those that come first."""
        return replace(self, rows=tuple(dict.fromkeys((*first, *self.rows))))
