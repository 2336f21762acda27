"""The claims of stateful sets: created before the pod that mounts them, deleted as the retention policy says.

Upstream: pkg/controller/statefulset/stateful_pod_control.go createPersistentVolumeClaims;
pkg/controller/volume/persistentvolume/pv_controller.go syncUnboundClaim for classes that bind immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from msgspec.structs import replace

from kplan.admission import Admitter
from kplan.admission.limits import Rejection
from kplan.api.core import PersistentVolumeClaim, Pod
from kplan.api.kinds import type_of
from kplan.api.meta import PlainMeta
from kplan.api.workloads import StatefulSet
from kplan.framework.listers import Listers
from kplan.rules.volumes import claims_of
from kplan.snapshot.defaults import complete
from kplan.snapshot.model import Snapshot
from kplan.workloads.expansion import stateful_claims


def same(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    return claim


class SetClaims:
    """Creates and deletes the claims of stateful sets.

    Parameters
    ----------
    listers : receives the claims
    admitter : counts them in quotas
    """

    def __init__(self, snapshot: Snapshot, listers: Listers, admitter: Admitter) -> None:
        self._snapshot = snapshot
        self._claims = listers.persistent_volume_claims
        self._admitter = admitter
        self._numbers = count(1)
        self._fresh: list[str] = []
        #: binds a new claim to a volume where its class does so at once
        self.bind: Callable[[PersistentVolumeClaim], PersistentVolumeClaim] = same

    def mounted(self, stateful_set: StatefulSet, pod: Pod) -> Pod:
        return stateful_claims(stateful_set, pod, self._snapshot, self._claims)[0]

    def create(self, stateful_set: StatefulSet, pod: Pod) -> str:
        """Create the claims of a pod that do not exist yet; return why it cannot be created, "" where it can.

        Claims that the API server accepts stay, whatever becomes of the others and of the pod.
        """
        pod, missing = stateful_claims(stateful_set, pod, self._snapshot, self._claims)
        problems = [self._create(claim) for claim in missing]
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            known = None if source is None else self._claims.get((pod.metadata.namespace, source.claim_name))
            is_own = any(template.metadata.name == volume.name for template in stateful_set.spec.volume_claim_templates)
            if is_own and known is not None and known.metadata.deletion_timestamp is not None:
                problems.append(f"pvc {known.metadata.name} is being deleted")
        problems = [problem for problem in problems if problem]
        return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""

    def _create(self, claim: PersistentVolumeClaim) -> str:
        metadata = claim.metadata
        claim = complete(claim, type_of(claim))
        try:
            self._admitter.admit_claim(claim)
        except Rejection as rejection:
            words = f'persistentvolumeclaims "{metadata.name}" is forbidden: {rejection}'
            return f"failed to create PVC {metadata.name}: {words}"
        uid = f"{metadata.namespace}/{metadata.name}#{next(self._numbers)}"
        claim = replace(claim, metadata=replace(claim.metadata, uid=uid))
        self._claims[metadata.namespace, metadata.name] = self.bind(claim)
        self._fresh.append(metadata.name)
        return ""

    def take_fresh(self) -> list[str]:
        """Return the names of the claims that were created since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def delete(self, stateful_set: StatefulSet, pod: PlainMeta) -> None:
        """Delete the claims of a pod that is gone, as garbage collection does when they are owned by the pod."""
        namespace = stateful_set.metadata.namespace
        owners = {("StatefulSet", stateful_set.metadata.name): stateful_set.metadata.uid, ("Pod", pod.name): pod.uid}
        for template in stateful_set.spec.volume_claim_templates:
            key = (namespace, f"{template.metadata.name}-{pod.name}")
            claim = self._claims.get(key)
            if claim is not None and not _is_of_another(claim, owners):
                self.remove(claim)

    def going(self, pod: Pod) -> list[PersistentVolumeClaim]:
        if not pod.spec.volumes or not self._claims:
            return []
        claims = (self._claims.get((pod.metadata.namespace, name)) for name in claims_of(pod))
        return [claim for claim in claims if claim is not None and claim.metadata.deletion_timestamp is not None]

    def remove(self, claim: PersistentVolumeClaim) -> None:
        """Remove a claim, and its share of the quotas."""
        del self._claims[claim.metadata.namespace, claim.metadata.name]
        self._admitter.quotas.release(claim)


def _is_of_another(claim: PersistentVolumeClaim, owners: Mapping[tuple[str, str], str]) -> bool:
    """Tell whether a claim has a controller besides its set and pod, or owners that are gone, so that it is left alone.

    Upstream: stateful_set_utils.go hasUnexpectedController, hasStaleOwnerRef.

    Parameters
    ----------
    owners : kind and name of the set and of the pod -> uid
    """
    for reference in claim.metadata.owner_references:
        uid = owners.get((reference.kind, reference.name))
        if reference.controller if uid is None else reference.uid != uid:
            return True
    return False
