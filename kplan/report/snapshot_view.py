"""Snapshots for people and programs: what is in one, and what in one does not fit together."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from kplan.api.kinds import KINDS_BY_ATTRIBUTE
from kplan.config.releases import nearest
from kplan.rules.resources import nano, pod_requests, resource_order
from kplan.snapshot.inspect import Finding, check_snapshot, overview_of_nodes, overview_of_pods
from kplan.snapshot.model import Snapshot

__all__ = ["check_report", "overview_report", "render_check", "render_overview"]

_NANOS = 10**9
_MIB = 1 << 20
#: Resources that are counted in bytes.
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_MOST_LINES = 12


def overview_report(snapshot: Snapshot) -> dict[str, Any]:
    """Return the document of `kplan snapshot show`."""
    return {
        **_header(snapshot, "SnapshotOverview"),
        "counts": {KINDS_BY_ATTRIBUTE[name].resource: count for name, count in snapshot.counts().items()},
        "skipped": dict(snapshot.skipped),
        "nodes": _camel(asdict(overview_of_nodes(snapshot))),
        "pods": _camel(asdict(overview_of_pods(snapshot))),
        "resources": _resources(snapshot),
        "warnings": [{"code": each.code, "object": each.object, "message": each.message} for each in snapshot.warnings],
    }


def check_report(snapshot: Snapshot) -> dict[str, Any]:
    """Return the document of `kplan snapshot check`."""
    findings = check_snapshot(snapshot)
    return {
        **_header(snapshot, "SnapshotCheck"),
        "valid": all(finding.is_note for finding in findings),
        "findings": [_finding(finding) for finding in findings if not finding.is_note],
        "notes": [_finding(finding) for finding in findings if finding.is_note],
    }


def _header(snapshot: Snapshot, kind: str) -> dict[str, Any]:
    return {
        "apiVersion": "kplan/v1",
        "kind": kind,
        "formatVersion": "1.0",
        "snapshot": {
            "source": snapshot.source,
            "takenAt": snapshot.taken_at,
            "serverVersion": snapshot.server_version,
            "nodes": len(snapshot.nodes),
            "pods": len(snapshot.pods),
            "digest": snapshot.digest,
            "missing": [
                {"resource": each.resource, "reason": each.reason, "blinds": list(each.blinds)}
                for each in snapshot.missing
            ],
        },
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {"code": finding.code, "object": finding.object, "message": finding.message}


def _camel(fields: dict[str, Any]) -> dict[str, Any]:
    return {name.partition("_")[0] + name.partition("_")[2].title().replace("_", ""): fields[name] for name in fields}


def _resources(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Add up what nodes offer and what pods on them ask for, in cores, bytes or pieces."""
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
    return [
        {"name": name, "allocatable": _units(offered[name]), "requested": _units(requested[name])}
        for name in resource_order(offered.keys() | requested.keys())
        if offered[name] or requested[name]
    ]


def _units(nanos: int) -> float | int:
    """Return whole units as an integer, and parts of them with three digits."""
    return nanos // _NANOS if nanos % _NANOS == 0 else round(nanos / _NANOS, 3)


def render_overview(report: dict[str, Any]) -> str:
    """Write the document of `kplan snapshot show` as text."""
    from tabulate import tabulate

    facts = report["snapshot"]
    lines = [
        f"Snapshot {facts['source']}",
        f"  taken    {facts['takenAt'] or 'unknown'}",
        f"  server   {_server(facts['serverVersion'])}",
        f"  digest   {facts['digest']}",
        "",
        f"Nodes: {_nodes(report['nodes'])}",
        *_shares("  zones    ", report["nodes"]["zones"], "without a zone"),
        *_shares("  kubelets ", report["nodes"]["kubeletVersions"], "of unknown version"),
        f"Pods:  {_pods(report['pods'])}",
        *_shares("  by       ", report["pods"]["schedulers"], "without a scheduler"),
        "",
    ]
    rows = [
        (
            each["name"],
            _amount(each["name"], each["allocatable"]),
            _amount(each["name"], each["requested"]),
            f"{100 * each['requested'] / each['allocatable']:.0f} %" if each["allocatable"] else "",
        )
        for each in report["resources"]
    ]
    headers = ("RESOURCE", "ALLOCATABLE", "REQUESTED", "SHARE")
    lines += [tabulate(rows, headers, tablefmt="plain", colalign=("left", "right", "right", "right"))] if rows else []
    counts = [(name, count) for name, count in report["counts"].items() if name not in {"nodes", "pods"}]
    lines += ["", tabulate(counts, ("KIND", "OBJECTS"), tablefmt="plain")] if counts else []
    lines += _missing_lines(facts["missing"])
    if report["skipped"]:
        lines += ["", "Left out, since scheduling does not read them: " + _listing(report["skipped"])]
    # Missing kinds have their own paragraph.
    lines += _section("Warnings", [each for each in report["warnings"] if each["code"] != "MissingKind"])
    return "\n".join(lines)


def render_check(report: dict[str, Any]) -> str:
    """Write the document of `kplan snapshot check` as text: `ok`, or all that was found."""
    facts = report["snapshot"]
    size = f"{_count(facts['nodes'], 'node')}, {_count(facts['pods'], 'pod')}"
    verdict = "ok" if report["valid"] else _count(len(report["findings"]), "problem")
    lines = [f"{facts['source']}: {verdict} ({size})"]
    lines += _section("Problems", report["findings"])
    lines += _section("Worth knowing", report["notes"])
    return "\n".join(lines)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _section(title: str, findings: list[dict[str, str]]) -> list[str]:
    if not findings:
        return []
    return ["", f"{title}:", *(f"  {each['object']}: {each['message']} [{each['code']}]" for each in findings)]


def _missing_lines(missing: list[dict[str, Any]]) -> list[str]:
    if not missing:
        return []
    lines = ["", "Missing:"]
    for each in missing:
        blind = f"; blind without it: {', '.join(each['blinds'])}" if each["blinds"] else ""
        lines.append(f"  {each['resource']}: {each['reason']}{blind}")
    return lines


def _server(version: str | None) -> str:
    return f"{version or 'unknown version'} (kplan decides as v{nearest(version).version})"


def _nodes(nodes: dict[str, Any]) -> str:
    parts = [f"{nodes['total']} in all", f"{nodes['ready']} ready"]
    for key, word in (
        ("unschedulable", "cordoned"),
        ("tainted", "with taints that repel pods"),
        ("controlPlane", "of the control plane"),
    ):
        if nodes[key]:
            parts.append(f"{nodes[key]} {word}")
    return ", ".join(parts)


def _pods(pods: dict[str, Any]) -> str:
    states = ("running", "pending", "gated", "nominated", "terminating", "terminated")
    return ", ".join([f"{pods['total']} in all", *(f"{pods[state]} {state}" for state in states if pods[state])])


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
