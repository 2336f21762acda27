"""Inter-pod terms, compiled, and grouped by what they say."""

import pytest

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.rules.pod_info import NO_TERMS, affinity_terms

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
BAD = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "{bad}"}}}
GOOD = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}


def compiled(**affinity):
    pod = {"metadata": {"name": "p", "namespace": "blue"}, "spec": {"affinity": affinity}}
    return affinity_terms(convert(pod, Pod))


def term(**more):
    terms, error = compiled(podAffinity={REQUIRED: [{**GOOD, **more}]})
    assert error == ""
    return terms.required_affinity[0]


@pytest.mark.parametrize(
    ("more", "meant"),
    [
        pytest.param({}, {"blue"}, id="its own namespace where it names none"),
        pytest.param({"namespaces": ["red", "green"]}, {"red", "green"}, id="the namespaces that it names"),
        pytest.param({"namespaceSelector": {}}, {"blue", "red", "green"}, id="every namespace"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "a"}}}, {"green"}, id="namespaces by their labels"),
        pytest.param(
            {"namespaces": ["red"], "namespaceSelector": {"matchLabels": {"team": "a"}}},
            {"red", "green"},
            id="both together",
        ),
    ],
)
def test_namespaces_of_a_term(more, meant):
    labels = {"blue": {}, "red": {"team": "b"}, "green": {"team": "a"}}
    found = {name for name in labels if term(**more).matches(name, {"app": "web"}, labels[name])}

    assert found == meant
    assert not any(term(**more).matches(name, {"app": "db"}, labels[name]) for name in labels)


def test_a_term_without_a_selector_means_no_pod():
    assert not term(labelSelector=None).matches("blue", {"app": "web"}, {})
    assert term(labelSelector={}).matches("blue", {}, {})


def test_equal_terms_are_equal_whoever_holds_them():
    other = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}
    other["labelSelector"]["matchExpressions"][0]["values"] = ["web"]

    assert term() == term(**other)
    assert hash(term()) == hash(term(**other))
    assert term() != term(topologyKey="host")


@pytest.mark.parametrize(
    ("affinity", "kinds"),
    [
        ({"podAffinity": {REQUIRED: [GOOD]}}, (1, 0, 0, 0)),
        ({"podAntiAffinity": {REQUIRED: [GOOD, GOOD]}}, (0, 2, 0, 0)),
        ({"podAffinity": {PREFERRED: [{"weight": 3, "podAffinityTerm": GOOD}]}}, (0, 0, 1, 0)),
        ({"podAntiAffinity": {PREFERRED: [{"weight": 3, "podAffinityTerm": GOOD}]}}, (0, 0, 0, 1)),
        ({"nodeAffinity": {}}, (0, 0, 0, 0)),
        ({"podAffinity": {}}, (0, 0, 0, 0)),
    ],
)
def test_the_four_lists(affinity, kinds):
    terms, error = compiled(**affinity)
    lists = (
        terms.required_affinity,
        terms.required_anti_affinity,
        terms.preferred_affinity,
        terms.preferred_anti_affinity,
    )

    assert tuple(map(len, lists)) == kinds
    assert bool(terms) is any(kinds)
    assert [each.weight for each in (*lists[2], *lists[3])] == [3] * (kinds[2] + kinds[3])
    assert (error, terms == NO_TERMS) == ("", not any(kinds))


def test_a_list_with_an_invalid_selector_counts_as_empty_and_the_others_hold():
    terms, error = compiled(podAffinity={REQUIRED: [GOOD, BAD]}, podAntiAffinity={REQUIRED: [GOOD]})

    assert (len(terms.required_affinity), len(terms.required_anti_affinity)) == (0, 1)
    assert error.startswith('requiredAffinityTerms: values[0][app]: Invalid value: "{bad}": a valid label must')


def test_several_invalid_lists_are_told_together():
    weighted = [{"weight": 1, "podAffinityTerm": BAD}]
    _, error = compiled(podAffinity={REQUIRED: [BAD]}, podAntiAffinity={REQUIRED: [BAD], PREFERRED: weighted})

    assert error[0] + error[-1] == "[]"
    names = ("requiredAffinityTerms: ", "requiredAntiAffinityTerms: ", "preferredAntiAffinityTerms: ")
    positions = [error.find(name) for name in names]
    assert 0 < positions[0] < positions[1] < positions[2]
