"""The reports of `kplan config show` and `kplan config check`, and their text, which marks what is not the default.

Marks, the same in words and in the table: `*` another value, `+` added, `-` left out, `~` moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kplan.config.defaults import default_configuration
from kplan.config.effective import Difference, args_document, differences, to_document
from kplan.config.wire import POINT_NAMES
from kplan.documents.config import ConfigProblem, GateState, SchedulerConfigCheck, SchedulerConfigReport
from kplan.report.blocks import NO_BREAK, Block, Heading, Table, line
from kplan.report.options import DEFAULT_WIDTH
from kplan.report.text import render_plain
from kplan.report.words import count
from kplan.visible import without_account

if TYPE_CHECKING:
    from kplan.config.model import PluginRef, Profile, SchedulerConfiguration
    from kplan.config.releases import Release
    from kplan.errors import Problem

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


def check_report(
    source: str, config: SchedulerConfiguration | None, problems: Sequence[Problem]
) -> SchedulerConfigCheck:
    """Return the document of `kplan config check`; `config` is None for one that kube-scheduler refuses."""
    return SchedulerConfigCheck(
        source=source,
        valid=config is not None,
        problems=tuple(
            ConfigProblem(path=problem.json_path, line=problem.line, message=problem.message, hint=problem.hint)
            for problem in problems
        ),
        warnings=config.warnings if config is not None else (),
    )


def render_check(
    source: str, config: SchedulerConfiguration | None, problems: Sequence[Problem], width: int = DEFAULT_WIDTH
) -> str:
    """Return the verdict of `kplan config check` as text: `ok`, or every problem with its line, path and hint."""
    if config is not None:
        profiles = ", ".join(profile.scheduler_name for profile in config.profiles)
        verdict = f"ok ({count(len(config.profiles), 'profile')}: {profiles})"
    else:
        verdict = count(len(problems), "problem")
    blocks: list[Block] = []
    for problem in problems:
        number = "" if problem.line is None else f"line {problem.line}"
        text = ": ".join(part for part in (number, problem.json_path, problem.message) if part)
        blocks.append(line(text, is_item=True))
        blocks += [line(f"hint: {problem.hint}", indent=2)] if problem.hint else []
    # The first line stays whole, so that searches find it.
    return f"{source}: {verdict}\n{render_plain(blocks, width) if blocks else ''}"


def render_config(config: SchedulerConfiguration, width: int = DEFAULT_WIDTH) -> str:
    """Return the effective configuration as text, at most `width` columns wide."""
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
    yield _gates(config.release)
    for profile in config.profiles:
        percentage = profile.percentage_of_nodes_to_score
        yield Heading((f"Profile {profile.scheduler_name}",))
        if percentage is not None:
            yield line(f"* percentageOfNodesToScore {percentage} in place of {config.percentage_of_nodes_to_score}")
        yield _plugins(config, profile)
        yield _arguments(config, profile)


def _gates(release: Release) -> Table:
    """Return the feature gates that scheduling depends on, those that are on first; `*` marks what is not default."""
    rows = []
    for word, is_on in (("on", True), ("off", False)):
        names = [
            f"{'*' if name in release.switched and gate.is_on is not is_on else ''}{name}"
            f"{' (locked)' if gate.is_locked else ''}"
            for name, gate in sorted(release.gates.items())
            if release.is_on(name) is is_on
        ]
        rows.append((word, _joined(names)))
    return Table(("STATE", "GATES"), tuple(rows), "<<")


def _settings(config: SchedulerConfiguration, changed: tuple[Difference, ...]) -> Table:
    """Return the settings that every decision depends on, then any other that is not at its default."""
    default = {difference.path: difference.default for difference in changed}
    rows = []
    for field, value in (
        ("percentageOfNodesToScore", config.percentage_of_nodes_to_score),
        ("parallelism", config.parallelism),
        ("podInitialBackoffSeconds", config.pod_initial_backoff_seconds),
        ("podMaxBackoffSeconds", config.pod_max_backoff_seconds),
    ):
        mark, usual = ("*", _value(default[field])) if field in default else ("", "")
        rows.append((mark, field, _value(value), usual))
    shown = {row[1] for row in rows}
    rows.extend(
        ("*", difference.path, _value(difference.effective), _value(difference.default))
        for difference in changed
        if difference.path not in shown and not difference.path.startswith(("profiles", "extenders"))
    )
    return Table(("", "SETTING", "VALUE", "DEFAULT"), tuple(rows), "<<<<")


def _extenders(config: SchedulerConfiguration) -> Table:
    rows = []
    for extender in config.extenders:
        verbs = {
            "filter": extender.filter_verb,
            "prioritize": extender.prioritize_verb,
            "preempt": extender.preempt_verb,
            "bind": extender.bind_verb,
        }
        rows.append(
            (
                "+",
                without_account(extender.url_prefix),
                " ".join(name for name, verb in verbs.items() if verb) or "none",
                str(extender.weight or "") if extender.prioritize_verb else "",
                "yes" if extender.ignorable else "no",
                " ".join(resource.name for resource in extender.managed_resources) or "all pods",
            )
        )
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
        mark = ""
        if ref.name not in usual:
            mark = "+"
        elif ref.weight != usual[ref.name]:
            mark, weight = "*", f"{weight} (default {usual[ref.name]})"
        if ref.name in usual and ref.name not in in_place:
            mark += "~"
        words.append(f"{mark}{ref.name}{weight}")
    words.extend(f"-{name}" for name in usual if name not in names)
    return words


def _longest_common(default: list[str], effective: list[str]) -> frozenset[str]:
    """Return the plugins that did not move: a largest set of names in the same order in both lists."""
    position = {name: i for i, name in enumerate(default)}
    shared = [name for name in effective if name in position]
    ending_at: list[list[str]] = []
    for i, name in enumerate(shared):
        before = [ending_at[j] for j in range(i) if position[shared[j]] < position[name]]
        ending_at.append([*_longest(before), name])
    longest = _longest(ending_at)
    return frozenset(longest)


def _longest(chains: list[list[str]]) -> list[str]:
    """Return the last of the longest chains, so that a plugin put in front counts as moved, not those behind it."""
    return max([*reversed(chains), []], key=len)


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
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value) or "none"
    if isinstance(value, list) and all(isinstance(item, dict) and set(item) == {"name", "weight"} for item in value):
        return " ".join(f"{item['name']}:{item['weight']}" for item in value)
    if isinstance(value, list) and all(
        isinstance(item, dict) and set(item) == {"utilization", "score"} for item in value
    ):
        return " ".join(f"{item['utilization']}%:{item['score']}" for item in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
