"""What every kind of document provides for the formats: a title, blocks, cases and names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from kplan.documents.base import Report
from kplan.report.blocks import Block
from kplan.report.options import ReportOptions
from kplan.report.words import count, name_ranges

State = Literal["passed", "failed", "skipped", "warning"]


class Case(msgspec.Struct, frozen=True):
    """One result for programs: a pod, a workload or a warning."""

    name: str  #: of the pod or object, such as NAMESPACE/NAME
    state: State  #: ``failed`` when `--fail-on` lists it; ``skipped`` when it did not go well and does not count
    rule: str  #: the kind of outcome, in one word, as `kplan.report.rules` has them
    message: str  #: in one sentence; a second line may say more
    detail: str = ""  #: everything that is known about it
    file: str = ""  #: its manifest; empty for an object of the snapshot
    #: document, line: of the object in that file, and of the field at fault or of the object's name
    document: int | None = None
    line: int | None = None
    workload: str = ""  #: the owner, such as Deployment default/web; empty for a case without one
    would_help: str = ""  #: the smallest change that would help, in a sentence; empty for none
    more: str = ""  #: the command that shows more
    hint: str = ""  #: the next step, where there is no remedy
    kind: str = "pod"  #: what several cases that are alike are counted as

    @property
    def about(self) -> str:
        """The workload of a pod, or the name of the case."""
        return self.workload or self.name


class CaseReport(msgspec.Struct, frozen=True):
    """An answer as cases, for JUnit, GitHub and SARIF."""

    kind: str  #: of document, such as PlacementReport
    title: str  #: the answer in one line
    generated_at: str
    source: str  #: where the cluster comes from
    cases: Sequence[Case]
    exit_code: int = 0
    facts: Sequence[tuple[str, str]] = ()  #: further facts about the question, by name


def alike(cases: Iterable[Case]) -> list[list[Case]]:
    """Return cases in groups that are reported once: the replicas of a workload that end alike."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        end: tuple[object, ...] = (case.state, case.rule, case.file, case.document, case.about)
        # Two warnings about one object are two things to say.
        groups.setdefault(end if case.workload else (*end, case.message), []).append(case)
    return list(groups.values())


def brief_lines(cases: Sequence[Case]) -> list[str]:
    """Return lines about cases that are alike: how many, why, what would help, and the command that shows more."""
    case = cases[0]
    names = name_ranges([case.name for case in cases])
    lines = [f"{count(len(cases), case.kind)}: {names}"] if len(cases) > 1 else []
    lines += [" ".join(line.split()) for line in case.message.splitlines()]
    lines += [f"What would help: {case.would_help}"] if case.would_help else []
    lines += [f"Hint: {case.hint}"] if case.hint else []
    lines += [f"More: {case.more}"] if case.more else []
    return lines


def warning_cases(document: Report) -> list[Case]:
    """Return a case for each warning; it fails where `--fail-on` lists it."""
    counted = {(event.object, event.rule) for event in document.verdict.counted}
    return [
        Case(
            warning.object,
            "failed" if (warning.object, warning.code) in counted else "warning",
            warning.code,
            warning.message,
            file=warning.file or "",
            line=warning.line or None,
            kind="object",
        )
        for warning in document.warnings
    ]


R = TypeVar("R", bound=Report)


class View(msgspec.Struct, Generic[R], frozen=True):
    """The functions that turn a kind of document into the material of the formats."""

    title: Callable[[R], str]  #: the document in one line
    blocks: Callable[[R, ReportOptions], Iterable[Block]]  #: for people
    cases: Callable[[R, ReportOptions], Iterable[Case]]  #: for programs that show what went wrong
    names: Callable[[R], Iterable[str]]  #: a line for each thing decided, for scripts
