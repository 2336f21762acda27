"""OddsReport: how often each outcome comes, where kube-scheduler decides by chance."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Report
from kplan.documents.plan import CausedBy
from kplan.facts import Count, Document, Positive, Seconds


class Share(Document, frozen=True, kw_only=True):
    """In how many runs something happens."""

    runs: Count
    share: float  #: of all runs, 0 to 1
    #: low, high: the 95 % interval of the probability (Wilson's)
    low: float
    high: float


class PodOdds(Document, frozen=True, kw_only=True):
    """What becomes of a pod."""

    pod: str  #: NAMESPACE/NAME
    workload: str  #: KIND/NAMESPACE/NAME of its owner; empty for a pod of its own
    placed: Share  #: runs in which it, or the pod that replaces it, is on a node at the end
    pending: Share  #: runs in which it is on none, and was not evicted
    evicted: Share  #: runs in which it is evicted; for a drain, only to make room for another pod
    gone: Share | UnsetType = UNSET  #: runs in which it is deleted or evicted and not replaced; for changes only
    blocked: Share | UnsetType = UNSET  #: runs in which it cannot be evicted, and stays where it is; for changes only
    #: nodes, zones: runs in which it is there at the end, the most frequent first
    nodes: dict[str, Share]
    zones: dict[str, Share]
    caused_by: CausedBy = "change"  #: waiting: it moves, or waits, without the change, too


class WorkloadOdds(Document, frozen=True, kw_only=True):
    """What becomes of the pods of a workload together."""

    workload: str
    pods: Positive
    all_placed: Share  #: runs in which every one of them is on a node at the end
    #: placed, pending, evicted, gone, blocked: of all its pods in all runs, how many are
    placed: float
    pending: float
    evicted: float
    gone: float | UnsetType = UNSET
    blocked: float | UnsetType = UNSET
    #: nodes, zones: of all its pods that are on nodes in all runs, how many are there; the most frequent first
    nodes: dict[str, float]
    zones: dict[str, float]
    complete: Share | UnsetType = UNSET  #: runs in which it has all the pods that it wants at the end; for changes only
    because: str = ""  #: what holds it up in the first run in which something does


class GroupOdds(Document, frozen=True, kw_only=True):
    """What becomes of a PodGroup as a whole."""

    group: str  #: NAMESPACE/NAME
    pods: Count  #: how many it has
    whole: Share  #: runs in which all of them are on nodes at the end
    partial: Share  #: runs in which some are, and others are not
    domains: dict[str, Share] = {}  #: value of its topology key -> runs in which it runs there, the most frequent first


class RunExample(Document, frozen=True, kw_only=True):
    """Runs in which the same pods stay pending, are gone, blocked or evicted, with one of them."""

    share: Share
    pending: tuple[str, ...]
    evicted: tuple[str, ...]
    #: gone, blocked: for changes only
    gone: tuple[str, ...] | UnsetType = UNSET
    blocked: tuple[str, ...] | UnsetType = UNSET
    placements: dict[str, str]  #: pod -> node in that run
    #: pod -> why it stays pending in that run, or cannot be evicted, in Kubernetes' words
    messages: dict[str, str] = {}


class EndSpread(Document, frozen=True, kw_only=True):
    """When runs with a clock end, in seconds."""

    #: shortest, longest: of all runs
    shortest: Seconds
    #: median, p90: half of the runs, and nine of ten, end by then
    median: Seconds
    p90: Seconds
    longest: Seconds


class OddsSummary(Document, frozen=True, kw_only=True):
    """The odds in numbers."""

    runs: Positive
    seed: int
    distinct: Positive  #: how many different results the runs have
    certain: bool  #: every pod ends up the same in all runs
    outcomes: Positive  #: in how many ways runs end, as to which pods stay pending or are evicted
    pods: Count
    all_placed: Share
    end: EndSpread | UnsetType = UNSET  #: when they end; absent without a clock


class OddsReport(Report, frozen=True, kw_only=True):
    """The answer of place, plan and drain with --runs."""

    kind: Literal["OddsReport"] = "OddsReport"
    command: Literal["place", "plan", "drain"]
    summary: OddsSummary
    workloads: tuple[WorkloadOdds, ...]
    #: those of the question, or of the drained nodes, in this order; then those that some run moves
    pods: tuple[PodOdds, ...]
    evicted: dict[str, Share]  #: other pods that are evicted -> in how many runs
    examples: tuple[RunExample, ...]  #: the most frequent outcomes first
    groups: tuple[GroupOdds, ...] | UnsetType = UNSET  #: the pod groups of these pods; absent where there are none
