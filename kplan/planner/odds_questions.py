"""Questions that a planner answers many times, drawing each time what kube-scheduler leaves to chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kplan.cluster.asking import Count, answers
from kplan.cluster.base import Base, PodLike
from kplan.cluster.limits import DEFAULT_MAX_ROUNDS, DEFAULT_RUNS, DEFAULT_SEED
from kplan.reading.several import listed
from kplan.simulation.draining import DrainOptions

if TYPE_CHECKING:
    from kplan.cluster.asking import AskAll
    from kplan.odds.report import Odds
    from kplan.questions.many_runs.question import Drawable
    from kplan.simulation.applying import Rollout
    from kplan.workloads.applied import Manifest


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


class OddsQuestions(Base):
    """Counts how often each outcome occurs."""

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
        controller recreates, its replacement counts. Pods that no profile schedules are left out.

        Parameters
        ----------
        pods, with_pending, recreate, max_rounds : as for `plan_queue`
        runs, seed, ask_all : as for `odds`

        Raises
        ------
        NotFoundError, UsageError
            As for `odds`.
        """
        from kplan.questions.plan.question import Plan

        only_these = not (pods is None or with_pending)
        question = Plan(only_these=only_these, recreate=recreate, max_rounds=max_rounds)
        return self._odds(question, listed(pods or ()), runs, seed, ask_all)

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

        Parameters
        ----------
        manifests, namespace, rollout, run_cron_jobs : as for `roll_out`
        runs, seed, ask_all : as for `odds`

        Raises
        ------
        ManifestError, UsageError
            As for `roll_out` and `odds`.
        """
        from kplan.effects.change import read_manifests
        from kplan.odds.of_changes import rolled_out
        from kplan.odds.report import odds_of

        written = read_manifests(self, manifests, namespace, run_cron_jobs=run_cron_jobs)
        base = self.with_additions(written.additions, written.warnings)
        question = partial(rolled_out, workloads=tuple(written.workloads), rollout=rollout)
        return odds_of(base, question, command="plan", runs=runs, seed=seed, ask_all=for_any_base(self, ask_all))

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

        Parameters
        ----------
        nodes, lost, one_by_one, rolling, replace, options : as for `drain`
        runs, seed, ask_all : as for `odds`; drawn is what `odds_of_roll_out` draws

        Raises
        ------
        NotFoundError, UsageError
            As for `drain` and `odds`.
        """
        from kplan.questions.drain.question import Drain, how_of

        how = how_of(lost=lost, one_by_one=one_by_one, rolling=rolling, replace=replace)
        question = Drain(nodes=tuple(listed(nodes)), how=how, options=options or DrainOptions())
        return self._odds(question, (), runs, seed, ask_all)

    def _odds(
        self, question: Drawable, pods: Sequence[PodLike], runs: int, seed: int, ask_all: BoundAskAll | None
    ) -> Odds:
        from kplan.cluster.showing import Showing
        from kplan.effects.subject import Subject
        from kplan.questions.many_runs.question import ManyRuns

        showing = Showing(ask_all=for_any_base(self, ask_all))
        return ManyRuns(question=question, runs=runs, seed=seed).odds(Subject(self, pods), showing)
