import pytest

from kplan.api.affinity import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    compile_node_selector,
    compile_preferred_terms,
    compile_term,
)
from kplan.api.labels import InvalidSelector


def requirement(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def by_label(*requirements: NodeSelectorRequirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=requirements)


def by_field(*requirements: NodeSelectorRequirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=requirements)


def test_one_term_is_enough_and_within_it_all_must_hold() -> None:
    selector = compile_node_selector(
        NodeSelector(
            node_selector_terms=(
                by_label(requirement("a", "In", "1"), requirement("b", "Exists")),
                by_field(requirement("metadata.name", "In", "n7")),
            )
        )
    )
    assert selector.matches({"a": "1", "b": ""}, "n1")
    assert not selector.matches({"a": "1"}, "n1")
    assert selector.matches({}, "n7")


def test_no_terms_and_empty_terms_match_nothing() -> None:
    assert not compile_node_selector(NodeSelector()).matches({}, "n")
    assert not compile_node_selector(NodeSelector(node_selector_terms=(NodeSelectorTerm(),))).matches({}, "n")


def test_a_broken_term_does_not_stop_another_from_matching() -> None:
    selector = compile_node_selector(
        NodeSelector(
            node_selector_terms=(by_label(requirement("a", "Near", "1")), by_label(requirement("a", "Exists")))
        )
    )
    assert selector.matches({"a": "1"}, "n")
    place, _, rest = selector.errors[0].partition(": ")
    assert place == "nodeSelectorTerms[0].matchExpressions[0].operator"
    supported = '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    assert rest == f'Unsupported value: "Near": supported values: {supported}'


@pytest.mark.parametrize(
    ("term", "name", "matches"),
    [
        (by_field(requirement("metadata.name", "NotIn", "n1")), "n1", False),
        (by_field(requirement("metadata.name", "NotIn", "n1")), "n2", True),
        (by_field(requirement("metadata.namespace", "In", "x")), "n1", False),
        (by_field(requirement("metadata.namespace", "NotIn", "x")), "n1", True),
        (by_field(requirement("metadata.name", "In", "n1")), "", True),
    ],
    ids=["name excluded", "another name", "unknown field is empty", "and differs", "a node without name has no fields"],
)
def test_fields(term: NodeSelectorTerm, name: str, matches: bool) -> None:
    assert compile_term(term).matches({}, name) == matches


def test_fields_take_one_value_and_two_operators() -> None:
    term = by_field(requirement("metadata.name", "In", "a", "b"), requirement("metadata.name", "Exists"))
    assert compile_term(term, "t").errors == (
        't.matchFields[0].values: Invalid value: ["a","b"]: must have one element',
        't.matchFields[1].operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
    )


def test_preferred_terms_of_no_weight_are_left_out_even_when_broken() -> None:
    broken = by_label(requirement("a", "Near"))
    fine = by_label(requirement("a", "Exists"))
    terms = (
        PreferredSchedulingTerm(weight=0, preference=broken),
        PreferredSchedulingTerm(weight=3, preference=NodeSelectorTerm()),
        PreferredSchedulingTerm(weight=5, preference=fine),
    )
    assert [weighted.weight for weighted in compile_preferred_terms(terms)] == [5]
    with pytest.raises(InvalidSelector, match=r"pref\[0\]\.matchExpressions\[0\]\.operator"):
        compile_preferred_terms([PreferredSchedulingTerm(weight=1, preference=broken)], "pref")
