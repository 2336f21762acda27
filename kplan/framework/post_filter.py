"""The result of preemption for one pod: victims, candidates, and why other nodes do not help."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType, field

from kplan.engine.details import Code
from kplan.facts import Count, Document, Positive

Criterion = Literal[
    "pdb-violations", "lowest-highest-victim-priority", "lowest-priority-sum", "fewest-victims", "latest-start-time"
]
"""The criteria that compare candidates, in this order."""

DecidedBy = Literal["only-candidate", "tie"] | Criterion


WhyNot = Literal[
    "preemption-policy-never",
    "victims-are-leaving",
    "group-is-missing",
    "group-has-constraints",
    "group-preempts-as-a-whole",
    "no-node-helps",
    "extenders-refuse",
    "not-tried",
    "failed",
]
"""Why preemption finds no node.

group-is-missing, group-has-constraints, group-preempts-as-a-whole: a pod of a pod group does not preempt on its own;
victims-are-leaving: pods that were evicted for it before are still terminating; not-tried: another PostFilter
plugin ended the search before.
"""


class Freed(Document, frozen=True):
    """How much of a resource an eviction frees, and which share of the node that is, in per cent."""

    amount: str
    percent: int | None


class Victim(Document, frozen=True, kw_only=True):
    """A pod that would be evicted.

    Attributes
    ----------
    owner : KIND/NAME of its controller
    node : where it runs
    frees : resource -> what its eviction frees
    budgets : disruption budgets that cover the pod
    """

    namespace: str
    name: str
    priority: int
    pdb_violation: bool
    owner: str | None
    start_time: str | None
    node: str | UnsetType = UNSET
    frees: dict[str, Freed] | UnsetType = UNSET
    budgets: tuple[str, ...] | UnsetType = UNSET
    termination_grace_period_seconds: int | UnsetType | None = UNSET

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class Criteria(Document, frozen=True, kw_only=True):
    """The values of the criteria for a candidate."""

    pdb_violations: Count
    highest_victim_priority: int
    priority_sum: int
    victims: Count
    latest_start_time: str | None


class Reprieve(Document, frozen=True, kw_only=True):
    """Whether a pod of lower priority is spared, tried while the more important ones that are spared stay.

    Attributes
    ----------
    reprieved : the incoming pod fits beside it, so it is no victim
    pdb_violation : its eviction would violate a budget, so it was tried before the others
    """

    pod: str
    step: Positive
    pdb_violation: bool
    reprieved: bool = field(name="kept")


class Candidate(Document, frozen=True, kw_only=True):
    """A node on which evicting pods makes room.

    Attributes
    ----------
    lost_by : the criterion by which it lost; null for the best
    reprieve : its pods of lower priority, in the order in which the scheduler tries to spare them
    """

    victims: tuple[str, ...]
    pdb_violations: Count
    criteria: Criteria
    lost_by: Criterion | UnsetType | None = UNSET
    reprieve: tuple[Reprieve, ...] | UnsetType = UNSET


class NotHelped(Document, frozen=True, kw_only=True):
    """Why evictions on a node do not help."""

    code: Code
    plugin: str | None
    reasons: tuple[str, ...]


class NotHelpful(Document, frozen=True, kw_only=True):
    """Nodes where no eviction helps, for one reason.

    Attributes
    ----------
    tried : evictions were tried in vain; where false, no eviction can help
    """

    tried: bool
    plugin: str | None
    reason: str
    nodes: Positive
    examples: tuple[str, ...]


class Preemption(Document, frozen=True, kw_only=True):
    """The result of PostFilter, for a pod that every node rejects.

    Attributes
    ----------
    eligible : the pod may preempt at all
    message : of all PostFilter plugins together; empty when there is a node
    why_not : why there is no node; null when there is one
    nominated_node : null when no candidate helps
    ties : candidates equal on all criteria, by name
    rejected : node -> why evictions there do not help
    cleared_nominations : pods of lower priority that lose their nomination to that node
    """

    eligible: bool
    message: str
    nominated_node: str | None = None
    ties: tuple[str, ...] = ()
    decided_by: DecidedBy | None = None
    victims: tuple[Victim, ...] = ()
    candidates: dict[str, Candidate] = {}
    rejected: dict[str, NotHelped] = {}
    cleared_nominations: tuple[str, ...] = ()
    not_helpful: tuple[NotHelpful, ...] | UnsetType = UNSET
    why_not: WhyNot | None = None
