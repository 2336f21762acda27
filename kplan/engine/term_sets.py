"""Distinct inter-pod terms of pods, by code; replicas have equal terms, which are compiled once."""

from __future__ import annotations

import msgspec

from kplan.rules.affinity import NO_TERMS, PodAffinityTerms
from kplan.rules.pod_info import PodInfo

_encoder = msgspec.json.Encoder()


class TermSets:
    """Inter-pod terms of pods by code; code 0 is of pods without any."""

    def __init__(self) -> None:
        self.sets: list[PodAffinityTerms] = [NO_TERMS]  #: distinct terms, by code
        self._code_of: dict[PodAffinityTerms, int] = {NO_TERMS: 0}
        self._known: dict[tuple[str, bytes], tuple[PodInfo, int]] = {}

    def copy(self) -> TermSets:
        """Return an independent copy."""
        copied = TermSets()
        copied.sets = self.sets.copy()
        copied._code_of = self._code_of.copy()
        copied._known = self._known.copy()
        return copied

    def code(self, info: PodInfo) -> int:
        """Return the code of a pod's terms; new ones are added."""
        written = (info.namespace, _encoder.encode(info.pod.spec.affinity))
        known = self._known.get(written)
        if known is None:
            code = self._code_of.setdefault(info.affinity, len(self.sets))
            if code == len(self.sets):
                self.sets.append(info.affinity)
            self._known[written] = info, code
            return code
        like, code = known
        info.share_terms(like)
        return code
