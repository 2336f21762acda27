"""Verdicts of a Filter plugin: an unsigned integer per node with a bit per reason, 0 where the node passes."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from kplan.engine.arrays import BitArray, BoolArray, Int64Array, NDArray, RowArray
from kplan.engine.details import Code as RejectionCode
from kplan.engine.details import Detail

MAX_NAMES = 5  #: how many names a detail lists at most


class Code(enum.IntEnum):
    """The code of a rejection; of several reasons on a node the largest code counts."""

    UNSCHEDULABLE = 1  #: removing pods from the node may help
    UNSCHEDULABLE_AND_UNRESOLVABLE = 2  #: removing pods does not help
    ERROR = 3  #: the plugin failed

    @property
    def text(self) -> RejectionCode:
        return _CODE_TEXT[self]


_CODE_TEXT: Mapping[Code, RejectionCode] = {
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.ERROR: "Error",
}


class Reason(msgspec.Struct, frozen=True):
    """A reason for which a plugin rejects nodes."""

    text: str  #: byte for byte kube-scheduler's
    code: Code  #: whether preemption may help
    #: position in the view -> the numbers and names behind the reason, computed for explanations only. They
    #: read the live cluster, so they must be read before the cluster changes.
    details: Callable[[int], Iterable[Detail]] | None = None
    #: positions in the view -> how much is missing at each, int64 array of their shape, to find the rejected nodes
    #: that are closest to fitting; None where that cannot be measured. Called like `details`.
    shortfall: Callable[[RowArray], Int64Array] | None = None


class Verdicts(msgspec.Struct, frozen=True):
    """A Filter's verdicts on all positions of a view."""

    bits: BitArray  #: unsigned array of shape (n_view,); bit k is set where reason k holds; 0 passes
    reasons: tuple[Reason, ...]  #: the reasons, bit by bit, in the order in which they are reported
    #: bool array of shape (n_view,) or None; positions whose code is UNSCHEDULABLE_AND_UNRESOLVABLE whatever the
    #: codes of their reasons
    unresolvable: BoolArray | None = None

    @staticmethod
    def accepting(n_view: int) -> Verdicts:
        """Return verdicts that reject nothing, and so have no reasons."""
        return Verdicts(np.zeros(n_view, np.uint8), ())

    @staticmethod
    def where(rejected: BoolArray, reason: Reason) -> Verdicts:
        return Verdicts(rejected.astype(np.uint32), (reason,))

    @staticmethod
    def error(n_view: int, text: str) -> Verdicts:
        return Verdicts.where(np.ones(n_view, np.bool_), Reason(text, Code.ERROR))

    @staticmethod
    def by_index(indices: RowArray, reasons: Sequence[Reason]) -> Verdicts:
        """Return verdicts with at most one reason per node: its index into `reasons`, or -1."""
        bit_of = np.asarray([0, *(1 << k for k in range(len(reasons)))], bit_type(len(reasons)))
        return Verdicts(bit_of[indices + 1], tuple(reasons))

    @staticmethod
    def first_of(*failures: tuple[BoolArray, Reason]) -> Verdicts:
        """Return verdicts in which a node has only the first reason that holds."""
        bits = np.zeros(len(failures[0][0]), np.uint32)
        for position, (rejected, _) in enumerate(failures):
            bits[rejected & (bits == 0)] = 1 << position
        return Verdicts(bits, tuple(reason for _, reason in failures))

    @staticmethod
    def all_of(*failures: tuple[BoolArray, Reason]) -> Verdicts:
        """Return verdicts in which a node has every reason that holds."""
        bits: BitArray = np.zeros(len(failures[0][0]), bit_type(len(failures)))
        for position, (rejected, _) in enumerate(failures):
            bits[rejected] += bits.dtype.type(1 << position) if bits.dtype != np.object_ else 1 << position
        return Verdicts(bits, tuple(reason for _, reason in failures))

    def then(self, others: Verdicts) -> Verdicts:
        n_own = len(self.reasons)
        wide = bit_type(n_own + len(others.reasons))
        own: BitArray = self.bits.astype(wide)
        later: BitArray = others.bits.astype(wide) << n_own
        unresolvable = None if self.unresolvable is None else self.unresolvable & (self.bits != 0)
        if others.unresolvable is not None:
            passed = others.unresolvable & (self.bits == 0)
            unresolvable = passed if unresolvable is None else unresolvable | passed
        return Verdicts(np.where(self.bits != 0, own, later), self.reasons + others.reasons, unresolvable)

    def at(self, positions: RowArray) -> Verdicts:
        reasons = tuple(_moved(reason, positions) for reason in self.reasons)
        return Verdicts(
            self.bits[positions], reasons, None if self.unresolvable is None else self.unresolvable[positions]
        )

    def reasons_at(self, position: int) -> list[Reason]:
        bits = int(self.bits[position])
        return [reason for k, reason in enumerate(self.reasons) if bits >> k & 1]

    def code_at(self, position: int) -> Code:
        code = max(reason.code for reason in self.reasons_at(position))
        if self.unresolvable is not None and self.unresolvable[position]:
            code = max(code, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        return code

    def codes(self) -> NDArray[np.int8]:
        """Return the code of every position, int8 of shape (n_view,), 0 where it passes."""
        codes = np.zeros(len(self.bits), np.int8)
        kinds = {reason.code for reason in self.reasons}
        for code in sorted(kinds):
            bits = self.bits
            if len(kinds) > 1:  # most often all reasons have the same
                bits = bits & sum(1 << k for k, reason in enumerate(self.reasons) if reason.code is code)
            codes[bits != 0] = code
        if self.unresolvable is not None:
            harder = self.unresolvable & (self.bits != 0)
            np.maximum(codes, np.where(harder, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 0).astype(np.int8), out=codes)
        return codes


def bit_type(n_reasons: int) -> Any:
    """Return the type of the integers that hold a bit for each of some reasons."""
    if n_reasons <= 8:
        return np.uint8
    return np.uint32 if n_reasons <= 32 else np.uint64 if n_reasons <= 64 else np.object_


def first_names(names: Sequence[str]) -> tuple[tuple[str, ...], int | msgspec.UnsetType]:
    """Return the first few names for a detail, and how many more there are; UNSET when there are no more."""
    n_more = len(names) - MAX_NAMES
    return tuple(names[:MAX_NAMES]), n_more if n_more > 0 else msgspec.UNSET


def _moved(reason: Reason, positions: RowArray) -> Reason:
    details, shortfall = reason.details, reason.shortfall
    return Reason(
        reason.text,
        reason.code,
        None if details is None else lambda new: details(int(positions[new])),
        None if shortfall is None else lambda new: shortfall(positions[new]),
    )
