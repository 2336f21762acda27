"""Questions whose answers are counts: how often each outcome occurs, how many replicas fit, and which nodes are needed.

Modules that only one question needs are imported when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kplan.cluster.asking import Count, answers
from kplan.cluster.base import Base, PodLike
from kplan.cluster.limits import DEFAULT_MAX_ROUNDS, DEFAULT_RUNS, DEFAULT_SEED
from kplan.planner.parameters import checked
from kplan.reading.arguments import listed
from kplan.simulation.draining import DrainOptions

if TYPE_CHECKING:
    from pathlib import Path

    from kplan.capacity.counting import Template
    from kplan.capacity.measure import Capacity
    from kplan.cluster.asking import AskAll
    from kplan.documents.capacity import HeadroomReport, ShrinkReport
    from kplan.documents.nodes_report import NodesReport
    from kplan.odds.report import Odds
    from kplan.questions.many_runs.question import Drawable
    from kplan.simulation.applying import Rollout
    from kplan.workloads.manifests import Manifest
    from kplan.workloads.sources import Source


T = TypeVar("T")
BoundAskAll = Callable[..., Any]
"""Answers questions in parallel, in order, such as ``functools.partial(kplan.sweeps.ask_all, planner)``."""


def for_any_base(planner: Base, ask_all: BoundAskAll | None) -> AskAll | None:
    """Return the same for questions about any cluster: those about another one are answered one after the other."""
    if ask_all is None:
        return None

    def ask(base: Base, questions: Sequence[Callable[[Base], T]], /, *, progress: Count | None = None) -> Iterable[T]:
        if base is not planner:
            return answers(base, questions, None, progress=progress)
        ready: Iterable[T] = ask_all(questions) if progress is None else ask_all(questions, progress=progress)
        return ready

    return ask


class CountingQuestions(Base):
    """Counts how often each outcome occurs, how many replicas fit, and which nodes are needed."""

    @checked
    def odds(
        self,
        pods: Iterable[PodLike],
        *,
        runs: int = DEFAULT_RUNS,
        seed: int = DEFAULT_SEED,
        settle_preemption: bool = False,
        ask_all: BoundAskAll | None = None,
    ) -> Odds:
        """Place pods in order, many times, and count how often each outcome occurs.

        Equal best nodes, and equal candidates for preemption, are equally likely to be drawn; with sampling as
        configured, the node at which the first search starts is drawn, too. One run is the plain answer with that seed.

        Parameters
        ----------
        runs : number of runs
        seed : the same seed gives the same answer
        settle_preemption : as for `plan`
        ask_all : runs what takes long in parallel: ``functools.partial(kplan.sweeps.ask_all, planner)``; the answer is
            the same

        Raises
        ------
        NotFoundError, UsageError
            As for `place`, and when the number of runs is less than 1 or too large.
        """
        from kplan.questions.place.question import Place

        question = Place(settle_preemption=settle_preemption)
        return self._odds(question, listed(pods), runs, seed, ask_all)

    @checked
    def odds_of_queue(
        self,
        pods: Iterable[PodLike] | None = None,
        *,
        with_pending: bool = False,
        recreate: bool = True,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        runs: int = DEFAULT_RUNS,
        seed: int = DEFAULT_SEED,
        ask_all: BoundAskAll | None = None,
    ) -> Odds:
        """Work off the scheduling queue many times, and count how often each outcome occurs.

        Drawn is what `odds` draws, and the order of pods that are equal in the queue. For an evicted pod that its
        controller recreates, its replacement counts. Pods that no profile schedules are left out. Parameters and errors
        are those of `plan_queue` and `odds`.
        """
        from kplan.questions.plan.question import Plan

        only_these = not (pods is None or with_pending)
        question = Plan(only_these=only_these, recreate=recreate, max_rounds=max_rounds)
        return self._odds(question, listed(pods or ()), runs, seed, ask_all)

    @checked
    def odds_of_roll_out(
        self,
        manifests: Iterable[Manifest],
        *,
        namespace: str | None = None,
        rollout: Rollout = "auto",
        run_cron_jobs: bool = False,
        runs: int = DEFAULT_RUNS,
        seed: int = DEFAULT_SEED,
        ask_all: BoundAskAll | None = None,
    ) -> Odds:
        """Apply manifests many times, follow each run to rest, and count how often each outcome occurs.

        Drawn is what `odds` draws, the order of equal pending pods, and which controller creates its pods first.
        Parameters and errors are those of `roll_out` and `odds`.
        """
        from kplan.effects.change import read_manifests
        from kplan.odds.of_changes import rolled_out
        from kplan.odds.report import odds_of

        written = read_manifests(self, manifests, namespace, run_cron_jobs=run_cron_jobs)
        base = self.with_additions(written.additions, written.warnings)
        question = partial(rolled_out, workloads=tuple(written.workloads), rollout=rollout)
        return odds_of(base, question, command="plan", runs=runs, seed=seed, ask_all=for_any_base(self, ask_all))

    @checked
    def odds_of_drain(
        self,
        nodes: Sequence[str],
        *,
        lost: bool = False,
        one_by_one: bool = False,
        rolling: bool = False,
        replace: bool = False,
        options: DrainOptions | None = None,
        runs: int = DEFAULT_RUNS,
        seed: int = DEFAULT_SEED,
        ask_all: BoundAskAll | None = None,
    ) -> Odds:
        """Drain nodes many times, follow each run to rest, and count how often each outcome occurs.

        Drawn is what `odds_of_roll_out` draws. Parameters and errors are those of `drain` and `odds`.
        """
        from kplan.questions.drain.question import Drain, how_of

        how = how_of(lost=lost, one_by_one=one_by_one, rolling=rolling, replace=replace)
        question = Drain(nodes=tuple(listed(nodes)), how=how, options=options or DrainOptions())
        return self._odds(question, (), runs, seed, ask_all)

    @checked
    def capacity(
        self,
        templates: Sequence[Template | Source],
        *,
        mix: Sequence[int] = (),
        wanted: int | None = None,
        limit: int | None = None,
        preempt: bool = False,
        lose: int | None = None,
        zones: bool = False,
        shapes: str | Path | None = None,
        namespace: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Capacity:
        """Count how many replicas of pods fit, placing replicas of the templates in turn.

        Parameters
        ----------
        templates : pod templates; or manifests with workloads: files, directories, ``-``, or objects
        mix : the number of replicas in a row of each workload of the manifests; one of each if empty
        wanted : how many should fit, in total; if fewer do, the answer names nodes to add
        limit : stop counting at this number
        preempt : also count room that pods of lower priority use
        lose : count replicas that can all be rescheduled if any such number of nodes is lost
        zones : lose zones in place of nodes; one zone if `lose` is None
        shapes : a file that lists shapes of nodes with prices; if fewer than `wanted` fit, the cheapest mix is added
        namespace : for objects that name none
        progress : called now and then with the number of replicas so far

        Raises
        ------
        ManifestError, InputError
            With all problems of the manifests, or of the list of shapes.
        UsageError
            When there is nothing to count, or there are too many combinations of lost nodes.
        """
        from kplan.capacity.measure import capacity_of

        return capacity_of(
            self,
            templates,
            mix=mix,
            wanted=wanted,
            limit=limit,
            preempt=preempt,
            lose=lose,
            zones=zones,
            shapes=shapes,
            namespace=namespace,
            progress=progress,
        )

    @checked
    def headroom(
        self,
        manifests: Sequence[Source] | None = None,
        *,
        namespace: str | None = None,
        wanted: int | None = None,
        limit: int | None = None,
        ask_all: BoundAskAll | None = None,
    ) -> HeadroomReport:
        """Count how many more replicas of each workload fit, each on its own and from the same start.

        Parameters
        ----------
        manifests : files, directories, ``-``, or objects; None for every workload of the snapshot
        namespace : for objects that name none
        wanted : how many more of each should fit; the verdict fails if fewer do
        limit : each count stops here; None for `wanted`, else for 1,000
        ask_all : answers the questions, in order; None answers one after the other

        Raises
        ------
        ManifestError
            With all problems of the manifests.
        UsageError
            When there is no workload.
        """
        from kplan.capacity.headroom import base_of_manifests, headroom_report
        from kplan.capacity.measure import single_replicas

        if manifests is None:
            return headroom_report(self, wanted=wanted, limit=limit, ask_all=for_any_base(self, ask_all))
        loaded = single_replicas(self, manifests, namespace)
        base, templates = base_of_manifests(self, loaded, wanted=wanted, limit=limit)
        return headroom_report(base, templates, wanted=wanted, limit=limit, ask_all=for_any_base(self, ask_all))

    @checked
    def shrink(self, *, options: DrainOptions | None = None) -> ShrinkReport:
        """Return nodes that can be drained one after another so that every pod is placed and every budget holds.

        The search is greedy, the emptiest node first; another order might free more.

        Parameters
        ----------
        options : pods that are deleted in any case; None for none
        """
        from kplan.questions.capacity.question import Shrink

        question = Shrink(options=options or DrainOptions())
        return question.answer_about(question.subject(self))

    @checked
    def nodes(self, *, full: bool = False, loops: Sequence[float] | None = (0,)) -> NodesReport:
        """Return which nodes the planner's autoscaler adds for the pending pods, removes and keeps.

        Parameters
        ----------
        full : include the whole decision in the autoscaler's own terms
        loops : seconds after the planner's `now` at which the cluster-autoscaler looks, in ascending order; None for
            as long as it waits before it removes a node

        Raises
        ------
        UsageError
            When the planner follows no autoscaler, or its settings cannot be used.
        InputError
            With all problems of the file that the settings name.
        """
        from kplan.questions.nodes.question import Nodes

        question = Nodes(full=full, loops=None if loops is None else tuple(loops))
        return question.answer_about(question.subject(self))

    def _odds(
        self, question: Drawable, pods: Sequence[PodLike], runs: int, seed: int, ask_all: BoundAskAll | None
    ) -> Odds:
        from kplan.cluster.asking import Showing
        from kplan.effects.subject import Subject
        from kplan.questions.many_runs.question import ManyRuns

        showing = Showing(ask_all=for_any_base(self, ask_all))
        return ManyRuns(question=question, runs=runs, seed=seed).odds(Subject(self, pods), showing)
