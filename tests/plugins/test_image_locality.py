from hypothesis import given
from hypothesis import strategies as st

from kplan.plugins.image_locality import ImageLocality
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


def test_score_details_name_the_images_that_are_there():
    world = World([node("a", images=[(100 * MIB, "app:1", "app:one")]), node("b", images=[(100 * MIB, "app:1")])])
    cycle = world.cycle(pod(initContainers=[{"image": "tool"}, {"image": "app:1"}]))
    assert make(world).score_details(cycle, 0) == ["image app:1 is on the node (100 MiB, on 2 nodes in all)"]
