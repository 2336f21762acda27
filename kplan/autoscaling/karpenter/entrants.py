"""The pods of a scheduling pass, with what they ask for at the moment.

Upstream: provisioning/scheduling/scheduler.go PodData, queue.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from kplan.api.core import Pod
from kplan.api.time import to_micros
from kplan.autoscaling.karpenter.pods import PodFacts, has_resource_claims
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary
from kplan.autoscaling.karpenter.volumes import Storage
from kplan.autoscaling.karpenter.wishes import Wishes, wishes_of
from kplan.rules.resources import CPU, MEMORY


class Entrant:
    """A pod of a pass; its wishes become fewer while it is tried.

    Attributes
    ----------
    requirements : what its node must be, the heaviest preference included
    strict : the same without preferences
    alternatives : requirements of its volumes, of which one must be met; empty for none
    """

    __slots__ = (
        "_ignores_preferences",
        "_vocabulary",
        "alternatives",
        "first_wishes",
        "has_claims",
        "key",
        "labels",
        "namespace",
        "pod",
        "ports",
        "requests",
        "requirements",
        "strict",
        "uid",
        "volumes",
        "wishes",
    )

    def __init__(
        self,
        pod: Pod,
        facts: PodFacts,
        alternatives: tuple[Requirements, ...],
        vocabulary: Vocabulary,
        *,
        ignores_preferences: bool,
    ) -> None:
        self._vocabulary = vocabulary
        self._ignores_preferences = ignores_preferences
        self.pod = pod
        self.key = pod.metadata.key
        self.uid = pod.metadata.uid or self.key
        self.namespace = pod.metadata.namespace
        self.labels = pod.metadata.labels
        self.requests = facts.requests(pod)
        self.ports = facts.ports(pod)
        self.volumes = facts.volumes(pod)
        self.alternatives = alternatives
        self.has_claims = has_resource_claims(pod)
        self.first_wishes = wishes_of(pod.spec)
        self.wish(self.first_wishes)

    def wish(self, wishes: Wishes) -> None:
        """Ask for something else."""
        self.wishes = wishes
        self.strict = wishes.requirements(self._vocabulary, strict=True)
        has_preference = bool(wishes.preferred) and not self._ignores_preferences
        self.requirements = wishes.requirements(self._vocabulary, strict=False) if has_preference else self.strict


def entrants_of(
    pods: Iterable[Pod], facts: PodFacts, storage: Storage, vocabulary: Vocabulary, *, ignores_preferences: bool
) -> list[Entrant]:
    """Return the pods of a pass; those whose volumes cannot be looked up are left out."""
    entrants = []
    for pod in pods:
        alternatives = storage.alternatives(pod) if pod.spec.volumes else ()
        if alternatives is not None:
            entrants.append(Entrant(pod, facts, alternatives, vocabulary, ignores_preferences=ignores_preferences))
    return entrants


def queue_order(entrant: Entrant) -> tuple[int, int, int, str]:
    """Return the key of the queue: most CPU first, then most memory, then the oldest."""
    created = entrant.pod.metadata.creation_timestamp
    moment = 0 if created is None else to_micros(created)
    requests = entrant.requests
    return -requests.get(CPU, 0), -requests.get(MEMORY, 0), moment, entrant.uid
