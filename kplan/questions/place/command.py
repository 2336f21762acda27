"""`kplan place`: where pods or workloads would land, and why there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kplan.cli.answer import ask, showing_for
from kplan.cli.arguments import PodChoiceFlags
from kplan.cli.asking import SweepFlags, reply
from kplan.cli.common import GrowingFlags
from kplan.cli.flags import ManifestFlags, RolloutMode, RolloutOption, RunCronJobsOption, RunsOption, with_flags
from kplan.cli.options import several
from kplan.cli.timeline import TimelineFlags
from kplan.errors import NotFoundError, UsageError
from kplan.questions.running import reply_with_odds

if TYPE_CHECKING:
    from kplan.effects.subject import Subject

_FOLLOWING = "following what the manifests change"


EXAMPLES = """
kplan place web.yaml  # where the pods of a manifest would go
kplan place shop/voucher-api --explain  # every node, with rejections and scores of every plugin
kplan place web.yaml --report junit=kplan.xml  # for a pipeline: exit code and JUnit report
"""


@with_flags
def place(
    what: list[str] | None = several(
        "FILE|NS/POD|KIND/[NS/]NAME",
        "Manifests (file, directory, - for standard input), or pending pods or workloads of the cluster.",
    ),
    *,
    runs: RunsOption = None,
    rollout: RolloutOption = RolloutMode.AUTO,
    run_cronjobs: RunCronJobsOption = False,
    time: TimelineFlags,
    choice: PodChoiceFlags,
    manifests: ManifestFlags,
    sweeping: SweepFlags,
    flags: GrowingFlags,
) -> None:
    """Show where pods or workloads would land, and why.

    Pods are placed one after another, in the order given. A manifest of a workload that runs already is an update:
    the workload is scaled or rolled out as its controller does it, or left alone if nothing changes. Exits with 1 if
    a pod is unschedulable, gated or would preempt others (--fail-on).
    """
    manifests, namespace = manifests.or_pods_of_namespace(what)
    is_chosen = bool(choice.all_namespaces or choice.selector or namespace)
    if not what and not manifests.filename and not manifests.kustomize and not is_chosen:
        hint = "name a manifest, a pod or a workload: kplan place web.yaml; or choose pending pods with -n, -l or -A"
        raise UsageError("nothing to place", hint=hint)
    time.check()
    sweeping.check()
    from kplan.questions.place.question import Place

    question = Place(rollout=rollout.value, timeline=time.clock())
    showing = showing_for(flags, "place")
    subject = ask(what, flags, manifests, run_cronjobs=run_cronjobs, may_be_idle=True)
    if is_chosen and not subject.pods:
        subject = _pending(subject, choice, namespace)
    if runs is not None:
        reply_with_odds(question, subject, runs, showing, flags=flags, sweeping=sweeping)
        return
    doing = _FOLLOWING if time.has_clock or subject.has_updates else "deciding where pods go"
    reply(question, subject, showing, flags, doing=doing)


def _pending(subject: Subject, choice: PodChoiceFlags, namespace: str) -> Subject:
    """Return the same about the chosen pending pods; raises NotFoundError where there are none."""
    known = subject.base.objects.pod_by_key
    keys = choice.keys_of((known[key] for key in subject.base.pending_keys()), namespace)
    if not keys:
        where = f" in namespace {namespace}" if namespace and not choice.all_namespaces else ""
        hint = "name a pod as NAMESPACE/NAME, or a manifest: kplan place web.yaml"
        raise NotFoundError(f"no such pending pod{where}", hint=hint)
    return replace(subject, pods=keys, names_pods=True)
