"""The reports of `kplan snapshot show` and `kplan snapshot check`, and their text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import UNSET

from kplan.api.kinds import KINDS_BY_ATTRIBUTE
from kplan.config.releases import nearest
from kplan.documents.base import InputWarning, MissingKind
from kplan.documents.snapshot import (
    InspectedSnapshot,
    NodeOverview,
    PodOverview,
    ResourceTotal,
    SnapshotCheck,
    SnapshotOverview,
)
from kplan.report.footer import change_text
from kplan.rules.resources import nano, pod_requests, resource_order
from kplan.snapshot.inspect import check_snapshot, overview_of_nodes, overview_of_pods
from kplan.snapshot.model import Snapshot

_NANOS = 10**9
_MIB = 1 << 20
#: Resources that are counted in bytes.
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_MOST_LINES = 12


def overview_report(snapshot: Snapshot) -> SnapshotOverview:
    """Return the document of `kplan snapshot show`."""
    return SnapshotOverview(
        snapshot=_inspected(snapshot),
        counts={KINDS_BY_ATTRIBUTE[name].resource: count for name, count in snapshot.counts().items()},
        skipped=dict(snapshot.skipped),
        nodes=overview_of_nodes(snapshot),
        pods=overview_of_pods(snapshot),
        resources=_resources(snapshot),
        warnings=snapshot.warnings,
    )


def check_report(snapshot: Snapshot) -> SnapshotCheck:
    """Return the document of `kplan snapshot check`."""
    findings = check_snapshot(snapshot)
    problems, notes = (
        tuple(
            InputWarning(finding.code, finding.object, finding.message)
            for finding in findings
            if finding.is_note is is_note
        )
        for is_note in (False, True)
    )
    return SnapshotCheck(snapshot=_inspected(snapshot), valid=not problems, findings=problems, notes=notes)


def _inspected(snapshot: Snapshot) -> InspectedSnapshot:
    return InspectedSnapshot(
        source=snapshot.source,
        taken_at=snapshot.taken_at,
        server_version=snapshot.server_version,
        nodes=len(snapshot.nodes),
        pods=len(snapshot.pods),
        digest=snapshot.digest,
        missing=snapshot.missing,
        changes=snapshot.changes or UNSET,
    )


def _resources(snapshot: Snapshot) -> tuple[ResourceTotal, ...]:
    """Return what all nodes offer and what the pods on them request, in cores, bytes or pieces."""
    offered: Counter[str] = Counter()
    requested: Counter[str] = Counter()
    for node in snapshot.nodes:
        for name, quantity in node.status.allocatable.items():
            offered[name] += nano(quantity)
    names = {node.metadata.name for node in snapshot.nodes}
    for pod in snapshot.pods:
        if pod.spec.node_name in names and pod.status.phase not in {"Succeeded", "Failed"}:
            requested.update(pod_requests(pod, use_status=True))
            requested["pods"] += _NANOS
    return tuple(
        ResourceTotal(name=name, allocatable=_units(offered[name]), requested=_units(requested[name]))
        for name in resource_order(offered.keys() | requested.keys())
        if offered[name] or requested[name]
    )


def _units(nanos: int) -> float | int:
    """Return a number of whole units as an integer, any other rounded to three digits."""
    return nanos // _NANOS if nanos % _NANOS == 0 else round(nanos / _NANOS, 3)


def render_overview(report: SnapshotOverview) -> str:
    """Return the document of `kplan snapshot show` as text."""
    from tabulate import tabulate

    facts = report.snapshot
    lines = [
        f"Snapshot {facts.source}",
        f"  taken    {facts.taken_at or 'unknown'}",
        f"  server   {_server(facts.server_version)}",
        f"  digest   {facts.digest}",
        *_on_paper(facts),
        "",
        f"Nodes: {_nodes(report.nodes)}",
        *_shares("  zones    ", report.nodes.zones, "without a zone"),
        *_shares("  kubelets ", report.nodes.kubelet_versions, "of unknown version"),
        f"Pods:  {_pods(report.pods)}",
        *_shares("  by       ", report.pods.schedulers, "without a scheduler"),
        "",
    ]
    rows = [
        (
            resource.name,
            _amount(resource.name, resource.allocatable),
            _amount(resource.name, resource.requested),
            f"{100 * resource.requested / resource.allocatable:.0f} %" if resource.allocatable else "",
        )
        for resource in report.resources
    ]
    headers = ("RESOURCE", "ALLOCATABLE", "REQUESTED", "SHARE")
    lines += [tabulate(rows, headers, tablefmt="plain", colalign=("left", "right", "right", "right"))] if rows else []
    counts = [(name, count) for name, count in report.counts.items() if name not in {"nodes", "pods"}]
    lines += ["", tabulate(counts, ("KIND", "OBJECTS"), tablefmt="plain")] if counts else []
    lines += _missing_lines(facts.missing)
    if report.skipped:
        lines += ["", "Left out, since scheduling does not read them: " + _listing(report.skipped)]
    # Missing kinds have their own paragraph.
    lines += _section("Warnings", [warning for warning in report.warnings if warning.code != "MissingKind"])
    return "\n".join(lines)


def render_check(report: SnapshotCheck) -> str:
    """Return the document of `kplan snapshot check` as text: `ok`, or every finding."""
    facts = report.snapshot
    size = f"{_count(facts.nodes, 'node')}, {_count(facts.pods, 'pod')}"
    verdict = "ok" if report.valid else _count(len(report.findings), "problem")
    lines = [f"{facts.source}: {verdict} ({size})", *_on_paper(facts)]
    lines += _section("Problems", report.findings)
    lines += _section("Worth knowing", report.notes)
    return "\n".join(lines)


def _on_paper(facts: InspectedSnapshot) -> list[str]:
    return [f"  on paper {change_text(change)}" for change in facts.changes or ()]


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _section(title: str, findings: Sequence[InputWarning]) -> list[str]:
    if not findings:
        return []
    return ["", f"{title}:", *(f"  {finding.object}: {finding.message} [{finding.code}]" for finding in findings)]


def _missing_lines(missing: Sequence[MissingKind]) -> list[str]:
    if not missing:
        return []
    lines = ["", "Missing:"]
    for kind in missing:
        blind = f"; blind without it: {', '.join(kind.blinds)}" if kind.blinds else ""
        lines.append(f"  {kind.resource}: {kind.reason}{blind}")
    return lines


def _server(version: str | None) -> str:
    return f"{version or 'unknown version'} (kplan decides as v{nearest(version).version})"


def _nodes(nodes: NodeOverview) -> str:
    parts = [f"{nodes.total} in all", f"{nodes.ready} ready"]
    others = (
        (nodes.unschedulable, "cordoned"),
        (nodes.tainted, "with taints that repel pods"),
        (nodes.control_plane, "of the control plane"),
    )
    parts += [f"{number} {words}" for number, words in others if number]
    return ", ".join(parts)


def _pods(pods: PodOverview) -> str:
    states = ("running", "pending", "gated", "nominated", "terminating", "terminated")
    numbers = {state: getattr(pods, state) for state in states}
    return ", ".join([f"{pods.total} in all", *(f"{number} {state}" for state, number in numbers.items() if number)])


def _shares(label: str, counts: dict[str, int], nameless: str) -> list[str]:
    named = {name or nameless: count for name, count in counts.items()}
    return [label + _listing(named)] if named else []


def _listing(counts: dict[str, int]) -> str:
    shown = [f"{name} {count}" for name, count in list(counts.items())[:_MOST_LINES]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _amount(name: str, amount: float) -> str:
    if name.startswith(_BYTES):
        return f"{amount / _MIB:,.0f} Mi"
    return f"{amount:,.3f}".rstrip("0").rstrip(".")
