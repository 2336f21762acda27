"""`kplan drain`: what happens to the pods of nodes that are drained or lost."""

from __future__ import annotations

from typing import Annotated

from msgspec import structs

from kplan.cli.answer import Meanwhile, reply, showing_for
from kplan.cli.arguments import NodeChoiceFlags, node_names, refuse_beside
from kplan.cli.flags import GrowingSavingFlags, RunsOption, SweepFlags, TimelineFlags
from kplan.cli.options import MORE, Fields, arguments, flag, switch, with_flags
from kplan.cli.subject import load_subject
from kplan.commands.runs import reply_to_runs
from kplan.errors import UsageError
from kplan.questions.drain import Drain, InTurn, Runbook, how_of, refuse_none

EXAMPLES = """
kplan drain general-a-1  # where its pods go, and which budgets block it
kplan drain "spot-*" --rolling  # one node after another
kplan drain --zone eu-west-1a --lost  # a whole zone fails at once
"""


@with_flags
def drain(
    nodes: list[str] | None = arguments("NODE", "Names of nodes, or globs; also node/NODE."),
    *,
    choice: NodeChoiceFlags,
    lost: bool = switch("--lost", "The nodes fail at once; budgets do not count."),
    one_by_one: bool = switch(
        "--one-by-one", "Evict one pod at a time, and wait for the cluster to settle.", panel=MORE
    ),
    rolling: bool = switch("--rolling", "Drain one node after another; uncordon each when it is empty."),
    replace: bool = switch(
        "--replace", "Drain one node after another; replace each by an empty one like it.", panel=MORE
    ),
    separately: bool = switch("--each", "Drain each node on its own, each time from the current cluster."),
    by: str = flag(
        "--by zone|pool|LABEL", "Implies --each: drain all nodes of a zone, a pool or a label's value together."
    ),
    settings: Annotated[Fields, Drain],
    ignore_daemonsets: bool = flag(  # noqa: ARG001 - for the habit
        "--ignore-daemonsets",
        "Accepted as in kubectl drain; kplan always leaves pods of daemon sets alone.",
        default=True,
        panel=MORE,
        show_default=False,
    ),
    runbook: bool = switch("--runbook", "The safe order, and changes it needs, as commands."),
    runs: RunsOption = None,
    time: TimelineFlags,
    sweeping: SweepFlags,
    flags: GrowingSavingFlags,
) -> None:
    """Show what happens to the pods of nodes that are drained or lost.

    The nodes are cordoned and their pods evicted as kubectl drain does, as far as disruption budgets allow.
    Controllers recreate the pods, and the scheduler places them. Exits with 1 if a pod cannot be evicted, or one stays
    pending because of the drain (--fail-on).
    """
    is_separate = separately or bool(by)
    if runbook:
        others = {"--lost": lost, "--one-by-one": one_by_one, "--each": separately, "--by": by, "--runs": runs}
        refuse_beside("--runbook", others | {"--replace": replace, "--profile": settings.get("profile")})
    sweeping.check()
    if is_separate and runs is not None:
        raise UsageError("--each and --runs are two ways to ask many questions", hint="choose one of them")
    how = how_of(lost=lost, one_by_one=one_by_one, rolling=rolling, replace=replace)
    if "profile" in settings and how in ("together", "rolling"):
        how = "replace"
    question = Drain(nodes=(), how=how, timeline=time.clock(), **settings)
    in_turn = InTurn(question=question, by=by or "node")
    (in_turn if is_separate else question).check(() if runbook else time.idle())
    showing = showing_for(flags)
    subject = load_subject(None, flags)
    names = tuple(choice.of(subject.base.objects, node_names(nodes or ()), or_all=is_separate))
    refuse_none(names, "name one: kplan drain node-03, or choose with -l, --zone or --pool")
    question = structs.replace(question, nodes=names)
    if runbook:
        clock = question.timeline if time.timeline else None
        options, timeout = question.options, question.timeout
        book = Runbook(nodes=names, rolling=rolling, options=options, timeline=clock, timeout=timeout)
        reply(book, subject, showing, flags, Meanwhile("writing the runbook", "{0:,} of {1:,} nodes"))
    elif is_separate:
        in_turn = structs.replace(in_turn, question=question)
        meanwhile = Meanwhile("draining nodes, each on its own", "{0:,} of {1:,}", sweeping)
        reply(in_turn, subject, showing, flags, meanwhile)
    else:
        reply_to_runs(question, subject, showing, flags, runs=runs, sweeping=sweeping, doing="draining nodes")
