"""What the pods of a group that waits need together: the remedies that were tried with the whole group, as actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import UNSET
from msgspec.structs import replace

from kplan.actions.actions import Act, Acts, Move, NewNodes, Patch, UncordonNode
from kplan.answers.pod_groups import share_of
from kplan.api.core import Pod
from kplan.diagnosis import variants
from kplan.diagnosis.group_remedies import group_remedies
from kplan.documents import remedy as r
from kplan.framework.listers import Key
from kplan.simulation.loop import Simulation

PatchOf = Callable[[int, r.Remedy, Pod], Patch | None]
"""Returns the patch of the workload of a pod with which it becomes a changed pod; None for none."""


def acts_for_groups(simulation: Simulation, pods: set[str], patch_of: PatchOf) -> Iterator[Acts]:
    """Yield sets of actions after each of which a whole group runs, for the groups of some pods.

    Parameters
    ----------
    pods : NAMESPACE/NAME of pods that wait
    """
    waiting: dict[Key, list[int]] = {}
    for row, pod in simulation.pods.items():
        key = None if pod.node else simulation.groups.key_of(row)
        if key is not None:
            waiting.setdefault(key, []).append(row)
    infos = simulation.session.cluster.pods.infos
    for key, rows in waiting.items():
        if any(infos[row].key in pods for row in rows):
            for remedy in group_remedies(simulation.session, key, rows, share_of(len(waiting))):
                acts = tuple(_acts(simulation, rows, remedy, patch_of))
                if acts and (not remedy.helps or remedy.helps.pods == remedy.helps.of):
                    yield acts


def _acts(simulation: Simulation, rows: list[int], remedy: r.Remedy, patch_of: PatchOf) -> Iterator[Act]:
    match remedy:
        case r.AddNodes(change=change):
            yield NewNodes(change.nodes, change.like)
        case r.Uncordon(change=change):
            yield from (UncordonNode(one.node) for one in (change, *(remedy.also or ())))
        case r.MovePod(change=change):
            yield from (Move(one.pod, one.node) for one in (change, *(remedy.also or ())))
        case r.LowerRequest():
            yield from _patches(simulation, rows, remedy, patch_of)
        case _:
            return  # other changes are tried pod by pod, and carried out with the whole group


def _patches(simulation: Simulation, rows: list[int], remedy: r.LowerRequest, patch_of: PatchOf) -> Iterator[Patch]:
    """Yield a patch for each workload of the members that change."""
    infos, targets = simulation.session.cluster.pods.infos, set()
    for row in rows:
        pod, change = infos[row].pod, remedy.change
        if remedy.members and infos[row].key not in remedy.members:
            continue
        container = next((one for one in pod.spec.containers if one.name == change.container), None)
        if container is None:
            continue
        lower = variants.with_request(pod, container, change.resource, change.to)
        patch = patch_of(row, replace(remedy, members=UNSET, helps=UNSET), lower)
        if patch is not None and patch.target not in targets:
            targets.add(patch.target)
            yield patch
