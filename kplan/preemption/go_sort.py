"""Go's sort, step by step, for the order in which it leaves equal elements.

Go's sort.Slice is not stable: where pods are equal in importance, the algorithm decides which comes first, and where
the comparison contradicts itself (of two pods that have not started, each is "earlier" than the other) it decides
everything. The algorithm is pattern-defeating quicksort, with insertion sort up to 12 elements.

Upstream: Go's sort package, pdqsort_func (Go 1.21 and later).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

INSERTION_LENGTH = 12  #: up to this length Go sorts by insertion, which is stable
_PARTIAL_STEPS = 5
_LONG = 50
"""From this length on, pivots are medians of medians, and a nearly sorted range may be finished by insertion."""
_ALL_SWAPPED = 12  #: swaps in four medians of three when all elements are in descending order
_WORD = (1 << 64) - 1


def go_sort(keys: Sequence[int], against: Sequence[int]) -> list[int]:
    """Return the indices of the elements in the order in which ``sort.Slice`` leaves them.

    Element i is less than element j when ``keys[i] < against[j]``. With equal lists this is an order; an element whose
    key is below its own value in `against` is less than its equals, itself included.
    """
    sorter = _Sorter(keys, against)
    sorter.sort(0, len(keys), len(keys).bit_length())
    return sorter.data


def go_sorted(elements: Sequence[T], weights: Iterable[Any]) -> list[T]:
    own = list(weights)
    ranks = {weight: rank for rank, weight in enumerate(sorted(set(own)))}
    keys = [ranks[weight] for weight in own]
    return [elements[index] for index in go_sort(keys, keys)]


class _Sorter:
    """Sorts ranges ``[low, high)`` of a list of elements."""

    def __init__(self, keys: Sequence[int], against: Sequence[int]) -> None:
        self.data = list(range(len(keys)))
        self._keys = keys
        self._against = against

    def less(self, i: int, j: int) -> bool:
        return self._keys[self.data[i]] < self._against[self.data[j]]

    def swap(self, i: int, j: int) -> None:
        self.data[i], self.data[j] = self.data[j], self.data[i]

    def sort(self, low: int, high: int, limit: int) -> None:
        """Sort a range; after `limit` bad pivots with heapsort."""
        balanced = partitioned = True
        while True:
            length = high - low
            if length <= INSERTION_LENGTH:
                self.insertion(low, high)
                return
            if limit == 0:
                self.heap(low, high)
                return
            if not balanced:
                # The last partition was lopsided: the same input may be ordered against the choice of the pivot.
                self.break_patterns(low, high)
                limit -= 1
            pivot, is_increasing, is_decreasing = self.choose_pivot(low, high)
            if is_decreasing:
                self.data[low:high] = self.data[low:high][::-1]
                pivot = (high - 1) - (pivot - low)
                is_increasing = True
            if balanced and partitioned and is_increasing and self.partial_insertion(low, high):
                return
            # Nothing in a range is smaller than what stands before it; a pivot that is no larger is the smallest here.
            if low > 0 and not self.less(low - 1, pivot):
                low = self.partition_equal(low, high, pivot)
                continue
            middle, partitioned = self.partition(low, high, pivot)
            left, right = middle - low, high - middle
            balanced = min(left, right) >= length // 8
            if left < right:
                self.sort(low, middle, limit)
                low = middle + 1
            else:
                self.sort(middle + 1, high, limit)
                high = middle

    def insertion(self, low: int, high: int) -> None:
        data, against = self.data, self._against
        for i in range(low + 1, high):
            element = data[i]
            key = self._keys[element]
            j = i
            while j > low and key < against[data[j - 1]]:
                data[j] = data[j - 1]
                j -= 1
            data[j] = element

    def heap(self, low: int, high: int) -> None:
        length = high - low
        for root in range((length - 1) // 2, -1, -1):
            self.sift_down(root, length, low)
        for last in range(length - 1, -1, -1):
            self.swap(low, low + last)
            self.sift_down(0, last, low)

    def sift_down(self, root: int, end: int, first: int) -> None:
        while (child := 2 * root + 1) < end:
            if child + 1 < end and self.less(first + child, first + child + 1):
                child += 1
            if not self.less(first + root, first + child):
                return
            self.swap(first + root, first + child)
            root = child

    def partition(self, low: int, high: int, pivot: int) -> tuple[int, bool]:
        """Partition a range; return where the pivot ends up, and whether the range was partitioned already."""
        self.swap(low, pivot)
        data, keys = self.data, self._keys
        bound = self._against[data[low]]
        i, j = low + 1, high - 1
        swaps = 0
        while True:
            while i <= j and keys[data[i]] < bound:
                i += 1
            while i <= j and keys[data[j]] >= bound:
                j -= 1
            if i > j:
                break
            data[i], data[j] = data[j], data[i]
            swaps += 1
            i += 1
            j -= 1
        self.swap(j, low)
        return j, swaps == 0

    def partition_equal(self, low: int, high: int, pivot: int) -> int:
        """Move elements equal to the pivot to the front of a range without smaller ones; return where others begin."""
        self.swap(low, pivot)
        i, j = low + 1, high - 1
        while True:
            while i <= j and not self.less(low, i):
                i += 1
            while i <= j and self.less(low, j):
                j -= 1
            if i > j:
                return i
            self.swap(i, j)
            i += 1
            j -= 1

    def partial_insertion(self, low: int, high: int) -> bool:
        """Try to sort a nearly sorted range in a few steps; return whether it is sorted."""
        i = low + 1
        for _ in range(_PARTIAL_STEPS):
            while i < high and not self.less(i, i - 1):
                i += 1
            if i == high:
                return True
            if high - low < _LONG:
                return False
            self.swap(i, i - 1)
            if i - low >= 2:
                j = i - 1
                while j >= 1 and self.less(j, j - 1):
                    self.swap(j, j - 1)
                    j -= 1
            if high - i >= 2:
                j = i + 1
                while j < high and self.less(j, j - 1):
                    self.swap(j, j - 1)
                    j += 1
        return False

    def break_patterns(self, low: int, high: int) -> None:
        """Swap three elements near the middle with random ones; the random generator is seeded with the length."""
        length = high - low
        state = length
        mask = (1 << length.bit_length()) - 1
        middle = low + length // 4 * 2
        for index in (middle - 1, middle, middle + 1):
            state ^= (state << 13) & _WORD
            state ^= state >> 7
            state ^= (state << 17) & _WORD
            other = state & mask
            self.swap(index, low + (other - length if other >= length else other))

    def choose_pivot(self, low: int, high: int) -> tuple[int, bool, bool]:
        """Return a pivot, and whether the sampled elements are in increasing or in decreasing order."""
        length = high - low
        quarter = length // 4
        candidates = [low + quarter, low + 2 * quarter, low + 3 * quarter]
        swaps = 0
        if length >= _LONG:
            for k, index in enumerate(candidates):
                candidates[k], more = self.median(index - 1, index, index + 1)
                swaps += more
        pivot, more = self.median(*candidates)
        swaps += more
        return pivot, swaps == 0, swaps == _ALL_SWAPPED

    def median(self, a: int, b: int, c: int) -> tuple[int, int]:
        swaps = 0
        if self.less(b, a):
            a, b, swaps = b, a, swaps + 1
        if self.less(c, b):
            b, c, swaps = c, b, swaps + 1
        if self.less(b, a):
            a, b, swaps = b, a, swaps + 1
        return b, swaps
