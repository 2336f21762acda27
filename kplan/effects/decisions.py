"""Decisions about the pods of a change, turned into documents while they are live."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from kplan.answers.placement import NodesShown, placement_of
from kplan.cluster.showing import Showing
from kplan.diagnosis.diagnosis import Diagnosis
from kplan.diagnosis.explanation import explain
from kplan.documents.placement import Origin, Outcome, PodPlacement
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.simulation.applying import Applied
from kplan.simulation.loop import Simulation


class Decisions(msgspec.Struct):
    """Collects the decisions about the pods of new workloads, or of all."""

    nodes: NodesShown = None  #: the nodes to explain for the first pod of each workload
    others: NodesShown = None  #: the nodes to explain for its further pods
    explains_others: bool = True  #: whether decisions about further pods of a workload are collected
    covers_updates: bool = False  #: whether decisions about workloads that are rolled out or scaled are collected too
    covers_all: bool = False  #: whether the decisions about all pods that move are collected
    origins: Mapping[str, Origin] = {}  #: KIND/NAMESPACE/NAME of a workload -> its manifest
    #: NAMESPACE/NAME of a pod -> the decision that placed it
    placed: dict[str, PodPlacement] = {}

    @classmethod
    def of(cls, showing: Showing, origins: Mapping[str, Origin]) -> Decisions:
        """Return what collects the decisions that an answer shows."""
        return cls(
            nodes=None if showing.nodes is UNSET else showing.nodes,
            others=showing.others,
            explains_others=not showing.is_outlined,
            covers_updates=showing.explain,
            covers_all=showing.is_whole,
            origins=origins,
        )

    def watch(self, simulation: Simulation, applied: Applied | None = None) -> None:
        """Collect the decisions about the pods of a workload from now on, or about all pods."""
        explained: set[str] = set()

        def save(result: CycleResult) -> None:
            owner = simulation.owner(result.pod)
            key = simulation.session.cluster.pods.infos[result.pod].key
            own = f"Pod/{key}" if owner is None else owner.workload.key
            workload = own if applied is None else applied.update.key
            is_other = applied is not None and applied.row != result.pod and own != workload
            if result.outcome is not Outcome.SCHEDULED or is_other:
                return
            if applied is None or workload not in explained or self.explains_others:
                nodes = self.others if workload in explained else self.nodes
                self.placed[key] = self._document(simulation.session, result, workload, nodes)
                explained.add(workload)

        simulation.on_decision = save

    def _document(self, session: Session, result: CycleResult, workload: str, nodes: NodesShown) -> PodPlacement:
        names = session.cluster.nodes.names
        origins = {result.pod: self.origins[workload]} if workload in self.origins else {}
        placement = placement_of(session, result, lambda shown: explain(result, names, shown), origins, Diagnosis)
        return placement.to_document(nodes)
