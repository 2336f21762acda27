"""Decisions about the pods of new workloads, told while they are live, as a plain placement tells them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kplan.documents.placement import Origin, Outcome, PodPlacement
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.planner.diagnosis.diagnosis import Diagnosis
from kplan.planner.explanation import explain
from kplan.planner.placement import NodesShown, placement_of
from kplan.simulation.applying import Applied
from kplan.simulation.loop import Simulation


class Decisions(msgspec.Struct):
    """Keeps why pods of new workloads go where they go."""

    nodes: NodesShown = None  #: those that are told about for the first pod of each workload
    others: NodesShown = None  #: those for its further pods; not given where these are not told about
    tells_others: bool = True  #: whether further pods of a workload are told about
    tells_all: bool = False  #: whether pods of workloads that are rolled or scaled are told about, too
    origins: Mapping[str, Origin] = {}  #: where workloads stand, by KIND/NAMESPACE/NAME
    #: NAMESPACE/NAME of a pod -> the decision that put it on its node
    placed: dict[str, PodPlacement] = {}

    def watch(self, simulation: Simulation, applied: Applied) -> None:
        """Keep what the scheduler decides about the pods of a workload from now on."""
        told: set[str] = set()

        def keep(result: CycleResult) -> None:
            if result.outcome is not Outcome.SCHEDULED:
                return
            owner = simulation.owner(result.pod)
            if applied.row != result.pod and (owner is None or owner.workload.key != applied.update.key):
                return
            if not told or self.tells_others:
                nodes = self.others if told else self.nodes
                document = self._told(simulation.session, result, applied.update.key, nodes)
                self.placed[document.pod.key] = document
                told.add(document.pod.key)

        simulation.on_decision = keep

    def _told(self, session: Session, result: CycleResult, workload: str, nodes: NodesShown) -> PodPlacement:
        names = session.cluster.nodes.names
        origins = {result.pod: self.origins[workload]} if workload in self.origins else {}
        told = placement_of(session, result, lambda shown: explain(result, names, shown), origins, Diagnosis)
        return told.to_document(nodes)
