"""ImageLocality: prefers nodes that already have the pod's images.

Upstream: plugins/imagelocality/image_locality.go, backend/cache/cache.go addNodeImageStates.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from kplan.api.core import Pod
from kplan.engine.arrays import MAX_NODE_SCORE, Int64Array
from kplan.engine.node_table import ImageIndex, NodeTable
from kplan.engine.view import NodeView
from kplan.framework.interface import CycleState, Handle, Scope
from kplan.rules.pod_info import PodInfo

_MEGABYTE = 1024 * 1024
MIN_THRESHOLD = 23 * _MEGABYTE  #: up to this total size of images a node scores 0
MAX_CONTAINER_THRESHOLD = 1000 * _MEGABYTE  #: from this size per container on a node scores 100


class ImageLocality:
    """Scores by the size of the images on the node, each scaled by the share of nodes that have it."""

    name: ClassVar[str] = "ImageLocality"
    scope: ClassVar[Scope] = Scope.NODE_OBJECT

    def __init__(self, args: None, handle: Handle) -> None:
        self._with_volumes = handle.release.rules.scores_image_volumes

    def reads(self, pod: PodInfo) -> Hashable:
        spec = pod.pod.spec
        images = tuple([container.image for container in (*spec.init_containers, *spec.containers)])
        if not spec.volumes:
            return images
        return images, tuple(pod_images(pod.pod, with_volumes=self._with_volumes))

    def score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        pod, table = cycle.pod.pod, cycle.cluster.nodes
        total = np.zeros(len(nodes), np.int64)
        for image in pod_images(pod, with_volumes=self._with_volumes):
            total += nodes.take(scaled_sizes(table, image))
        most = MAX_CONTAINER_THRESHOLD * (len(pod.spec.init_containers) + len(pod.spec.containers))
        # The order of the two bounds matters for a pod without containers. Dividend and divisor have the same sign, so
        # that truncating and flooring are the same. Upstream: calculatePriority.
        bounded = np.where(total < MIN_THRESHOLD, MIN_THRESHOLD, np.minimum(total, most))
        score: Int64Array = MAX_NODE_SCORE * (bounded - MIN_THRESHOLD) // (most - MIN_THRESHOLD)
        return score

    def score_details(self, cycle: CycleState, row: int) -> list[str]:
        index = ImageIndex.of(cycle.cluster.nodes)
        images = pod_images(cycle.pod.pod, with_volumes=self._with_volumes)
        return [
            f"image {image} is on the node ({index.size(image) // _MEGABYTE} MiB,"
            f" on {len(index.rows(image))} nodes in all)"
            for image in dict.fromkeys(images)
            if row in index.rows(image)
        ]


def pod_images(pod: Pod, *, with_volumes: bool) -> list[str]:
    """Return the images of a pod's containers, and volumes, with their tags; an image used twice is listed twice."""
    spec = pod.spec
    images = [container.image for container in (*spec.init_containers, *spec.containers)]
    if with_volumes:
        images += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return [image if image.rfind(":") > image.rfind("/") else f"{image}:latest" for image in images]


def scaled_sizes(nodes: NodeTable, image: str) -> Int64Array:
    """Return the size of an image times the share of nodes that have it, and 0 on nodes without.

    int64 of shape (n_nodes,); share and product are float64, the product truncated. Upstream: scaledImageScore.
    """

    def column() -> Int64Array:
        index = ImageIndex.of(nodes)
        rows = index.rows(image)
        sizes = np.zeros(len(nodes), np.int64)
        if len(rows):
            sizes[rows] = int(float(index.size(image)) * (len(rows) / len(nodes)))
        return sizes

    return nodes.derived(("image", image), column)
