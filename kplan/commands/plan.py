"""`kplan plan`: the whole scheduling queue, until nothing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kplan.cli.answer import ask, showing_for
from kplan.cli.arguments import PodChoiceFlags
from kplan.cli.asking import SweepFlags, options_named, reply
from kplan.cli.common import GrowingSavingFlags
from kplan.cli.flags import ManifestFlags, RolloutMode, RolloutOption, RunCronJobsOption, RunsOption, with_flags
from kplan.cli.help import MORE
from kplan.cli.no_effect import tell_no_effect
from kplan.cli.options import flag, several, switch
from kplan.cli.timeline import TimelineFlags
from kplan.commands.runs import reply_with_odds
from kplan.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


_DEFAULT_ROUNDS = 10


EXAMPLES = """
kplan plan  # all pending pods
kplan plan web.yaml --save plan.json  # also those of a manifest; save the report
kplan plan --queue  # only the order of the queue
"""


@with_flags
def plan(
    what: list[str] | None = several(
        "FILE", "Manifests (file, directory, - for standard input) whose pods join the queue."
    ),
    *,
    queue: bool = switch("--queue", "Only show the order of the queue, and why."),
    excludes_pending: bool = switch(
        "--only-given", "Only the pods given here, not the other pending pods of the cluster."
    ),
    recreate: bool = flag(
        "--recreate/--no-recreate", "Recreate evicted pods as their controllers do, or not.", default=True, panel=MORE
    ),
    max_rounds: int = flag(
        "--max-rounds N", "Stop after N rounds over the pods that are left.", default=_DEFAULT_ROUNDS, panel=MORE, min=1
    ),
    rollout: RolloutOption = RolloutMode.AUTO,
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
    if excludes_pending and not what and not manifests.filename and not manifests.kustomize:
        hint = "name a manifest, or a pending pod as NAMESPACE/NAME"
        raise UsageError("--only-given needs manifests or pods", hint=hint)
    if queue and runs is not None:
        raise UsageError("--queue and --runs do not go together", hint="leave one of them out")
    time.check()
    if queue and time.has_clock:
        raise UsageError("--timeline and --queue do not go together", hint="leave one of them out")
    sweeping.check()
    from kplan.questions.plan.question import Plan, Queue

    question = Plan(
        rollout=rollout.value,
        only_these=excludes_pending,
        recreate=recreate,
        max_rounds=max_rounds,
        timeline=time.clock(),
    )
    with options_named():
        question.check()
    showing = showing_for(flags, "plan")
    manifests, namespace = manifests.or_pods_of_namespace(what)
    subject = ask(what, flags, manifests, run_cronjobs=run_cronjobs, may_be_idle=True)
    base = subject.base
    if not excludes_pending and not time.has_clock and (choice.selector or namespace):
        known = base.objects.pod_by_key
        chosen = choice.keys_of((known[key] for key in base.pending_keys()), namespace)
        subject, question = replace(subject, pods=[*subject.pods, *chosen]), replace(question, only_these=True)
    if runs is not None:
        reply_with_odds(question, subject, runs, showing, flags=flags, sweeping=sweeping)
        return
    if subject.has_updates and not (queue or time.has_clock or flags.verbosity.quiet):
        options = _passed_over(choice, excludes_pending=excludes_pending, recreate=recreate, max_rounds=max_rounds)
        for option in options:
            tell_no_effect(option, "a workload runs already, and its change is followed with the whole cluster")
    value = Queue(only_these=question.only_these) if queue else question
    reply(value, subject, showing, flags, doing="working through the scheduling queue")


def _passed_over(choice: PodChoiceFlags, *, excludes_pending: bool, recreate: bool, max_rounds: int) -> Iterator[str]:
    """Return the options on the command line that concern only the queue."""
    options = {
        "--only-given": excludes_pending,
        "--no-recreate": not recreate,
        "--max-rounds": max_rounds != _DEFAULT_ROUNDS,
        "--selector": bool(choice.selector),
    }
    return (option for option, is_set in options.items() if is_set)
