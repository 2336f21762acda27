"""`kplan plan`: the whole scheduling queue, until nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec.structs import replace

from kplan.cli.answer import Meanwhile, reply, showing_for
from kplan.cli.arguments import PodChoiceFlags, refuse_beside
from kplan.cli.effects import tell_no_effect
from kplan.cli.flags import GrowingSavingFlags, ManifestFlags, RunCronJobsOption, RunsOption, SweepFlags, TimelineFlags
from kplan.cli.options import Fields, arguments, switch, with_flags
from kplan.cli.subject import load_subject
from kplan.commands.runs import reply_to_runs
from kplan.errors import UsageError
from kplan.questions.plan import Plan, Queue
from kplan.reading.arguments import DEFAULT_MAX_ROUNDS

EXAMPLES = """
kplan plan  # all pending pods
kplan plan web.yaml --save plan.json  # also those of a manifest; save the report
kplan plan --queue  # only the order of the queue
"""


@with_flags
def plan(
    what: list[str] | None = arguments(
        "FILE", "Manifests (file, directory, - for standard input) whose pods join the queue."
    ),
    *,
    queue: bool = switch("--queue", "Only show the order of the queue, and why."),
    settings: Annotated[Fields, Plan],
    runs: RunsOption = None,
    run_cronjobs: RunCronJobsOption = False,
    time: TimelineFlags,
    choice: PodChoiceFlags,
    manifests: ManifestFlags,
    sweeping: SweepFlags,
    flags: GrowingSavingFlags,
) -> None:
    """Work through the whole scheduling queue and every rollout, to the end.

    Pending pods are tried in the order of the queue. Pods that fit nowhere preempt others, controllers recreate the
    evicted pods, and these join the queue, until nothing changes. A manifest of a workload that runs already is an
    update, carried out as its controller does it. Exits with 1 if a pod stays unschedulable or a disruption budget is
    violated (--fail-on).
    """
    time.check()
    question = Plan(timeline=time.clock(), **settings)
    if question.only_these and not manifests.name_any(what):
        hint = "name a manifest, or a pending pod as NAMESPACE/NAME"
        raise UsageError("--only-given needs manifests or pods", hint=hint)
    if queue:
        refuse_beside("--queue", {"--runs": runs, "--timeline": time.has_clock})
    sweeping.check()
    question.check()
    showing = showing_for(flags)
    manifests, namespace = manifests.or_pods_of_namespace(what)
    subject = load_subject(what, flags, manifests, run_cronjobs=run_cronjobs, may_be_idle=True, adds_next=False)
    base = subject.base
    narrowed = {"--selector": choice.selector, "--namespace": "" if choice.all_namespaces else namespace}
    if time.has_clock and not flags.verbosity.quiet:
        for option in filter(narrowed.get, narrowed):
            tell_no_effect(option, "with a clock the whole cluster is followed")
    elif not time.has_clock and not question.only_these and any(narrowed.values()):
        chosen = choice.among(base.pending_keys(), base.objects, namespace)
        workloads = choice.workloads_of(base.objects, namespace)
        subject = replace(subject, pods=[*subject.pods, *chosen], tells_of=workloads)
        question = replace(question, only_these=True)
    if subject.has_updates and not (queue or time.has_clock or flags.verbosity.quiet or runs is not None):
        for option in _passed_over(Plan(**settings), choice):
            tell_no_effect(option, "a workload runs already, and its change is followed with the whole cluster")
    doing = "working through the scheduling queue"
    if queue:
        reply(Queue(only_these=question.only_these), subject, showing, flags, Meanwhile(doing))
    else:
        reply_to_runs(question, subject, showing, flags, runs=runs, sweeping=sweeping, doing=doing)


def _passed_over(question: Plan, choice: PodChoiceFlags) -> Iterator[str]:
    """Return the options on the command line that concern only the queue."""
    options = {
        "--only-given": question.only_these,
        "--no-recreate": not question.recreate,
        "--max-rounds": question.max_rounds != DEFAULT_MAX_ROUNDS,
        "--selector": bool(choice.selector),
    }
    return (option for option, is_set in options.items() if is_set)
