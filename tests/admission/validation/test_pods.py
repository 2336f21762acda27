"""What is invalid in the specs of pods, in upstream's words."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kplan.admission.defaults import default_pod
from kplan.admission.validation.pods import pod_errors
from tests.admission.validation.makers import container, errors_of_spec
from tests.remedies.everyday import selecting


def test_a_pod_that_uses_nearly_everything_is_valid() -> None:
    spec = {
        "initContainers": [container(name="i"), container(name="s", restartPolicy="Always")],
        "volumes": [{"name": "v"}, {"name": "w", "configMap": {"name": "m", "items": [{"key": "k", "path": "a/b"}]}}],
        **selecting({"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
        "tolerations": [{"operator": "Exists"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "dnsConfig": {"nameservers": ["10.0.0.1"], "searches": ["a.b.", "_x.y", "."]},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.b"]}],
        "securityContext": {"runAsUser": 0, "sysctls": [{"name": "net.core.somaxconn", "value": "1"}]},
        "os": {"name": "linux"},
    }
    assert errors_of_spec(spec) == []


def test_annotation_and_field_have_to_agree() -> None:
    spec = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    (error,) = errors_of_spec(spec, annotations=annotations)
    assert error.endswith("seccompProfile.type: Forbidden: seccomp type in annotation and field must match")
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "docker/default"}
    assert errors_of_spec(spec, annotations=annotations) == []


names = st.sampled_from(["containers", "initContainers", "volumes", "tolerations", "affinity", "securityContext", "os"])
values = st.recursive(st.just({}), lambda inner: st.dictionaries(names, inner, max_size=3), max_leaves=5)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(names, st.one_of(values, st.lists(values, max_size=2)), max_size=4))
def test_what_decodes_never_breaks_validation(spec: dict[str, Any]) -> None:
    from kplan.admission.decoding import decode_object

    decoded = decode_object({"metadata": {"name": "p"}, "spec": spec}, "V1Pod").content
    assert all(str(error) for error in pod_errors(default_pod(decoded)))
