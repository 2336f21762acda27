"""Why a pod has no node, and what would help: in a sentence, and in changes that were tried."""

from __future__ import annotations

import msgspec

from kplan.documents.remedy import Remedy
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.planner.diagnosis.alike import ALONE, Replicas


class Diagnosis(msgspec.Struct, frozen=True):
    """What is told of a pod that is not placed."""

    text: str = ""  #: one sentence
    remedies: tuple[Remedy, ...] = ()  #: the smallest change first
    at_fault: str = ""  #: JSON path of the pod's field that is at fault; empty where it is not one field


def diagnose(session: Session, result: CycleResult, *, may_try: bool = True, replicas: Replicas = ALONE) -> Diagnosis:
    """Return the diagnosis of a decision that is live.

    Parameters
    ----------
    may_try : decide again with changes; not where to ask anew may give another answer
    """
    if result.row is not None:
        return Diagnosis()
    # Most questions are answered without: all that tells why, and tries what would help, is loaded when it is needed.
    from kplan.planner.diagnosis.fields import field_of
    from kplan.planner.diagnosis.gather import gather
    from kplan.planner.diagnosis.remedies import remedies
    from kplan.planner.diagnosis.sentence import sentence

    causes = gather(session, result)
    found = remedies(session, result, causes, replicas) if may_try else ()
    pod = session.cluster.pods.infos[result.pod].pod
    return Diagnosis(sentence(causes), found, field_of(causes, found, pod, session.listers))
