"""The effective configuration written as a document: it says everything, and loads as what it was."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kplan.config import default_configuration, load_scheduler_config
from kplan.config.loading import Difference, args_document, differences, to_document
from kplan.config.model import POINT_NAMES
from kplan.config.releases import newest, reference

DEFAULT_PLUGINS = newest().default_plugins
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def test_the_default_configuration_survives_being_written() -> None:
    config = load_scheduler_config(to_document(default_configuration(reference())))
    assert config.profiles == default_configuration(reference()).profiles
    assert config.warnings == ()
    assert differences(config) == ()


def test_the_default_arguments_are_those_of_upstream() -> None:
    resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]

    assert json.loads(json.dumps(args_document(default_configuration(reference()).profiles[0]))) == {
        "DefaultPreemption": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100},
        "DynamicResources": {"filterTimeout": "10s", "bindingTimeout": "10m0s"},
        "InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
        "NodeAffinity": {},
        "NodeResourcesBalancedAllocation": {"resources": resources},
        "NodeResourcesFit": {
            "ignoredResources": [],
            "ignoredResourceGroups": [],
            "scoringStrategy": {"type": "LeastAllocated", "resources": resources},
        },
        "PodTopologySpread": {"defaultConstraints": [], "defaultingType": "System"},
        "VolumeBinding": {"bindTimeoutSeconds": 600},
    }


def test_differences_name_the_place_the_default_and_the_value() -> None:
    bind = {"disabled": [{"name": "*"}], "enabled": [{"name": "Other"}]}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    profiles = [{"plugins": {"bind": bind}, "pluginConfig": [fit]}]
    config = load_scheduler_config(
        {**HEAD, "parallelism": 32, "leaderElection": {"leaderElect": False}, "profiles": profiles}
    )

    assert differences(config) == (
        Difference("parallelism", 16, 32),
        Difference("leaderElection.leaderElect", default=True, effective=False),
        Difference("profiles[0].plugins.bind.enabled", [{"name": "DefaultBinder"}], []),
        Difference("profiles[0].pluginConfig[5].args.scoringStrategy.type", "LeastAllocated", "MostAllocated"),
    )


def test_a_second_profile_is_held_against_the_default_too() -> None:
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "b", "percentageOfNodesToScore": 5}]
    config = load_scheduler_config({**HEAD, "profiles": profiles})

    assert differences(config) == (
        Difference("profiles[1].schedulerName", "default-scheduler", "b"),
        Difference("profiles[1].percentageOfNodesToScore", None, 5),
    )


def test_private_keys_are_not_written() -> None:
    extender = {"urlPrefix": "https://e", "tlsConfig": {"certData": "Y2VydA==", "keyData": "a2V5"}, "httpTimeout": "1s"}
    document = to_document(load_scheduler_config({**HEAD, "extenders": [extender]}))
    (written,) = document["extenders"]
    assert written["tlsConfig"] == {"certData": "Y2VydA=="}
    assert written["httpTimeout"] == "1s"


names = [{"name": name} for name, _ in DEFAULT_PLUGINS if name not in {"PrioritySort", "DefaultBinder"}]
weighed = st.sampled_from(names).flatmap(
    lambda name: st.integers(min_value=0, max_value=9).map(lambda weight: {**name, "weight": weight})
)
plugin_sets = st.fixed_dictionaries(
    {},
    optional={
        "multiPoint": st.fixed_dictionaries(
            {"disabled": st.lists(st.sampled_from(names), max_size=5)},
            optional={"enabled": st.lists(weighed, max_size=4, unique_by=lambda ref: ref["name"])},
        ),
        **{
            POINT_NAMES[point]: st.fixed_dictionaries({"disabled": st.lists(st.sampled_from(names), max_size=5)})
            for point in ("pre_enqueue", "pre_filter", "filter", "post_filter", "pre_score", "score", "reserve")
        },
    },
)


@settings(deadline=None)
@given(plugin_sets, st.integers(min_value=0, max_value=100))
def test_any_effective_configuration_loads_as_itself(plugins: dict[str, Any], percentage: int) -> None:
    profile = {
        "schedulerName": "x",
        "percentageOfNodesToScore": percentage,
        "plugins": plugins,
        "pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "1m"}}],
    }
    config = load_scheduler_config({**HEAD, "profiles": [profile]})

    again = load_scheduler_config(to_document(config))

    (before,), (after,) = config.profiles, again.profiles
    assert after.plugins == before.plugins
    assert {name: after.args[name] for name in before.plugin_names() if name in before.args} == {
        name: args for name, args in before.args.items() if name in before.plugin_names()
    }
    assert to_document(again) == to_document(config)
