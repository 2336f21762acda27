"""The rules that SARIF results name: what each means, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Rule(msgspec.Struct, frozen=True):
    """One kind of result."""

    what: str  #: in one sentence
    help: str  #: what to do about it
    is_failure: bool = True  #: it fails a job by default


_STUCK = "The message says how many nodes reject it and why, and the smallest change with which it fits."
_MOVES = "kplan diff shows the nodes before and after, and the reason."
_RULES: Mapping[str, Rule] = {
    "Unschedulable": Rule("A pod that fits on no node.", _STUCK),
    "Pending": Rule("A pod that stays pending.", _STUCK),
    "Gated": Rule(
        "A pod that is kept out of the scheduling queue.",
        "The scheduler ignores it until its gates are removed from spec.schedulingGates and its resource claims exist.",
    ),
    "Error": Rule(
        "A pod that cannot be scheduled at all.",
        "The API server refuses it, no scheduler has its name, or something that it refers to is invalid.",
    ),
    "Preemption": Rule(
        "A pod that fits only by evicting others.",
        "kplan preempt shows the victims, and why those were chosen. Add room, or accept it with --fail-on.",
    ),
    "PdbViolation": Rule(
        "A pod that fits only by violating a disruption budget.",
        "kplan preempt names the budget. Loosen it, or add room.",
    ),
    "Blocked": Rule(
        "A pod that a drain cannot evict.",
        "Its disruption budget allows no eviction. Add healthy pods elsewhere, or require fewer.",
    ),
    "Unavailable": Rule(
        "A workload of which too few pods are ready for a while.",
        "The timeline shows when, and what it waits for. Surge more, add room, or have pods start faster.",
    ),
    "NotReplaced": Rule(
        "A workload whose pods stay on a lost node, without others in their place.",
        "Delete the Node, or taint it with node.kubernetes.io/out-of-service, once the machine is off.",
    ),
    "Refused": Rule(
        "An object that the API server would refuse.",
        "The message is that of the API server. Correct the field that it names.",
    ),
    "CheckFailed": Rule("A promise that does not hold.", "The message names what breaks it."),
    "CheckPassed": Rule("A promise that holds.", "Nothing is to be done.", is_failure=False),
    "CheckNotAsked": Rule(
        "A promise that could not be held against the cluster.", "The message says why.", is_failure=False
    ),
    "Budget": Rule("A disruption budget.", "kplan explains what it allows.", is_failure=False),
    "JobFailed": Rule(
        "A job that fails because of the change.",
        "Wait until it is done, or have its podFailurePolicy ignore the condition DisruptionTarget.",
    ),
    "Invalid": Rule("An invalid value or field.", "The message names the field, and says what is expected there."),
    "Evicted": Rule(
        "A pod that is evicted and not recreated.", "kplan plan shows which pod evicts it and why.", is_failure=False
    ),
    "Drained": Rule(
        "A node without which pods stay pending.", "kplan drain NODE shows which pods and why.", is_failure=False
    ),
    "Stays": Rule(
        "A node that cannot be given up.",
        "kplan capacity --shrink --all-nodes names the pod that keeps each node, and why.",
        is_failure=False,
    ),
    "NewNode": Rule(
        "A node that the autoscaler adds.", "kplan nodes shows for which pods, and what it costs.", is_failure=False
    ),
    "Removed": Rule("A node that the autoscaler removes.", "kplan nodes shows where its pods go.", is_failure=False),
    "Kept": Rule(
        "A node that the autoscaler keeps.", "kplan nodes -o wide shows why, and what would free it.", is_failure=False
    ),
    "Chance": Rule(
        "A pod that is placed in some runs and not in others.",
        "It depends on how ties between nodes are broken. Add room, or order the pods by priority.",
        is_failure=False,
    ),
    "Incomplete": Rule(
        "A workload that is incomplete at the end of some runs.",
        "The message is the reason in the first of these runs.",
    ),
    "NotLookedAt": Rule(
        "Replicas that were not tried one by one.", "Ask for fewer replicas at a time.", is_failure=False
    ),
    "NoRoom": Rule("A workload without room for one more replica.", "The message says what stops the next one."),
    "NewlyPending": Rule("A pod that had a node before the change and is pending after it.", _MOVES),
    "NewVictim": Rule("A pod that only the change evicts.", _MOVES),
    "LessFits": Rule("Fewer replicas fit after than before.", _MOVES),
    "Moved": Rule("A pod that goes to another node.", _MOVES, is_failure=False),
    "NewlyPlaced": Rule("A pod that was pending before the change and has a node after it.", _MOVES, is_failure=False),
    "StillPending": Rule("A pod that stays pending for another reason.", _MOVES, is_failure=False),
    "Appeared": Rule("A pod that exists only after the change.", _MOVES, is_failure=False),
    "Disappeared": Rule("A pod that exists only before the change.", _MOVES, is_failure=False),
    "MissingKind": Rule(
        "A kind of object that could not be read, so that the answer may be wrong.",
        "kplan snapshot rbac prints the rights that reading needs.",
        is_failure=False,
    ),
}
_OTHER = Rule(
    "Something that may make the answer differ from the cluster's.",
    "The message names the object and what kplan does not know or model about it.",
    is_failure=False,
)


def rule_of(name: str) -> Rule:
    """Return what a rule means."""
    return _RULES.get(name, _OTHER)
