"""What a failed pod means for its job: it counts, it does not, its index fails for good, or the whole job does.

Upstream: pkg/controller/job/pod_failure_policy.go matchPodFailurePolicy.

Which exit code a container that is told to go ends with is up to its program; here it is that of a program which
SIGTERM ends. `Failure.is_assumed` says where that decides.
"""

from __future__ import annotations

import msgspec

from kplan.api.batch import OnExitCodes, PodFailurePolicy, PodFailurePolicyRule
from kplan.simulation.controllers.observed import ObservedPod

EXIT_CODE = 143
"""128 + SIGTERM."""

FAIL_JOB, FAIL_INDEX, IGNORE, COUNT = "FailJob", "FailIndex", "Ignore", "Count"
_CONDITION = ("DisruptionTarget", "True")


class Failure(msgspec.Struct, frozen=True):
    """What a failed pod means for its job."""

    is_counted: bool = True  #: it counts against the limits of failures
    fails_index: bool = False  #: its index has failed for good
    fails_job: str = ""  #: why the job has failed; empty where it has not
    is_assumed: bool = False  #: that depends on the exit code of a container


def failure_of(policy: PodFailurePolicy | None, pod: ObservedPod, containers: tuple[str, ...] = ()) -> Failure:
    """Return what it means for a job that a pod of it, which was told to go, has failed.

    Parameters
    ----------
    containers : names of the pod's containers
    """
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        container = _container(rule.on_exit_codes, containers)
        if rule.on_exit_codes is not None:
            if not container:
                continue
            how = f"Container {container} for pod {pod.key} failed with exit code {EXIT_CODE}"
        elif _is_about_disruption(rule) and not pod.is_deleted:
            how = f"Pod {pod.key} has condition {_CONDITION[0]}"
        else:
            continue
        why = f"{how} matching {FAIL_JOB} rule at index {index}"
        return Failure(
            rule.action != IGNORE,
            rule.action == FAIL_INDEX,
            why if rule.action == FAIL_JOB else "",
            is_assumed=bool(container),
        )
    return Failure()


def _is_about_disruption(rule: PodFailurePolicyRule) -> bool:
    """Tell whether a rule is for pods that are evicted, preempted or lost with their node."""
    return any((pattern.type, pattern.status) == _CONDITION for pattern in rule.on_pod_conditions)


def _container(wanted: OnExitCodes | None, containers: tuple[str, ...]) -> str:
    """Return the first container whose exit code a rule is for; empty for none."""
    if wanted is None or (EXIT_CODE in wanted.values) is not (wanted.operator == "In"):
        return ""
    return next((name for name in containers if wanted.container_name in (None, name)), "")
