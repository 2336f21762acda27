"""Which nodes have an image, and how large it is."""

from kplan.api.core import Node
from kplan.api.decode import convert
from kplan.engine.node_table import ImageIndex, NodeTable


def table(**images):
    return NodeTable(
        [
            convert(
                {
                    "metadata": {"name": name},
                    "status": {"images": [{"names": names, "sizeBytes": size} for size, names in listed]},
                },
                Node,
            )
            for name, listed in images.items()
        ]
    )


def test_an_image_is_found_by_each_of_its_names_with_the_size_that_the_first_node_gives():
    nodes = table(b=[(7, ["app:1", "app@sha"])], a=[(5, ["app:1"]), (5, ["app:1"])], c=[(9, ["db:1"])])
    index = ImageIndex.of(nodes)

    assert {name: index.rows(name).tolist() for name in ("app:1", "app@sha", "db:1", "none")} == {
        "app:1": [0, 1],
        "app@sha": [1],
        "db:1": [2],
        "none": [],
    }
    assert (index.size("app:1"), index.size("app@sha"), index.size("db:1")) == (5, 7, 9)
    assert ImageIndex.of(nodes) is index
