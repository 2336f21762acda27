import pytest

from kplan.plugins.image_locality import ImageLocality

from .worlds import World, node, pod, scored

MIB = 1024 * 1024


def make(world):
    return ImageLocality(None, world.handle)


NODES = [
    node("a", images=[(2 * 10**9, "app:latest"), (3 * 10**8, "r.io:5000/base:2")]),
    node("b", images=[(3 * 10**8, "r.io:5000/base:2", "r.io:5000/base:latest"), (10**6, "app:1")]),
    node("c"),
]


@pytest.mark.parametrize(
    ("images", "volumes", "scores"),
    [
        (["app:1"], [], [0, 0, 0]),
        (["app"], [], [62, 0, 0]),
        (["app:latest"], [], [62, 0, 0]),
        (["r.io:5000/base"], [], [0, 7, 0]),
        (["r.io:5000/base:2", "app"], [], [40, 8, 0]),
        (["app:1"], ["r.io:5000/base:2"], [17, 17, 0]),
        (["app", "app"], ["app:latest"], [95, 0, 0]),
    ],
)
def test_scores(images, volumes, scores):
    main, *init = images
    mounted = [{"name": "v", "image": {"reference": image}} for image in volumes]
    world = World(NODES)
    more = {"initContainers": [{"image": image} for image in init], "volumes": [*mounted, {"name": "w"}]}
    cycle = world.cycle(pod(image=main, **more))
    assert scored(make(world), cycle, world.view()) == scores
    assert scored(make(world), cycle, world.view([2, 0])) == [scores[2], scores[0]]


def test_score_details_name_the_images_that_are_there():
    world = World([node("a", images=[(100 * MIB, "app:1", "app:one")]), node("b", images=[(100 * MIB, "app:1")])])
    cycle = world.cycle(pod(initContainers=[{"image": "tool"}, {"image": "app:1"}]))
    assert make(world).score_details(cycle, 0) == ["image app:1 is on the node (100 MiB, on 2 nodes in all)"]
