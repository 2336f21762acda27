"""Drains in turn: each node, or each group of nodes with the same label value, drained from the same start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET

from kplan.answers.cluster_map import cluster_map
from kplan.answers.utilisation import pool_label
from kplan.answers.verdict import DEFAULT_FAIL_ON, counted_warnings
from kplan.api.wellknown import ZONE
from kplan.cluster.asking import AskAll, Count, answers
from kplan.cluster.base import Base
from kplan.documents.base import Condition, Counted, Verdict
from kplan.documents.drains import DrainOutcome, DrainsReport
from kplan.documents.plan import Action
from kplan.effects.change import ChangePlan, drain
from kplan.effects.replacements import Fates
from kplan.errors import NotFoundError
from kplan.simulation.draining import DrainOptions

Groups = Mapping[str, Sequence[str]]


def label_of(base: Base, name: str) -> str:
    """Return the label for ``zone``, ``pool`` or the name of a label; raises NotFoundError if no node has it."""
    nodes = base.session.cluster.nodes
    label = ZONE if name == "zone" else pool_label(nodes) if name == "pool" else name
    if not label or not nodes.label(label).present.any():
        raise NotFoundError(f"no node has label {name}", hint="choose zone, pool or a label that nodes have")
    return label


def together(base: Base, nodes: Sequence[str], label: str | None) -> dict[str, list[str]]:
    """Return groups of nodes by label value, without nodes that lack the label; each node alone if `label` is None."""
    if label is None:
        return {name: [name] for name in nodes}
    groups: dict[str, list[str]] = {}
    for name in nodes:
        value = base.world.node_by_name[name].metadata.labels.get(label)
        if value is not None:
            groups.setdefault(value, []).append(name)
    return dict(sorted(groups.items()))


class DrainQuestion(msgspec.Struct, frozen=True):
    """Asks a planner whether some nodes can be drained together; picklable."""

    name: str
    nodes: tuple[str, ...]
    lost: bool
    one_by_one: bool
    options: DrainOptions | None
    fail_on: tuple[Condition, ...]

    def __call__(self, base: Base) -> DrainOutcome:
        """Drain the nodes and return the outcome."""
        change = drain(base, self.nodes, lost=self.lost, one_by_one=self.one_by_one, options=self.options, waits=True)
        return _outcome(base, self.name, self.nodes, change, self.fail_on)


def drains_report(
    base: Base,
    groups: Groups,
    *,
    label: str | None = None,
    lost: bool = False,
    one_by_one: bool = False,
    options: DrainOptions | None = None,
    fail_on: Sequence[Condition] | None = None,
    ask_all: AskAll | None = None,
    progress: Count | None = None,
    with_map: bool = False,
) -> DrainsReport:
    """Return the DrainsReport.

    Parameters
    ----------
    label : the label that defines the groups
    fail_on : what makes the verdict a failure; None for the defaults of drain
    ask_all : answers the questions; None answers one after the other
    progress : called while they are answered
    with_map : hold every node as it is, too
    """
    chosen = DEFAULT_FAIL_ON["drain"] if fail_on is None else fail_on
    questions = [
        DrainQuestion(name, tuple(nodes), lost, one_by_one, options, tuple(chosen)) for name, nodes in groups.items()
    ]
    outcomes = answers(base, questions, ask_all, progress=progress)
    outcomes.sort(
        key=lambda outcome: (outcome.may_go, -outcome.pending, -outcome.blocked, -outcome.preempted, -outcome.evicted)
    )
    context, cluster = base.context(), base.session.cluster
    counted = [
        Counted(outcome.name, rule)
        for outcome in outcomes
        for rule in dict.fromkeys(counted.rule for counted in outcome.counted)
    ]
    return DrainsReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        verdict=Verdict.of(chosen, [*counted, *counted_warnings(context.warnings, chosen)]),
        warnings=context.warnings,
        label=label,
        drains=tuple(outcomes),
        cluster=cluster_map(cluster, cluster) if with_map else UNSET,
    )


def _outcome(
    base: Base, name: str, nodes: tuple[str, ...], change: ChangePlan, fail_on: Sequence[Condition]
) -> DrainOutcome:
    fates = Fates(base, change)
    counted = fates.counted(fail_on)
    summary = fates.summary()
    blamed = {pod.object for pod in counted}
    waiting = [fate.came for fate in fates.all if fate.action is Action.PENDING and fate.came is not None]
    pending = next((pod for pod in waiting if pod.key in blamed), next(iter(waiting), None))
    own = [pod for pod in waiting if not fates.is_old(pod.key)]
    if change.obstacles:
        pod, because = change.obstacles[0].pod, change.obstacles[0].words
    elif pending is not None:
        pod, because = pending.key, fates.message_of(pending)
    else:
        pod = because = ""
    return DrainOutcome(
        name=name,
        nodes=nodes,
        may_go=not counted,
        placed=summary.placed + summary.moved,
        pending=len(own),
        waiting=len(waiting) - len(own),
        blocked=len(change.obstacles),
        evicted=summary.evicted,
        preempted=summary.victims,
        state="blocked" if change.obstacles else "pending" if own else "drainable",
        budgets=tuple(
            dict.fromkeys(
                budget.name for obstacle in change.obstacles if obstacle.is_by_budget for budget in obstacle.budgets
            )
        ),
        because=because,
        pod=pod,
        counted=tuple(counted),
    )
