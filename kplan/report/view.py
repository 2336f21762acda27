"""What a kind of document tells, whatever the format."""

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
    """One thing that went well or did not."""

    name: str  #: what it is about, such as NAMESPACE/NAME
    state: State  #: ``failed`` when `--fail-on` holds for it; ``skipped`` when it did not go well but does not count
    rule: str  #: what kind of outcome it is, in one word
    message: str  #: in one sentence; a second line may say more
    detail: str = ""  #: the whole story
    file: str = ""  #: where it comes from; empty when it comes from the snapshot
    #: document, line: where in that file its object stands, and the field at fault or that object's name
    document: int | None = None
    line: int | None = None
    workload: str = ""  #: the object that asks for it, such as Deployment default/web; empty for itself
    would_help: str = ""  #: the smallest change that would, in a sentence; empty for none
    more: str = ""  #: the command that tells more
    hint: str = ""  #: the next step, where there is no remedy

    @property
    def about(self) -> str:
        """The workload, or what it is about itself."""
        return self.workload or self.name


class CaseReport(msgspec.Struct, frozen=True):
    """What programs are told of an answer."""

    kind: str  #: of document, such as PlacementReport
    title: str  #: the answer in one line
    generated_at: str
    source: str  #: where the cluster comes from
    cases: Sequence[Case]
    exit_code: int = 0
    facts: Sequence[tuple[str, str]] = ()  #: what else is known of the question, by name


def alike(cases: Iterable[Case]) -> list[list[Case]]:
    """Put together what is to be said once: the replicas of a workload that end the same way."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        end: tuple[object, ...] = (case.state, case.rule, case.file, case.document, case.about)
        # Two warnings about one object are two things to say.
        groups.setdefault(end if case.workload else (*end, case.message), []).append(case)
    return list(groups.values())


def brief_lines(cases: Sequence[Case]) -> list[str]:
    """Say of cases that are alike how many, why, what would help, and how to ask for more: a line each."""
    case = cases[0]
    names = name_ranges([case.name for case in cases])
    lines = [f"{count(len(cases), 'pod')}: {names}"] if len(cases) > 1 else []
    lines += [" ".join(line.split()) for line in case.message.splitlines()]
    lines += [f"What would help: {case.would_help}"] if case.would_help else []
    lines += [f"Hint: {case.hint}"] if case.hint else []
    lines += [f"More: {case.more}"] if case.more else []
    return lines


def warning_cases(document: Report) -> list[Case]:
    """Return what may make the answer differ from the cluster's; it counts as failed when `--fail-on` says so."""
    counted = {(event.object, event.rule) for event in document.verdict.counted}
    return [
        Case(
            warning.object,
            "failed" if (warning.object, warning.code) in counted else "warning",
            warning.code,
            warning.message,
        )
        for warning in document.warnings
    ]


R = TypeVar("R", bound=Report)


class View(msgspec.Struct, Generic[R], frozen=True):
    """How a kind of document is told."""

    title: Callable[[R], str]  #: the document in one line
    blocks: Callable[[R, ReportOptions], Iterable[Block]]  #: for people
    cases: Callable[[R, ReportOptions], Iterable[Case]]  #: for programs that show what went wrong
    names: Callable[[R], Iterable[str]]  #: a line for each thing decided, for scripts
