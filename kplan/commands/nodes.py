"""`kplan nodes`: which nodes the autoscaler adds, removes and keeps."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from kplan.api.quantity import listing
from kplan.cli.answer import Meanwhile, reply, showing_for
from kplan.cli.flags import AutoscalerFlags, ManifestFlags, SavingFlags, TimelineFlags
from kplan.cli.options import Fields, arguments, with_flags
from kplan.cli.subject import load_subject
from kplan.errors import UsageError
from kplan.questions.nodes import Nodes
from kplan.snapshot.model import Snapshot

_NO_AUTOSCALER = (
    "name node groups with --node-groups FILE (kplan snapshot groups prints one), or choose an --autoscaler"
)

EXAMPLES = """
kplan nodes --node-groups groups.yaml  # what the autoscaler adds, removes and keeps
kplan nodes web.yaml --node-groups groups.yaml --fail-on new-nodes  # exit code 1 if these pods need new nodes
kplan nodes --node-groups groups.yaml --timeline --until 1h  # when each node comes, is unneeded, and is gone
"""


@with_flags
def nodes(
    what: list[str] | None = arguments(
        "FILE", "Manifests (file, directory, - for standard input) whose pods are pending, too."
    ),
    *,
    settings: Annotated[Fields, Nodes],
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

    question = Nodes(settles=True, timeline=time.clock(), **{"loops": None, **settings})
    question.check()
    showing = showing_for(flags)
    subject = load_subject(what, flags, manifests, needs_nodes=not following.node_groups)
    if (autoscaler := following.settings_for(subject.base.objects)) is None:
        raise UsageError("the cluster shows no autoscaler", hint=_hint(subject.base.objects))
    subject = replace(subject, base=followed_by(subject.base, autoscaler))
    words = "" if time.has_clock else "{0:,} of {1:,}"
    reply(question, subject, showing, flags, Meanwhile("following the autoscaler", words))


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
