"""Configurations that kube-scheduler accepts, and what they come to.

Re-expresses scheme_test.go TestCodecsDecodePluginConfig and defaults_test.go (v1.36) besides rules of kplan's own.
"""

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kplan.api.time import Nanoseconds
from kplan.config import SchedulerConfiguration, default_configuration, load_scheduler_config
from kplan.config.args import ARGS_TYPES, NodeResourcesFitArgs, VolumeBindingArgs, default_args
from kplan.config.loading import args_document, read_file
from kplan.config.model import Extender, ExtenderTLSConfig, ManagedResource
from kplan.config.problems import Problems
from kplan.config.releases import newest, reference, with_gates
from kplan.errors import ConfigError, Problem

HEAD_TEXT = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def refused(path: Path) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_scheduler_config(str(path))
    (problem,) = caught.value.problems
    assert problem.path == str(path)
    return problem.message, problem.hint


def document(tmp_path: Path, text: str) -> Problems:
    path = tmp_path / "scheduler.yaml"
    path.write_text(text)
    return read_file(str(path))


FILES = {
    "an empty file": (b"", "is empty", "begin with: apiVersion"),
    "comments only": (b"# nothing\n---\n", "holds comments only", "begin with: apiVersion"),
    "binary": (b"\x00\x9f\x92\x96", "a binary file", "expected a KubeSchedulerConfiguration"),
    "latin-1": (b"a: \xe9\n", "not text in UTF-8", "expected a KubeSchedulerConfiguration"),
    "control characters": (b"a: \x01", "the character U+0001 is not allowed", "control characters"),
    "JSON that breaks off": (b'{"kind": "Kube', "ends before it is complete", "write it again"),
    "a very long file": (b"#" * (5 << 20), "larger than 4 MiB", "expected a KubeSchedulerConfiguration"),
}


@pytest.mark.parametrize(("data", "message", "hint"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, data: bytes, message: str, hint: str) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_bytes(data)
    found, found_hint = refused(path)
    assert message in found
    assert hint in found_hint


def test_a_missing_file_and_a_directory_say_so(tmp_path: Path) -> None:
    assert refused(tmp_path / "nowhere.yaml") == ("no such file or directory", "check the path")
    assert refused(tmp_path)[0] == "is a directory"


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((HEAD_TEXT + "parallelism: 3").encode())))
    config = load_scheduler_config("-")
    assert (config.parallelism, config.source) == (3, "standard input")


def test_only_the_first_document_counts_and_the_rest_is_said_to_be_ignored(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(f"---\n{HEAD_TEXT}parallelism: 3\n---\n{HEAD_TEXT}parallelism: 4\n")
    config = load_scheduler_config(str(path))
    assert config.parallelism == 3
    assert [warning.message for warning in config.warnings] == [
        "only the first document is read, as by kube-scheduler; 1 more in the file"
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [("a:\n  b:\n  - c: 1\n    c: 2\n", 4), ('{"a": {"b": [\n{"c": 1,\n"c": 2}]}}', 3)],
    ids=["YAML", "JSON"],
)
def test_a_repeated_field_is_named_by_its_path_and_line(tmp_path: Path, text: str, line: int) -> None:
    read = document(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read.raise_if_any()
    (problem,) = caught.value.problems
    assert (problem.json_path, problem.message, problem.line) == ("a.b[0].c", 'duplicate field "a.b[0].c"', line)


HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def load(**fields: Any) -> SchedulerConfiguration:
    return load_scheduler_config({**HEAD, **fields})


def with_plugins(config: Sequence[Any] = (), **plugins: Any) -> SchedulerConfiguration:
    return load(profiles=[{"plugins": plugins, "pluginConfig": [*config]}])


def enabled(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def plugin_names(config: SchedulerConfiguration, point: str, profile: int = 0) -> list[str]:
    return [ref.name for ref in config.profiles[profile].plugins[point]]


def warnings(config: SchedulerConfiguration) -> list[tuple[str, str, str]]:
    return [(warning.code, warning.object, warning.message) for warning in config.warnings]


def test_no_file_is_the_default_configuration() -> None:
    assert load_scheduler_config(None) is load_scheduler_config() is default_configuration(reference())


def test_a_document_that_says_nothing_is_the_default_configuration() -> None:
    config = load()
    default = default_configuration(reference())
    assert config.profiles == default.profiles
    assert config.settings == default.settings
    assert (config.percentage_of_nodes_to_score, config.parallelism) == (0, 16)
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert config.source == "object"
    assert config.warnings == config.extenders == ()


def test_null_is_as_good_as_absent() -> None:
    config = load(
        parallelism=None,
        extenders=None,
        profiles=[{"schedulerName": None, "plugins": None, "pluginConfig": [{"name": "NodeAffinity", "args": None}]}],
    )
    assert config.profiles == default_configuration(reference()).profiles


def test_yaml_json_and_dictionary_say_the_same(tmp_path: Path) -> None:
    document = {**HEAD, "parallelism": 4, "profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]}
    as_json, as_yaml = tmp_path / "c.json", tmp_path / "c.yaml"
    as_json.write_text(json.dumps(document, indent="\t"))
    as_yaml.write_text(f"{HEAD_TEXT}parallelism: 4\nprofiles:\n- schedulerName: a\n- schedulerName: b\n")

    loaded = [load_scheduler_config(document), load_scheduler_config(str(as_json)), load_scheduler_config(as_yaml)]

    assert {config.parallelism for config in loaded} == {4}
    assert loaded[0].profiles == loaded[1].profiles == loaded[2].profiles
    assert [profile.scheduler_name for profile in loaded[0].profiles] == ["a", "b"]
    assert loaded[2].source == str(as_yaml)
    assert loaded[0].profile("b") is loaded[0].profiles[1]
    assert loaded[0].profile("default-scheduler") is None


def test_settings_that_no_decision_depends_on_are_accepted_and_kept() -> None:
    config = load(
        leaderElection={"leaderElect": False, "leaseDuration": "3s", "resourceName": "second"},
        clientConnection={"kubeconfig": "/etc/kubeconfig", "qps": 100, "burst": 200},
        enableProfiling=False,
        delayCacheUntilActive=True,
    )

    assert config.settings == {
        "leaderElection": {
            "leaderElect": False, "leaseDuration": "3s", "renewDeadline": "10s", "retryPeriod": "2s",
            "resourceLock": "leases", "resourceName": "second", "resourceNamespace": "kube-system",
        },
        "clientConnection": {
            "kubeconfig": "/etc/kubeconfig", "acceptContentTypes": "",
            "contentType": "application/vnd.kubernetes.protobuf", "qps": 100.0, "burst": 200,
        },
        "enableProfiling": False,
        "enableContentionProfiling": False,
        "delayCacheUntilActive": True,
    }  # fmt: skip
    assert config.profiles == default_configuration(reference()).profiles


def test_percentages_stand_globally_and_per_profile() -> None:
    config = load(
        percentageOfNodesToScore=30,
        profiles=[{"schedulerName": "a", "percentageOfNodesToScore": 0}, {"schedulerName": "b"}],
    )
    assert config.percentage_of_nodes_to_score == 30
    assert [profile.percentage_of_nodes_to_score for profile in config.profiles] == [0, None]


def test_disabling_a_plugin_in_multi_point_takes_it_out_everywhere_but_keeps_its_default_arguments_away() -> None:
    config = with_plugins(multiPoint={"disabled": enabled("PodTopologySpread")})
    (profile,) = config.profiles
    assert "PodTopologySpread" not in profile.plugin_names()
    assert "PodTopologySpread" not in profile.args


SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
RATIO = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": SHAPE}}
OF_CPU = {**RATIO, "resources": [{"name": "cpu", "weight": 3}]}
CONSTRAINTS = [
    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
    {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3},
]
EXPRESSION = {"key": "pool", "operator": "Gt", "values": ["5"]}
AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}
}
OF_NO_WEIGHT = [{"name": "cpu", "weight": 0}, {"name": "memory"}]
CPU_AND_MEMORY = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
CANDIDATES = {"minCandidateNodesPercentage": 50, "minCandidateNodesAbsolute": 0}

#: Sentence -> (plugin, arguments in the file, the effective arguments that differ from the default ones)
ARGS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "no arguments": ("DefaultPreemption", {}, {}),
    "arguments with version and kind": (
        "DefaultPreemption", {"apiVersion": HEAD["apiVersion"], "kind": "DefaultPreemptionArgs", **CANDIDATES},
        CANDIDATES,
    ),
    "an explicit 0 is not the default": (
        "InterPodAffinity", {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True},
        {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True},
    ),
    "an added affinity": ("NodeAffinity", {"addedAffinity": AFFINITY}, {"addedAffinity": AFFINITY}),
    "a scoring strategy without resources scores CPU and memory": (
        "NodeResourcesFit",
        {"ignoredResources": ["a.b/foo"], "scoringStrategy": {"type": "MostAllocated", "resources": []}},
        {"ignoredResources": ["a.b/foo"], "scoringStrategy": {"type": "MostAllocated", "resources": CPU_AND_MEMORY}},
    ),
    "a weight of 0 or none counts 1": (
        "NodeResourcesFit",
        {"scoringStrategy": {"type": "LeastAllocated", "resources": OF_NO_WEIGHT}},
        {"scoringStrategy": {"type": "LeastAllocated", "resources": CPU_AND_MEMORY}},
    ),
    "a capacity ratio with its shape": (
        "NodeResourcesFit", {"ignoredResourceGroups": ["example.com"], "scoringStrategy": OF_CPU},
        {"ignoredResourceGroups": ["example.com"], "scoringStrategy": OF_CPU},
    ),
    "balanced resources": (
        "NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": "nvidia.com/gpu", "weight": 1}]},
        {"resources": [{"name": "cpu", "weight": 1}, {"name": "nvidia.com/gpu", "weight": 1}]},
    ),
    "a list of default constraints": (
        "PodTopologySpread", {"defaultingType": "List", "defaultConstraints": CONSTRAINTS},
        {"defaultingType": "List", "defaultConstraints": CONSTRAINTS},
    ),
    "an empty list of default constraints": (
        "PodTopologySpread", {"defaultingType": "List"}, {"defaultingType": "List", "defaultConstraints": []},
    ),
    "an empty defaulting type is the system's": ("PodTopologySpread", {"defaultingType": ""}, {}),
    "no waiting for volumes": ("VolumeBinding", {"bindTimeoutSeconds": 0}, {"bindTimeoutSeconds": 0}),
    "timeouts of device allocation": (
        "DynamicResources", {"filterTimeout": "0s", "bindingTimeout": "1m30s"},
        {"filterTimeout": "0s", "bindingTimeout": "1m30s"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "args", "wanted"), ARGS.values(), ids=ARGS)
def test_plugin_arguments_are_typed_and_defaulted(name: str, args: dict[str, Any], wanted: dict[str, Any]) -> None:
    config = load(profiles=[{"pluginConfig": [{"name": name, "args": args}]}])
    default, effective = (
        json.loads(json.dumps(args_document(profile)))
        for profile in (default_configuration(reference()).profiles[0], config.profiles[0])
    )
    assert effective == {**default, name: {**default[name], **wanted}}
    assert type(config.profiles[0].args[name]) is ARGS_TYPES[name]
    assert config.warnings == ()


def test_arguments_of_a_fit_that_is_disabled_are_not_looked_at() -> None:
    config = with_plugins(
        [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Unheard"}}}],
        multiPoint={"disabled": enabled("NodeResourcesFit")},
    )
    assert "NodeResourcesFit" not in config.profiles[0].plugin_names()


def test_an_extender_with_everything() -> None:
    config = load(
        extenders=[
            {
                "urlPrefix": "https://extender.example/scheduler", "filterVerb": "filter",
                "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "bindVerb": "bind", "weight": 5,
                "enableHTTPS": True, "tlsConfig": {"serverName": "extender", "caData": "cGVt", "keyData": "a2V5"},
                "httpTimeout": "30s", "nodeCacheCapable": True,
                "managedResources": [{"name": "example.com/foo", "ignoredByScheduler": True}], "ignorable": True,
            },
            {"urlPrefix": "http://plain.example", "httpTimeout": "0s"},
        ]
    )  # fmt: skip

    assert config.extenders == (
        Extender(url_prefix="https://extender.example/scheduler", filter_verb="filter", prioritize_verb="prioritize",
                 preempt_verb="preempt", bind_verb="bind", weight=5, enable_https=True,
                 tls_config=ExtenderTLSConfig(server_name="extender", ca_data=b"pem", key_data=b"key"),
                 http_timeout=Nanoseconds(30_000_000_000), node_cache_capable=True,
                 managed_resources=(ManagedResource(name="example.com/foo", ignored_by_scheduler=True),),
                 ignorable=True),
        Extender(url_prefix="http://plain.example", http_timeout=Nanoseconds(5_000_000_000)),
    )  # fmt: skip
    assert "key" not in repr(config.extenders[0].tls_config)


def test_ignorable_extenders_are_asked_last() -> None:
    config = load(extenders=[{"urlPrefix": "a", "ignorable": True}, {"urlPrefix": "b"}, {"urlPrefix": "c"}])
    assert [extender.url_prefix for extender in config.extenders] == ["a", "b", "c"]
    assert [extender.url_prefix for extender in config.extenders_in_call_order()] == ["b", "c", "a"]


def test_resources_that_extenders_ignore_replace_the_list_of_every_profile() -> None:
    ignoring = {"urlPrefix": "a", "managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}]}
    own = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/b"]}}
    profiles = [{"schedulerName": "a", "pluginConfig": [own]}, {"schedulerName": "b"}]
    config = load(profiles=profiles, extenders=[ignoring])

    fits = [profile.args["NodeResourcesFit"] for profile in config.profiles]
    assert fits == [NodeResourcesFitArgs(ignored_resources=("example.com/a",))] * 2
    message = "the ignoredResources of NodeResourcesFit give way to those of the extenders: example.com/a"
    assert warnings(config) == [("IgnoredConfiguration", "profile a", message)]


def test_a_plugin_that_is_not_in_tree_is_left_out_and_names_where_it_is_missing() -> None:
    config = with_plugins(
        preFilter={"enabled": enabled("Capacity")},
        score={"enabled": enabled("Capacity", "NodeResourceFit")},
        multiPoint={"enabled": enabled("Everywhere")},
    )

    assert config.profiles == default_configuration(reference()).profiles
    assert [(code, subject) for code, subject, _ in warnings(config)] == [
        ("UnknownPlugin", "profile default-scheduler")
    ] * 3
    messages = {message.split()[0]: message for _, _, message in warnings(config)}
    assert "it is missing from preFilter, score; a kube-scheduler without it" in messages["Capacity"]
    assert "it is missing from every extension point that it implements (multiPoint)" in messages["Everywhere"]
    assert "did you mean NodeResourcesFit?" in messages["NodeResourceFit"]


def test_a_foreign_queue_sort_leaves_the_order_of_priority_sort() -> None:
    config = with_plugins(queueSort={"enabled": enabled("Coscheduling"), "disabled": enabled("*")})
    assert plugin_names(config, "queue_sort") == ["PrioritySort"]
    ((_, _, message),) = warnings(config)
    assert "missing from queueSort; pods queue as PrioritySort orders them" in message


def test_a_foreign_binder_is_as_good_as_any() -> None:
    config = with_plugins(bind={"enabled": enabled("MyBinder"), "disabled": enabled("DefaultBinder")})
    assert plugin_names(config, "bind") == []
    assert [code for code, _, _ in warnings(config)] == ["UnknownPlugin"]


@pytest.mark.parametrize(
    ("point", "plugin", "words"),
    [
        ("multiPoint", "GangScheduling",
         "GangScheduling is missing from preEnqueue, permit: its feature gate GangScheduling is off by default"),
        ("placementScore", "NodeResourcesFit", "plugins.placementScore is unused: it runs with the feature gate"),
    ],
)  # fmt: skip
def test_what_needs_a_gate_that_is_off_is_left_out(point: str, plugin: str, words: str) -> None:
    config = with_plugins(**{point: {"enabled": enabled(plugin)}})
    assert config.profiles == default_configuration(reference()).profiles
    ((code, subject, message),) = warnings(config)
    assert (code, subject) == ("FeatureGateOff", "profile default-scheduler")
    assert message.startswith(words)


def test_a_negative_weight_is_what_upstream_lets_through() -> None:
    config = with_plugins(score={"enabled": [{"name": "ImageLocality", "weight": -3}]})
    assert config.profiles[0].plugins["score"][0].weight == -3
    assert [code for code, _, _ in warnings(config)] == ["NegativeWeight"]


UNUSED_ARGUMENTS = (
    'profiles[0].pluginConfig[0]: no plugin "NodeResourceFit" is enabled; its arguments are unused'
    " (did you mean NodeResourcesFit?)"
)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"plugins": {"score": {"disabled": [{"name": "ImageLocalty"}]}}},
         'plugins.score disables "ImageLocalty", which is no in-tree plugin (did you mean ImageLocality?)'),
        ({"pluginConfig": [{"name": "NodeResourceFit", "args": {"a": 1}}]}, UNUSED_ARGUMENTS),
        ({"pluginConfig": [{"name": "ImageLocality", "args": {"a": 1}}]},
         "profiles[0].pluginConfig[0]: ImageLocality takes no arguments; these are unused"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_said(profile: dict[str, Any], message: str) -> None:
    config = load(profiles=[profile])
    assert config.profiles == default_configuration(reference()).profiles
    assert warnings(config) == [("IgnoredConfiguration", "profile default-scheduler", message)]


def test_arguments_of_a_foreign_plugin_that_is_enabled_are_no_second_warning() -> None:
    foreign = {"name": "Foreign", "args": {"kind": "Whatever", "deep": [1, {"x": None}]}}
    config = with_plugins([foreign], filter={"enabled": enabled("Foreign")})
    assert [code for code, _, _ in warnings(config)] == ["UnknownPlugin"]


FIELDS = ["name", "args", "enabled", "disabled", "score", "multiPoint", "plugins", "pluginConfig", "weight", "x"]
json_values = st.recursive(
    st.sampled_from(
        [None, True, 0, -1, 7, 2**40, 0.5, float("inf"), "", "5s", "*", "NodeAffinity", "NodeResourcesFit"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["profiles", "extenders", "parallelism", "leaderElection", "clientConnection", "junk"]),
        json_values,
    )
)
def test_whatever_the_document_holds_it_is_loaded_or_refused_with_hints(fields: dict[str, Any]) -> None:
    refused: tuple[Problem, ...] = ()
    try:
        load(**fields)
    except ConfigError as error:
        refused = error.problems
    assert all(problem.message and problem.hint for problem in refused)


scoring = st.sampled_from(sorted(name for name, points in newest().implements.items() if "score" in points))


@settings(deadline=None)
@given(st.dictionaries(scoring, st.integers(min_value=0, max_value=100)))
def test_weights_given_at_score_or_in_multi_point_come_to_the_same(weights: dict[str, int]) -> None:
    listed = [{"name": name, "weight": weight} for name, weight in weights.items()]
    at_score = with_plugins(score={"enabled": listed}).profiles[0].plugins
    in_multi_point = with_plugins(multiPoint={"enabled": listed}).profiles[0].plugins
    assert {ref.name: ref.weight for ref in at_score["score"]} == {
        ref.name: ref.weight for ref in in_multi_point["score"]
    }
    assert at_score["filter"] == in_multi_point["filter"]


GATES = {"StorageCapacityScoring": True}
SHAPED = {"name": "VolumeBinding", "args": {"shape": [{"utilization": 5, "score": 3}]}}
FILE = {**HEAD, "profiles": [{"pluginConfig": [SHAPED]}]}


def points(args: object) -> list[tuple[int, int]]:
    assert isinstance(args, VolumeBindingArgs)
    return [(point.utilization, point.score) for point in args.shape or ()]


def test_storage_is_scored_by_a_shape_where_its_gate_is_on() -> None:
    assert points(default_args("VolumeBinding", reference())) == []
    assert points(default_args("VolumeBinding", with_gates(reference(), GATES))) == [(0, 10), (100, 0)]
    assert points(load_scheduler_config(FILE, feature_gates=GATES).profiles[0].args["VolumeBinding"]) == [(5, 3)]


def test_a_shape_may_be_right_for_the_server_that_a_planner_will_know() -> None:
    assert points(load_scheduler_config(FILE).profiles[0].args["VolumeBinding"]) == [(5, 3)]
    with pytest.raises(ConfigError, match="unexpected field `shape`"):
        load_scheduler_config(FILE, kubernetes="1.36")
