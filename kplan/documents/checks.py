"""ChecksReport: which promises about a cluster hold."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.changes.remedy import Remedy
from kplan.documents.base import Report
from kplan.facts import Count, Document

CheckState = Literal["passed", "failed", "unasked"]
Level = Literal["node", "zone", "pool", "group", "workload", "budget", "pod", "answer"]


class Finding(Document, frozen=True, kw_only=True):
    """Something that breaks a promise.

    Attributes
    ----------
    name : a node, a zone, a node pool, NAMESPACE/NAME of a pod or budget, or KIND/NAMESPACE/NAME of a workload
    message : why, in kube-scheduler's or the API server's words; empty where the name says all
    remedy : the least change of one step that would place the pod, where that is what breaks the promise
    """

    name: str
    message: str = ""
    remedy: Remedy | UnsetType = UNSET


class CheckOutcome(Document, frozen=True, kw_only=True):
    """One promise.

    Attributes
    ----------
    name : of the check
    question : the kind of its question, such as InTurnQuestion
    state : passed; failed; or unasked, where the question does not fit the cluster
    subject : what the findings are
    of : how many of them were looked at
    findings : the first that break the promise
    more : how many others break it
    error : why it could not be asked
    hint : what to do about that
    before : the state in the earlier report; absent without --since, and for a check that is new
    failed_before : how many broke it then
    """

    name: str
    question: str
    state: CheckState
    subject: Level = "answer"
    of: Count = 0
    findings: tuple[Finding, ...] = ()
    more: Count = 0
    error: str = ""
    hint: str = ""
    before: CheckState | UnsetType = UNSET
    failed_before: Count | UnsetType = UNSET

    @property
    def failed(self) -> int:
        """How many break the promise."""
        return len(self.findings) + self.more


class ChecksSummary(Document, frozen=True, kw_only=True):
    """How many checks end in which way."""

    passed: Count
    failed: Count
    unasked: Count


class ChecksReport(Report, frozen=True, kw_only=True):
    """The answer of kplan check.

    Attributes
    ----------
    since : when the earlier report was made; absent without --since
    checks : in their order
    """

    kind: Literal["ChecksReport"] = "ChecksReport"
    since: str | UnsetType = UNSET
    summary: ChecksSummary
    checks: tuple[CheckOutcome, ...]


class BudgetRoom(Document, frozen=True, kw_only=True):
    """What one disruption budget allows.

    Attributes
    ----------
    budget : NAMESPACE/NAME
    pods : how many it covers now
    healthy : how many of them are ready
    expected : how many there should be; null where the disruption controller cannot tell
    desired : how many must stay healthy
    allowed : how many evictions it allows now
    allowed_at_best : how many it would allow if every expected pod were healthy
    """

    budget: str
    pods: Count
    healthy: Count
    expected: Count | None
    desired: Count
    allowed: Count
    allowed_at_best: Count


class BudgetsReport(Report, frozen=True, kw_only=True):
    """What the disruption budgets of a cluster allow.

    Attributes
    ----------
    budgets : those that allow the least first, then by name
    """

    kind: Literal["BudgetsReport"] = "BudgetsReport"
    budgets: tuple[BudgetRoom, ...]
