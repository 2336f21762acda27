"""The commands of changes that several tests expect."""


def adding(number: int, like: str) -> tuple[str, ...]:
    """Return the commands that wait for nodes that somebody adds."""
    ready = "kubectl get nodes --no-headers | grep -cw Ready"
    nodes = "1 node" if number == 1 else f"{number} nodes"
    return (
        f"before=$({ready})",
        f"# add {nodes} like {like}",
        f"until [ $({ready}) -ge $((before + {number})) ]; do sleep 5; done",
    )
