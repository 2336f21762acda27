"""What each plugin's arguments may not say.

Re-expresses validation_pluginargs_test.go (v1.36) for the default feature gates; a row lists every problem by its path
inside `args`.
"""

from typing import Any

import pytest

from kplan.config import load_scheduler_config
from kplan.errors import ConfigError, Problem

ARGS = "profiles[0].pluginConfig[0].args."
RATIO = "scoringStrategy.requestedToCapacityRatio"
REQUIRED = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
PREFERRED = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"


def problems_of(plugin: str, args: dict[str, Any]) -> tuple[Problem, ...]:
    try:
        load_scheduler_config(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}],
            },
            kubernetes="1.36",
        )
    except ConfigError as error:
        return error.problems
    return ()


def constraint(**changes: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "node", "whenUnsatisfiable": "ScheduleAnyway", **changes}


def spread(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {"defaultingType": "List", "defaultConstraints": list(constraints)}


def strategy(**fields: Any) -> dict[str, Any]:
    return {"scoringStrategy": {"type": "LeastAllocated", **fields}}


def ratio(*points: tuple[int, int]) -> dict[str, Any]:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})


def required(*expressions: dict[str, Any], fields: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def preferred(weight: int, *expressions: dict[str, Any]) -> dict[str, Any]:
    term = {"weight": weight, "preference": {"matchExpressions": list(expressions)}}
    return {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


#: Plugin -> sentence -> (args, [(path inside args, part of the message)])
ROWS: dict[str, dict[str, tuple[dict[str, Any], list[tuple[str, str]]]]] = {
    "DefaultPreemption": {
        "a negative percentage of candidates": (
            {"minCandidateNodesPercentage": -1},
            [("minCandidateNodesPercentage", "Invalid value: -1: not in valid range [0, 100]")],
        ),
        "a percentage of candidates above 100": (
            {"minCandidateNodesPercentage": 900},
            [("minCandidateNodesPercentage", "Invalid value: 900: not in valid range [0, 100]")],
        ),
        "fewer candidates than none, twice": (
            {"minCandidateNodesPercentage": -1, "minCandidateNodesAbsolute": -1},
            [("minCandidateNodesPercentage", "[0, 100]"), ("minCandidateNodesAbsolute", "not in valid range [0, inf)")],
        ),
        "no candidates either way": (
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            [
                ("minCandidateNodesPercentage", "cannot be zero at the same time as minCandidateNodesAbsolute"),
                ("minCandidateNodesAbsolute", "cannot be zero at the same time as minCandidateNodesPercentage"),
            ],
        ),
        "no percentage but a number of candidates": ({"minCandidateNodesPercentage": 0}, []),
    },
    "InterPodAffinity": {
        "a hard affinity weight below 0": (
            {"hardPodAffinityWeight": -1},
            [("hardPodAffinityWeight", "Invalid value: -1: not in valid range [0, 100]")],
        ),
        "a hard affinity weight of 100 is the most": ({"hardPodAffinityWeight": 100}, []),
    },
    "PodTopologySpread": {
        "two different constraints on one key": (
            spread(constraint(), constraint(whenUnsatisfiable="DoNotSchedule")),
            [],
        ),
        "a maxSkew below 1": (
            spread(constraint(maxSkew=-1)),
            [("defaultConstraints[0].maxSkew", "Invalid value: -1: not in valid range (0, inf)")],
        ),
        "no maxSkew": (
            spread({"topologyKey": "node", "whenUnsatisfiable": "ScheduleAnyway"}),
            [("defaultConstraints[0].maxSkew", "Invalid value: 0: not in valid range (0, inf)")],
        ),
        "an empty topology key": (
            spread(constraint(topologyKey="")),
            [("defaultConstraints[0].topologyKey", "Required value: can not be empty")],
        ),
        "a topology key that is no label": (
            spread(constraint(topologyKey="a b")),
            [("defaultConstraints[0].topologyKey", 'Invalid value: "a b": name part must consist of')],
        ),
        "nothing said about the unsatisfiable": (
            spread(constraint(whenUnsatisfiable="")),
            [("defaultConstraints[0].whenUnsatisfiable", "Required value: can not be empty")],
        ),
        "an action that does not exist": (
            spread(constraint(whenUnsatisfiable="Unknown")),
            [
                (
                    "defaultConstraints[0].whenUnsatisfiable",
                    'Unsupported value: "Unknown": supported values: "DoNotSchedule", "ScheduleAnyway"',
                )
            ],
        ),
        "the same constraint again": (
            spread(constraint(), constraint(maxSkew=2)),
            [("defaultConstraints[1]", 'Duplicate value: "{node, ScheduleAnyway}"')],
        ),
        "a label selector in a default constraint": (
            spread(constraint(labelSelector={"matchLabels": {"foo": "bar"}})),
            [("defaultConstraints[0].labelSelector", "Forbidden: constraint must not define a selector")],
        ),
        "a way of defaulting that does not exist": (
            {"defaultingType": "None"},
            [("defaultingType", 'Unsupported value: "None": supported values: "System", "List"')],
        ),
        "the system's defaults and constraints as well": (
            {"defaultConstraints": [constraint()]},
            [("defaultingType", 'Invalid value: "System": when .defaultConstraints are not empty')],
        ),
    },
    "NodeResourcesBalancedAllocation": {
        "a balanced resource with a weight": (
            {"resources": [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}]},
            [("resources[0].weight", "Invalid value: 2: must be 1")],
        ),
        "a balanced resource twice": (
            {"resources": [{"name": "cpu"}, {"name": "cpu"}]},
            [("resources[1].name", 'Duplicate value: "cpu"')],
        ),
    },
    "NodeAffinity": {
        "an added affinity in order": (
            required(requirement("label-1", "In", "v"), fields=(requirement("metadata.name", "In", "host-1"),)),
            [],
        ),
        "a matched field with two values": (
            required(fields=(requirement("metadata.name", "In", "host-1", "host-2"),)),
            [(f"{REQUIRED}[0].matchFields[0].values", 'Invalid value: ["host-1","host-2"]: must have one element')],
        ),
        "a matched field that only exists": (
            required(fields=(requirement("metadata.name", "Exists"),)),
            [
                (
                    f"{REQUIRED}[0].matchFields[0].operator",
                    'Unsupported value: "Exists": supported values: "In", "NotIn"',
                )
            ],
        ),
        "an operator that does not exist": (
            required(requirement("a", "in", "v")),
            [
                (
                    f"{REQUIRED}[0].matchExpressions[0].operator",
                    'Unsupported value: "in": supported values: "In", "NotIn"',
                )
            ],
        ),
        "In without values, Exists with one, Gt with two, Lt with none": (
            required(
                requirement("a", "In"),
                requirement("a", "Exists", "v"),
                requirement("a", "Gt", "1", "2"),
                requirement("a", "Lt"),
            ),
            [
                (f"{REQUIRED}[0].matchExpressions[0].values", "values set can't be empty"),
                (f"{REQUIRED}[0].matchExpressions[1].values", "values set must be empty for exists and does not exist"),
                (f"{REQUIRED}[0].matchExpressions[2].values", "exactly one value is required"),
                (f"{REQUIRED}[0].matchExpressions[3].values", "exactly one value is required"),
            ],
        ),
        "Gt with what is no whole number": (
            required(requirement("a", "Gt", "1.5")),
            [(f"{REQUIRED}[0].matchExpressions[0].values[0]", "the value must be an integer")],
        ),
        "a key and a value that no label can have": (
            required(requirement("/a", "In", "-")),
            [
                (f"{REQUIRED}[0].matchExpressions[0].key", "prefix part must be non-empty"),
                (f"{REQUIRED}[0].matchExpressions[0].values[0]", "a valid label must be an empty string or consist of"),
            ],
        ),
        "a preferred term that cannot be read": (
            preferred(1, requirement("a", "Near")),
            [(f"{PREFERRED}[0].preference.matchExpressions[0].operator", "Unsupported value")],
        ),
        "a preferred term that weighs nothing is not read": (preferred(0, requirement("a", "Near")), []),
    },
    "VolumeBinding": {
        "no waiting for volumes": ({"bindTimeoutSeconds": 0}, []),
        "waiting less than not at all": (
            {"bindTimeoutSeconds": -10},
            [("bindTimeoutSeconds", "Invalid value: -10: invalid BindTimeoutSeconds, should not be a negative value")],
        ),
        "a shape, whose gate is off": (
            {"shape": [{"utilization": 1, "score": 1}]},
            [("shape", "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring")],
        ),
    },
    "NodeResourcesFit": {
        "names of ignored resources: too long, empty, too many slashes": (
            {"ignoredResources": ["a" * 64, "", "a/b/c", "longvalue", "example.com/x"]},
            [
                ("ignoredResources[0]", "name part must be no more than 63 bytes"),
                ("ignoredResources[1]", "name part must be non-empty"),
                ("ignoredResources[1]", "name part must consist of"),
                ("ignoredResources[2]", "a valid label key must consist of"),
            ],
        ),
        "a group of resources with a slash": (
            {"ignoredResourceGroups": ["example.com/foo"]},
            [("ignoredResourceGroups[0]", "Invalid value: \"example.com/foo\": resource group name can't contain '/'")],
        ),
        "a group of resources that is no name": (
            {"ignoredResourceGroups": ["example.com", "~"]},
            [("ignoredResourceGroups[1]", "name part must consist of")],
        ),
        "a scoring strategy without a type": (
            {"scoringStrategy": {"resources": [{"name": "cpu"}]}},
            [("scoringStrategy.type", 'Unsupported value: "": supported values: "LeastAllocated", "MostAllocated"')],
        ),
        "a scoring strategy that does not exist": (
            strategy(type="Invalid"),
            [("scoringStrategy.type", 'Unsupported value: "Invalid"')],
        ),
        "weights of resources outside 1 to 100": (
            strategy(
                resources=[{"name": "cpu", "weight": -1}, {"name": "memory", "weight": 101}, {"name": "x", "weight": 1}]
            ),
            [
                (
                    "scoringStrategy.resources[0].weight",
                    "Invalid value: -1: resource weight of cpu not in valid range (0, 100]",
                ),
                (
                    "scoringStrategy.resources[1].weight",
                    "Invalid value: 101: resource weight of memory not in valid range",
                ),
            ],
        ),
        "a capacity ratio without its shape": (
            strategy(type="RequestedToCapacityRatio"),
            [(RATIO, "Required value: must be specified when type is RequestedToCapacityRatio")],
        ),
        "a shape for another strategy": (
            strategy(type="MostAllocated", requestedToCapacityRatio={"shape": [{"utilization": 0, "score": 0}]}),
            [(RATIO, "Forbidden: must be nil when type is not RequestedToCapacityRatio")],
        ),
        "a shape without points": (
            ratio(),
            [(f"{RATIO}.shape", "Required value: at least one point must be specified")],
        ),
        "a shape in order": (ratio((30, 3), (60, 10), (100, 0)), []),
        "utilization outside 0 to 100": (
            ratio((-10, 3), (110, 3)),
            [
                (f"{RATIO}.shape[0].utilization", "Invalid value: -10: not in valid range [0, 100]"),
                (f"{RATIO}.shape[1].utilization", "Invalid value: 110: not in valid range [0, 100]"),
            ],
        ),
        "scores outside 0 to 10": (
            ratio((10, -3), (20, 11)),
            [
                (f"{RATIO}.shape[0].score", "Invalid value: -3: not in valid range [0, 10]"),
                (f"{RATIO}.shape[1].score", "Invalid value: 11: not in valid range [0, 10]"),
            ],
        ),
        "points out of order are reported once": (
            ratio((10, 3), (20, 3), (20, 3), (5, 3)),
            [(f"{RATIO}.shape[2].utilization", "Invalid value: 20: values must be sorted in increasing order")],
        ),
    },
    "DynamicResources": {
        "device allocation without limit": ({"filterTimeout": "0s", "bindingTimeout": "1s"}, []),
        "a negative limit of device allocation": (
            {"filterTimeout": "-1s"},
            [("filterTimeout", 'Invalid value: "-1s": must be zero or positive')],
        ),
        "binding within less than a second": (
            {"bindingTimeout": "0s"},
            [("bindingTimeout", 'Invalid value: "0s": must be at least 1 second')],
        ),
        "a duration that is none": (
            {"bindingTimeout": "soon"},
            [("bindingTimeout", 'expected a duration, got "soon"')],
        ),
    },
}


@pytest.mark.parametrize(
    ("plugin", "args", "wanted"),
    [pytest.param(plugin, *row, id=name) for plugin, rows in ROWS.items() for name, row in rows.items()],
)
def test_arguments(plugin: str, args: dict[str, Any], wanted: list[tuple[str, str]]) -> None:
    found = problems_of(plugin, args)

    assert [problem.json_path for problem in found] == [f"{ARGS}{path}" for path, _ in wanted]
    for problem, (_, message) in zip(found, wanted, strict=True):
        assert message in problem.message
        assert problem.hint
