"""`kplan remedy`: what to do so that pending pods run."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from kplan.cli.answer import Meanwhile, reply, showing_for
from kplan.cli.arguments import spelled_out
from kplan.cli.flags import GrowingSavingFlags, NamespaceOption
from kplan.cli.options import Fields, arguments, with_flags
from kplan.cli.subject import load_subject
from kplan.errors import UsageError
from kplan.questions.remedy import Remedy

EXAMPLES = """
kplan remedy  # what to do so that all pending pods run
kplan remedy ml/llm-eval --only moves  # which running pods to move for one of them
kplan remedy --not nodes,requests  # without new nodes, and without lower requests
"""


@with_flags
def remedy(
    what: list[str] | None = arguments(
        "NS/POD|KIND/[NS/]NAME", "Pending pods, or workloads whose pending pods are meant (default: every pending pod)."
    ),
    *,
    namespace: NamespaceOption = "",
    settings: Annotated[Fields, Remedy],
    flags: GrowingSavingFlags,
) -> None:
    """Find the least that has to be done so that pending pods run.

    Uncordons nodes, moves running pods, lets the autoscaler add more, adds nodes, scales, and changes what pods ask
    for, beyond what the autoscaler does by itself. Every set of actions is carried out as a whole in a simulation,
    within all disruption budgets. Sets of other kinds of actions are shown beside the least one. Exits with 1 if a pod
    stays pending that kube-scheduler may place: not one of another scheduler, or with scheduling gates (--fail-on).
    """
    from kplan.cluster.workload_pods import pods_named

    question = Remedy(**settings)
    question.kinds()
    showing = showing_for(flags)
    namespace = namespace or flags.cluster.default_namespace()
    subject = load_subject(None, flags)
    if what:
        named = pods_named(list(spelled_out(what)), namespace, subject.base.objects)
        known = subject.base.objects.pod_by_key
        leaving = {
            key for key in named if key in what and key in known and known[key].metadata.deletion_timestamp is not None
        }
        waiting = [key for key in named if key in leaving or key not in known or not known[key].spec.node_name]
        if not waiting and named and named[0] not in what:
            hint = f"kplan explain {' '.join(what)} shows how its pods are"
            raise UsageError(f"{' '.join(what)}: no pod is pending", hint=hint)
        question = replace(question, pods=tuple(waiting or named))
    reply(question, subject, showing, flags, Meanwhile("looking for what helps", "{0:,} sets tried"))
