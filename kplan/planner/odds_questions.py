"""Questions that a planner asks itself many times, with draws of all that is left to chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kplan.planner.base import Base, PodLike
from kplan.planner.limits import DEFAULT_MAX_ROUNDS, DEFAULT_RUNS, DEFAULT_SEED

if TYPE_CHECKING:
    from kplan.planner.odds import AskAll
    from kplan.planner.odds_report import Odds
    from kplan.simulation.applying import Rollout
    from kplan.simulation.draining import DrainOptions
    from kplan.workloads.changes import Manifest


class OddsQuestions(Base):
    """Says how often each outcome comes."""

    def odds(
        self,
        pods: Iterable[PodLike],
        *,
        runs: int = DEFAULT_RUNS,
        seed: int = DEFAULT_SEED,
        settle_preemption: bool = False,
        ask_all: AskAll | None = None,
    ) -> Odds:
        """Place pods in the order given, many times, and say how often each outcome comes.

        Draws are even between equal best nodes and between equal candidates for preemption; with sampling as
        configured, where the first search starts is drawn, too. One run is the plain answer with that seed.

        Parameters
        ----------
        runs : how many
        seed : the same seed gives the same answer
        settle_preemption : as for `plan`
        ask_all : has what takes long carried out side by side: ``functools.partial(kplan.sweeps.ask_all, planner)``; it
            makes no difference to the answer

        Raises
        ------
        NotFoundError, UsageError
            As for `place`, and for a number of runs that is none.
        """
        from kplan.planner.odds_of_pods import InOrder
        from kplan.planner.odds_report import odds_of

        question = InOrder(tuple(pods), settle_preemption)
        asked = question.asked(self)
        return odds_of(self, question, command="place", asked=asked, runs=runs, seed=seed, ask_all=ask_all)

    def odds_of_queue(
        self,
        pods: Iterable[PodLike] | None = None,
        *,
        with_pending: bool = False,
        recreate: bool = True,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        runs: int = DEFAULT_RUNS,
        seed: int = DEFAULT_SEED,
        ask_all: AskAll | None = None,
    ) -> Odds:
        """Work off the scheduling queue many times, and say how often each outcome comes.

        Draws are those of `odds`, and the turns of pods that are equal in the queue. Of an evicted pod that its
        controller recreates, its replacement counts. Pods that nobody here schedules are left out.

        Parameters
        ----------
        pods, with_pending, recreate, max_rounds : as for `plan_queue`
        runs, seed, ask_all : as for `odds`

        Raises
        ------
        NotFoundError, UsageError
            As for `odds`.
        """
        from kplan.planner.odds_of_pods import InQueue
        from kplan.planner.odds_report import odds_of

        question = InQueue(None if pods is None else tuple(pods), with_pending, recreate, max_rounds)
        asked = question.asked(self)
        return odds_of(self, question, command="plan", asked=asked, runs=runs, seed=seed, ask_all=ask_all)

    def odds_of_roll_out(
        self,
        manifests: Iterable[Manifest],
        *,
        namespace: str | None = None,
        rollout: Rollout = "auto",
        run_cron_jobs: bool = False,
        runs: int = DEFAULT_RUNS,
        seed: int = DEFAULT_SEED,
        ask_all: AskAll | None = None,
    ) -> Odds:
        """Apply manifests many times, each run carried to rest, and say how often each outcome comes.

        Draws are those of `odds`, the turns of equal pending pods, and whose pods are made first.

        Parameters
        ----------
        manifests, namespace, rollout, run_cron_jobs : as for `roll_out`
        runs, seed, ask_all : as for `odds`

        Raises
        ------
        ManifestError, UsageError
            As for `roll_out` and `odds`.
        """
        from kplan.planner.odds_of_changes import rolled_out
        from kplan.planner.odds_report import odds_of

        base, question = rolled_out(self, manifests, namespace, rollout, run_cron_jobs=run_cron_jobs)
        return odds_of(base, question, command="plan", runs=runs, seed=seed, ask_all=ask_all)

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
        ask_all: AskAll | None = None,
    ) -> Odds:
        """Drain nodes many times, each run carried to rest, and say how often each outcome comes.

        Parameters
        ----------
        nodes, lost, one_by_one, rolling, replace, options : as for `drain`
        runs, seed, ask_all : as for `odds`; draws are those of `odds_of_roll_out`

        Raises
        ------
        NotFoundError, UsageError
            As for `drain` and `odds`.
        """
        from kplan.planner.odds_of_changes import Drained
        from kplan.planner.odds_report import odds_of

        question = Drained(tuple(nodes), lost, one_by_one, rolling, replace, options)
        return odds_of(self, question, command="drain", runs=runs, seed=seed, ask_all=ask_all)
