"""The heap yields what Go's heap yields, also of equal items."""

from kplan.course.simulation.queue import GoHeap


def heap_of(*keys: int) -> GoHeap:
    heap = GoHeap()
    for item, key in enumerate(keys):
        heap.push(key, item)
    return heap


def test_the_least_key_comes_first() -> None:
    heap = heap_of(3, 1, 2)
    assert heap.first_key == 1
    assert [heap.pop() for _ in range(3)] == [1, 2, 0]


def test_equal_items_come_in_the_order_of_the_array_and_not_of_their_arrival() -> None:
    heap = heap_of(1, 1, 1, 1)
    assert [heap.pop() for _ in range(4)] == [0, 3, 2, 1]


def test_an_item_is_taken_out_of_the_middle() -> None:
    heap = heap_of(1, 2, 3, 4)
    assert heap.discard(1)
    assert not heap.discard(7)
    assert len(heap) == 3
    assert [heap.pop() for _ in range(3)] == [0, 2, 3]


def test_the_first_of_those_that_may_come_leaves_the_others() -> None:
    heap = heap_of(1, 1, 1, 1)
    assert heap.pop(lambda item: item > 1) == 2
    assert [heap.pop() for _ in range(4)] == [0, 3, 1, None]
