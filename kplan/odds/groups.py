"""What becomes of pod groups in one run."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kplan.engine.cluster import NOWHERE
from kplan.framework.pod_groups import WORKLOAD_GATE, group_of
from kplan.framework.session import Session


class GroupEnding(msgspec.Struct, frozen=True):
    """How a group ends in a run."""

    pods: int  #: how many it has
    placed: int  #: how many of them have a node
    domain: str = ""  #: the value of its topology key on their nodes; empty for none

    @property
    def is_whole(self) -> bool:
        """Whether all its pods have a node."""
        return self.placed == self.pods


def group_endings(session: Session, pods: Iterable[int], there: Iterable[int] | None = None) -> dict[str, GroupEnding]:
    """Return NAMESPACE/NAME of the groups of some pods -> how they end in a session.

    Parameters
    ----------
    pods : rows
    there : rows of all pods that are left at the end; None for all that the groups know
    """
    if not session.config.release.is_on(WORKLOAD_GATE):
        return {}
    infos, node_of, groups = session.cluster.pods.infos, session.cluster.node_of, session.pod_groups
    keys = dict.fromkeys(key for row in pods if (key := group_of(infos[row])) is not None)
    left = None if there is None else set(there)
    endings = {}
    for key in keys:
        rows = [row for row in groups.members(key) if (_is_there(session, row) if left is None else row in left)]
        placed = [row for row in rows if node_of[row] != NOWHERE]
        group = groups.groups.get(key)
        constraints = None if group is None else group.spec.scheduling_constraints
        domain = ""
        if placed and constraints is not None and constraints.topology:
            labels = session.cluster.nodes.nodes[node_of[placed[0]]].metadata.labels
            domain = labels.get(constraints.topology[0].key, "")
        endings["/".join(key)] = GroupEnding(len(rows), len(placed), domain)
    return endings


def _is_there(session: Session, row: int) -> bool:
    """Tell whether no other pod has come in the place of this one."""
    return session.pod_ids.get(session.cluster.pods.infos[row].key) == row
