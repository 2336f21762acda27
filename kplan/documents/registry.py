"""Every kind of document and the module of its struct; a new kind needs an entry here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from kplan.documents.base import Head, Report

REPORTS: Mapping[str, str] = {
    "PlacementReport": "kplan.documents.placement",
    "PreemptionReport": "kplan.documents.preemption_report",
    "PlanReport": "kplan.documents.plan",
    "QueueReport": "kplan.documents.queue",
    "CapacityReport": "kplan.documents.capacity",
    "HeadroomReport": "kplan.documents.headroom",
    "DrainsReport": "kplan.documents.drains",
    "OddsReport": "kplan.documents.odds",
    "DiffReport": "kplan.documents.diff",
}
"""Answers with a verdict, which `kplan show` prints again."""

KINDS: Mapping[str, str] = {
    **REPORTS,
    "PodsReport": "kplan.documents.pods",
    "SnapshotOverview": "kplan.documents.snapshot",
    "SnapshotCheck": "kplan.documents.snapshot",
    "SchedulerConfigReport": "kplan.documents.config",
    "SchedulerConfigCheck": "kplan.documents.config",
}


def struct_of(kind: str) -> type[Head]:
    """Return the struct of a kind of document."""
    found: type[Head] = getattr(import_module(KINDS[kind]), kind)
    return found


def report_struct(kind: str) -> type[Report]:
    """Return the struct of a kind of report."""
    found: type[Report] = getattr(import_module(REPORTS[kind]), kind)
    return found
