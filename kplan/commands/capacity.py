"""`kplan capacity`: how many replicas fit, where, and what stops the next one."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

from msgspec import structs

from kplan.changes.values import DrainOptions
from kplan.cli.answer import Meanwhile, reply, showing_for
from kplan.cli.arguments import check_read_once, refuse_beside, split_arguments
from kplan.cli.flags import GrowingSavingFlags, ManifestFlags, SweepFlags
from kplan.cli.options import MORE, OPTIONS, Fields, Flags, arguments, flag, repeated, switch, with_flags
from kplan.cli.subject import load_subject, read_manifests
from kplan.cluster.workload_pods import scalable_workloads
from kplan.errors import UsageError
from kplan.framework.pod_groups import WORKLOAD_GATE
from kplan.questions.capacity import AboutWorkloads, Capacity, Counting, Headroom, Shapes, Shrink


class OtherQuestions(Flags, panel=OPTIONS):
    """Options that ask another question about room instead of the plain count."""

    headroom: bool = switch(
        "--headroom", "How many more replicas of each workload fit, each on its own; without FILE: all workloads."
    )
    all_namespaces: bool = switch(
        "--all-namespaces -A", "With --headroom: workloads of all namespaces (default without --namespace).", panel=MORE
    )
    shapes: str = flag(
        "--shapes FILE", "List of node shapes with prices: find the cheapest nodes to add if fewer than --replicas fit."
    )

    shrink: bool = switch(
        "--shrink", "Find as many nodes as possible that can be drained, with every pod placed and every budget kept."
    )
    force: bool = switch("--force", "With --shrink: also evict pods without a controller.", panel=MORE)
    delete_emptydir_data: bool = switch(
        "--delete-emptydir-data", "With --shrink: also evict pods with emptyDir volumes.", panel=MORE
    )

    def refuse(self, arguments: Mapping[str, object]) -> None:
        """Raise UsageError for two questions, and for options that the question does not use."""
        chosen = [name for name in _INCOMPATIBLE if getattr(self, name)]
        if len(chosen) > 1:
            raise UsageError(f"--{chosen[0]} and --{chosen[1]} are two questions", hint="ask them one at a time")
        for name, of in _PARTS.items():
            if getattr(self, name) and not getattr(self, of):
                hint = f"add --{of}, or leave it out"
                raise UsageError(f"--{name.replace('_', '-')} is for --{of}", hint=hint)
        if chosen:
            refuse_beside(f"--{chosen[0]}", {name: arguments[name] for name in _INCOMPATIBLE[chosen[0]]})

    def question(self, replicas: int | None, settings: Fields) -> Capacity | Shapes | Headroom | Shrink:
        """Return the question; raises ParameterError for options that do not go together."""
        if self.shrink:
            return Shrink(options=DrainOptions(force=self.force, delete_emptydir_data=self.delete_emptydir_data))
        if self.headroom:
            return Headroom(replicas=replicas, limit=settings.get("limit"))
        if self.shapes:
            if replicas is None:
                raise UsageError("--shapes needs --replicas", hint="for example --replicas 40")
            return Shapes(replicas=replicas, mix=settings.get("mix", ()), shapes=self.shapes)
        capacity = Capacity(replicas=replicas, **settings)
        capacity.check()
        return capacity

    def meanwhile(self, sweeping: SweepFlags) -> Meanwhile:
        if self.shrink:
            return Meanwhile("draining nodes, one after another", "{0:,} can go, {1:,} looked at", sweeping)
        if self.headroom:
            return Meanwhile("counting replicas of each workload", "{0:,} of {1:,}", sweeping)
        return Meanwhile("counting replicas", "{0:,} fit so far", sweeping)


_PARTS = {"all_namespaces": "headroom", "force": "shrink", "delete_emptydir_data": "shrink"}
"""Parameter -> the question that it is a part of."""
_INCOMPATIBLE: Mapping[str, tuple[str, ...]] = {
    "headroom": ("--mix", "--preempt"),
    "shapes": ("--preempt", "--max"),
    "shrink": ("FILE", "--replicas", "--mix", "--preempt", "--max"),
}
"""Question -> options that it does not use."""

EXAMPLES = """
kplan capacity web.yaml --replicas 50  # whether 50 fit, and which nodes to add
kplan capacity --headroom  # how many more replicas of each workload fit
kplan capacity web.yaml --exclude-nodes spot-a-1  # how many fit without a node
"""


@with_flags
def capacity(
    what: list[str] | None = arguments(
        "FILE|KIND/[NS/]NAME", "Manifests (file, directory, - for standard input), or workloads of the cluster."
    ),
    *,
    exclude_nodes: list[str] | None = repeated(
        "--exclude-nodes NODE,...", "Leave these nodes out; repeatable.", panel=MORE, show_default=False
    ),
    settings: Annotated[Fields, Capacity],
    other: OtherQuestions,
    sweeping: SweepFlags,
    manifests: ManifestFlags,
    flags: GrowingSavingFlags,
) -> None:
    """Count how many replicas fit, where, and what stops the next one.

    Replicas are placed one after another, as kube-scheduler would, until one does not fit. With --replicas N, if fewer
    than N fit, shows which nodes to add and exits with 1 (--fail-on). An autoscaler counts where it is named: with
    --autoscaler, --instance-types or --node-groups, nodes come up to the limits of its pools or groups.
    """
    files, names = split_arguments(what or (), manifests.filename or (), manifests.namespace)
    has_manifests = bool(files or manifests.kustomize)
    if not (names or has_manifests or other.headroom or other.shrink):
        hint = "name a manifest or a workload: kplan capacity web.yaml, kplan capacity deploy/shop/cart"
        raise UsageError("nothing to count", hint=hint)
    check_read_once([*files, flags.cluster.snapshot, other.shapes])
    other.refuse(
        {
            "FILE": bool(has_manifests or names),
            "--replicas": manifests.replicas is not None,
            "--mix": "mix" in settings,
            "--preempt": settings["preempt"],
            "--max": "limit" in settings,
        }
    )
    question = other.question(manifests.replicas, settings)
    sweeping.check()
    showing = showing_for(flags)
    subject = load_subject(None, flags)
    if not flags.cluster.names_autoscaler:
        subject.base.autoscaler = None
    base, loaded = subject.base, None
    if excluded := [name for names in exclude_nodes or () for name in names.split(",") if name]:
        from kplan.capacity.measure import without_nodes_and_pods

        base = base.for_cluster(without_nodes_and_pods(base.snapshot, excluded))
    if has_manifests:
        # Replicas come on top of running ones, so they are numbered as if none of the same name ran.
        alone = structs.replace(base.snapshot, pods=())
        loaded = read_manifests(
            files,
            dataclasses.replace(manifests, replicas=1),
            flags.cluster,
            alone,
            flags.verbosity,
            minor=base.release.number,
            keeps_groups=isinstance(question, Counting) and base.release.is_on(WORKLOAD_GATE),
        )
    if isinstance(question, AboutWorkloads):
        where = manifests.namespace or flags.cluster.default_namespace()
        workloads = scalable_workloads(names, where, base.objects)
        namespace = "" if other.all_namespaces else manifests.namespace
        question = structs.replace(question, workloads=tuple(workloads), namespace=namespace)
    subject = structs.replace(subject, base=base, manifests=loaded)
    reply(question, subject, showing, flags, other.meanwhile(sweeping))
