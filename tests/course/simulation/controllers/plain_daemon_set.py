"""The DaemonSet controller as plain loops over all nodes, as upstream has it, for each step anew."""

from collections.abc import Collection, Mapping, Sequence

from kplan.course.simulation.controllers.daemon_set import NOT_HERE, ON_DELETE, Eligibility, WantedDaemonSet
from kplan.course.simulation.controllers.observed import Action, Create, Delete, ObservedPod, scaled


def actions(
    wanted: WantedDaemonSet, nodes: Mapping[str, Eligibility], pods: Mapping[str, Sequence[ObservedPod]]
) -> list[Action]:
    """Say which pods to make or to delete next; asked again, it goes on from there.

    Parameters
    ----------
    nodes : every node of the cluster by name
    pods : node -> the set's pods that run there or are meant for it
    """
    found: list[Action] = []
    for node, eligible in nodes.items():
        found += _manage(wanted, node, eligible, pods.get(node, ()))
    for node, theirs in pods.items():
        if node not in nodes:
            found += [Delete(pod, "its node is gone") for pod in theirs if not pod.node]
    if not found and wanted.strategy != ON_DELETE:
        found = _roll(wanted, nodes, pods)
    creations = [action for action in found if isinstance(action, Create)]
    deletions = [action for action in found if isinstance(action, Delete)]
    return [*creations[:250], *deletions[:250]]


def _manage(wanted: WantedDaemonSet, node: str, eligible: Eligibility, pods: Sequence[ObservedPod]) -> list[Action]:
    if not pods:
        return [Create("the node has none", wanted.revision, node=node)] if eligible.should_run else []
    if not eligible.may_stay:
        return [Delete(pod, "not meant for this node") for pod in pods]
    ended = [pod for pod in pods if pod.phase in ("Failed", "Succeeded")]
    found: list[Action] = [Delete(pod, f"it has ended ({pod.phase})") for pod in ended]
    running = sorted((pod for pod in pods if pod not in ended), key=lambda pod: (not pod.node, pod.created, pod.name))
    if not wanted.allows_surge:
        return found + [Delete(pod, "one pod a node") for pod in running[1:]]
    if not running:
        return [*found, Create("the node has none", wanted.revision, node=node)] if eligible.should_run else found
    return found + _prune(wanted, running)


def _prune(wanted: WantedDaemonSet, running: Sequence[ObservedPod]) -> list[Action]:
    """Keep an old and a new pod only while the old one serves and the new one does not yet."""
    if len(running) <= 1:
        return []
    new = next((pod for pod in running if pod.revision == wanted.revision), None)
    old = next((pod for pod in running if pod.revision != wanted.revision), None)
    found: list[Action] = [Delete(pod, "one pod a node") for pod in running if pod not in (new, old)]
    if new is not None and old is not None and (not old.is_ready or new.is_ready):
        found.append(Delete(old, "the new pod is ready" if old.is_ready else "not ready, and replaced"))
    return found


def _roll(
    wanted: WantedDaemonSet, nodes: Mapping[str, Eligibility], pods: Mapping[str, Sequence[ObservedPod]]
) -> list[Action]:
    desired = sum(eligible.should_run for eligible in nodes.values())
    surge = scaled(wanted.max_surge, desired, round_up=True)
    unavailable = scaled(wanted.max_unavailable, desired, round_up=True)
    if desired > 0 and surge == 0 and unavailable == 0:
        unavailable = 1
    by_node = {node: pods.get(node, ()) for node in (*pods, *(n for n, each in nodes.items() if each.should_run))}
    if surge == 0:
        return _replace(wanted, by_node, unavailable)
    return _surge(wanted, nodes, by_node, surge, desired)


def _split(
    wanted: WantedDaemonSet, pods: Collection[ObservedPod]
) -> tuple[ObservedPod | None, ObservedPod | None] | None:
    """Return a node's new and its old pod; None where there are several of a sort. Upstream: findUpdatedPodsOnNode."""
    new = [pod for pod in pods if pod.revision == wanted.revision]
    old = [pod for pod in pods if pod.revision != wanted.revision]
    if len(new) > 1 or len(old) > 1:
        return None
    return next(iter(new), None), next(iter(old), None)


def _replace(wanted: WantedDaemonSet, by_node: Mapping[str, Collection[ObservedPod]], limit: int) -> list[Action]:
    """Delete old pods, as many as may be unavailable at a time; the next round makes new ones."""
    n_unavailable = 0
    unfit: list[ObservedPod] = []
    candidates: list[ObservedPod] = []
    for pods in by_node.values():
        split = _split(wanted, pods)
        new, old = split or (None, None)
        if split is None or (new is None) == (old is None) or (new is not None and not new.is_ready):
            n_unavailable += 1
        elif old is not None and not old.is_ready:
            unfit.append(old)
            n_unavailable += 1
        elif old is not None and n_unavailable < limit:
            candidates.append(old)
    because = f"maxUnavailable {limit}"
    return [Delete(pod, because) for pod in (*unfit, *candidates[: max(limit - n_unavailable, 0)])]


def _surge(
    wanted: WantedDaemonSet,
    nodes: Mapping[str, Eligibility],
    by_node: Mapping[str, Collection[ObservedPod]],
    limit: int,
    desired: int,
) -> list[Action]:
    """Make new pods beside old ones, as many at a time as the surge allows, and delete old ones that are served."""
    n_surge = n_available = 0
    leaving: list[ObservedPod] = []
    misplaced: list[ObservedPod] = []
    allowed: list[str] = []
    candidates: list[str] = []
    for node, pods in by_node.items():
        split = _split(wanted, pods)
        if split is None:
            n_surge += 1
            continue
        new, old = split
        first = old or new
        n_available += first is not None and first.is_ready
        if old is None:
            continue
        if new is not None:
            if new.is_ready:
                leaving.append(old)
            else:
                n_surge += 1
        elif not nodes.get(node, NOT_HERE).should_run:
            (misplaced if old.is_ready else leaving).append(old)
        elif not old.is_ready:
            allowed.append(node)
        elif n_surge < limit:
            candidates.append(node)
    leaving += misplaced[: max(n_available - desired, 0)]
    chosen = [*allowed, *candidates[: max(limit - n_surge, 0)]]
    because = f"maxSurge {limit}"
    return [
        *(Delete(pod, because) for pod in leaving),
        *(Create(because, wanted.revision, node=node) for node in chosen),
    ]
