"""Go's sort.Slice with any comparison, contradictory ones included: quicksort that looks out for patterns."""

WORD = 2**64


def go_sort(items, is_less):
    """Return the items in the order in which Go leaves them."""
    sorting = _Sorting(list(items), is_less)
    sorting.sort(0, len(sorting.data), len(sorting.data).bit_length())
    return sorting.data


class _Sorting:
    """Works on ranges of one list."""

    def __init__(self, data, is_less):
        self.data, self.is_less = data, is_less

    def less(self, i, j):
        return self.is_less(self.data[i], self.data[j])

    def swap(self, i, j):
        data = self.data
        data[i], data[j] = data[j], data[i]

    def move_left(self, i, low):
        while i > low and self.less(i, i - 1):
            self.swap(i, i - 1)
            i -= 1

    def heap_down(self, root, size, low):
        while 2 * root + 1 < size:
            child = 2 * root + 1
            if child + 1 < size and self.less(low + child, low + child + 1):
                child += 1
            if not self.less(low + root, low + child):
                return
            self.swap(low + root, low + child)
            root = child

    def heap(self, low, high):
        size = high - low
        for root in reversed(range((size - 1) // 2 + 1)):
            self.heap_down(root, size, low)
        for last in reversed(range(size)):
            self.swap(low, low + last)
            self.heap_down(0, last, low)

    def scatter(self, low, high):
        size = high - low
        state, mask = size, 2 ** size.bit_length() - 1
        for place in range(low + size // 4 * 2 - 1, low + size // 4 * 2 + 2):
            state ^= state << 13 & WORD - 1
            state ^= state >> 7
            state ^= state << 17 & WORD - 1
            other = state & mask
            self.swap(place, low + (other if other < size else other - size))

    def middle(self, places, swaps):
        order = list(places)
        for i in (0, 1, 0):
            if self.less(order[i + 1], order[i]):
                order[i], order[i + 1] = order[i + 1], order[i]
                swaps.append(1)
        return order[1]

    def pivot_of(self, low, high):
        size, swaps = high - low, []
        places = [low + size // 4 * i for i in (1, 2, 3)]
        if size >= 50:
            places = [self.middle((each - 1, each, each + 1), swaps) for each in places]
        return self.middle(places, swaps), len(swaps)

    def mend(self, low, high):
        i = low + 1
        for _ in range(5):
            while i < high and not self.less(i, i - 1):
                i += 1
            if i == high:
                return True
            if high - low < 50:
                return False
            self.swap(i, i - 1)
            if i - low >= 2:
                self.move_left(i - 1, 0)
            if high - i >= 2:
                for j in range(i + 1, high):
                    if not self.less(j, j - 1):
                        break
                    self.swap(j, j - 1)
        return False

    def split(self, low, high, pivot, goes_left):
        """Put what goes left of the pivot there; return where left ends, and whether anything moved."""
        self.swap(low, pivot)
        i, j, has_moved = low + 1, high - 1, False
        while True:
            while i <= j and goes_left(i, low):
                i += 1
            while i <= j and not goes_left(j, low):
                j -= 1
            if i > j:
                return i, j, has_moved
            self.swap(i, j)
            i, j, has_moved = i + 1, j - 1, True

    def sort(self, low, high, patience):
        is_balanced = was_split = True
        while high - low > 12:
            size = high - low
            if patience == 0:
                self.heap(low, high)
                return
            if not is_balanced:
                self.scatter(low, high)
                patience -= 1
            pivot, n_swaps = self.pivot_of(low, high)
            if n_swaps == 12:
                self.data[low:high] = reversed(self.data[low:high])
                pivot = high - 1 - (pivot - low)
            if is_balanced and was_split and n_swaps in (0, 12) and self.mend(low, high):
                return
            if low > 0 and not self.less(low - 1, pivot):
                low, _, _ = self.split(low, high, pivot, lambda i, at: not self.less(at, i))
                continue
            _, at, has_moved = self.split(low, high, pivot, self.less)
            self.swap(at, low)
            was_split = not has_moved
            is_balanced = min(at - low, high - at) >= size // 8
            if at - low < high - at:
                self.sort(low, at, patience)
                low = at + 1
            else:
                self.sort(at + 1, high, patience)
                high = at
        for i in range(low + 1, high):
            self.move_left(i, low)
