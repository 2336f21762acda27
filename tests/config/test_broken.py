"""Configurations that kube-scheduler refuses: the path, what is wrong and what to write instead.

The words are upstream's where it has some: apis/config/validation/*_test.go, scheme_test.go, framework_test.go (v1.36).
"""

import textwrap
from pathlib import Path

import pytest

from kplan.config import load_scheduler_config
from kplan.errors import ConfigError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def problems_of(tmp_path: Path, text: str) -> list[tuple[str, str, str]]:
    path = tmp_path / "scheduler.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_scheduler_config(str(path))
    assert {problem.path for problem in caught.value.problems} == {str(path)}
    return [(problem.json_path, problem.message, problem.hint) for problem in caught.value.problems]


#: Sentence -> (document without its head, (path, part of the message, part of the hint), ...)
BROKEN: dict[str, tuple[str, *tuple[tuple[str, str, str], ...]]] = {
    "a misspelt field": (
        "percentageOfNodeToScore: 50",
        (
            "percentageOfNodeToScore",
            'unknown field "percentageOfNodeToScore"',
            "did you mean percentageOfNodesToScore?",
        ),
    ),
    "field names are case-sensitive": (
        "profiles: [{SchedulerName: a}]",
        ("profiles[0].SchedulerName", "unknown field", "did you mean schedulerName?"),
    ),
    "plugins outside a profile": (
        "plugins: {score: {disabled: [{name: '*'}]}}",
        ("plugins", "unknown field", "write them as profiles[0].plugins"),
    ),
    "enabled without an extension point": (
        "profiles: [{plugins: {enabled: [{name: ImageLocality}]}}]",
        ("profiles[0].plugins.enabled", "unknown field", "score.enabled, or multiPoint.enabled"),
    ),
    "a field of an older version": (
        "healthzBindAddress: 0.0.0.0:10251",
        ("healthzBindAddress", "unknown field", "remove it"),
    ),
    "a field twice": (
        "parallelism: 8\nparallelism: 16",
        ("parallelism", 'duplicate field "parallelism"', "keep one of the two"),
    ),
    "a number in quotes": (
        "parallelism: '16'",
        ("parallelism", 'expected an integer, got "16"', "without quotes"),
    ),
    "text without quotes that is a truth value": (
        "profiles: [{schedulerName: on}]",
        ("profiles[0].schedulerName", "expected a string, got true", 'put quotes around it: "true"'),
    ),
    "an object where a list belongs": (
        "profiles: {schedulerName: default-scheduler}",
        ("profiles", "expected a list, got an object", "with a dash in YAML"),
    ),
    "plugin names without name": (
        "profiles: [{plugins: {score: {disabled: [ImageLocality]}}}]",
        (
            "profiles[0].plugins.score.disabled[0]",
            'expected an object, got "ImageLocality"',
            "an object with the fields name, weight",
        ),
    ),
    "a weight that 32 bits do not hold": (
        "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: 3000000000}]}}}]",
        ("profiles[0].plugins.score.enabled[0].weight", "from -2147483648 to 2147483647", "a whole number"),
    ),
    "a percentage above a hundred, global and of a profile": (
        "percentageOfNodesToScore: 101\nprofiles: [{percentageOfNodesToScore: -1}]",
        ("percentageOfNodesToScore", "Invalid value: 101: not in valid range [0-100]", "from 0 (adaptive) to 100"),
        ("profiles[0].percentageOfNodesToScore", "Invalid value: -1: not in valid range [0-100]", "from 0"),
    ),
    "no parallelism at all": (
        "parallelism: 0",
        ("parallelism", "Invalid value: 0: should be an integer value greater than zero", "write 1 or more"),
    ),
    "backoff that shrinks": (
        "podInitialBackoffSeconds: 20",
        (
            "podMaxBackoffSeconds",
            "Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
            "write 20 or more",
        ),
    ),
    "no backoff": (
        "podInitialBackoffSeconds: 0",
        ("podInitialBackoffSeconds", "Invalid value: 0: must be greater than 0", "write 1 or more"),
    ),
    "a lease shorter than its renewal": (
        "leaderElection: {leaseDuration: 5s}",
        (
            "leaderElection.leaseDuration",
            'Invalid value: "5s": must be greater than `RenewDeadline`',
            "more than renewDeadline (10s)",
        ),
    ),
    "a lock that is no lease": (
        "leaderElection: {resourceLock: endpoints}",
        ("leaderElection.resourceLock", 'resourceLock value must be "leases"', "write leases"),
    ),
    "a duration without unit": (
        "leaderElection: {retryPeriod: 2}",
        ("leaderElection.retryPeriod", "expected a duration, got 2", '"2s"'),
    ),
    "negative burst": (
        "clientConnection: {burst: -1}",
        ("clientConnection.burst", "Invalid value: -1: must be non-negative", "write 0 or more"),
    ),
    "two profiles of one name": (
        "profiles: [{schedulerName: a}, {schedulerName: a}]",
        ("profiles[1].schedulerName", 'Duplicate value: "a"', "profiles[0].schedulerName has it too"),
    ),
    "two profiles, one without a name": (
        "profiles: [{schedulerName: a}, {}]",
        ("profiles[1].schedulerName", "Required value", "spec.schedulerName"),
    ),
    "two queue sort plugins": (
        "profiles: [{plugins: {queueSort: {enabled: [{name: Coscheduling}]}}}]",
        (
            "profiles[0].plugins.queueSort",
            'only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 2',
            "disabled: [{name: PrioritySort}]",
        ),
    ),
    "two queue sort plugins in one list": (
        "profiles: [{plugins: {queueSort: {enabled: [{name: A}, {name: B}], disabled: [{name: PrioritySort}]}}}]",
        (
            "profiles[0].plugins.queueSort.enabled",
            "Invalid value: 2: only one queue sort plugin can be enabled",
            "keep one of A or B",
        ),
    ),
    "no queue sort plugin": (
        "profiles: [{plugins: {queueSort: {disabled: [{name: '*'}]}}}]",
        ("profiles[0].plugins.queueSort", "but got 0", "enable one: queueSort: {enabled: [{name: PrioritySort}]}"),
    ),
    "profiles that sort the queue differently": (
        """
        profiles:
        - schedulerName: a
        - schedulerName: b
          plugins: {queueSort: {enabled: [{name: Fair}], disabled: [{name: PrioritySort}]}}
        """,
        (
            "profiles[1].plugins.queueSort",
            "must be the same for all profiles",
            "write the same queueSort as in profiles[0]",
        ),
    ),
    "no bind plugin": (
        "profiles: [{plugins: {bind: {disabled: [{name: DefaultBinder}]}}}]",
        (
            "profiles[0].plugins.bind",
            'at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
            "bind: {enabled: [{name: DefaultBinder}]}",
        ),
    ),
    "a plugin twice at a point": (
        "profiles: [{plugins: {filter: {enabled: [{name: NodeName}, {name: NodeName}]}}}]",
        (
            "profiles[0].plugins.filter.enabled[1]",
            'plugin "NodeName" already registered as "FilterPlugin"',
            "name NodeName once",
        ),
    ),
    "a plugin at a point that it does not implement": (
        "profiles: [{plugins: {score: {enabled: [{name: NodePorts, weight: 2}]}}}]",
        (
            "profiles[0].plugins.score.enabled[0]",
            'plugin "NodePorts" does not extend ScorePlugin plugin',
            "NodePorts implements preFilter, filter",
        ),
    ),
    "a plugin whose gate is off, at a point that it would not implement": (
        "profiles: [{plugins: {filter: {enabled: [{name: GangScheduling}]}}}]",
        (
            "profiles[0].plugins.filter.enabled[0]",
            'plugin "GangScheduling" does not extend FilterPlugin plugin',
            "GangScheduling implements preEnqueue, permit",
        ),
    ),
    "a plugin that was removed": (
        "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
        ("profiles[0].plugins.filter.enabled[0]", "was invalid in version", "NodeVolumeLimits"),
    ),
    "arguments twice for one plugin": (
        """
        profiles:
        - pluginConfig:
          - {name: InterPodAffinity, args: {hardPodAffinityWeight: 5}}
          - {name: InterPodAffinity, args: {hardPodAffinityWeight: 6}}
        """,
        (
            "profiles[0].pluginConfig[1]",
            'Duplicate value: "InterPodAffinity"',
            "merge the entries of InterPodAffinity into one",
        ),
    ),
    "arguments of another plugin": (
        "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {kind: InterPodAffinityArgs}}]}]",
        (
            "profiles[0].pluginConfig[0].args.kind",
            "args for plugin DefaultPreemption were not of type DefaultPreemptionArgs.kubescheduler.config.k8s.io,",
            "write: kind: DefaultPreemptionArgs",
        ),
    ),
    "arguments of an older version": (
        """
        profiles:
        - pluginConfig:
          - name: NodeAffinity
            args: {apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: NodeAffinityArgs}
        """,
        (
            "profiles[0].pluginConfig[0].args.apiVersion",
            'no kind "NodeAffinityArgs" is registered for version "kubescheduler.config.k8s.io/v1beta3"',
            "write: apiVersion: kubescheduler.config.k8s.io/v1",
        ),
    ),
    "arguments with misspelt fields deep inside": (
        """
        profiles:
        - pluginConfig:
          - name: NodeResourcesFit
            args:
              scoringStrategy:
                type: RequestedToCapacityRatio
                requestedToCapacityRatio: {shape: [{Utilization: 0, Score: 0}]}
        """,
        (
            "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[0].Utilization",
            "unknown field",
            "did you mean utilization?",
        ),
        (
            "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[0].Score",
            "unknown field",
            "did you mean score?",
        ),
    ),
    "everything wrong at once, all of it reported": (
        """
        parallelism: -1
        profiles:
        - schedulerName: ""
          pluginConfig:
          - {name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}
          - {name: VolumeBinding, args: {bindTimeoutSeconds: x}}
        extenders:
        - {urlPrefix: "http://e", prioritizeVerb: p}
        """,
        ("parallelism", "Invalid value: -1", "write 1 or more"),
        ("profiles[0].schedulerName", "Required value", "default-scheduler"),
        (
            "profiles[0].pluginConfig[0].args.hardPodAffinityWeight",
            "Invalid value: 101: not in valid range [0, 100]",
            "from 0 to 100",
        ),
        ("profiles[0].pluginConfig[1].args.bindTimeoutSeconds", "expected an integer", "a whole number"),
        ("extenders[0].weight", "Invalid value: 0: must have a positive weight applied to it", "weight: 1"),
    ),
    "two extenders that bind": (
        "extenders: [{urlPrefix: a, bindVerb: b}, {urlPrefix: c, bindVerb: b}]",
        (
            "extenders",
            'Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
            "remove bindVerb from extenders[0] or extenders[1]",
        ),
    ),
    "an extender that manages what is no extended resource, and one resource twice": (
        """
        extenders:
        - {urlPrefix: a, managedResources: [{name: example.com/a}, {name: cpu}, {name: a b}]}
        - {urlPrefix: b, managedResources: [{name: example.com/a}]}
        """,
        ("extenders[0].managedResources[1].name", "is an invalid extended resource name", "example.com/device"),
        ("extenders[0].managedResources[2].name", "name part must consist of", "example.com/device"),
        ("extenders[1].managedResources[0].name", "duplicate extender managed resource name", "one extender"),
    ),
    "an extender that trusts nothing and a root certificate": (
        "extenders: [{urlPrefix: a, tlsConfig: {insecure: true, caFile: ca.pem}}]",
        ("extenders[0].tlsConfig.insecure", "root certificates file with the insecure flag", "remove insecure"),
    ),
    "extender key material that is no base64": (
        "extenders: [{urlPrefix: a, tlsConfig: {caData: '-----BEGIN'}}]",
        ("extenders[0].tlsConfig.caData", "expected base64 text", "base64 -w0"),
    ),
    "an extender's ignored resource without the plugin that would ignore it": (
        """
        profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]
        extenders: [{urlPrefix: a, managedResources: [{name: example.com/a, ignoredByScheduler: true}]}]
        """,
        (
            "extenders[0].managedResources[0].ignoredByScheduler",
            "can't find NodeResourcesFitArgs in plugin config",
            "enable NodeResourcesFit in profile default-scheduler",
        ),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_configuration_names_every_problem(tmp_path: Path, name: str) -> None:
    body, *wanted = BROKEN[name]
    found = problems_of(tmp_path, HEAD + textwrap.dedent(body))

    assert [path for path, _, _ in found] == [path for path, _, _ in wanted]
    for (_, message, hint), (_, message_part, hint_part) in zip(found, wanted, strict=True):
        assert message_part in message
        assert hint_part in hint


#: Sentence -> (whole document, path, part of the message, part of the hint)
FOREIGN = {
    "version v1beta3": (
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration",
        "apiVersion",
        'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta3"',
        "write: apiVersion: kubescheduler.config.k8s.io/v1; v1beta3 is gone since Kubernetes 1.29",
    ),
    "a version of nothing": (
        "apiVersion: kubescheduler.config.k8s.io/v7\nkind: KubeSchedulerConfiguration",
        "apiVersion",
        'is registered for version "kubescheduler.config.k8s.io/v7"',
        "write: apiVersion: kubescheduler.config.k8s.io/v1",
    ),
    "a version that is no text": (
        "apiVersion: 1\nkind: KubeSchedulerConfiguration",
        "apiVersion",
        "is registered for version 1",
        "write: apiVersion: kubescheduler.config.k8s.io/v1",
    ),
    "no kind": ("apiVersion: kubescheduler.config.k8s.io/v1", "kind", "Object 'Kind' is missing", "add: kind:"),
    "no version": ("kind: KubeSchedulerConfiguration", "apiVersion", "Object 'apiVersion' is missing", "add: "),
    "another kind of the group": (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs",
        "kind",
        'expected KubeSchedulerConfiguration, got "NodeAffinityArgs"',
        "write: kind: KubeSchedulerConfiguration",
    ),
    "a policy file of old": (
        '{"kind": "Policy", "apiVersion": "v1"}',
        "kind",
        "scheduler policies are gone",
        "profiles",
    ),
    "a list": ("- a\n- b", "", "expected an object with apiVersion and kind, got a list", "begin with"),
    "a single value": ("hello", "", "expected an object with apiVersion and kind, got a single value", "begin with"),
    "a file of another kind": ("apiVersion: v1\nkind: Service", "kind", 'got "Service"', "write: kind:"),
    "a pod that has nothing to do with it": (
        "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, image: nginx}]}",
        "kind",
        "this is a Pod, not a KubeSchedulerConfiguration",
        "begin with",
    ),
}


@pytest.mark.parametrize(("text", "path", "message", "hint"), FOREIGN.values(), ids=FOREIGN)
def test_a_document_that_is_no_configuration_says_what_it_is(
    tmp_path: Path, text: str, path: str, message: str, hint: str
) -> None:
    found = problems_of(tmp_path, text)[0]

    assert found[0] == path
    assert message in found[1]
    assert hint in found[2]


def test_the_rest_of_a_v1beta3_file_is_checked_too(tmp_path: Path) -> None:
    text = "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\nparallelism: 0"

    assert [path for path, _, _ in problems_of(tmp_path, text)] == ["apiVersion", "parallelism"]


def test_a_config_map_says_which_key_holds_the_configuration(tmp_path: Path) -> None:
    text = """
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: scheduler, namespace: sched}
    data:
      notes: nothing here
      scheduler-config.yaml: |
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
    """

    command = r"kubectl -n sched get configmap scheduler -o jsonpath='{.data.scheduler-config\.yaml}'"
    assert problems_of(tmp_path, textwrap.dedent(text)) == [
        (
            'data["scheduler-config.yaml"]',
            'this is a ConfigMap; the configuration is the text under its key "scheduler-config.yaml"',
            f"take it out: {command} > scheduler.yaml",
        )
    ]


def test_a_config_map_without_a_configuration_says_so(tmp_path: Path) -> None:
    ((path, message, _),) = problems_of(tmp_path, "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}")

    assert path == "kind"
    assert "no key of its data holds a KubeSchedulerConfiguration" in message


def test_a_list_around_the_config_map_is_looked_into(tmp_path: Path) -> None:
    text = """
    apiVersion: v1
    kind: List
    items:
    - {apiVersion: v1, kind: ConfigMap, data: {x: y}}
    - apiVersion: v1
      kind: ConfigMap
      data: {config: '{"kind": "KubeSchedulerConfiguration"}'}
    """

    ((path, _, _),) = problems_of(tmp_path, textwrap.dedent(text))

    assert path == 'data["config"]'


STATIC_POD = """
apiVersion: v1
kind: Pod
metadata: {name: kube-scheduler, namespace: kube-system}
spec:
  containers:
  - name: kube-scheduler
    image: registry.k8s.io/kube-scheduler:v1.36.2
    command: [kube-scheduler, --leader-elect=true, FLAG]
    volumeMounts:
    - {name: config, mountPath: /etc/kubernetes/scheduler}
  volumes:
  - {name: config, VOLUME}
"""

MANIFESTS = {
    "a file on the host": (
        "--config=/etc/kubernetes/scheduler/config.yaml",
        "hostPath: {path: /srv/sched}",
        "its --config names /etc/kubernetes/scheduler/config.yaml",
        "--scheduler-config /srv/sched/config.yaml",
    ),
    "a file in a ConfigMap": (
        "--config, /etc/kubernetes/scheduler/config.yaml",
        "configMap: {name: my-scheduler}",
        "its --config names /etc/kubernetes/scheduler/config.yaml",
        r"kubectl -n kube-system get configmap my-scheduler -o jsonpath='{.data.config\.yaml}'",
    ),
    "a file of the image": (
        "--config=/config.yaml",
        "hostPath: {path: /srv/sched}",
        "its --config names /config.yaml",
        "pass that file: --scheduler-config /config.yaml",
    ),
    "no --config": ("--v=2", "hostPath: {path: /srv/sched}", "it has no --config", "leave --scheduler-config out"),
}


@pytest.mark.parametrize(("flag", "volume", "message", "hint"), MANIFESTS.values(), ids=MANIFESTS)
def test_the_static_pod_manifest_says_where_its_configuration_is(
    tmp_path: Path, flag: str, volume: str, message: str, hint: str
) -> None:
    text = STATIC_POD.replace("FLAG", flag).replace("VOLUME", volume)

    ((path, found, found_hint),) = problems_of(tmp_path, text)

    assert path == "kind"
    assert found.startswith("this is the manifest of kube-scheduler (Pod kube-system/kube-scheduler)")
    assert message in found
    assert hint in found_hint


def test_a_deployment_of_a_second_scheduler_is_recognised(tmp_path: Path) -> None:
    text = """
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: second}
    spec: {template: {spec: {containers: [{name: s, args: [--config=/c.yaml]}]}}}
    """

    ((_, message, _),) = problems_of(tmp_path, textwrap.dedent(text))

    assert message.endswith("its --config names /c.yaml")
