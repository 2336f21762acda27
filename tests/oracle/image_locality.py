"""ImageLocality, one node at a time; the nodes come in the order of their names."""

MIB = 1024 * 1024


def _named(image):
    return image if ":" in image.split("/")[-1] else f"{image}:latest"


def score(pod, node, nodes):
    spec = pod["spec"]
    containers = [*spec.get("initContainers", []), *spec["containers"]]
    wanted = [each["image"] for each in containers]
    wanted += [each["image"]["reference"] for each in spec.get("volumes", []) if "image" in each]
    total = 0
    for image in map(_named, wanted):
        holders = [each for each in nodes if image in _sizes(each)]
        if node in holders:
            total += int(float(_sizes(holders[0])[image]) * (len(holders) / len(nodes)))
    low, high = 23 * MIB, 1000 * MIB * len(containers)
    return 100 * (min(max(total, low), high) - low) // (high - low)


def _sizes(node):
    sizes = {}
    for image in node["status"].get("images", []):
        for name in image["names"]:
            sizes.setdefault(name, image["sizeBytes"])
    return sizes
