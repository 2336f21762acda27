"""`kplan explain`: why pods are on their nodes, or pending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.cli.answer import Meanwhile, reply, showing_for
from kplan.cli.arguments import PodChoiceFlags, spelled_out
from kplan.cli.flags import GrowingFlags, NamespaceOption
from kplan.cli.options import arguments, with_flags
from kplan.cli.subject import load_subject
from kplan.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from kplan.cluster.base import Base

EXAMPLES = """
kplan explain ml/llm-eval  # why a pod is pending
kplan explain batch/report-daily-knqdn --explain  # why a running one is where it is, on every node
kplan explain deploy/shop/cart  # each pod of a workload
"""


@with_flags
def explain(
    what: list[str] | None = arguments(
        "NS/POD|KIND/[NS/]NAME",
        "A pod, pending or running, or a workload such as deploy/shop/cart; also po NAME, deploy NAME.",
    ),
    *,
    namespace: NamespaceOption = "",
    choice: PodChoiceFlags,
    flags: GrowingFlags,
) -> None:
    """Explain why a pod, or each pod of a workload, is where it is, or pending.

    A running pod is placed again in the cluster without it, which shows whether its node would still take it and is
    still the best. Of several pods, those that would stay where they are get one line each.
    """
    if not what and not (choice.selector or choice.all_namespaces):
        hint = "name a pod as NAMESPACE/NAME or a workload, or choose pods with -l or -A"
        raise UsageError("nothing to explain", hint=hint)
    showing = showing_for(flags)
    namespace = namespace or flags.cluster.default_namespace()
    subject = load_subject(None, flags)
    from kplan.questions.explain import Explain

    names = list(spelled_out(what)) if what else _chosen(choice, namespace, subject.base)
    question = Explain(names=tuple(names), namespace=namespace)
    words = "{0:,} of {1:,} pods"
    reply(question, subject, showing, flags, Meanwhile("looking for where pods would go", words))


def _chosen(choice: PodChoiceFlags, namespace: str, base: Base) -> list[str]:
    """Return the chosen pods that have not ended, and workloads that lack pods; raises NotFoundError without any."""
    from kplan.cluster.workload_pods import has_ended
    from kplan.course.at_present import workloads_at_present
    from kplan.snapshot.defaults import DEFAULT_NAMESPACE

    snapshot, namespace = base.objects, namespace or DEFAULT_NAMESPACE
    there = (pod for pod in snapshot.pods if has_ended(pod) is None)
    keys = [pod.metadata.key for pod in choice.of(there, namespace)]
    present = workloads_at_present(base, choice.workloads_of(snapshot, namespace))
    keys += [health.workload for health in present if health.is_short]
    if not keys:
        where = "" if choice.all_namespaces else f" in namespace {namespace}"
        raise NotFoundError(f"no such pod{where}", hint="kubectl get pods -A --show-labels lists them all")
    return keys
