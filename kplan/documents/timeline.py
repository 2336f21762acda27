"""When things happen in a change, and how many pods of each workload are ready meanwhile."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from kplan.facts import Count, Document

Seconds = Annotated[float, msgspec.Meta(ge=0)]

DurationSource = Literal["given", "learned", "assumed"]


class PodDuration(Document, frozen=True, kw_only=True):
    """How long something takes, and where that is known from.

    Attributes
    ----------
    seconds : null for pods that run on
    source : given with the question, learned from the cluster's own pods and jobs, or assumed
    samples : the number of pods or jobs whose median it is, where it is learned
    """

    seconds: Seconds | None
    source: DurationSource
    samples: Count = 0


class PodDurations(Document, frozen=True, kw_only=True):
    """How long the pods of a workload take.

    Attributes
    ----------
    start : from bound to ready
    stop : from told to go until gone; at most the grace period
    run : from bound until a pod of a job has succeeded; absent for other workloads
    """

    start: PodDuration
    stop: PodDuration
    run: PodDuration | UnsetType = UNSET


class LearnedDurations(Document, frozen=True, kw_only=True):
    """How long the pods of a workload took so far; absent what their status does not show.

    Attributes
    ----------
    start : from their start on a node to being ready
    run : until they succeeded
    """

    start: PodDuration | UnsetType = UNSET
    run: PodDuration | UnsetType = UNSET


class WorkloadTimeline(Document, frozen=True, kw_only=True):
    """A workload over time; times are in seconds since the change.

    Attributes
    ----------
    wanted : how many pods it wants at the end
    ready_before : how many pods were ready when the change began
    lowest_ready : the lowest number of ready pods
    lowest_ready_at : when that was reached first
    ready_over_time : time and number of ready pods from then on, for each change of that number
    """

    wanted: Count
    ready_before: Count
    lowest_ready: Count
    lowest_ready_at: Seconds
    ready_over_time: tuple[tuple[Seconds, Count], ...]
    durations: PodDurations


class NodeTimeline(Document, frozen=True, kw_only=True):
    """A node that comes, is emptied or goes; times are in seconds since the change, null for what does not happen.

    Attributes
    ----------
    requested : when an autoscaler asks for it
    ready : when it takes pods
    unneeded : since when an autoscaler finds that it is not needed
    unreachable : since when Kubernetes knows that it is lost
    draining : since when it takes no more pods and is being emptied
    emptied : when the pods that are to leave it are gone
    gone : when it is there no more
    because : why it comes or goes
    """

    requested: Seconds | None = None
    ready: Seconds | None = None
    unneeded: Seconds | None = None
    unreachable: Seconds | None = None
    draining: Seconds | None = None
    emptied: Seconds | None = None
    gone: Seconds | None = None
    because: str = ""


class WorkloadWaits(Document, frozen=True, kw_only=True):
    """How long the pods of a workload wait for a node.

    Attributes
    ----------
    pods : how many of its pods need a node
    waiting : how many of them have none at the end
    mean : how long they wait on average, those without a node until the end
    longest : how long one of them waits at most
    pod : NAMESPACE/NAME of that one
    """

    pods: Count
    waiting: Count
    mean: Seconds
    longest: Seconds
    pod: str


class QueueTimeline(Document, frozen=True, kw_only=True):
    """The pods without a node over time; times are in seconds since the change.

    Attributes
    ----------
    most : how many wait at once at most
    most_at : when that is so first
    over_time : time and number of waiting pods from then on; of a long course the most of each of many equal parts
    workloads : by KIND/NAMESPACE/NAME, those with pods that need a node
    """

    most: Count
    most_at: Seconds
    over_time: tuple[tuple[Seconds, Count], ...]
    workloads: dict[str, WorkloadWaits]


class UsageTimeline(Document, frozen=True, kw_only=True):
    """How much of a resource pods request over time, in percent of what all nodes offer.

    Attributes
    ----------
    mean : over the whole time
    highest : the highest share
    highest_at : when that is reached first
    over_time : time and share from then on; of a long course the highest of each of many equal parts
    """

    mean: float
    highest: float
    highest_at: Seconds
    over_time: tuple[tuple[Seconds, float], ...]


class Timeline(Document, frozen=True, kw_only=True):
    """When a change ends, and what is out of service meanwhile; times are in seconds since the change.

    Attributes
    ----------
    end : when the last thing happens
    until : how long the look ahead is; null for no limit
    is_over : nothing more is to happen; false where the look ahead ends before
    stuck_at : since when nothing gets on though something is wanting; null where nothing is wanting
    workloads : by KIND/NAMESPACE/NAME, those with pods that come, go or end
    nodes : by name, those that come, are emptied, or go; in the order in which they first do
    queue : the pods without a node over time, where the question is about all of them
    utilisation : resource -> how much of it is requested over time, where the question is about the whole cluster
    """

    end: Seconds
    until: Seconds | None
    is_over: bool
    stuck_at: Seconds | None
    workloads: dict[str, WorkloadTimeline]
    nodes: dict[str, NodeTimeline] = {}
    queue: QueueTimeline | UnsetType = UNSET
    utilisation: dict[str, UsageTimeline] | UnsetType = UNSET
