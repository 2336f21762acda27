import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.plugins.image_locality import ImageLocality, with_tag
from tests.oracle import image_locality as oracle

from .worlds import IMAGE_NAMES, IMAGES, World, few, node, pod, scored

MIB = 1024 * 1024


def make(world):
    return ImageLocality(None, world.handle)


ON_NODE = st.lists(st.tuples(st.sampled_from([10**6, 3 * 10**8, 2 * 10**9]), st.sampled_from(IMAGE_NAMES)), max_size=3)
CLUSTERS = st.lists(ON_NODE, min_size=1, max_size=5).map(
    lambda each: World([node(f"n{index}", images=images) for index, images in enumerate(each)])
)
PODS = st.builds(
    lambda main, init, volume: pod(
        image=main,
        initContainers=[{"image": each} for each in init],
        volumes=[{"name": "v", "image": {"reference": each}} for each in volume],
    ),
    st.sampled_from(IMAGES),
    st.lists(st.sampled_from(IMAGES), max_size=2),
    st.lists(st.sampled_from(IMAGES), max_size=1),
)


@few
@given(CLUSTERS, PODS)
def test_score_equals_the_oracle(world, incoming):
    scores = scored(make(world), world.cycle(incoming), world.view())

    assert scores == [oracle.score(incoming, each, world.nodes) for each in world.nodes]
    rows = list(range(len(world.nodes)))[::-2]
    assert scored(make(world), world.cycle(incoming), world.view(rows)) == [scores[row] for row in rows]


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("registry.io:5000/app", "registry.io:5000/app:latest"),
        ("registry.io:5000/app:1", "registry.io:5000/app:1"),
        ("app@sha256:abc", "app@sha256:abc"),
    ],
)
def test_images_without_a_tag_are_the_latest(image, name):
    assert with_tag(image) == name


@pytest.mark.parametrize(
    ("sizes", "incoming", "expected"),
    [
        pytest.param([523, None], pod(), [24, 0], id="half the nodes have it: 523/2 of 1000 MiB, from 23 up"),
        pytest.param([523, 523], pod(), [51, 51], id="all nodes have it: (523-23)/(1000-23)"),
        pytest.param([23, 23], pod(), [0, 0], id="too small to matter"),
        pytest.param([5000, 5000], pod(), [100, 100], id="as much as may count"),
        pytest.param(
            [523, 523],
            pod(initContainers=[{"image": "app:1"}]),
            [51, 51],
            id="twice the image over twice the containers",
        ),
        pytest.param(
            [523, 523],
            pod(volumes=[{"name": "v", "image": {"reference": "app:1"}}]),
            [100, 100],
            id="an image volume adds its size, but no container",
        ),
        pytest.param(
            [100, 900], pod(), [7, 7], id="an image has the size that the first node gives: (100-23)/(1000-23), twice"
        ),
    ],
)
def test_scores_by_hand(sizes, incoming, expected):
    world = World(
        [node(f"n{index}", images=[] if size is None else [(size * MIB, "app:1")]) for index, size in enumerate(sizes)]
    )

    assert scored(make(world), world.cycle(incoming), world.view()) == expected


def test_a_pod_without_containers_scores_all_or_nothing():
    volumes = [{"name": "v", "image": {"reference": "app:1"}}]
    world = World([node("a", images=[(100 * MIB, "app:1")]), node("b")])
    incoming = pod(volumes=volumes)
    incoming["spec"]["containers"] = []

    assert scored(make(world), world.cycle(incoming), world.view()) == [100, 0]


def test_score_details_name_the_images_that_are_there():
    world = World([node("a", images=[(100 * MIB, "app:1", "app:one")]), node("b", images=[(100 * MIB, "app:1")])])
    cycle = world.cycle(pod(initContainers=[{"image": "tool"}, {"image": "app:1"}]))

    assert make(world).score_details(cycle, 0) == ["image app:1 is on the node (100 MiB, on 2 nodes in all)"]
