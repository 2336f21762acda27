"""The order in which Go's sort leaves equal elements.

Go's sort.Slice is not stable: where pods are equal in importance, the algorithm itself decides who comes first, and
with a comparison that contradicts itself (two pods that have not started are each "earlier" than the other) it decides
everything. So the algorithm is followed step by step: pattern-defeating quicksort, insertion sort up to 12 elements.

Upstream: Go's sort package, pdqsort_func (Go 1.21 and later).
"""

from __future__ import annotations

from collections.abc import Sequence

INSERTION_LENGTH = 12
"""Up to so many elements Go sorts by insertion, which is stable."""
_PARTIAL_STEPS = 5
_LONG = 50
"""From this length on, pivots are medians of medians, and elements may be shifted in a nearly sorted range."""
_ALL_SWAPPED = 12
"""Exchanges for four medians of three when everything is in reverse."""
_WORD = (1 << 64) - 1


def go_sort(keys: Sequence[int], against: Sequence[int]) -> list[int]:
    """Return the order of elements that ``sort.Slice`` leaves.

    Parameters
    ----------
    keys, against : one integer an element
        Element i is less than element j when ``keys[i] < against[j]``. Where the two are the same this is an order; an
        element with a key below what it is compared against is less than its equals, itself included.
    """
    sorter = _Sorter(keys, against)
    sorter.sort(0, len(keys), len(keys).bit_length())
    return sorter.data


class _Sorter:
    """Works on ranges ``[low, high)`` of one list of elements."""

    def __init__(self, keys: Sequence[int], against: Sequence[int]) -> None:
        self.data = list(range(len(keys)))
        self._keys = keys
        self._against = against

    def less(self, i: int, j: int) -> bool:
        return self._keys[self.data[i]] < self._against[self.data[j]]

    def swap(self, i: int, j: int) -> None:
        self.data[i], self.data[j] = self.data[j], self.data[i]

    def sort(self, low: int, high: int, limit: int) -> None:
        """Sort a range; after `limit` bad pivots by heap."""
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
                self.break_patterns(low, high)
                limit -= 1
            pivot, is_increasing, is_decreasing = self.choose_pivot(low, high)
            if is_decreasing:
                self.data[low:high] = self.data[low:high][::-1]
                pivot = (high - 1) - (pivot - low)
                is_increasing = True
            if balanced and partitioned and is_increasing and self.partial_insertion(low, high):
                return
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
        """Put smaller elements before the pivot and the others after it; also tell whether they were so already."""
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
        """Put elements equal to the pivot first, in a range without smaller ones; return where the rest begins."""
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
        """Mend a nearly sorted range; tell whether it is sorted now."""
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
        """Scatter three elements from the middle, by a generator that starts from the length."""
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
        """Return a pivot, and whether the elements looked at were in increasing or in decreasing order."""
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
        """Return the position of the median of three, and how many exchanges it took."""
        swaps = 0
        if self.less(b, a):
            a, b, swaps = b, a, swaps + 1
        if self.less(c, b):
            b, c, swaps = c, b, swaps + 1
        if self.less(b, a):
            a, b, swaps = b, a, swaps + 1
        return b, swaps
