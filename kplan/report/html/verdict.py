"""The box at the top of the page: passed or failed, and for each failure why, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from kplan.documents.base import Report, Verdict
from kplan.report.rules import rule_of
from kplan.report.view import Case, alike
from kplan.report.words import count, name_ranges

_MOST = 5


def verdict_box(document: Report, cases: Iterable[Case]) -> str:
    """Return the box, with a few lines for each workload that failed."""
    if not document.verdict.failed:
        skipped = [case for case in cases if case.state == "skipped" and rule_of(case.rule).is_failure]
        return _not_counted(skipped, document.verdict)
    groups = alike(case for case in cases if case.state == "failed")
    items = [_failure(group) for group in groups[:_MOST]]
    if not items:
        items = [f"<li>{escape(reason)}</li>" for reason in document.verdict.because[:_MOST]]
    left_out = (len(groups) or len(document.verdict.because)) - len(items)
    items += [f"<li>and {left_out} more</li>"] if left_out > 0 else []
    return f'<div class="verdict failed"><p><strong>Failed.</strong></p><ul>{"".join(items)}</ul></div>'


def _not_counted(cases: Sequence[Case], verdict: Verdict) -> str:
    """Return the box of an answer that is no failure, with what went wrong all the same."""
    if not cases:
        return '<div class="verdict"><p><strong>Passed.</strong> Nothing that counts as a failure happened.</p></div>'
    groups = alike(cases)
    items = [_failure(group) for group in groups[:_MOST]]
    items += [f"<li>and {len(groups) - _MOST} more</li>"] if len(groups) > _MOST else []
    conditions = escape(", ".join(verdict.fail_on)) or "none"
    heading = (
        "<p><strong>Not all is well.</strong> The exit code is 0 all the same: "
        f"--fail-on is {conditions}, which counts none of this.</p>"
    )
    return f'<div class="verdict failed">{heading}<ul>{"".join(items)}</ul></div>'


def _failure(cases: Sequence[Case]) -> str:
    case = cases[0]
    facts = [f"{count(len(cases), 'pod')}: {name_ranges([case.name for case in cases])}"] if len(cases) > 1 else []
    facts += [f"{case.file}:{case.line}" if case.line is not None else case.file] if case.file else []
    first, _, rest = case.message.partition("\n")
    why = f"{first}. {rest}".replace("\n", " ") if rest and case.kind == "workload" else first
    lines = [f"<strong>{escape(f'{case.about}: {case.rule}')}</strong>"]
    lines += [f'<span class="dim">{escape(", ".join(facts))}</span>'] if facts else []
    lines.append(f'<span class="why">{escape(why)}</span>')
    helps = case.would_help or case.hint
    lines += [f'<span class="help">What would help: {escape(helps)}</span>'] if helps else []
    return f"<li>{''.join(lines)}</li>"
