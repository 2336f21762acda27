"""OddsReport: how often each outcome comes, where kube-scheduler decides by chance."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Report
from kplan.documents.change import Seconds
from kplan.documents.plan import CausedBy
from kplan.facts import Count, Document, Positive


class Share(Document, frozen=True, kw_only=True):
    """In how many runs something happens.

    Attributes
    ----------
    share : of all runs, 0 to 1
    low, high : the 95 % interval of the probability (Wilson's)
    """

    runs: Count
    share: float
    low: float
    high: float


class PodOdds(Document, frozen=True, kw_only=True):
    """What becomes of a pod.

    Attributes
    ----------
    pod : NAMESPACE/NAME
    workload : KIND/NAMESPACE/NAME of its owner; empty for a pod of its own
    placed : runs in which it, or the pod that replaces it, is on a node at the end
    pending : runs in which it is on none, and was not evicted
    evicted : runs in which it is evicted; for a drain, only to make room for another pod
    gone : runs in which it is deleted or evicted and not replaced; for changes only
    blocked : runs in which it cannot be evicted, and stays where it is; for changes only
    nodes, zones : runs in which it is there at the end, the most frequent first
    caused_by : waiting: it moves, or waits, without the change, too
    """

    pod: str
    workload: str
    placed: Share
    pending: Share
    evicted: Share
    gone: Share | UnsetType = UNSET
    blocked: Share | UnsetType = UNSET
    nodes: dict[str, Share]
    zones: dict[str, Share]
    caused_by: CausedBy = "change"


class WorkloadOdds(Document, frozen=True, kw_only=True):
    """What becomes of the pods of a workload together.

    Attributes
    ----------
    all_placed : runs in which every one of them is on a node at the end
    placed, pending, evicted, gone, blocked : of all its pods in all runs, how many are
    complete : runs in which it has all the pods that it wants at the end; for changes only
    because : what holds it up in the first run in which something does
    nodes, zones : of all its pods that are on nodes in all runs, how many are there; the most frequent first
    """

    workload: str
    pods: Positive
    all_placed: Share
    placed: float
    pending: float
    evicted: float
    gone: float | UnsetType = UNSET
    blocked: float | UnsetType = UNSET
    nodes: dict[str, float]
    zones: dict[str, float]
    complete: Share | UnsetType = UNSET
    because: str = ""


class GroupOdds(Document, frozen=True, kw_only=True):
    """What becomes of a PodGroup as a whole.

    Attributes
    ----------
    group : NAMESPACE/NAME
    pods : how many it has
    whole : runs in which all of them are on nodes at the end
    partial : runs in which some are, and others are not
    domains : value of its topology key -> runs in which it runs there, the most frequent first
    """

    group: str
    pods: Count
    whole: Share
    partial: Share
    domains: dict[str, Share] = {}


class RunExample(Document, frozen=True, kw_only=True):
    """Runs in which the same pods stay pending, are gone, blocked or evicted, with one of them.

    Attributes
    ----------
    placements : pod -> node in that run
    gone, blocked : for changes only
    messages : pod -> why it stays pending in that run, or cannot be evicted, in Kubernetes' words
    """

    share: Share
    pending: tuple[str, ...]
    evicted: tuple[str, ...]
    gone: tuple[str, ...] | UnsetType = UNSET
    blocked: tuple[str, ...] | UnsetType = UNSET
    placements: dict[str, str]
    messages: dict[str, str] = {}


class EndSpread(Document, frozen=True, kw_only=True):
    """When runs with a clock end, in seconds.

    Attributes
    ----------
    shortest, longest : of all runs
    median, p90 : half of the runs, and nine of ten, end by then
    """

    shortest: Seconds
    median: Seconds
    p90: Seconds
    longest: Seconds


class OddsSummary(Document, frozen=True, kw_only=True):
    """The odds in numbers.

    Attributes
    ----------
    distinct : how many different results the runs have
    certain : every pod ends up the same in all runs
    outcomes : in how many ways runs end, as to which pods stay pending or are evicted
    end : when they end; absent without a clock
    """

    runs: Positive
    seed: int
    distinct: Positive
    certain: bool
    outcomes: Positive
    pods: Count
    all_placed: Share
    end: EndSpread | UnsetType = UNSET


class OddsReport(Report, frozen=True, kw_only=True):
    """The answer of place, plan and drain with --runs.

    Attributes
    ----------
    pods : those of the question, or of the drained nodes, in this order; then those that some run moves
    evicted : other pods that are evicted -> in how many runs
    examples : the most frequent outcomes first
    groups : the pod groups of these pods; absent where there are none
    """

    kind: Literal["OddsReport"] = "OddsReport"
    command: Literal["place", "plan", "drain"]
    summary: OddsSummary
    workloads: tuple[WorkloadOdds, ...]
    pods: tuple[PodOdds, ...]
    evicted: dict[str, Share]
    examples: tuple[RunExample, ...]
    groups: tuple[GroupOdds, ...] | UnsetType = UNSET
