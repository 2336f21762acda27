"""The reports of `kplan config`: documents, text, and cases for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from kplan.api.quantity import count
from kplan.config.loading import Difference, args_document, default_configuration, differences, to_document
from kplan.config.model import POINT_NAMES, PluginRef, Profile, SchedulerConfiguration
from kplan.documents.files import ConfigProblem, GateState, SchedulerConfigCheck, SchedulerConfigReport
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.report.blocks import NO_BREAK, Block, Heading, Table, line
from kplan.report.options import DEFAULT_WIDTH, Repository
from kplan.report.registry import refused
from kplan.report.text import render_plain
from kplan.report.view import Case, CaseReport, in_repository, warning_case
from kplan.visible import shown, visible, without_account

_LEGEND: Final = "* differs from the default   + added   - left out   ~ moved"


def config_report(config: SchedulerConfiguration) -> SchedulerConfigReport:
    """Return the document of `kplan config show`: a loadable configuration, its differences and warnings."""
    return SchedulerConfigReport(
        source=config.source,
        kubernetes_version=config.release.version,
        feature_gates={
            name: GateState(on=config.release.is_on(name), default=gate.is_on, stage=gate.stage, locked=gate.is_locked)
            for name, gate in sorted(config.release.gates.items())
        },
        configuration=to_document(config),
        differences=differences(config),
        warnings=config.warnings,
    )


def config_check(
    source: str, config: SchedulerConfiguration | None, problems: Sequence[Problem]
) -> SchedulerConfigCheck:
    """Return the document of `kplan config check`; `config` is None for one that kube-scheduler refuses."""
    known = (ConfigProblem(path=one.json_path, line=one.line, message=one.message, hint=one.hint) for one in problems)
    warnings = config.warnings if config is not None else ()
    return SchedulerConfigCheck(source=source, valid=config is not None, problems=tuple(known), warnings=warnings)


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


def configuration_cases(
    source: str, problems: Sequence[Problem], warnings: Sequence[InputWarning], where: Repository
) -> CaseReport:
    name = visible(source)
    kind, title = "SchedulerConfigCheck", f"kplan config check: {name}"
    if problems:
        return replace(refused(problems, where), kind=kind, title=f"{title}: {count(len(problems), 'problem')}")
    valid = Case(name, "passed", "Valid", "kube-scheduler takes it", "kube-scheduler takes it", name)
    return CaseReport(
        kind=kind,
        title=f"{title}: ok",
        source=where.file(name) or name,
        cases=in_repository([valid, *(warning_case(shown(warning)) for warning in warnings)], where),
    )
