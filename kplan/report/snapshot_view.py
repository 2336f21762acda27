"""The reports of `kplan snapshot`: documents, text, and cases for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import UNSET, UnsetType

from kplan.api.kinds import KINDS_BY_ATTRIBUTE
from kplan.api.pod import ENDED
from kplan.api.quantity import count, listing
from kplan.config.releases import nearest
from kplan.course.simulation.durations import EACH, Duration, learn
from kplan.documents.change import LearnedDurations, PodDuration
from kplan.documents.files import InspectedSnapshot, ResourceTotal, SnapshotCheck, SnapshotOverview
from kplan.facts import InputWarning
from kplan.report.blocks import Block, Heading, Table, line
from kplan.report.options import DEFAULT_WIDTH, Repository
from kplan.report.text import render_plain
from kplan.report.view import Case, CaseReport, State, change_text
from kplan.report.words import seconds_text, workload_title
from kplan.rules.resources import nano, pod_requests, resource_order
from kplan.snapshot.inspect import NodeOverview, PodOverview, check_snapshot, overview_of_nodes, overview_of_pods
from kplan.snapshot.model import Snapshot
from kplan.visible import shown

_NANOS = 10**9
_MIB = 1 << 20
#: Resources that are counted in bytes.
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_MOST_LINES = 12


def overview_report(snapshot: Snapshot, *, with_durations: bool = False) -> SnapshotOverview:
    """Return the document of `kplan snapshot show`; `with_durations` adds how long pods took so far."""
    return SnapshotOverview(
        snapshot=InspectedSnapshot.of(snapshot, server_version=snapshot.server_version),
        counts={KINDS_BY_ATTRIBUTE[name].resource: count for name, count in snapshot.counts().items()},
        skipped=dict(snapshot.skipped),
        nodes=overview_of_nodes(snapshot),
        pods=overview_of_pods(snapshot),
        resources=_resources(snapshot),
        warnings=snapshot.warnings,
        durations=_durations(snapshot) if with_durations else UNSET,
    )


def _durations(snapshot: Snapshot) -> dict[str, LearnedDurations]:
    def to_document(one: Duration) -> PodDuration:
        return PodDuration(seconds=one.seconds, source=one.source.value, samples=one.n_samples)

    learned = learn(snapshot)
    start, run = ({name: to_document(one) for name, one in own.items()} for own in (learned.start, learned.run))
    names = sorted((start.keys() | run.keys()) - {EACH})
    return {name: LearnedDurations(start=start.get(name, UNSET), run=run.get(name, UNSET)) for name in names}


def snapshot_check(snapshot: Snapshot) -> SnapshotCheck:
    findings = check_snapshot(snapshot)
    problems, notes = (
        tuple(InputWarning(one.code, one.object, one.message) for one in findings if one.is_note is is_note)
        for is_note in (False, True)
    )
    facts = InspectedSnapshot.of(snapshot, server_version=snapshot.server_version)
    return SnapshotCheck(snapshot=facts, valid=not problems, findings=problems, notes=notes)


def _resources(snapshot: Snapshot) -> tuple[ResourceTotal, ...]:
    """Return what all nodes offer and what the pods on them request, in cores, bytes or pieces."""
    offered: Counter[str] = Counter()
    requested: Counter[str] = Counter()
    for node in snapshot.nodes:
        for name, quantity in node.status.allocatable.items():
            offered[name] += nano(quantity)
    names = {node.metadata.name for node in snapshot.nodes}
    for pod in snapshot.pods:
        if pod.spec.node_name in names and pod.status.phase not in ENDED:
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


def render_overview(report: SnapshotOverview, width: int = DEFAULT_WIDTH) -> str:
    return render_plain(_overview(report), width)


def _overview(report: SnapshotOverview) -> Iterator[Block]:
    facts = report.snapshot
    yield Heading((f"Snapshot {facts.source}",), 0)
    version = facts.server_version
    server = f"server {version or 'unknown version'} (kplan decides as v{nearest(version).version})"
    yield line(f"Taken at {facts.taken_at or 'an unknown time'}; {server}")
    yield line(facts.digest)
    yield from _on_paper(facts)
    yield Heading((f"Nodes: {_nodes(report.nodes)}",))
    yield from _shares("Zones", report.nodes.zones, "without a zone")
    yield from _shares("Kubelets", report.nodes.kubelet_versions, "of unknown version")
    yield Heading((f"Pods: {_pods(report.pods)}",))
    yield from _shares("Schedulers", report.pods.schedulers, "without a scheduler")
    rows = []
    for one in report.resources:
        share = f"{100 * one.requested / one.allocatable:.0f} %" if one.allocatable else ""
        rows.append((one.name, _amount(one.name, one.allocatable), _amount(one.name, one.requested), share))
    if rows:
        yield Table(("RESOURCE", "ALLOCATABLE", "REQUESTED", "SHARE"), tuple(rows), "<>>>")
    counts = [(name, str(number)) for name, number in report.counts.items() if name not in {"nodes", "pods"}]
    if counts:
        yield Table(("KIND", "OBJECTS"), tuple(counts), "<>")
    if not isinstance(report.durations, UnsetType):
        yield Heading(("How long pods took",))
        times = [(workload_title(name), _length(of.start), _length(of.run)) for name, of in report.durations.items()]
        none = line("No pod of a workload shows it: --timeline assumes durations, or takes those that are given")
        yield Table(("WORKLOAD", "START", "RUN"), tuple(times), "<>>") if times else none
    if facts.missing:
        yield Heading(("Missing",))
    for kind in facts.missing:
        blind = f"; {', '.join(kind.blinds)} {'decides' if len(kind.blinds) == 1 else 'decide'} without it"
        yield line(f"{kind.resource}: {kind.reason}{blind if kind.blinds else ''}", is_item=True)
    if report.skipped:
        yield Heading(("Left out, because scheduling does not use them",))
        yield line(_listing(report.skipped))
    # Missing kinds have their own section.
    yield from _section("Warnings", [warning for warning in report.warnings if warning.code != "MissingKind"])


def render_snapshot_check(report: SnapshotCheck, width: int = DEFAULT_WIDTH) -> str:
    """Return the document of `kplan snapshot check` as text: `ok`, or every finding."""
    facts = report.snapshot
    verdict = "ok" if report.valid else count(len(report.findings), "problem")
    blocks = [*_on_paper(facts), *_section("Problems", report.findings), *_section("Worth knowing", report.notes)]
    # The first line stays whole, so that searches find it.
    head = f"{facts.source}: {verdict} ({count(facts.nodes, 'node')}, {count(facts.pods, 'pod')})\n"
    return head + (render_plain(blocks, width) if blocks else "")


def _length(duration: PodDuration | UnsetType) -> str:
    if isinstance(duration, UnsetType) or duration.seconds is None:
        return "-"
    return f"{seconds_text(duration.seconds)} (of {duration.samples})"


def _on_paper(facts: InspectedSnapshot) -> Iterator[Block]:
    return (line(f"What if: {change_text(change)}") for change in facts.changes or ())


def _section(title: str, findings: Sequence[InputWarning]) -> Iterator[Block]:
    if findings:
        yield Heading((title,))
    for finding in findings:
        yield line(f"{finding.object}: {finding.message} [{finding.code}]", is_item=True)


def _nodes(nodes: NodeOverview) -> str:
    parts = [f"{nodes.total} in all", f"{nodes.ready} ready"]
    others = {"cordoned": nodes.unschedulable, "tainted": nodes.tainted, "of the control plane": nodes.control_plane}
    return ", ".join([*parts, *(f"{number} {words}" for words, number in others.items() if number)])


def _pods(pods: PodOverview) -> str:
    states = ("running", "pending", "gated", "nominated", "terminating", "terminated")
    numbers = {state: getattr(pods, state) for state in states}
    return ", ".join([f"{pods.total} in all", *(f"{number} {state}" for state, number in numbers.items() if number)])


def _shares(label: str, counts: dict[str, int], nameless: str) -> Iterator[Block]:
    if counts:
        yield line(f"{label}: {_listing({name or nameless: number for name, number in counts.items()})}")


def _listing(counts: dict[str, int]) -> str:
    return listing([f"{name} {number}" for name, number in counts.items()], most=_MOST_LINES)


def _amount(name: str, amount: float) -> str:
    if name.startswith(_BYTES):
        return f"{amount / _MIB:,.0f} Mi"
    return f"{amount:,.3f}".rstrip("0").rstrip(".")


def snapshot_cases(document: SnapshotCheck, where: Repository) -> CaseReport:
    """Return a case for each finding; those that are only worth knowing do not count."""
    report = shown(document)
    source = report.snapshot.source
    file = "" if source == "demo" else where.file(source)
    states: tuple[tuple[State, Sequence[InputWarning]], ...] = (("failed", report.findings), ("skipped", report.notes))
    cases = [
        Case(finding.object or "snapshot", state, finding.code, finding.message, finding.message, file)
        for state, findings in states
        for finding in findings
    ]
    if report.valid:
        cases.append(Case(source, "passed", "Valid", "everything fits together", "everything fits together", file))
    numbers = f"{count(len(report.findings), 'finding')}, {count(len(report.notes), 'note')}"
    return CaseReport(
        kind=report.kind,
        title=f"kplan snapshot check: {source}: {numbers}",
        source=file or source,
        cases=cases,
        exit_code=0 if report.valid else 1,
    )
