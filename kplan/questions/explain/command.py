"""`kplan explain`: why pods are on their nodes, or pending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kplan.cli.answer import ask, emit, fail_on_of, formats_of, shown_nodes
from kplan.cli.arguments import spelled_out
from kplan.cli.choosing import PodChoiceFlags
from kplan.cli.flags import OutputFlags, SchedulerFlags, VerbosityFlags, with_flags
from kplan.cli.phases import busy
from kplan.cli.what_if import ChangedClusterFlags
from kplan.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from kplan.snapshot.model import Snapshot


@with_flags
def explain(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NS/POD|KIND/[NS/]NAME",
            help="A pod, pending or running, or a workload such as deploy/shop/cart; also po NAME, deploy NAME.",
            show_default=False,
        ),
    ] = None,
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Namespace, where the argument does not name one.")
    ] = "",
    choice: PodChoiceFlags,
    cluster: ChangedClusterFlags,
    scheduler: SchedulerFlags,
    output: OutputFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Explain why a pod, or each pod of a workload, is where it is, or pending.

    A running pod is placed again in the cluster without it, which shows whether its node would still take it and is
    still the best. Of several pods, those that would stay where they are get one line each.
    """
    if not what and not (choice.selector or choice.all_namespaces):
        hint = "name a pod as NAMESPACE/NAME or a workload, or choose pods with -l or -A"
        raise UsageError("nothing to explain", hint=hint)
    fail_on = fail_on_of(output, "explain")
    formats_of(output)
    namespace = namespace or cluster.default_namespace()
    planner = ask(None, cluster, scheduler, verbosity).planner
    from kplan.effects.missing import missing_replicas, with_missing
    from kplan.questions.explain.document import explain_pod, refuse_many, whereabouts_report
    from kplan.subjects.names import pods_named, workloads_named

    with busy("looking for where pods would go", quiet=verbosity.quiet) as tell:
        world = planner.world
        arguments = list(spelled_out(what or ()))
        missing = missing_replicas(planner, workloads_named(arguments, namespace, world))
        try:
            keys = pods_named(arguments, namespace, world) if what else _chosen(choice, namespace, world)
        except UsageError as error:
            raise UsageError("; ".join([error.message, *(one.message for one in missing)]), hint=error.hint) from None
        refuse_many(keys, world.nodes)
        explained = []
        for key in keys:
            explained.append(explain_pod(planner, key))
            tell(f"{len(explained):,} of {len(keys):,} pods")
        report = whereabouts_report(explained, fail_on=fail_on, nodes=shown_nodes(output), max_listed=output.max_listed)
    emit(with_missing(report, missing), output, verbosity)


def _chosen(choice: PodChoiceFlags, namespace: str, world: Snapshot) -> list[str]:
    """Return the chosen pods that have not ended; raises NotFoundError where there are none."""
    from kplan.snapshot.defaults import DEFAULT_NAMESPACE
    from kplan.subjects.not_found import has_ended

    keys = choice.keys_of((pod for pod in world.pods if has_ended(pod) is None), namespace or DEFAULT_NAMESPACE)
    if not keys:
        where = "" if choice.all_namespaces else f" in namespace {namespace or DEFAULT_NAMESPACE}"
        raise NotFoundError(f"no such pod{where}", hint="kubectl get pods -A --show-labels lists them all")
    return keys
