"""Scores for the oracle scheduler."""

import math

from tests.oracle import image_locality, node_affinity, node_resources_fit, taint_toleration
from tests.oracle import node_resources_balanced_allocation as balance
from tests.oracle.inter_pod_affinity import PREFERRED
from tests.oracle.scheduler_counts import affinity_scores, spread_scores
from tests.oracle.scheduler_world import is_scalar

CPU_AND_MEMORY = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


class Scoring:
    """The part of a cycle that gives points to feasible nodes; pod, world and profile are the cycle's."""

    def scores(self, feasible):
        """Return {node: {"total", "plugins"}}; plugins that give nothing are left out."""
        found = {info.name: {"total": 0, "plugins": {}} for info in feasible}
        for name, weight in self.profile.scores.items():
            for info, score in zip(feasible, self.score(name, feasible) or [], strict=False):
                assert 0 <= score <= 100
                if score:
                    found[info.name]["plugins"][name] = weight * score
                    found[info.name]["total"] += weight * score
        return found

    def score(self, name, feasible):
        pod, args = self.pod, self.profile.args_of(name)
        if name == "TaintToleration":
            return taint_toleration.normalized([taint_toleration.score(pod, info.node) for info in feasible])
        if name == "NodeAffinity":
            added = args.get("addedAffinity", {}).get(PREFERRED, [])
            return node_affinity.normalized([node_affinity.score(pod, info.node, added) for info in feasible])
        if name == "NodeResourcesFit":
            return [self._fit_score(info, args.get("scoringStrategy", {})) for info in feasible]
        if name == "PodTopologySpread":
            return spread_scores(pod, feasible, self.world, args)
        if name == "InterPodAffinity":
            return affinity_scores(pod, feasible, self.world, args)
        if name == "ImageLocality":
            nodes = [info.node for info in self.world.nodes.values()]
            return [image_locality.score(pod, info.node, nodes) for info in feasible]
        return self._balance_scores(feasible, [each["name"] for each in args.get("resources", CPU_AND_MEMORY)])

    def _fit_score(self, info, strategy):
        kind = strategy.get("type", "LeastAllocated")
        asked = self.world.needs_of(self.pod).incoming_nonzero
        total = weights = 0
        for each in strategy.get("resources", CPU_AND_MEMORY):
            name, has = each["name"], info.allocatable.get(each["name"], 0)
            if has == 0 or (is_scalar(name) and asked.get(name, 0) == 0):
                continue
            used = info.used_nonzero(name) + asked.get(name, 0)
            if kind == "LeastAllocated":
                points = 0 if used > has else (has - used) * 100 // has
            elif kind == "MostAllocated":
                points = min(used, has) * 100 // has
            else:
                shape = strategy["requestedToCapacityRatio"]["shape"]
                line = [(point["utilization"], point["score"]) for point in shape]
                points = node_resources_fit._on_line(line, 100 if used > has else used * 100 // has)
                if points <= 0:
                    continue
            total += points * each["weight"]
            weights += each["weight"]
        if not weights:
            return 0
        if kind == "RequestedToCapacityRatio":
            return math.floor(total / weights + 0.5)
        return total // weights

    def _balance_scores(self, feasible, names):
        asked = self.world.needs_of(self.pod).running
        if not any(asked.get(name, 0) for name in names):
            return None
        found = []
        for info in feasible:
            before, after = [], []
            for name in names:
                has = info.allocatable.get(name, 0)
                if has and not (is_scalar(name) and asked.get(name, 0) == 0):
                    used = info.used(name)
                    before.append(min(float(used) / float(has), 1.0))
                    after.append(min(float(used + asked.get(name, 0)) / float(has), 1.0))
            found.append(50 + int((50 + balance._evenness(after) - balance._evenness(before)) / 2))
        return found
