"""The options that change the cluster on paper."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from kplan.cli import process
from kplan.cli.help import in_order
from kplan.cli.live_options import ClusterFlags, open_cluster
from kplan.cli.options import options, repeated, switch
from kplan.errors import InputError, KplanError, UsageError

if TYPE_CHECKING:
    from kplan.course.what_if import OnPaper
    from kplan.snapshot.model import Snapshot

_NAMES = ("with_", "without", "add_nodes", "cordon", "uncordon", "scale", "apply_recommendations", "recommendations")


_STANDARD_INPUT, _VPA = "-", "vpa"


@options
class ChangedClusterFlags(ClusterFlags):
    """Options for the source of the cluster, and for changes of it on paper."""

    panel: ClassVar[str] = "What if"

    with_: list[str] | None = repeated("--with FILE", "Objects to add or replace.")
    without: list[str] | None = repeated(
        "--without KIND/[NS/]NAME", "Object to remove with what it owns; globs, or KIND?label=value."
    )
    add_nodes: list[str] | None = repeated("--add-nodes N=NODE", "Add N empty nodes like NODE.")
    cordon: list[str] | None = repeated("--cordon NODE", "Node to cordon.")
    uncordon: list[str] | None = repeated("--uncordon NODE", "Node to uncordon.")
    scale: list[str] | None = repeated(
        "--scale KIND/[NS/]NAME=N", "Workload to scale to N replicas; new ones are pending."
    )
    apply_recommendations: list[str] | None = repeated(
        "--apply-recommendations vpa", "Give pods the requests that VerticalPodAutoscalers recommend."
    )
    recommendations: list[str] | None = repeated(
        "--recommendations FILE", "Give pods the requests that a report of krr recommends (krr simple -f json)."
    )
    settle: bool = switch(
        "--settle", "Let controllers and scheduler react to these changes before the question is asked."
    )

    @property
    def is_changed(self) -> bool:
        return self.settle or any(getattr(self, name) for name in _NAMES)

    def unchanged(self, snapshot: str) -> ChangedClusterFlags:
        nothing = dict.fromkeys(_NAMES)
        return replace(self, snapshot=snapshot, settle=False, **nothing)  # type: ignore[arg-type] # none of each


def requested_changes(flags: ChangedClusterFlags) -> OnPaper | None:
    """Return the changes of the options, in their order, with settling last; None for none.

    Raises KplanError for an invalid change, with its option.
    """
    if not flags.is_changed:
        return None
    options = {name: getattr(flags, name) or () for name in _NAMES}
    from kplan.changes.timed import change_of
    from kplan.changes.workloads import Settle
    from kplan.course.what_if import OnPaper

    paper = OnPaper()
    for name, value in in_order(options):
        option = name.strip("_").replace("_", "-")
        try:
            if name == "apply_recommendations" and value != _VPA:
                hint = "--recommendations FILE reads those of krr"
                raise UsageError(f"{value}: recommendations come from {_VPA}", hint=hint)
            paper.carry_out(change_of(name.removeprefix("apply_"), value))
        except InputError:
            raise
        except KplanError as error:
            raise type(error)(f"--{option} {error.message}", hint=error.hint) from None
    if flags.settle:
        paper.carry_out(Settle())
    return paper


def changed_cluster(flags: ChangedClusterFlags, source: str, *, quiet: bool) -> Snapshot:
    """Return a cluster with the changes of the options; raises KplanError for invalid input.

    Parameters
    ----------
    source : file of the snapshot; empty for the live cluster
    """
    if [source, *(flags.with_ or ())].count(_STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once", hint="pass all but one of them as files")
    changes = requested_changes(flags)
    live = flags.live(stdin_is_free=_STANDARD_INPUT not in (flags.with_ or ()))
    snapshot = open_cluster(source, live, quiet=quiet)
    process.finish_loading()
    if changes is None:
        return snapshot
    from kplan.cluster.base import Base

    return changes.changed(Base(snapshot)).snapshot
