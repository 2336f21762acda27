"""Pass or fail: what `--fail-on` lists and what happened, held against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kplan.documents.placement import Outcome
from kplan.errors import UsageError
from kplan.planner.placement import Placement
from kplan.snapshot.model import Warning as InputWarning

UNSCHEDULABLE = "unschedulable"
PREEMPTION = "preemption"
PDB_VIOLATION = "pdb-violation"
GATED = "gated"
WARNING = "warning"
NONE = "none"
CONDITIONS = (UNSCHEDULABLE, PREEMPTION, PDB_VIOLATION, GATED, WARNING, NONE)

DEFAULT_FAIL_ON: Mapping[str, tuple[str, ...]] = {
    "place": (UNSCHEDULABLE, PREEMPTION, GATED),
    "capacity": (UNSCHEDULABLE, PREEMPTION, GATED),
    "preempt": (UNSCHEDULABLE, PDB_VIOLATION),
    "plan": (UNSCHEDULABLE, PDB_VIOLATION),
    "drain": (UNSCHEDULABLE, PDB_VIOLATION),
    "explain": (NONE,),
    "diff": (NONE,),
}
"""What each command fails on unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for a pipeline.

    Attributes
    ----------
    fail_on : the conditions that count
    because : one line for each thing that happened and counts
    """

    fail_on: tuple[str, ...]
    because: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether something in `fail_on` happened."""
        return bool(self.because)

    @property
    def exit_code(self) -> int:
        """0, or 1 when something in `fail_on` happened."""
        return int(self.failed)

    def to_dict(self, *, exit_zero: bool = False) -> dict[str, Any]:
        """Return the JSON form; `exit_zero` tells what happened without an exit code that says so."""
        return {
            "failed": self.failed,
            "exitCode": 0 if exit_zero else self.exit_code,
            "failOn": list(self.fail_on),
            "because": list(self.because),
        }


def parse_fail_on(text: str) -> tuple[str, ...]:
    """Read a comma-separated list of conditions.

    Raises
    ------
    UsageError
        For a word that is not a condition, or `none` beside others.
    """
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [word for word in words if word not in CONDITIONS]
    if unknown or not words:
        raise UsageError(
            f"unknown condition in --fail-on: {', '.join(unknown) or text!r}",
            hint=f"choose from {', '.join(CONDITIONS)}",
        )
    if NONE in words and len(words) > 1:
        raise UsageError("--fail-on none stands alone", hint="leave out none, or all the others")
    return words


def judge(
    placements: Sequence[Placement],
    warnings: Sequence[InputWarning],
    fail_on: Sequence[str],
    *,
    accepts_preemption: bool = False,
) -> Verdict:
    """Hold what happened against what counts. Of a pod that was tried twice the last outcome counts.

    Parameters
    ----------
    accepts_preemption : a pod that gets in by evicting others is not unschedulable
    """
    wanted = set(fail_on) - {NONE}
    because: list[str] = []
    last = {placement.pod.key: placement for placement in placements}
    for placement in last.values():
        gets_in = accepts_preemption and placement.nominated_node is not None
        if placement.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR) and UNSCHEDULABLE in wanted and not gets_in:
            because.append(f"{placement.pod.key}: {placement.outcome.value}")
        if placement.outcome is Outcome.GATED and GATED in wanted:
            because.append(f"{placement.pod.key}: Gated")
    for placement in placements:
        if placement.nominated_node is None:
            continue
        if PREEMPTION in wanted and (accepts_preemption or UNSCHEDULABLE not in wanted):
            because.append(f"{placement.pod.key}: Preemption on {placement.nominated_node}")
        if PDB_VIOLATION in wanted:
            because += [
                f"{placement.pod.key}: PdbViolation of {victim['namespace']}/{victim['name']}"
                for victim in placement.victims
                if victim["pdbViolation"]
            ]
    if WARNING in wanted:
        because += [f"{warning.object}: {warning.code}" for warning in warnings]
    return Verdict(tuple(fail_on), tuple(because))
