"""Go's sort, followed step by step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.preemption.go_sort import INSERTION_LENGTH, go_sort

SIXTY = (
    "13 00 13 01 00 11 00 11 02 13 01 13 11 03 11 02 03 02 10 12 03 02 13 00 02 13 13 03 01 10 "
    "03 11 13 02 11 12 01 03 11 11 02 00 11 13 13 11 11 12 02 10 11 01 10 13 00 13 03 00 13 03"
)

# Go 1.27's sort.Slice with this comparison on these keys; in (priority, start) 0 stands for a pod that has not started.
FROM_GO = {
    "sixteen pods, four different": (
        "12 11 02 02 01 11 01 01 02 11 02 02 11 11 11 12",
        [9, 1, 14, 5, 13, 12, 15, 0, 4, 7, 6, 8, 10, 11, 3, 2],
    ),
    "twenty pods, none has started, so every pivot is bad and a heap sorts the rest": (
        " ".join(["00"] * 20),
        [6, 0, 4, 16, 12, 3, 17, 1, 9, 15, 14, 7, 5, 13, 8, 18, 2, 11, 19, 10],
    ),
    "twenty pods, some have started": (
        "00 11 01 10 12 00 01 02 10 11 10 00 01 00 02 12 00 02 02 12",
        [1, 9, 19, 4, 15, 3, 8, 10, 6, 12, 2, 7, 14, 17, 18, 16, 5, 13, 11, 0],
    ),
    "sixty pods, pivots are medians of medians": (
        SIXTY,
        [
            14, 45, 34, 38, 39, 5, 42, 7, 50, 46, 31, 12, 19, 47, 35, 55, 22, 44, 9, 43,
            11, 53, 32, 0, 2, 25, 26, 58, 18, 52, 49, 29, 10, 3, 28, 51, 36, 8, 15, 33,
            40, 17, 21, 24, 48, 59, 13, 37, 20, 16, 30, 27, 56, 57, 41, 6, 54, 1, 23, 4,
        ],
    ),
}  # fmt: skip


def compared(keys):
    """Return the keys of pods (priority, start) and what each is compared against."""
    ranks = sorted({(-int(priority), start == "0", start) for priority, start in keys})
    own = [2 * ranks.index((-int(priority), start == "0", start)) for priority, start in keys]
    return own, [key + (start == "0") for key, (_, start) in zip(own, keys, strict=True)]


@pytest.mark.parametrize(("keys", "expected"), FROM_GO.values(), ids=FROM_GO)
def test_equal_and_contradictory_elements_come_out_as_go_leaves_them(keys, expected):
    assert go_sort(*compared(keys.split())) == expected


def test_a_long_list_in_reverse_is_turned_around_and_mended_as_in_go():
    keys = [start // 3 for start in range(60, 0, -1)]
    expected = "59-52 49 51 50 46-48 43 45 44 40 42 41 39-34 31 33 32 29 30 28-22 19 21 20 16-18 13 15 14 10 12 11 9-0"
    assert go_sort(keys, keys) == unfolded(expected)


def unfolded(ranges):
    """Write out ranges that go up or down."""
    elements = []
    for each in ranges.split():
        first, last = int(each.split("-")[0]), int(each.split("-")[-1])
        step = 1 if first <= last else -1
        elements += range(first, last + step, step)
    return elements


def test_a_long_list_with_a_few_elements_out_of_place_is_mended_by_insertion():
    keys = [index // 2 for index in range(60)]
    for one, other in ((5, 6), (20, 23), (40, 41), (50, 58)):
        keys[one], keys[other] = keys[other], keys[one]
    assert go_sort(keys, keys) == sorted(range(60), key=lambda i: keys[i])


@given(st.lists(st.integers(0, 20), max_size=INSERTION_LENGTH))
def test_short_lists_are_sorted_stably(keys):
    assert go_sort(keys, keys) == sorted(range(len(keys)), key=lambda i: keys[i])


@given(st.lists(st.integers(0, 200), max_size=400) | st.integers(0, 400).map(lambda n: list(range(n, 0, -1))))
def test_lists_of_any_length_come_out_sorted_and_complete(keys):
    order = go_sort(keys, keys)
    assert [keys[i] for i in order] == sorted(keys)
    assert sorted(order) == list(range(len(keys)))


@pytest.mark.parametrize("length", [13, 50, 1000])
def test_a_comparison_that_is_always_true_still_ends_with_all_elements(length):
    order = go_sort([0] * length, [1] * length)
    assert sorted(order) == list(range(length))
