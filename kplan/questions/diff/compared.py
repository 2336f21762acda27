"""One of two answers that are compared, with what its report does not hold."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kplan.documents.base import Report
from kplan.documents.cluster_map import ClusterMap
from kplan.documents.placement import Origin
from kplan.documents.plan import Largest


class ComparedAnswer(msgspec.Struct, frozen=True):
    """One of the two answers."""

    what: str  #: its name in messages and in the report
    report: Report
    nodes: frozenset[str] | None = None  #: names of all nodes of its cluster; None for a saved report
    #: resource -> percent that is requested at the end; None if only the report itself may hold it
    usage: Mapping[str, float] | None = None
    #: KIND/NAMESPACE/NAME of the workloads of its manifests -> their places
    origins: Mapping[str, Origin] = {}
    #: resource -> what the pods of its manifests request; None where it has none
    requests: Mapping[str, int] | None = None
    room: Mapping[str, Largest] = {}  #: resource -> what is free at the end; empty if only the report may hold it
    cluster: ClusterMap | None = None  #: every node before and after; None if only the report itself may hold it
