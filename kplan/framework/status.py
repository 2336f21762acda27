"""The status that an extension point returns for a pod as a whole: a code, reasons and the plugin."""

from __future__ import annotations

import enum

import msgspec


class StatusCode(enum.IntEnum):
    """Outcome of an extension point for the pod as a whole rather than for its nodes."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    """Only from Permit: the pod keeps its node and is not bound yet."""


class Status(msgspec.Struct, frozen=True):
    """A code with its reasons and the plugin that gave them (filled in by the runtime)."""

    code: StatusCode
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        """The reasons as kube-scheduler joins them."""
        return ", ".join(self.reasons)

    @property
    def is_success(self) -> bool:
        """Whether the code is SUCCESS."""
        return self.code is StatusCode.SUCCESS

    @property
    def is_wait(self) -> bool:
        """Whether Permit lets the pod wait."""
        return self.code is StatusCode.WAIT

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was rejected; an error is no rejection."""
        return self.code in (StatusCode.UNSCHEDULABLE, StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE)

    @staticmethod
    def error(text: str) -> Status:
        """Return an error, which ends the cycle."""
        return Status(StatusCode.ERROR, (text,))

    @staticmethod
    def unschedulable(*reasons: str) -> Status:
        """Return a rejection that preemption may cure."""
        return Status(StatusCode.UNSCHEDULABLE, reasons)

    @staticmethod
    def unresolvable(*reasons: str) -> Status:
        """Return a rejection that preemption cannot cure."""
        return Status(StatusCode.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


SUCCESS = Status(StatusCode.SUCCESS)
