"""The planner: the Python API for questions about a cluster.

Modules that only one question needs are imported when it is called, so that the simple questions start fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, cast

import msgspec
from msgspec import structs

from kplan.changes.values import DrainOptions
from kplan.cluster.base import Base, PodLike
from kplan.course.answers.placement import Placement
from kplan.course.answers.plan import Plan
from kplan.course.asking import Notify, answers
from kplan.course.clock import Seconds, SecondsOf
from kplan.course.in_order import place_in_order
from kplan.documents.base import Condition
from kplan.reading import arguments
from kplan.reading.arguments import checked_by, listed

if TYPE_CHECKING:
    from kplan.capacity.measure import Capacity
    from kplan.capacity.templates import Template
    from kplan.course.asking import AskAll, Asks
    from kplan.course.odds.report import Odds
    from kplan.course.report import ChangePlan
    from kplan.documents.capacity import HeadroomReport, ShrinkReport
    from kplan.documents.checks import ChecksReport
    from kplan.documents.drains import DrainsReport
    from kplan.documents.placement import PlacementReport
    from kplan.documents.plan import WaveReport
    from kplan.documents.remedies import NodesReport, RemedyReport
    from kplan.questions.base import Question
    from kplan.questions.check import Check
    from kplan.questions.many_runs import Drawable
    from kplan.questions.pods import StoredPod
    from kplan.workloads.manifests import Manifest, Strictness
    from kplan.workloads.sources import Source


T = TypeVar("T")
A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
BoundAskAll = Callable[..., Any]
"""Answers questions in parallel, in order, such as ``functools.partial(kplan.sweeps.ask_all, planner)``."""


def for_any_base(base: Base, ask_all: BoundAskAll | None) -> AskAll | None:
    """Return the same for questions about any cluster: those about another one are answered one after the other."""
    if ask_all is None:
        return None

    def ask(other: Base, questions: Sequence[Callable[[Base], T]], /, *, progress: Notify | None = None) -> Iterable[T]:
        if other is not base:
            return answers(other, questions, None, progress=progress)
        ready: Iterable[T] = ask_all(questions) if progress is None else ask_all(questions, progress=progress)
        return ready

    return ask


_TYPES: tuple[tuple[Any, str], ...] = (
    (bool, "full lost one_by_one preempt recreate replace rolling run_cron_jobs settle settle_preemption with_pending"),
    (str, "by namespace shapes"),
    (tuple[str, ...], "add_nodes cordon names nodes only recommendations scale uncordon without"),
    (arguments.Number, "wanted"),
    (arguments.Positive, "limit max_rounds"),
    (arguments.Rollout, "rollout"),
    (arguments.Runs, "runs"),
    (arguments.Seed, "seed"),
    (Callable[..., Any] | None, "ask_all progress"),
    (DrainOptions, "options"),
    (Literal["strict", "warn", "ignore"], "validate"),
    (Seconds, "until"),
    (SecondsOf, "run start stop"),
    (tuple[Condition, ...], "fail_on"),
    (tuple[Seconds, ...] | None, "loops"),
    (tuple[arguments.Positive, ...], "mix"),
    (tuple[dict[str, Any], ...], "changes"),
    (tuple[str | dict[str, Any], ...], "with_"),
    (tuple[tuple[str, ...], ...], "waves"),
)
"""The types of the planner's parameters, with their names: each name means the same for every method.

None stands for their default where it is no value of its own. What is not here has a reader of its own: pods, manifests
and templates.
"""

Parameters = msgspec.defstruct("Parameters", [(name, kind, None) for kind, names in _TYPES for name in names.split()])


def checked(method: Callable[P, R]) -> Callable[P, R]:
    """Return a method that reads its arguments by their types, and raises UsageError with all problems."""
    return checked_by(Parameters)(method)


class Planner(Base):
    """Answers questions about a snapshot under a scheduler configuration; parameters as for `Base`.

    No answer depends on earlier questions.
    """

    @checked
    def ask(
        self, question: Asks[A], *, fail_on: Sequence[Condition] | None = None, ask_all: BoundAskAll | None = None
    ) -> A:
        """Return the document that answers a question, such as ``kplan.questions.Drain(nodes=("n1",))``.

        Raises KplanError when the question does not fit the cluster, or its manifests are invalid.

        `fail_on`: what makes the verdict a failure; None for the default of the question. `ask_all`: answers what can
        be answered in parallel: ``functools.partial(kplan.sweeps.ask_all, planner)``; None for one after the other.
        """
        from kplan.questions.base import Showing
        from kplan.questions.reading import checked as checked_question

        question = cast("Asks[A]", checked_question(cast("Question", question)))
        return question.answer_about(question.subject(self), Showing(fail_on, ask_all=for_any_base(self, ask_all)))

    @checked
    def explain(self, names: Sequence[str], *, namespace: str = "") -> PlacementReport:
        """Return why pods are where they are, or pending, and what would help.

        Raises NotFoundError or UsageError when the snapshot has no such pod or workload, or a workload has no pod.

        `names`: NAMESPACE/POD, or a workload as KIND/NAMESPACE/NAME or KIND/NAME. `namespace`: for those that name
        none.
        """
        from kplan.questions.explain import Explain

        return self.ask(Explain(names=tuple(names), namespace=namespace))

    @checked
    def remedy(
        self, pods: Sequence[str] = (), *, only: Sequence[str] = (), without: Sequence[str] = ()
    ) -> RemedyReport:
        """Return the least set of actions after which pending pods run.

        Raises NotFoundError or UsageError for an unknown pending pod, or an unknown kind of action.

        `pods`: NAMESPACE/NAME of pending pods; all of them if empty. `only`, `without`: kinds of actions that may, or
        may not, be taken.
        """
        from kplan.questions.remedy import Remedy

        names: Any = {"only": tuple(only), "without": tuple(without)}  # `ask` reads them
        return self.ask(Remedy(pods=tuple(listed(pods)), **names))

    @checked
    def check(self, checks: str | Path | Sequence[Check] = (), *, ask_all: BoundAskAll | None = None) -> ChecksReport:
        """Return which promises hold.

        Raises InputError or UsageError with all problems of the file, or of the promises.

        `checks`: the file of the promises, or the promises; the standard ones if empty. `ask_all`: as for `ask`.
        """
        from kplan.questions.check import Checks, read_checks

        promises = read_checks(str(checks)) if isinstance(checks, str | Path) else listed(checks)
        return self.ask(Checks(checks=tuple(promises)), ask_all=ask_all)

    def place(self, pod: PodLike) -> Placement:
        """Return the placement of one pod, without any change to the planner.

        Raises NotFoundError when the snapshot has no such pod, and UsageError when the pod runs already.

        `pod`: NAMESPACE/NAME of a pending pod of the snapshot, a pod object, or a pod of manifests.
        """
        return place_in_order(self, [pod]).placements[0]

    @checked
    def pods(
        self, manifests: Sequence[Source], *, namespace: str | None = None, validate: Strictness = "strict"
    ) -> list[StoredPod]:
        """Return the pods of manifests as the API server would store them, or why it refuses them, in reading order.

        Pods of one object that differ in their names only are one entry. Raises ManifestError with every object that
        the API server would refuse, except pods that are forbidden.

        `manifests`: files, directories, ``-``, or objects. `namespace`: for objects that name none. `validate`: whether
        unknown and duplicate fields are errors, warnings, or ignored.
        """
        from kplan.questions.pods import stored_pods
        from kplan.workloads.manifests import ReadOptions, load_manifests

        minor = self.release.number
        options = ReadOptions(snapshot=self.objects, minor=minor, namespace=namespace, validate=validate)
        return stored_pods(load_manifests(listed(manifests), options), self.objects, minor=minor)[0]

    @checked
    def plan(self, pods: Iterable[PodLike], *, settle_preemption: bool = False) -> Plan:
        """Place pods in the given order on a private copy of the cluster; errors as for `place`.

        `settle_preemption`: evict the victims of preemption at once, and try the pod again right after.
        """
        several = tuple(listed(pods))
        plan = place_in_order(self, several, settle_preemption=settle_preemption)
        if plan.is_roomy:
            return plan
        from kplan.course.odds.luck import with_luck_in_order

        return with_luck_in_order(self, plan, several, settle_preemption=settle_preemption)

    @checked
    def plan_queue(
        self,
        pods: Iterable[PodLike] | None = None,
        *,
        with_pending: bool = False,
        recreate: bool = True,
        max_rounds: int = arguments.DEFAULT_MAX_ROUNDS,
    ) -> ChangePlan:
        """Work off the scheduling queue to the end, with preemption, on a private copy; errors as for `place`.

        - `pods`: None for every pending pod of the snapshot
        - `with_pending`: add every pending pod of the snapshot
        - `recreate`: controllers create evicted pods again, which are then queued
        - `max_rounds`: the run ends after this many rounds over the remaining pods
        """
        from kplan.course.report import plan_of
        from kplan.course.task import Task, WorkedOff

        # The answer is asked again with these pods, whatever becomes of the objects.
        own = None if pods is None else deepcopy(tuple(listed(pods)))
        return plan_of(self, Task(queue=WorkedOff(own, with_pending, recreate, max_rounds), tells_luck=True))

    @checked
    def run_queue(self, waves: Sequence[Sequence[str]] | None = None) -> WaveReport:
        """Run the scheduling queue to rest, with pods that arrive in waves, alone or in pod groups.

        Raises NotFoundError or UsageError when a pod or group is not in the snapshot, or a pod runs already.

        `waves`: pods (NAMESPACE/NAME) and groups (``PodGroup:NAMESPACE/NAME``) that arrive together, each wave worked
        off before the next; None: all pending pods at once. What is in no wave is there from the start.
        """
        from kplan.course.queue_course import run_waves

        return run_waves(self, waves)

    @checked
    def roll_out(
        self,
        manifests: Iterable[Manifest],
        *,
        namespace: str | None = None,
        rollout: arguments.Rollout = "auto",
        run_cron_jobs: bool = False,
    ) -> ChangePlan:
        """Return what happens when manifests are applied: one object after the other, each until nothing moves.

        Raises ManifestError with all problems of the manifests.

        - `manifests`: paths, or objects as dicts
        - `namespace`: for objects that name none
        - `rollout`: ``auto`` rolls out workloads whose template changes; ``always`` unchanged ones too; ``never`` only
          creates missing replicas
        - `run_cron_jobs`: each cron job starts a run now; else it creates no pods
        """
        from kplan.course.report import plan_of
        from kplan.course.task import Task, applying, read_manifests
        from kplan.workloads.expansion import with_runs

        workloads, additions, warnings = read_manifests(self, manifests, namespace)
        workloads = with_runs(workloads) if run_cron_jobs else workloads
        return plan_of(self, Task(applying(workloads, additions), rollout=rollout, warnings=tuple(warnings)))

    @checked
    def timeline(
        self,
        changes: Sequence[Mapping[str, Any]],
        *,
        start: Mapping[str, float] | None = None,
        stop: Mapping[str, float] | None = None,
        run: Mapping[str, float] | None = None,
        until: float | None = None,
        namespace: str | None = None,
    ) -> ChangePlan:
        """Return what happens when changes are made at given times, and when.

        Durations are in seconds, by KIND/NAMESPACE/NAME of a workload; ``*`` stands for all that are not named. What is
        not given is learned from the cluster's own pods and jobs, else assumed.

        Raises ManifestError with all problems of the manifests, and NotFoundError when the snapshot has no such node,
        and UsageError for times, durations and fields that make no sense.

        - `changes`: each ``{"at": 0, "apply": [manifest, …]}`` or ``{"at": 5, "drain": [node, …], "options":
          {"timeout": 60}}``, with its time in seconds; or the document of a change with its time, ``{"at": 9, "change":
          "scale", "workload": …, "replicas": 4}``
        - `start`: how long pods take from being bound to being ready
        - `stop`: how long they take to be gone when they are told to go; at most their grace period
        - `run`: how long a job's pods take from being bound until they have succeeded
        - `until`: seconds after which the look ahead ends; None for when nothing moves
        - `namespace`: for objects that name none
        """
        from kplan.course.clock import Clock
        from kplan.course.report import plan_of
        from kplan.course.task import Task, WorkedOff, read_steps

        steps, warnings = read_steps(self, changes, namespace)
        queue = None if steps else WorkedOff()  # where no step does anything, what goes on in any case is the answer
        look = math.inf if until is None else until
        clock = Clock(dict(start or {}), dict(stop or {}), dict(run or {}), until=look)
        return plan_of(self, Task(steps, clock, queue, namespace=namespace or "", warnings=warnings))

    @checked
    def drain(
        self,
        nodes: Sequence[str],
        *,
        lost: bool = False,
        one_by_one: bool = False,
        rolling: bool = False,
        replace: bool = False,
        options: DrainOptions | None = None,
    ) -> ChangePlan:
        """Return what happens when nodes are drained, until nothing moves.

        Raises NotFoundError when the snapshot has no such node, and UsageError for two ways to empty nodes.

        - `lost`: the nodes fail at once, whatever disruption budgets say
        - `one_by_one`: evict one pod at a time, each when nothing moves any more: in the order of `nodes`, then by name
        - `rolling`: drain one node at a time, and uncordon it when it is empty
        - `replace`: drain one node at a time, and replace it when it is empty by a new node like it, of the same name
        - `options`: pods that are deleted in any case; None for none
        """
        from kplan.course.report import plan_of
        from kplan.questions.drain import Drain, how_of

        how = how_of(lost=lost, one_by_one=one_by_one, rolling=rolling, replace=replace)
        question = Drain(nodes=tuple(nodes), how=how, options=options or DrainOptions())
        base, task = question.task(self)
        return plan_of(base, structs.replace(task, waits=False))

    @checked
    def drain_in_turn(
        self,
        nodes: Sequence[str] | None = None,
        *,
        by: str | None = None,
        lost: bool = False,
        one_by_one: bool = False,
        options: DrainOptions | None = None,
    ) -> DrainsReport:
        """Return for each node whether it can be drained, each on its own and from the same start.

        Raises NotFoundError when the snapshot has no such node, or no node has the label.

        `nodes`: None for all. `by`: a label, ``zone`` or ``pool``: the nodes that share its value are drained together.
        `lost`, `one_by_one`, `options`: as for `drain`.
        """
        from kplan.questions.drain import Drain, InTurn, how_of, refuse_none

        names = () if nodes is None else tuple(nodes)
        if nodes is not None:
            refuse_none(names, "name one, or leave the nodes out for all")
        how = how_of(lost=lost, one_by_one=one_by_one)
        drain = Drain(nodes=names, how=how, options=options or DrainOptions())
        return self.ask(InTurn(question=drain, by=by or "node"))

    @checked
    def changed(
        self,
        *,
        with_: Iterable[str | Path | Mapping[str, Any]] = (),
        without: Iterable[str] = (),
        add_nodes: Iterable[str] = (),
        cordon: Iterable[str] = (),
        uncordon: Iterable[str] = (),
        scale: Iterable[str] = (),
        recommendations: Iterable[str] = (),
        settle: bool = False,
        changes: Iterable[Mapping[str, Any]] = (),
    ) -> Self:
        """Return a planner of the changed cluster; the changes are applied in the order of the parameters.

        This planner stays as it is; the new one shares the parts that do not change. For another order of changes, call
        `changed` on the result.

        Raises NotFoundError when a named object does not exist (the hint names the nearest), UsageError when a change
        cannot be read, and SnapshotError when a file cannot be used.

        - `with_`: files, directories, or objects to add, or to put in place of the objects of the same name; a node
          without status has the capacity of the node that its annotation ``kplan/like`` names
        - `without`: objects to remove together with what they own: ``KIND/[NS/]NAME``, which may hold globs, or
          ``KIND?label=value``; the pods of a removed node are pending again if a controller recreates them
        - `add_nodes`: ``N=NODE``: add N nodes like this one, with daemon pods only
        - `cordon`, `uncordon`: names of nodes, or globs
        - `scale`: ``KIND/[NS/]NAME=N``
        - `recommendations`: ``vpa`` for the requests that VerticalPodAutoscalers recommend, or a report of krr, as JSON
        - `settle`: then run the controllers and the scheduler until nothing moves
        - `changes`: further changes, such as ``{"change": "taint", "taints": {"node-1": ["dedicated=ml:NoSchedule"]}}``
        """
        from kplan.changes.timed import changes_of, read_change
        from kplan.course.what_if import changed as changed_on_paper

        written = changes_of(
            with_=with_,
            without=without,
            add_nodes=add_nodes,
            cordon=cordon,
            uncordon=uncordon,
            scale=scale,
            recommendations=recommendations,
            settle=settle,
        )
        return changed_on_paper(self, [*written, *map(read_change, changes)])

    @checked
    def odds(
        self,
        pods: Iterable[PodLike] | Drawable,
        *,
        runs: int = arguments.DEFAULT_RUNS,
        seed: int = arguments.DEFAULT_SEED,
        settle_preemption: bool = False,
        ask_all: BoundAskAll | None = None,
    ) -> Odds:
        """Place pods in order, or carry a question out, many times, and count how often each outcome occurs.

        Equal best nodes, and equal candidates for preemption, are equally likely to be drawn; with sampling as
        configured, the node at which the first search starts is drawn, too, and so are the order of pods that are equal
        in the queue, and which controller creates its pods first. One run is the plain answer with that seed.

        Raises NotFoundError or UsageError as for `place`, and when the number of runs is less than 1 or too large.

        - `pods`: pods, or a question that can be drawn: `Place`, `Plan` or `Drain` of `kplan.questions`
        - `runs`: number of runs
        - `seed`: the same seed gives the same answer
        - `settle_preemption`: of pods, as for `plan`
        - `ask_all`: runs what takes long in parallel: ``functools.partial(kplan.sweeps.ask_all, planner)``; the answer
          is the same
        """
        from kplan.course.subject import Subject
        from kplan.questions.base import Question, Showing
        from kplan.questions.many_runs import ManyRuns
        from kplan.questions.place import Place
        from kplan.questions.reading import checked as checked_question

        showing = Showing(ask_all=for_any_base(self, ask_all))
        if isinstance(pods, Question):
            many = checked_question(ManyRuns(question=pods, runs=runs, seed=seed))
            return many.odds(many.subject(self), showing)
        place = Place(settle_preemption=settle_preemption)
        return ManyRuns(question=place, runs=runs, seed=seed).odds(Subject(self, listed(pods)), showing)

    @checked
    def capacity(
        self,
        templates: Sequence[Template | Source],
        *,
        mix: Sequence[int] = (),
        wanted: int | None = None,
        limit: int | None = None,
        preempt: bool = False,
        shapes: str | Path | None = None,
        namespace: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Capacity:
        """Count how many replicas of pods fit, placing replicas of the templates in turn.

        Raises ManifestError or InputError with all problems of the manifests, or of the list of shapes, and UsageError
        when there is nothing to count.

        - `templates`: pod templates; or manifests with workloads: files, directories, ``-``, or objects
        - `mix`: the number of replicas in a row of each workload of the manifests; one of each if empty
        - `wanted`: how many should fit, in total; if fewer do, the answer names nodes to add
        - `limit`: stop counting at this number
        - `preempt`: also count room that pods of lower priority use
        - `shapes`: a file that lists shapes of nodes with prices; if fewer than `wanted` fit, the cheapest mix is added
        - `namespace`: for objects that name none
        - `progress`: called now and then with the number of replicas so far
        """
        from kplan.capacity.measure import measure, single_replicas, with_templates
        from kplan.capacity.templates import Template

        base: Base = self
        several = listed(templates)
        ready = [template for template in several if isinstance(template, Template)]
        sources = [template for template in several if not isinstance(template, Template)]
        if sources:
            manifests = single_replicas(self, sources, namespace, keeps_groups=True)
            base, ready = with_templates(self, manifests, (), mix=mix, wanted=wanted, limit=limit)
        return measure(base, ready, wanted=wanted, limit=limit, preempt=preempt, shapes=shapes, progress=progress)

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

        Raises ManifestError with all problems of the manifests, and UsageError when there is no workload.

        - `manifests`: files, directories, ``-``, or objects; None for every workload of the snapshot
        - `namespace`: for objects that name none
        - `wanted`: how many more of each should fit; the verdict fails if fewer do
        - `limit`: each count stops here; None for `wanted`, else for 1,000
        - `ask_all`: answers the questions, in order; None answers one after the other
        """
        from kplan.questions.capacity import Headroom

        sources: Any = () if manifests is None else tuple(listed(manifests))  # `ask` reads them
        question = Headroom(manifests=sources, namespace=namespace or "", replicas=wanted, limit=limit)
        return self.ask(question, ask_all=ask_all)

    @checked
    def shrink(self, *, options: DrainOptions | None = None) -> ShrinkReport:
        """Return nodes that can be drained one after another so that every pod is placed and every budget holds.

        The search is greedy, the emptiest node first; another order might free more.

        `options`: pods that are deleted in any case; None for none.
        """
        from kplan.questions.capacity import Shrink

        return self.ask(Shrink(options=options or DrainOptions()))

    @checked
    def nodes(self, *, full: bool = False, loops: Sequence[float] | None = (0,)) -> NodesReport:
        """Return which nodes the planner's autoscaler adds for the pending pods, removes and keeps.

        Raises UsageError when the planner follows no autoscaler, or its settings cannot be used, and InputError with
        all problems of the file that the settings name.

        `full`: include the whole decision in the autoscaler's own terms. `loops`: seconds after the planner's `now` at
        which the cluster-autoscaler looks, in ascending order; None for as long as it waits before it removes a node.
        """
        from kplan.questions.nodes import Nodes

        return self.ask(Nodes(full=full, loops=None if loops is None else tuple(loops)))
