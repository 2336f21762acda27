"""Scores for the oracle scheduler."""

from tests.oracle import image_locality, node_affinity, node_resources_fit, taint_toleration
from tests.oracle import node_resources_balanced_allocation as balance
from tests.oracle.inter_pod_affinity import PREFERRED
from tests.oracle.scheduler_counts import affinity_scores, spread_scores


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
            return [node_resources_fit.score(pod, info, args.get("scoringStrategy", {})) for info in feasible]
        if name == "PodTopologySpread":
            return (spread_scores(pod, feasible, self.world, args) or [None])[-1]
        if name == "InterPodAffinity":
            return (affinity_scores(pod, feasible, self.world, args) or [None])[-1]
        if name == "ImageLocality":
            nodes = [info.node for info in self.world.nodes.values()]
            return [image_locality.score(pod, info.node, nodes) for info in feasible]
        names = [each["name"] for each in args.get("resources", node_resources_fit.CPU_AND_MEMORY)]
        scores = [balance.score(pod, info, names) for info in feasible]
        return None if None in scores else scores
