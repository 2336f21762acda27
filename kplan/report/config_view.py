"""The reports of `kplan config show` and `kplan config check`, and their text, which marks what is not the default.

Marks, the same in words and in the table: `*` another value, `+` added, `-` left out, `~` moved.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kplan.config.defaults import default_configuration
from kplan.config.effective import Difference, args_document, differences, to_document
from kplan.config.wire import POINT_NAMES
from kplan.documents import config as documents
from kplan.documents.config import ConfigProblem, GateState, SchedulerConfigCheck, SchedulerConfigReport
from kplan.report.blocks import Table
from kplan.report.options import DEFAULT_WIDTH
from kplan.report.tables import plain_table
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
        differences=tuple(
            documents.Difference(path=difference.path, default=difference.default, effective=difference.effective)
            for difference in differences(config)
        ),
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
            ConfigProblem(path=problem.json_path, message=problem.message, hint=problem.hint) for problem in problems
        ),
        warnings=config.warnings if config is not None else (),
    )


def render_check(source: str, config: SchedulerConfiguration | None, problems: Sequence[Problem]) -> str:
    """Return the verdict of `kplan config check` as text: `ok`, or every problem with its path and hint."""
    if config is not None:
        profiles = ", ".join(profile.scheduler_name for profile in config.profiles)
        return f"{source}: ok ({count(len(config.profiles), 'profile')}: {profiles})"
    lines = [f"{source}: {count(len(problems), 'problem')}"]
    for problem in problems:
        place = f"{problem.json_path}: " if problem.json_path else ""
        lines.extend(("", f"  {place}{problem.message}"))
        if problem.hint:
            lines.append(f"    hint: {problem.hint}")
    return "\n".join(lines)


def render_config(config: SchedulerConfiguration, width: int = DEFAULT_WIDTH) -> str:
    """Return the effective configuration as text, at most `width` columns wide."""
    changed = differences(config)
    scheduler = f"kube-scheduler v{config.release.version}"
    is_default = config.source == "default"
    of = f"the default of {scheduler}" if is_default else f"{config.source}\nas {scheduler} reads it"
    changes = count(len(changed), "difference") if changed else "no difference"
    blocks = [
        f"Effective scheduler configuration: {of}\n{changes} from the default"
        + (f"; marks: {_LEGEND}" if changed else ""),
        _settings(config, changed, width),
    ]
    if config.extenders:
        blocks.append(_extenders(config, width))
    blocks.append(_gates(config.release, width))
    for profile in config.profiles:
        blocks += [_plugins(config, profile, width), _arguments(config, profile, width)]
    return "\n\n".join(blocks)


def _gates(release: Release, width: int) -> str:
    """Return the feature gates that scheduling depends on, those that are on first; `*` marks what is not default."""
    lines = ["Feature gates that scheduling depends on"]
    for word, is_on in (("on", True), ("off", False)):
        names = [
            f"{'*' if name in release.switched and gate.is_on is not is_on else ''}{name}"
            f"{' (locked)' if gate.is_locked else ''}"
            for name, gate in sorted(release.gates.items())
            if release.is_on(name) is is_on
        ]
        lines.append(_wrap(f"  {word}".ljust(7), names or ["none"], 7, width))
    return "\n".join(lines)


def _settings(config: SchedulerConfiguration, changed: tuple[Difference, ...], width: int) -> str:
    """Return a table of the settings that every decision depends on, then of any other that is not at its default."""
    default = {difference.path: difference.default for difference in changed}
    rows = []
    for field, value in (
        ("percentageOfNodesToScore", config.percentage_of_nodes_to_score),
        ("parallelism", config.parallelism),
        ("podInitialBackoffSeconds", config.pod_initial_backoff_seconds),
        ("podMaxBackoffSeconds", config.pod_max_backoff_seconds),
    ):
        rows.append(_row(field, value, default))
    shown = {row[1] for row in rows}
    rows.extend(
        ("*", difference.path, _value(difference.effective), _value(difference.default))
        for difference in changed
        if difference.path not in shown and not difference.path.startswith(("profiles", "extenders"))
    )
    return _table(("", "SETTING", "VALUE", "DEFAULT"), rows, width)


def _row(path: str, value: object, default: dict[str, object]) -> tuple[str, str, str, str]:
    if path in default:
        return ("*", path, _value(value), _value(default[path]))
    return ("", path, _value(value), "")


def _extenders(config: SchedulerConfiguration, width: int) -> str:
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
    return _table(("", "EXTENDER", "CALLS", "WEIGHT", "IGNORABLE", "MANAGES"), rows, width)


def _plugins(config: SchedulerConfiguration, profile: Profile, width: int) -> str:
    default = default_configuration(config.release).profiles[0]
    percentage = profile.percentage_of_nodes_to_score
    head = f"Profile {profile.scheduler_name}"
    if percentage is not None:
        head += f" (* percentageOfNodesToScore {percentage} in place of {config.percentage_of_nodes_to_score})"
    column = max(len(name) for name in POINT_NAMES.values()) + 4
    lines = [head]
    for point, refs in profile.plugins.items():
        words = _marked(default.plugins[point], refs)
        lines.append(_wrap(f"  {POINT_NAMES[point]}".ljust(column), words or ["none"], column, width))
    return "\n".join(lines)


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


def _arguments(config: SchedulerConfiguration, profile: Profile, width: int) -> str:
    default = args_document(default_configuration(config.release).profiles[0])
    lines = []
    for name, args in args_document(profile).items():
        usual = dict(_leaves(default.get(name, {})))
        own = dict(_leaves(args))
        lines.append(f"  {name}" if usual or own else f"  {name}: none")
        for path in dict.fromkeys((*usual, *own)):
            value, standard = _value(own.get(path)), _value(usual.get(path))
            usually = f"default {standard}" if path in usual else "not set by default"
            mark, note = ("", "") if value == standard else ("*", f" ({usually})")
            lines.append(_wrap(f"{mark:>3} {path}: ", [f"{value}{note}"], 8, width))
    return "\n".join(("  Arguments", *(f"  {line}" for text in lines for line in text.split("\n"))))


def _wrap(head: str, words: Sequence[str], indent: int, width: int) -> str:
    """Return words joined by commas after `head`, on as many lines as they need; a word breaks only if it must."""
    text = ", ".join(word.replace(" ", "\xa0") if len(word) < width // 2 else word for word in words)
    wrapped = textwrap.fill(
        text,
        width=width - 2,
        initial_indent=head,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return wrapped.replace("\xa0", " ")


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


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], width: int) -> str:
    lines = plain_table(Table(header, tuple(rows), "<" * len(header)), width)
    return "\n".join(line.rstrip() for line in lines)
