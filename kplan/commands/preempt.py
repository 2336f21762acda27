"""`kplan preempt`: which pods would be evicted to make room, and why these."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from kplan.cli.answer import Meanwhile, formats_of, reply, showing_for
from kplan.cli.arguments import PodChoiceFlags
from kplan.cli.flags import GrowingFlags, ManifestFlags, RunCronJobsOption
from kplan.cli.options import Fields, arguments, flag, with_flags
from kplan.cli.subject import load_subject
from kplan.questions.preempt import Preempt

EXAMPLES = """
kplan preempt  # for every pending pod that fits nowhere
kplan preempt web.yaml --explain  # every candidate node, and the pods that stay
kplan preempt shop/flash-sale --settle-preemption  # carry it out, then place the pod
"""


@with_flags
def preempt(
    what: list[str] | None = arguments(
        "FILE|NS/POD", "Manifests, or pending pods of the cluster (default: every pending pod that fits nowhere)."
    ),
    *,
    settings: Annotated[Fields, Preempt],
    follow: bool | None = flag(
        "--follow/--no-follow",
        "Show where victims go that a controller recreates (default: in tables).",
        default=None,
        show_default=False,
    ),
    run_cronjobs: RunCronJobsOption = False,
    choice: PodChoiceFlags,
    manifests: ManifestFlags,
    flags: GrowingFlags,
) -> None:
    """Show which pods would be evicted to make room, and why those.

    Shows what the evictions free, which disruption budgets they violate, and where the victims go. Without arguments
    the question is about every pending pod that fits nowhere. Exits with 1 if preemption helps a pod nowhere, or
    would violate a disruption budget (--fail-on).
    """
    showing = showing_for(flags)
    manifests, namespace = manifests.or_pods_of_namespace(what)
    subject = load_subject(what, flags, manifests, run_cronjobs=run_cronjobs)
    from kplan.questions.preempt.document import pending_in_turn
    from kplan.report.registry import HUMAN_FORMATS

    if not subject.pods:
        pods = choice.among(pending_in_turn(subject.base), subject.base.objects, namespace)
        subject = replace(subject, pods=pods, is_choice=True)
    is_followed = follow if follow is not None else not HUMAN_FORMATS.isdisjoint(formats_of(flags.output))
    question = Preempt(follow=is_followed, explain=flags.output.explain, **settings)
    reply(question, subject, showing, flags, Meanwhile("looking for pods to evict"))
