"""kube-scheduler's whole decision, one pod and one node at a time, on JSON objects: slow, but obviously right.

Left out: claims that PreFilter rejects, dynamic resources, extenders. Answers have the fields of a placement document
that tests compare.
"""

from tests.oracle import image_locality, node_affinity, node_ports, node_resources_fit, taint_toleration, volumes
from tests.oracle import node_resources_balanced_allocation as balance
from tests.oracle.labels import is_terminating
from tests.oracle.scheduler_counts import (
    PREFERRED,
    REQUIRED,
    AffinityCounts,
    OnceCounts,
    SpreadCounts,
    affinity_scores,
    spread_scores,
)
from tests.oracle.scheduler_preemption import nothing_found, preempt, take_place
from tests.oracle.scheduler_world import World, priority_of

UNRESOLVABLE = "UnschedulableAndUnresolvable"
FILTERS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
)
SCORES = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
VOLUME_FILTERS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
MIN_FEASIBLE = 100
NOT_FOUND = "not found"
"""What DynamicResources says in PostFilter when PreFilter did not come to it; preemption is not tried then."""


class Profile:
    """A profile whose plugins are changed at the filter and score points at most."""

    def __init__(self, raw):
        plugins = raw.get("plugins", {})
        self.percentage = raw.get("percentageOfNodesToScore")
        self.args = {each["name"]: each["args"] for each in raw.get("pluginConfig", [])}
        without = [each["name"] for each in plugins.get("filter", {}).get("disabled", [])]
        self.filters = [name for name in FILTERS if name not in without and "*" not in without]
        without = [each["name"] for each in plugins.get("score", {}).get("disabled", [])]
        self.scores = {name: weight for name, weight in SCORES.items() if name not in without and "*" not in without}
        for each in plugins.get("score", {}).get("enabled", []):
            self.scores[each["name"]] = each.get("weight") or 1

    def args_of(self, name):
        return self.args.get(name, {})


class RejectedError(Exception):
    """PreFilter rejects the pod, by the plugin and text given."""


class Cycle:
    """What PreFilter found out about a pod; `copy` makes a world in which one node may change."""

    def __init__(self, pod, world, profile):
        self.pod, self.world, self.profile = pod, world, profile
        self.node_names, self.skipped, self.counts = None, set(), {}
        spec = pod["spec"]
        required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
        added = profile.args_of("NodeAffinity").get("addedAffinity", {})
        self.added_required = added.get(REQUIRED)
        if required is None and self.added_required is None and not spec.get("nodeSelector"):
            self.skipped.add("NodeAffinity")
        elif required is not None and required["nodeSelectorTerms"]:
            self.node_names = _named(required["nodeSelectorTerms"])
            if self.node_names is not None and not self.node_names:
                raise RejectedError("NodeAffinity", "pod affinity terms conflict")
        if not node_ports.ports(pod):
            self.skipped.add("NodePorts")
        once = OnceCounts(pod, world)
        if once.n:
            self.counts["VolumeRestrictions"] = once
        else:
            self.skipped.add("VolumeRestrictions")
        if not volumes.claim_references(pod):
            self.skipped.update(VOLUME_FILTERS)
        spread = SpreadCounts(pod, world, profile.args_of("PodTopologySpread"))
        for name, counts in (("PodTopologySpread", spread), ("InterPodAffinity", AffinityCounts(pod, world))):
            if counts.is_skipped:
                self.skipped.add(name)
            else:
                self.counts[name] = counts

    def copy(self):
        twin = object.__new__(Cycle)
        twin.__dict__.update(self.__dict__, counts={name: counts.copy() for name, counts in self.counts.items()})
        return twin

    def change(self, pod, info, by):
        """A pod comes to a node (by 1) or leaves it (-1)."""
        info.add(pod) if by > 0 else info.remove(pod)
        for counts in self.counts.values():
            counts.change(pod, info, by)

    # --- filters ------------------------------------------------------------------------------------------------------

    def ask(self, name, info):
        """Return None, or (code, reasons)."""
        pod, node = self.pod, info.node
        if name == "NodeUnschedulable":
            return taint_toleration.filter_unschedulable(pod, node)
        if name == "NodeName":
            wanted = pod["spec"].get("nodeName") or info.name
            return None if wanted == info.name else (UNRESOLVABLE, ["node(s) didn't match the requested node name"])
        if name == "TaintToleration":
            return taint_toleration.filter_node(pod, node)
        if name == "NodeAffinity":
            return node_affinity.filter_node(pod, node, self.added_required)
        if name == "NodePorts":
            return node_ports.filter_node(pod, info.ports)
        if name == "NodeResourcesFit":
            args = self.profile.args_of(name)
            ignored = [*args.get("ignoredResources", []), *args.get("ignoredResourceGroups", [])]
            return node_resources_fit.filter_node(pod, info, ignored)
        if name == "NodeVolumeLimits":
            return volumes.limits(pod, self.world.storage, node, info.pods)
        if name == "VolumeBinding":
            reasons = volumes.binding(pod, self.world.storage, node).reasons
            return (UNRESOLVABLE, reasons) if reasons else None
        if name == "VolumeZone":
            return volumes.zone(pod, self.world.storage, node)
        return self.counts[name].filter(info)

    def first_rejection(self, info):
        """Return None, or (code, plugin, reasons) of the first plugin that rejects."""
        for name in self.profile.filters:
            answer = None if name in self.skipped else self.ask(name, info)
            if answer is not None:
                return (answer[0], name, answer[1])
        return None

    def failing(self, info):
        """Ask every plugin, without nominated pods."""
        names = [name for name in self.profile.filters if name not in self.skipped]
        return {name: answer for name in names if (answer := self.ask(name, info)) is not None}

    def filter(self, info):
        """Filter with the pods nominated to the node, if there are any that count, and then without."""
        coming = [
            other
            for other in self.world.nominated_to(info.name)
            if priority_of(other) >= priority_of(self.pod) and other["metadata"]["uid"] != self.pod["metadata"]["uid"]
        ]
        if coming:
            crowded, twin = info.copy(), self.copy()
            for other in coming:
                twin.change(other, crowded, 1)
            rejection = twin.first_rejection(crowded)
            if rejection is not None:
                return rejection
        return self.first_rejection(info)

    # --- scores -------------------------------------------------------------------------------------------------------

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


def _named(terms):
    """Names of the only nodes that terms allow; None when one term names none."""
    names = set()
    for term in terms:
        fields = [each for each in term.get("matchFields", []) if each["operator"] == "In"]
        if not fields:
            return None
        names |= set.intersection(*(set(each["values"]) for each in fields))
    return names


class Scheduler:
    """Schedules pods in the order given; see `plan`."""

    def __init__(self, objects, config=None, *, sampling=False, start_index=0):
        config = config or {}
        profiles = config.get("profiles") or [{}]
        self.profiles = {each.get("schedulerName", "default-scheduler"): Profile(each) for each in profiles}
        self.percentage = config.get("percentageOfNodesToScore") or 0
        self.world = World(objects, self.profiles)
        self.sampling, self.start_index = sampling, start_index

    def plan(self, keys, *, settle=False):
        answers = []
        for key in keys:
            for _ in range(2):
                answer = self.place(key)
                answers.append(answer)
                if answer["outcome"] == "Scheduled":
                    self._bind(key, answer["node"])
                found = answer.get("preemption") or {}
                if not settle or not found.get("nominatedNode"):
                    break
                take_place(self.world, key, found)
        return answers

    def _bind(self, key, node):
        pod = self.world.pods[key]
        storage, info = self.world.storage, self.world.nodes[node]
        volumes.reserve(volumes.binding(pod, storage, info.node), info.node)
        info.add(pod)
        self.world.nominated.pop(key, None)

    def place(self, key):
        """Decide about one pod, changing nothing."""
        pod = self.world.pods[key]
        name = pod["spec"]["schedulerName"]
        profile = self.profiles.get(name)
        if profile is None:
            return _short(key, "Error", f'profile not found for scheduler name "{name}"')
        if is_terminating(pod):
            return _short(key, "Error", f"skip schedule deleting pod: {key}")
        gates = [each["name"] for each in pod["spec"].get("schedulingGates", [])]
        if gates:
            return _short(key, "Gated", f"waiting for scheduling gates: [{' '.join(gates)}]")
        if not self.world.nodes:
            return _short(key, "Unschedulable", "no nodes available to schedule pods")
        return self._cycle(key, pod, profile)

    def _cycle(self, key, pod, profile):
        nodes = self.world.nodes
        try:
            cycle = Cycle(pod, self.world, profile)
        except RejectedError as stop:
            plugin, text = stop.args
            rejections = {node: (UNRESOLVABLE, plugin, [text]) for node in nodes}
            answer = _short(key, "Unschedulable", f"0/{len(nodes)} nodes are available: {text}. {NOT_FOUND}")
            return {**answer, "rejections": _documents(rejections, {}), "preemption": nothing_found(NOT_FOUND)}
        feasible, statuses, unseen = self._find(cycle, key)
        absent = []
        if cycle.node_names is not None and not (unseen - cycle.node_names):
            text = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
            absent = [name for name in nodes if name not in cycle.node_names and name not in statuses]
            statuses.update({name: (UNRESOLVABLE, None, [text]) for name in absent})
        failing = {name: cycle.failing(nodes[name]) for name in statuses}
        answer = {
            **_short(key, "Unschedulable", ""),
            "feasibleNodes": sorted(info.name for info in feasible),
            "notEvaluated": sorted(unseen),
            "rejections": _documents(statuses, failing),
        }
        if not feasible:
            found = preempt(self, cycle, key, statuses)
            answer["preemption"] = found
            answer["message"] = " ".join(part for part in (fit_error(statuses, len(nodes)), found["message"]) if part)
            return answer
        best = [info.name for info in feasible]
        if len(feasible) > 1:
            answer["scores"] = cycle.scores(feasible) if profile.scores else {}
            totals = {info.name: answer["scores"].get(info.name, {"total": 1})["total"] for info in feasible}
            best = [name for name in best if totals[name] == max(totals.values())]
        return {**answer, "outcome": "Scheduled", "ties": sorted(best), "node": min(best)}

    def _find(self, cycle, key):
        """Return feasible nodes, statuses of rejected ones, and names of those that nobody looked at."""
        nodes, statuses = self.world.nodes, {}
        promised = self.world.nominated.get(key)
        if promised in nodes:
            rejection = cycle.filter(nodes[promised])
            if rejection is None:
                return [nodes[promised]], {}, set(nodes) - {promised}
            statuses[promised] = rejection
        names = self.world.in_zone_order()
        if cycle.node_names is not None:
            names = [name for name in names if name in cycle.node_names]
        limit = self._limit(cycle.profile, len(names))
        feasible, seen = [], set(statuses)
        start = self.start_index % len(names) if names else 0
        for name in [*names[start:], *names[:start]]:
            rejection = cycle.filter(nodes[name])
            if rejection is not None:
                statuses[name] = rejection
            elif len(feasible) == limit:
                break
            else:
                feasible.append(nodes[name])
            seen.add(name)
        self.start_index = (self.start_index + len(feasible) + len(statuses)) % len(nodes)
        return sorted(feasible, key=lambda info: info.name), statuses, set(names) - seen

    def _limit(self, profile, n_nodes):
        """After how many feasible nodes the search ends."""
        if not profile.scores:
            return 1
        if not self.sampling or n_nodes < MIN_FEASIBLE:
            return n_nodes
        percentage = self.percentage if profile.percentage is None else profile.percentage
        if percentage == 0:
            percentage = max(50 - n_nodes // 125, 5)
        return max(n_nodes * percentage // 100, MIN_FEASIBLE)


def fit_error(statuses, n_nodes):
    counts = {}
    for _, _, reasons in statuses.values():
        for reason in reasons:
            counts[reason] = counts.get(reason, 0) + 1
    parts = sorted(f"{n} {reason}" for reason, n in counts.items())
    return f"0/{n_nodes} nodes are available:" + (f" {', '.join(parts)}." if parts else "")


def _short(key, outcome, message):
    blank = {"node": None, "ties": [], "feasibleNodes": [], "notEvaluated": [], "rejections": {}, "scores": {}}
    return {"pod": key, "outcome": outcome, "message": message, **blank}


def _documents(statuses, failing):
    return {
        name: {
            "code": code,
            "plugin": plugin,
            "reasons": reasons,
            "alsoFailing": {
                each: {"code": told[0], "reasons": told[1]}
                for each, told in failing.get(name, {}).items()
                if each != plugin
            },
        }
        for name, (code, plugin, reasons) in statuses.items()
    }
