"""The reports of `kplan config` and `kplan snapshot`, and their text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

from kplan.api.kinds import KINDS_BY_ATTRIBUTE
from kplan.api.pod import ENDED
from kplan.api.quantity import count, listing
from kplan.config.loading import Difference, args_document, default_configuration, differences, to_document
from kplan.config.model import POINT_NAMES
from kplan.config.releases import nearest
from kplan.course.simulation.durations import EACH, Duration, learn
from kplan.documents import files as d
from kplan.documents.change import LearnedDurations, PodDuration
from kplan.facts import InputWarning
from kplan.report.blocks import NO_BREAK, Block, Heading, Table, line
from kplan.report.options import DEFAULT_WIDTH
from kplan.report.text import render_plain
from kplan.report.view import change_text
from kplan.report.words import object_title, seconds_text
from kplan.rules.resources import nano, pod_requests, resource_order
from kplan.snapshot.inspect import NodeOverview, PodOverview, check_snapshot, overview_of_nodes, overview_of_pods
from kplan.snapshot.model import Snapshot
from kplan.visible import without_account

if TYPE_CHECKING:
    from kplan.config.model import PluginRef, Profile, SchedulerConfiguration
    from kplan.errors import Problem
_LEGEND: Final = "* differs from the default   + added   - left out   ~ moved"


def config_report(config: SchedulerConfiguration) -> d.SchedulerConfigReport:
    """Return the document of `kplan config show`: a loadable configuration, its differences and warnings."""
    return d.SchedulerConfigReport(
        source=config.source,
        kubernetes_version=config.release.version,
        feature_gates={
            name: d.GateState(
                on=config.release.is_on(name), default=gate.is_on, stage=gate.stage, locked=gate.is_locked
            )
            for name, gate in sorted(config.release.gates.items())
        },
        configuration=to_document(config),
        differences=differences(config),
        warnings=config.warnings,
    )


def config_check(
    source: str, config: SchedulerConfiguration | None, problems: Sequence[Problem]
) -> d.SchedulerConfigCheck:
    """Return the document of `kplan config check`; `config` is None for one that kube-scheduler refuses."""
    known = (d.ConfigProblem(path=one.json_path, line=one.line, message=one.message, hint=one.hint) for one in problems)
    warnings = config.warnings if config is not None else ()
    return d.SchedulerConfigCheck(source=source, valid=config is not None, problems=tuple(known), warnings=warnings)


def render_config_check(
    source: str, config: SchedulerConfiguration | None, problems: Sequence[Problem], width: int = DEFAULT_WIDTH
) -> str:
    """Return the verdict of `kplan config check` as text: `ok`, or every problem with its line, path and hint."""
    verdict = count(len(problems), "problem")
    if config is not None:
        profiles = ", ".join(profile.scheduler_name for profile in config.profiles)
        verdict = f"ok ({count(len(config.profiles), 'profile')}: {profiles})"
    blocks: list[Block] = []
    for problem in problems:
        number = "" if problem.line is None else f"line {problem.line}"
        blocks.append(line(": ".join(filter(None, (number, problem.json_path, problem.message))), is_item=True))
        blocks += [line(f"hint: {problem.hint}", indent=2)] if problem.hint else []
    # The first line stays whole, so that searches find it.
    return f"{source}: {verdict}\n{render_plain(blocks, width) if blocks else ''}"


def render_config(config: SchedulerConfiguration, width: int = DEFAULT_WIDTH) -> str:
    return render_plain(_blocks(config), width)


def _blocks(config: SchedulerConfiguration) -> Iterator[Block]:
    changed = differences(config)
    scheduler = f"kube-scheduler v{config.release.version}"
    is_default = config.source == "default"
    of = f"the default of {scheduler}" if is_default else f"{config.source}, as {scheduler} reads it"
    yield Heading((f"Effective scheduler configuration: {of}",), 0)
    yield line(f"{count(len(changed), 'difference') if changed else 'no difference'} from the default")
    if changed:
        yield line(_LEGEND)
    yield _settings(config, changed)
    if config.extenders:
        yield _extenders(config)
    yield Heading(("Feature gates that scheduling depends on",))
    release = config.release
    rows = []
    for word, is_on in (("on", True), ("off", False)):  # `*` marks what is not at its default
        names = [
            f"{'*' if name in release.switched and gate.is_on is not is_on else ''}{name}"
            f"{' (locked)' if gate.is_locked else ''}"
            for name, gate in sorted(release.gates.items())
            if release.is_on(name) is is_on
        ]
        rows.append((word, _joined(names)))
    yield Table(("STATE", "GATES"), tuple(rows), "<<")
    for profile in config.profiles:
        percentage = profile.percentage_of_nodes_to_score
        yield Heading((f"Profile {profile.scheduler_name}",))
        if percentage is not None:
            yield line(f"* percentageOfNodesToScore {percentage} in place of {config.percentage_of_nodes_to_score}")
        yield _plugins(config, profile)
        yield _arguments(config, profile)


def _settings(config: SchedulerConfiguration, changed: tuple[Difference, ...]) -> Table:
    """Return the settings that every decision depends on, then any other that is not at its default."""
    rows = {
        "percentageOfNodesToScore": ("", config.percentage_of_nodes_to_score, ""),
        "parallelism": ("", config.parallelism, ""),
        "podInitialBackoffSeconds": ("", config.pod_initial_backoff_seconds, ""),
        "podMaxBackoffSeconds": ("", config.pod_max_backoff_seconds, ""),
        **{
            difference.path: ("*", difference.effective, _value(difference.default))
            for difference in changed
            if not difference.path.startswith(("profiles", "extenders"))
        },
    }
    cells = tuple((mark, path, _value(value), usual) for path, (mark, value, usual) in rows.items())
    return Table(("", "SETTING", "VALUE", "DEFAULT"), cells, "<<<<")


def _extenders(config: SchedulerConfiguration) -> Table:
    rows = []
    for extender in config.extenders:
        verbs = [verb for verb in ("filter", "prioritize", "preempt", "bind") if getattr(extender, f"{verb}_verb")]
        weight = str(extender.weight or "") if extender.prioritize_verb else ""
        manages = " ".join(resource.name for resource in extender.managed_resources) or "all pods"
        is_ignorable = "yes" if extender.ignorable else "no"
        address = without_account(extender.url_prefix)
        rows.append(("+", address, " ".join(verbs) or "none", weight, is_ignorable, manages))
    return Table(("", "EXTENDER", "CALLS", "WEIGHT", "IGNORABLE", "MANAGES"), tuple(rows), "<<<<<<")


def _plugins(config: SchedulerConfiguration, profile: Profile) -> Table:
    default = default_configuration(config.release).profiles[0]
    rows = tuple(
        (POINT_NAMES[point], _joined(_marked(default.plugins[point], refs))) for point, refs in profile.plugins.items()
    )
    return Table(("EXTENSION POINT", "PLUGINS"), rows, "<<")


def _marked(default: tuple[PluginRef, ...], effective: tuple[PluginRef, ...]) -> list[str]:
    """Return the plugins of an extension point in order, with weights and marks; those left out come last."""
    usual = {ref.name: ref.weight for ref in default}
    names = [ref.name for ref in effective]
    in_place = _longest_common([ref.name for ref in default], names)
    words = []
    for ref in effective:
        weight = f" {ref.weight}" if ref.weight else ""
        mark = "" if ref.name in usual else "+"
        if ref.weight != usual.get(ref.name, ref.weight):
            mark, weight = "*", f"{weight} (default {usual[ref.name]})"
        mark += "~" if ref.name in usual and ref.name not in in_place else ""
        words.append(f"{mark}{ref.name}{weight}")
    words.extend(f"-{name}" for name in usual if name not in names)
    return words


def _longest_common(default: list[str], effective: list[str]) -> frozenset[str]:
    """Return the plugins that did not move: a largest set of names in the same order in both lists."""
    position = {name: i for i, name in enumerate(default)}
    shared = [name for name in effective if name in position]
    ending_at: list[list[str]] = []
    for i, name in enumerate(shared):
        before = [ending_at[j] for j in range(i) if position[shared[j]] < position[name]] or [[]]
        ending_at.append([*max(reversed(before), key=len), name])
    # The last of the longest chains, so that a plugin put in front counts as moved, not those behind it.
    return frozenset(max(reversed(ending_at), key=len) if ending_at else ())


def _arguments(config: SchedulerConfiguration, profile: Profile) -> Table:
    default = args_document(default_configuration(config.release).profiles[0])
    rows = []
    for name, args in args_document(profile).items():
        usual, own = dict(_leaves(default.get(name, {}))), dict(_leaves(args))
        label = name
        for path in dict.fromkeys((*usual, *own)):
            value, standard = _value(own.get(path)), _value(usual.get(path))
            mark, note = ("", "") if value == standard else ("*", standard)
            rows.append((mark, label, path, value, note))
            label = ""
        if label:
            rows.append(("", name, "none", "", ""))
    return Table(("", "PLUGIN", "ARGUMENT", "VALUE", "DEFAULT"), tuple(rows), "<<<<<")


def _joined(words: Sequence[str]) -> str:
    """Return words joined by commas; the parts of a word, such as a plugin's weight, stay on its line."""
    return ", ".join(word.replace(" ", NO_BREAK) for word in words) or "none"


def _leaves(value: object, path: str = "") -> Iterable[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for field, item in value.items():
            yield from _leaves(item, f"{path}.{field}" if path else field)
    elif path:
        yield path, value


def _value(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, list):
        fields = [set(item) if isinstance(item, dict) else type(item) for item in value]
        if all(kind is str for kind in fields):
            return " ".join(value) or "none"
        if all(kind == {"name", "weight"} for kind in fields):
            return " ".join(f"{item['name']}:{item['weight']}" for item in value)
        if all(kind == {"utilization", "score"} for kind in fields):
            return " ".join(f"{item['utilization']}%:{item['score']}" for item in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_NANOS = 10**9
_MIB = 1 << 20
#: Resources that are counted in bytes.
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_MOST_LINES = 12


def overview_report(snapshot: Snapshot, *, with_durations: bool = False) -> d.SnapshotOverview:
    """Return the document of `kplan snapshot show`; `with_durations` adds how long pods took so far."""
    return d.SnapshotOverview(
        snapshot=_inspected(snapshot),
        counts={KINDS_BY_ATTRIBUTE[name].resource: count for name, count in snapshot.counts().items()},
        skipped=dict(snapshot.skipped),
        nodes=overview_of_nodes(snapshot),
        pods=overview_of_pods(snapshot),
        resources=_resources(snapshot),
        warnings=snapshot.warnings,
        durations=_durations(snapshot) if with_durations else UNSET,
    )


def _durations(snapshot: Snapshot) -> dict[str, LearnedDurations]:
    learned = learn(snapshot)

    def known(durations: Mapping[str, Duration]) -> dict[str, PodDuration]:
        return {
            name: PodDuration(seconds=one.seconds, source=one.source.value, samples=one.n_samples)
            for name, one in durations.items()
        }

    start, run = known(learned.start), known(learned.run)
    names = sorted((start.keys() | run.keys()) - {EACH})
    return {name: LearnedDurations(start=start.get(name, UNSET), run=run.get(name, UNSET)) for name in names}


def snapshot_check(snapshot: Snapshot) -> d.SnapshotCheck:
    findings = check_snapshot(snapshot)
    problems, notes = (
        tuple(InputWarning(one.code, one.object, one.message) for one in findings if one.is_note is is_note)
        for is_note in (False, True)
    )
    return d.SnapshotCheck(snapshot=_inspected(snapshot), valid=not problems, findings=problems, notes=notes)


def _inspected(snapshot: Snapshot) -> d.InspectedSnapshot:
    return d.InspectedSnapshot(
        source=snapshot.source,
        taken_at=snapshot.taken_at,
        server_version=snapshot.server_version,
        nodes=len(snapshot.nodes),
        pods=len(snapshot.pods),
        digest=snapshot.digest,
        missing=snapshot.missing,
        changes=snapshot.changes or UNSET,
    )


def _resources(snapshot: Snapshot) -> tuple[d.ResourceTotal, ...]:
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
        d.ResourceTotal(name=name, allocatable=_units(offered[name]), requested=_units(requested[name]))
        for name in resource_order(offered.keys() | requested.keys())
        if offered[name] or requested[name]
    )


def _units(nanos: int) -> float | int:
    """Return a number of whole units as an integer, any other rounded to three digits."""
    return nanos // _NANOS if nanos % _NANOS == 0 else round(nanos / _NANOS, 3)


def render_overview(report: d.SnapshotOverview, width: int = DEFAULT_WIDTH) -> str:
    return render_plain(_overview(report), width)


def _overview(report: d.SnapshotOverview) -> Iterator[Block]:
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
    for resource in report.resources:
        amounts = [_amount(resource.name, amount) for amount in (resource.allocatable, resource.requested)]
        share = f"{100 * resource.requested / resource.allocatable:.0f} %" if resource.allocatable else ""
        rows.append((resource.name, *amounts, share))
    if rows:
        yield Table(("RESOURCE", "ALLOCATABLE", "REQUESTED", "SHARE"), tuple(rows), "<>>>")
    counts = [(name, str(number)) for name, number in report.counts.items() if name not in {"nodes", "pods"}]
    if counts:
        yield Table(("KIND", "OBJECTS"), tuple(counts), "<>")
    if not isinstance(report.durations, UnsetType):
        yield Heading(("How long pods took",))
        if report.durations:
            known = report.durations.items()
            lengths = tuple((object_title(name), *map(_length, (of.start, of.run))) for name, of in known)
            yield Table(("WORKLOAD", "START", "RUN"), lengths, "<>>")
        else:
            yield line("No pod of a workload shows it: --timeline assumes durations, or takes those that are given")
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


def render_snapshot_check(report: d.SnapshotCheck, width: int = DEFAULT_WIDTH) -> str:
    """Return the document of `kplan snapshot check` as text: `ok`, or every finding."""
    facts = report.snapshot
    verdict = "ok" if report.valid else _count(len(report.findings), "problem")
    blocks = [*_on_paper(facts), *_section("Problems", report.findings), *_section("Worth knowing", report.notes)]
    # The first line stays whole, so that searches find it.
    head = f"{facts.source}: {verdict} ({_count(facts.nodes, 'node')}, {_count(facts.pods, 'pod')})\n"
    return head + (render_plain(blocks, width) if blocks else "")


def _length(duration: PodDuration | UnsetType) -> str:
    if isinstance(duration, UnsetType) or duration.seconds is None:
        return "-"
    return f"{seconds_text(duration.seconds)} (of {duration.samples})"


def _on_paper(facts: d.InspectedSnapshot) -> Iterator[Block]:
    return (line(f"What if: {change_text(change)}") for change in facts.changes or ())


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing if number == 1 else thing + 's'}"


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
