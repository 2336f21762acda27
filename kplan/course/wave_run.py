"""The answer of `Planner.run_queue`: pods and groups that arrive in waves, each wave worked off to rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msgspec import UNSET

from kplan.cluster.base import Base
from kplan.course.simulation.waves import PodState, Waves
from kplan.documents.plan import WaveGroup, WaveOutcome, WavePod, WavePodRef, WaveReport
from kplan.engine.cluster import NOWHERE
from kplan.errors import NotFoundError, UsageError
from kplan.framework.listers import Key, group_of
from kplan.framework.results import Outcome
from kplan.framework.session import Session

_GROUP = "PodGroup:"


def _report(waves: Waves, rows: Sequence[int]) -> WaveReport:
    """Return how everything ends; `rows` are the pods that arrived, in order."""
    infos = waves.session.cluster.pods.infos
    members: dict[Key, list[int]] = {}
    for row in rows:
        key = group_of(infos[row])
        if key is not None:
            members.setdefault(key, []).append(row)
    return WaveReport(
        pods=tuple(_pod(waves, row) for row in rows),
        groups={"/".join(key): _group(waves, key, pods) for key, pods in sorted(members.items())},
        evicted=tuple(infos[pod].key for pod in waves.evicted),
    )


def _pod(waves: Waves, row: int) -> WavePod:
    session = waves.session
    state = waves.states.get(row, PodState(Outcome.UNSCHEDULABLE))
    info, node, nominated = session.cluster.pods.infos[row], session.cluster.node_of[row], session.nominator.row_of(row)
    names = session.cluster.nodes.names
    return WavePod(
        pod=WavePodRef(namespace=info.namespace, name=info.name),
        outcome=cast("WaveOutcome", str(state.outcome)),
        node=None if node == NOWHERE else names[node],
        message=state.message,
        waits=state.waits,
        nominated_node=None if nominated is None else names[nominated],
    )


def _group(waves: Waves, key: Key, rows: Sequence[int]) -> WaveGroup:
    n_scheduled = sum(waves.session.cluster.node_of[row] != NOWHERE for row in rows)
    n_pending = len(rows) - n_scheduled - sum(row in waves.evicted for row in rows)
    return WaveGroup(condition=waves.conditions.get(key, UNSET), scheduled=n_scheduled, pending=n_pending)


def run_waves(base: Base, waves: Sequence[Sequence[str]] | None) -> WaveReport:
    """Let pods and groups arrive in waves, and work each off.

    Raises NotFoundError for a pod or group that the snapshot does not have, UsageError for a pod that runs already or
    arrives twice.
    """
    session = base.fork()
    infos = session.cluster.pods.infos
    pending = sorted(base.pending().rows, key=lambda row: (infos[row].pod.metadata.creation_timestamp or "~", row))
    if waves is None:
        waves = [[infos[row].key for row in pending]]
    resolved = [[_arriving(session, name) for name in wave] for wave in waves]
    flat = [arriving for wave in resolved for arriving in wave]
    rows = [arriving for arriving in flat if isinstance(arriving, int)]
    if len(set(rows)) < len(rows):
        twice = next(row for index, row in enumerate(rows) if row in rows[:index])
        raise UsageError(f"pod {infos[twice].key} arrives twice", hint="name it in one wave only")
    for row in rows:
        session.nominator.drop(row)
    later = set(rows)
    groups = [arriving for arriving in flat if not isinstance(arriving, int)]
    run = Waves(session, rows, groups, starts_at=base.now / 1e6)
    before = [row for row in pending if row not in later]
    if before:
        run.run(before)
    for wave in resolved:
        run.run(wave)
    return _report(run, rows)


def _arriving(session: Session, name: str) -> int | Key:
    """Return the row of a pod NAMESPACE/NAME, or the key of a group ``PodGroup:NAMESPACE/NAME``."""
    namespace, _, own = name.removeprefix(_GROUP).partition("/")
    if name.startswith(_GROUP):
        if (namespace, own) not in session.pod_groups.groups:
            raise NotFoundError(f"the cluster has no pod group {namespace}/{own}", hint="see kplan snapshot show")
        return namespace, own
    row = session.find(name)
    if row is None:
        raise NotFoundError(f"the cluster has no pod {name}", hint="see kplan snapshot show pods")
    if session.cluster.node_of[row] != NOWHERE:
        raise UsageError(f"pod {name} runs already", hint="only pending pods arrive")
    return row
