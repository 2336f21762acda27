"""`kplan check`: whether the promises hold that people rely on."""

from __future__ import annotations

from typing import Annotated

import typer

from kplan.cli.answer import ask, emit, formats_of
from kplan.cli.flags import OutputFlags, SchedulerFlags, VerbosityFlags, with_flags
from kplan.cli.phases import busy
from kplan.cli.sweeping import SweepFlags
from kplan.cli.what_if import ChangedClusterFlags
from kplan.errors import UsageError

_CONDITIONS = ("check", "none")


@with_flags
def check(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE", help="Checks (kind: Checks); without any, the standard ones.", show_default=False
        ),
    ] = None,
    *,
    since: Annotated[
        str, typer.Option("--since", metavar="FILE", help="Compare with an earlier report, saved with -o json.")
    ] = "",
    sweeping: SweepFlags,
    cluster: ChangedClusterFlags,
    scheduler: SchedulerFlags,
    output: OutputFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Check whether the promises hold that people rely on.

    The standard checks: every node drains alone, every zone may be lost, the surge of every Deployment fits, every
    autoscaler can reach its maximum, every disruption budget can allow an eviction, nothing is pending that one change
    would place, every node pool has room for its largest pod. Exits with 1 if a check fails (--fail-on check|none).
    """
    sweeping.check()
    if output.fail_on not in (None, "", *_CONDITIONS):
        raise UsageError(f"--fail-on {output.fail_on}: choose check or none", hint="leave it out to fail on any check")
    formats_of(output)
    from kplan.documents.checks import CheckOutcome, ChecksReport
    from kplan.questions.check.question import STANDARD, checks_report, outcome_of
    from kplan.questions.check.reading import read_checks
    from kplan.report.saved import read_report

    checks = [read for file in files or () for read in read_checks(file)] or list(STANDARD)
    earlier = read_report(since) if since else None
    if earlier is not None and not isinstance(earlier, ChecksReport):
        raise UsageError(f"{since}: is no report of kplan check", hint="save one with kplan check -o json")
    planner = ask(None, cluster, scheduler, verbosity).planner
    outcomes: list[CheckOutcome] = []
    with busy("checking", quiet=verbosity.quiet) as tell:
        for promise in checks:
            tell(f"{len(outcomes) + 1} of {len(checks)}: {promise.name}")
            outcomes.append(outcome_of(promise, planner, sweeping.ask_all))
    document = checks_report(planner, outcomes, earlier, fail_on=("none",) if output.fail_on == "none" else ("check",))
    emit(document, output, verbosity)
