"""The decisions about the pods of a question, in order, each with what explains it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kplan.answers.placement import Explain, NodesShown, placement_of
from kplan.answers.plan import Plan
from kplan.cluster.base import Base
from kplan.diagnosis.diagnosis import Diagnosing
from kplan.diagnosis.explanation import Explanation, Shown, explain
from kplan.framework.outcome import Outcome
from kplan.framework.session import Session
from kplan.subjects.sequence import QuestionPods, Replay, Run

_EAGER_CELLS = 2_000
"""A plan with up to this many explanations (nodes times pods) explains its decisions at once; a larger one runs again
up to a decision when somebody reads its explanation."""


def decide(
    base: Base, question: QuestionPods, begin: Callable[[], tuple[Session, Run]], *, shown: NodesShown = None
) -> Plan:
    """Run a plan in a fork and return its decisions.

    Parameters
    ----------
    begin : begins the run in a fresh fork; called again when somebody reads the explanation of an earlier decision
    shown : the nodes for which all decisions will be explained, so that this is done at once; None if that is not known
    """
    session, run = begin()
    replay = Replay(lambda: begin()[1], run)
    is_small = len(session.cluster) * len(question.rows) <= _EAGER_CELLS or bool(base.extenders)
    # An extender may answer differently when it is called again, so remedies are not tried.
    diagnosing = Diagnosing(replay, question, is_final=bool(base.extenders))
    placements = []
    fewest: list[int] = []
    for index, result in enumerate(replay):
        fewest.append(result.n_feasible if result.outcome is Outcome.SCHEDULED else 0)
        names = session.cluster.nodes.names
        explanation = explain(result, names) if is_small else None
        explain_nodes = _explainer(base, index, explanation, replay, names)
        if shown is not None:
            explain_nodes = _noted(shown, explain_nodes)
        diagnose = diagnosing.diagnosis_of(session, index, result)
        placements.append(placement_of(session, result, explain_nodes, question.origins, diagnose))
        if shown is not None:
            placements[-1].diagnosis  # noqa: B018 - is made while the decision is live, and cached
        if base.on_progress is not None:
            base.on_progress(len(placements), len(question.rows))
    more = {base.info_of(question, row).key: n for row, n in question.more.items()}
    return Plan(
        tuple(placements),
        base.session.cluster,
        session,
        more,
        fewest_nodes=min(fewest, default=0),
        make_context=partial(base.context, question),
    )


def _noted(shown: NodesShown, explain_nodes: Explain) -> Explain:
    explanation = explain_nodes(shown)
    return lambda nodes: explanation if nodes == shown else explain_nodes(nodes)


def _explainer(base: Base, index: int, explanation: Explanation | None, replay: Replay, names: list[str]) -> Explain:
    def explain_nodes(nodes: NodesShown) -> Explanation:
        if explanation is not None and nodes is None:
            return explanation
        # An extender may answer differently when it is called again, so the decision is not computed again.
        if explanation is not None and isinstance(nodes, Shown) and (base.extenders or not nodes.with_score_details):
            return explanation.narrowed(nodes)
        return explain(replay.at(index), names, nodes)

    return explain_nodes
