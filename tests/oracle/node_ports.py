"""NodePorts, one node at a time; the ports in use are a set, without a count."""


def ports(pod):
    spec = pod["spec"]
    running = [each for each in spec.get("initContainers", []) if each.get("restartPolicy") == "Always"]
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in (*spec["containers"], *running)
        for port in container.get("ports", [])
        if port.get("hostPort")
    ]


def used_ports(running, leaving=(), coming=()):
    used = set()
    for pod in running:
        used |= set(ports(pod))
    for pod in leaving:
        used -= set(ports(pod))
    for pod in coming:
        used |= set(ports(pod))
    return used


def filter_node(pod, used):
    for address, protocol, number in ports(pod):
        for other, other_protocol, other_number in used:
            same_port = (protocol, number) == (other_protocol, other_number)
            if same_port and (address == other or "0.0.0.0" in (address, other)):
                return ("Unschedulable", ["node(s) didn't have free ports for the requested pod ports"])
    return None
