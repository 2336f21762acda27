"""`kplan check`: whether the promises hold that people rely on."""

from __future__ import annotations

from typing import Annotated

from kplan.cli.answer import Meanwhile, formats_of, reply, showing_of
from kplan.cli.flags import GrowingFlags, SweepFlags
from kplan.cli.options import Fields, arguments, with_flags
from kplan.cli.subject import load_subject
from kplan.errors import UsageError
from kplan.questions.check import Checks, read_checks

_CONDITIONS = ("check", "none")

EXAMPLES = """
kplan check  # the standard checks
kplan check checks.yaml --report junit=checks.xml  # your own, for a pipeline
kplan check --since monday.json  # what has changed since an earlier report
"""


@with_flags
def check(
    files: list[str] | None = arguments("FILE", "Checks (kind: Checks); without any, the standard ones."),
    *,
    settings: Annotated[Fields, Checks],
    sweeping: SweepFlags,
    flags: GrowingFlags,
) -> None:
    """Check whether the promises hold that people rely on.

    The standard checks: every node drains alone, every zone may be lost, the surge of every Deployment fits, every
    autoscaler can reach its maximum, every disruption budget can allow an eviction, nothing is pending that one change
    would place, every workload has the pods that it wants, every node pool has room for its largest pod. Exits with 1
    if a check fails (--fail-on check|none).
    """
    sweeping.check()
    output = flags.output
    if output.fail_on not in (None, "", *_CONDITIONS):
        raise UsageError(f"--fail-on {output.fail_on}: choose check or none", hint="leave it out to fail on any check")
    formats_of(output)
    question = Checks(checks=tuple(check for file in files or () for check in read_checks(file)), **settings)
    question.earlier()
    subject = load_subject(None, flags)
    showing = showing_of(output, ("none",) if output.fail_on == "none" else None)
    reply(question, subject, showing, flags, Meanwhile("checking", "{0:,} of {1:,}", sweeping))
