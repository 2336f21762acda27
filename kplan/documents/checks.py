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
    """Something that breaks a promise."""

    name: str  #: a node, a zone, a node pool, NAMESPACE/NAME of a pod or budget, or KIND/NAMESPACE/NAME of a workload
    message: str = ""  #: why, in kube-scheduler's or the API server's words; empty where the name says all
    #: the least change of one step that would place the pod, where that is what breaks the promise
    remedy: Remedy | UnsetType = UNSET


class CheckOutcome(Document, frozen=True, kw_only=True):
    """One promise."""

    name: str  #: of the check
    question: str  #: the kind of its question, such as InTurnQuestion
    state: CheckState  #: passed; failed; or unasked, where the question does not fit the cluster
    subject: Level = "answer"  #: what the findings are
    of: Count = 0  #: how many of them were looked at; 0 where the answer tells only of those that break the promise
    findings: tuple[Finding, ...] = ()  #: the first that break the promise
    more: Count = 0  #: how many others break it
    error: str = ""  #: why it could not be asked
    hint: str = ""  #: what to do about that
    #: the state in the earlier report; absent without --since, and for a check that is new
    before: CheckState | UnsetType = UNSET
    failed_before: Count | UnsetType = UNSET  #: how many broke it then

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
    """The answer of kplan check."""

    kind: Literal["ChecksReport"] = "ChecksReport"
    since: str | UnsetType = UNSET  #: when the earlier report was made; absent without --since
    summary: ChecksSummary
    checks: tuple[CheckOutcome, ...]  #: in their order


class BudgetRoom(Document, frozen=True, kw_only=True):
    """What one disruption budget allows."""

    budget: str  #: NAMESPACE/NAME
    pods: Count  #: how many it covers now
    healthy: Count  #: how many of them are ready
    expected: Count | None  #: how many there should be; null where the disruption controller cannot tell
    desired: Count  #: how many must stay healthy
    allowed: Count  #: how many evictions it allows now
    allowed_at_best: Count  #: how many it would allow if every expected pod were healthy

    @property
    def never_allows(self) -> bool:
        """Whether it cannot allow an eviction even at best."""
        return bool(self.expected) and not self.allowed_at_best


class BudgetsReport(Report, frozen=True, kw_only=True):
    """What the disruption budgets of a cluster allow."""

    kind: Literal["BudgetsReport"] = "BudgetsReport"
    budgets: tuple[BudgetRoom, ...]  #: those that allow the least first, then by name
