"""The flags for the source of the cluster, a file or kubectl's flags for a live one, and for changes of it on paper.

A command takes them as :class:`ClusterFlags` or :class:`ChangedClusterFlags`, and opens the cluster with
:func:`open_cluster` or :func:`changed_cluster`.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from kplan.cli import process
from kplan.cli.arguments import STANDARD_INPUT, check_read_once
from kplan.cli.effects import in_order
from kplan.cli.messages import announced_when_slow, noted_when_interrupted, say, shows_progress
from kplan.cli.options import SNAPSHOT, Flags, flag, option, repeated, switch
from kplan.errors import InputError, KplanError, UsageError

if TYPE_CHECKING:
    from kplan.course.what_if import Edit
    from kplan.live import LiveOptions
    from kplan.reading.files import ReadProgress
    from kplan.snapshot.model import Snapshot

SnapshotOption = Annotated[
    str, option("--snapshot -s PATH", "Cluster from a file, a directory or -; or demo, an example.", envvar=SNAPSHOT)
]


class ClusterFlags(Flags, panel="Cluster"):
    """Options for the source of the cluster."""

    snapshot: SnapshotOption = ""
    kubeconfig: str = flag("--kubeconfig PATH", "Path of the kubeconfig.", envvar="KUBECONFIG")
    context: str = flag("--context NAME", "Context of the kubeconfig.")
    cluster: str = flag("--cluster NAME", "Cluster of the kubeconfig.")
    user: str = flag("--user NAME", "User of the kubeconfig.")
    as_user: str = flag("--as USER", "User or service account to impersonate.")
    as_group: list[str] | None = repeated("--as-group GROUP", "Group to impersonate; repeatable.")
    request_timeout: str = flag(
        "--request-timeout TIME", "Time limit of a request: 30s, 2m; 0 for none.", default="60s"
    )
    insecure_skip_tls_verify: bool = switch("--insecure-skip-tls-verify", "Do not verify the API server's certificate.")
    namespaces: list[str] | None = repeated(
        "--namespaces NS,…", "Read only these namespaces; for users who may not read the whole cluster."
    )

    def live(self, *, stdin_is_free: bool = True) -> "LiveOptions":
        """Return how a live cluster is read, or raise UsageError; standard input is free where kplan reads none."""
        from kplan.live import LiveOptions, parse_timeout

        named = [name.strip() for names in self.namespaces or () for name in names.split(",")]
        return LiveOptions(
            kubeconfig=self.kubeconfig,
            context=self.context,
            cluster=self.cluster,
            user=self.user,
            impersonate_user=self.as_user,
            impersonate_groups=tuple(self.as_group or ()),
            request_timeout=parse_timeout(self.request_timeout),
            insecure_skip_tls_verify=self.insecure_skip_tls_verify,
            namespaces=tuple(dict.fromkeys(filter(None, named))),
            stdin_is_free=stdin_is_free,
        )

    def default_namespace(self) -> str:
        """Return the namespace of the kubeconfig's context; empty for a snapshot, or none. Raises KubeconfigError."""
        if self.snapshot:
            return ""
        from kplan.live.kubeconfig import context_namespace

        return context_namespace(self.live())


def open_cluster(
    flags: ClusterFlags, source: str, others: Sequence[str] = (), *, quiet: bool = False, needs_nodes: bool = True
) -> "Snapshot":
    """Load the cluster from its file, or that of the flags from its API server; raises KplanError where it cannot.

    `source`: the file; empty for the live cluster.
    `others`: what else will be read: what logs in may ask somebody, unless that is standard input.
    `needs_nodes`: a file without nodes is refused.
    """
    if source:
        from kplan.reading.documents import name_of
        from kplan.snapshot.load import load_snapshot

        shown = shows_progress(quiet=quiet)
        with noted_when_interrupted(f"reading {name_of(source)}"), _progress_bar(shown=shown) as reading:
            return load_snapshot(source, progress=reading, needs_nodes=needs_nodes)
    from kplan.live.collect import collect_snapshot

    live = flags.live(stdin_is_free=STANDARD_INPUT not in others)
    with ExitStack() as stack:

        def begin(cluster: str) -> None:
            stack.enter_context(noted_when_interrupted(f"reading {cluster}"))
            stack.enter_context(announced_when_slow(f"reading {cluster}", quiet=quiet))

        stack.enter_context(noted_when_interrupted("logging in to the cluster"))
        progress = stack.enter_context(_progress_bar(shown=shows_progress(quiet=quiet)))
        return collect_snapshot(
            live, progress, warn=None if quiet else lambda text: say(f"warning: {text}"), begin=begin
        )


@contextmanager
def _progress_bar(*, shown: bool) -> "Iterator[ReadProgress | None]":
    """Show a progress bar for every kind that takes more than one request; remove them at the end."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("reading {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, int] = {}

        def report(resource: str, n_read: int, total: int | None) -> None:
            if resource not in tasks:
                if n_read == total:
                    return
                tasks[resource] = bars.add_task(resource, total=None)
            bars.update(tasks[resource], completed=n_read, total=total)  # type: ignore[arg-type]  # rich's TaskID is an int

        yield report


_NAMES = ("with_", "without", "add_nodes", "cordon", "uncordon", "scale", "apply_recommendations", "recommendations")
_VPA = "vpa"


class ChangedClusterFlags(ClusterFlags, panel="What if"):
    """Options for the source of the cluster, and for changes of it on paper."""

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

    def unchanged(self, snapshot: str) -> "ChangedClusterFlags":
        nothing = dict.fromkeys(_NAMES)
        return replace(self, snapshot=snapshot, settle=False, **nothing)  # type: ignore[arg-type] # none of each


def requested_changes(flags: ChangedClusterFlags) -> "list[Edit]":
    """Return the changes of the options, in their order, settling last; KplanErrors name the option."""
    if not flags.is_changed:
        return []
    options = {name: getattr(flags, name) or () for name in _NAMES}
    from kplan.changes.timed import change_of
    from kplan.changes.values import Settle
    from kplan.course.what_if import read_edits

    edits: list[Edit] = []
    for name, value in in_order(options):
        option = name.strip("_").replace("_", "-")
        try:
            if name == "apply_recommendations" and value != _VPA:
                hint = "--recommendations FILE reads those of krr"
                raise UsageError(f"{value}: recommendations come from {_VPA}", hint=hint)
            edits += read_edits(change_of(name.removeprefix("apply_"), value))
        except InputError:
            raise
        except KplanError as error:
            raise type(error)(f"--{option} {error.message}", hint=error.hint) from None
    if flags.settle:
        edits += read_edits(Settle())
    return edits


def changed_cluster(flags: ChangedClusterFlags, source: str, *, quiet: bool) -> "Snapshot":
    """Return a cluster with the changes of the options; `source` is its file, empty for the live one."""
    check_read_once([source, *(flags.with_ or ())])
    changes = requested_changes(flags)
    snapshot = open_cluster(flags, source, flags.with_ or (), quiet=quiet)
    process.finish_loading()
    if not changes:
        return snapshot
    from kplan.cluster.base import Base
    from kplan.course.what_if import edited

    return edited(Base(snapshot), changes).snapshot
