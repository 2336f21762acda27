"""`kplan nodes`: which nodes the autoscaler adds, removes and keeps."""

from __future__ import annotations

from msgspec.structs import replace

from kplan.api.quantity import listing
from kplan.cli.answer import ask, showing_for
from kplan.cli.asking import options_named, reply
from kplan.cli.common import AutoscalerFlags, SavingFlags
from kplan.cli.flags import ManifestFlags, with_flags
from kplan.cli.options import flag, several, switch
from kplan.cli.timeline import TimelineFlags
from kplan.errors import UsageError
from kplan.snapshot.model import Snapshot

_NO_AUTOSCALER = (
    "name its groups with --node-groups FILE (kplan snapshot groups prints those that it finds), or choose --autoscaler"
)


EXAMPLES = """
kplan nodes --node-groups groups.yaml  # what the autoscaler adds, removes and keeps
kplan nodes web.yaml --node-groups groups.yaml --fail-on new-nodes  # exit code 1 if these pods need new nodes
kplan nodes --node-groups groups.yaml --timeline --until 1h  # when each node comes, is unneeded, and is gone
"""


@with_flags
def nodes(
    what: list[str] | None = several(
        "FILE", "Manifests (file, directory, - for standard input) whose pods are pending, too."
    ),
    *,
    loops: str = flag(
        "--loops SECONDS,...",
        "When the cluster-autoscaler looks, such as 0,10 (default: now, and until nothing is left to remove).",
    ),
    full: bool = switch("--full", "Add the whole decision, in the autoscaler's own terms, to JSON and YAML."),
    time: TimelineFlags,
    following: AutoscalerFlags,
    manifests: ManifestFlags,
    flags: SavingFlags,
) -> None:
    """Show which nodes the autoscaler adds, removes or replaces, and why each other node stays.

    kube-scheduler and the controllers work first, until nothing moves; then the cluster-autoscaler, or Karpenter,
    decides for the pods of the cluster and of manifests that found no node. Prints what each removal saves, where
    prices are known. Exits with 0 unless --fail-on says otherwise.
    """
    following.check()
    time.check()
    from kplan.questions.nodes.document import following as followed_by
    from kplan.questions.nodes.question import Nodes

    question = Nodes(settles=True, full=full, loops=_seconds(loops) if loops else None, timeline=time.clock())
    with options_named():
        question.check()
    showing = showing_for(flags, "nodes")
    subject = ask(what, flags, manifests)
    settings = following.settings_for(subject.base.objects)
    if settings is None:
        raise UsageError("the cluster shows no autoscaler", hint=_hint(subject.base.objects))
    subject = replace(subject, base=followed_by(subject.base, settings))
    words = "" if time.has_clock else "{0:,} of {1:,}"
    reply(question, subject, showing, flags, doing="following the autoscaler", words=words)


def _hint(snapshot: Snapshot) -> str:
    """Return how to ask about a cluster that shows no autoscaler: what to type where its nodes have labels of pools."""
    from kplan.autoscaling.cluster_autoscaler.finding import unfollowed_pools

    cloud, pools = unfollowed_pools(snapshot)
    if not pools:
        return _NO_AUTOSCALER
    groups = f"{f'{cloud} ' if cloud else ''}{'pool' if len(pools) == 1 else 'pools'} {listing(pools)}"
    return (
        f"its nodes are in {groups}: if the cluster-autoscaler scales them, ask with --autoscaler cluster-autoscaler; "
        "the cluster has no ConfigMap kube-system/cluster-autoscaler-status, which would tell, or the snapshot lacks it"
    )


def _seconds(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--loops {text}: expected seconds with commas between", hint="such as 0,10,610") from None
