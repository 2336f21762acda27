"""`kplan place`: where pods or workloads would land, and why there."""

import dataclasses
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec.structs import replace

from kplan.api.affinity import EFFECTS
from kplan.api.quantity import InvalidQuantity, parse
from kplan.cli.answer import Meanwhile, answered, emit, showing_for
from kplan.cli.arguments import STANDARD_INPUT, PodChoiceFlags
from kplan.cli.flags import (
    GrowingClusterFlags,
    GrowingFlags,
    ManifestFlags,
    RunCronJobsOption,
    RunsOption,
    SweepFlags,
    TimelineFlags,
)
from kplan.cli.options import SNAPSHOT, Fields, arguments, option, repeated, with_flags
from kplan.cli.subject import load_subject
from kplan.commands.runs import reply_to_runs
from kplan.errors import NotFoundError, UsageError
from kplan.questions.place import Place

if TYPE_CHECKING:
    from kplan.course.subject import Subject

_NAME = "requested"
_FOLLOWING = "following what the manifests change"

EXAMPLES = """
kplan place web.yaml  # where the pods of a manifest would go
kplan place --requests cpu=2,memory=4Gi --replicas 16  # whether so many fit, without a manifest
kplan place shop/voucher-api --explain  # every node, with rejections and scores of every plugin
kplan place web.yaml -s a.json -s b.json  # which of several clusters has room
"""


class _ClustersFlags(GrowingClusterFlags):
    """The same about several clusters."""

    snapshot: list[str] | None = repeated(  # type: ignore[assignment] # each cluster has its own, of a single one
        "--snapshot -s PATH",
        f"Cluster from a file, a directory or -; or demo, an example ({SNAPSHOT}). Several, or a directory of "
        "snapshots: which of them has room.",
    )


class _PlaceFlags(GrowingFlags):
    cluster: _ClustersFlags

    def by_snapshot(self) -> dict[str, GrowingFlags]:
        """Return the flags of the question about each cluster; of a single one, the live one too, by its name."""
        sources: dict[str, None] = {}
        for name in self.cluster.snapshot or [os.environ.get(SNAPSHOT, "")]:
            if os.path.isdir(name):  # noqa: PTH112 - a path cannot tell of a name that is too long
                from kplan.snapshot.load import snapshots_of

                sources |= dict.fromkeys(snapshots_of(Path(name)))
            else:
                sources[name] = None
        return {
            source: dataclasses.replace(self, cluster=dataclasses.replace(self.cluster, snapshot=source))  # type: ignore[arg-type] # as above
            for source in sources
        }


@with_flags
def place(
    what: list[str] | None = arguments(
        "FILE|NS/POD|KIND/[NS/]NAME",
        "Manifests (file, directory, - for standard input), or pending pods or workloads of the cluster.",
    ),
    *,
    requests: Annotated[
        str, option("--requests AMOUNTS", "Pods that request so much, such as cpu=2,memory=4Gi, without a manifest.")
    ] = "",
    toleration: Annotated[
        list[str] | None, option("--toleration TAINT", "KEY[=VALUE][:EFFECT] that these pods tolerate; repeatable.")
    ] = None,
    runs: RunsOption = None,
    settings: Annotated[Fields, Place],
    run_cronjobs: RunCronJobsOption = False,
    time: TimelineFlags,
    choice: PodChoiceFlags,
    manifests: ManifestFlags,
    sweeping: SweepFlags,
    flags: _PlaceFlags,
) -> None:
    """Show where pods or workloads would land, and why.

    Pods are placed one after another, in the order given. A manifest of a workload that runs already is an update:
    the workload is scaled or rolled out as its controller does it, or left alone if nothing changes. Exits with 1 if
    a pod is unschedulable, gated or would preempt others (--fail-on).
    """
    manifests, namespace = manifests.or_pods_of_namespace(what)
    is_chosen = bool(choice.all_namespaces or choice.selector or namespace) and not requests
    if toleration and not requests:
        raise UsageError("--toleration is for the pods of --requests", hint="add --requests cpu=1, or leave it out")
    names_any = manifests.name_any(what)
    if requests and names_any:
        raise UsageError("--requests and manifests or pods are two questions", hint="ask them one by one")
    if not (requests or names_any or is_chosen):
        hint = "name a manifest, a pod or a workload: kplan place web.yaml; or choose pending pods with -n, -l or -A"
        raise UsageError("nothing to place", hint=hint)
    time.check()
    sweeping.check()
    question = Place(timeline=time.clock(), **settings)
    showing = showing_for(flags)
    clusters = flags.by_snapshot()
    inputs = (*clusters, *(what or ()), *(manifests.filename or ()), flags.scheduler.scheduler_config)
    if len(clusters) > 1 and (runs is not None or STANDARD_INPUT in inputs):
        words = "--runs is" if runs is not None else "standard input is"
        raise UsageError(f"{words} for one cluster, but there are {len(clusters)}", hint="name one --snapshot")
    reports = []
    for source, own in clusters.items():
        if requests:
            from kplan.course.subject import subject_of

            workload = _deployment(requests, choice.selector, toleration or ())
            replicas = 1 if manifests.replicas is None else manifests.replicas
            subject = subject_of(load_subject((), own).base, (workload,), namespace=namespace, replicas=replicas)
        else:
            subject = load_subject(what, own, manifests, run_cronjobs=run_cronjobs, may_be_idle=True)
        if is_chosen and not subject.pods:
            subject = _pending(subject, choice, namespace)
        doing = _FOLLOWING if time.has_clock or subject.has_updates else "deciding where pods go"
        if len(clusters) == 1:
            reply_to_runs(question, subject, showing, own, runs=runs, sweeping=sweeping, doing=doing)
            return
        reports.append((source, answered(question, subject, showing, own, Meanwhile(doing))))
    from kplan.questions.place.view import clusters_report

    emit(clusters_report(reports), flags.output, flags.verbosity)


def _pending(subject: "Subject", choice: PodChoiceFlags, namespace: str) -> "Subject":
    """Return the same about the chosen pending pods; raises NotFoundError where there are none."""
    if not (keys := choice.among(subject.base.pending_keys(), subject.base.objects, namespace)):
        where = f" in namespace {namespace}" if namespace and not choice.all_namespaces else ""
        hint = "name a pod as NAMESPACE/NAME, or a manifest: kplan place web.yaml"
        raise NotFoundError(f"no such pending pod{where}", hint=hint)
    return replace(subject, pods=keys, names_pods=True)


def _deployment(requests: str, selector: str, tolerations: Sequence[str]) -> dict[str, Any]:
    """Return a Deployment of pods with these requests, labels of nodes and tolerations; raises UsageError."""
    amounts = _pairs(requests, "--requests", "cpu=2,memory=4Gi")
    for name, amount in amounts.items():
        with suppress(InvalidQuantity):
            if parse(amount).nanos >= 0:
                continue
        hint = "write a Kubernetes quantity, such as 500m or 4Gi"
        raise UsageError(f"--requests {requests}: {amount!r} is no amount of {name}", hint=hint)
    # The API server takes devices and huge pages only with limits that are the same.
    limits = {name: amount for name, amount in amounts.items() if "/" in name or name.startswith("hugepages-")}
    labels = {"app": _NAME}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": _NAME, "resources": {"requests": amounts, "limits": limits}}],
        "tolerations": [_toleration(text) for text in tolerations],
    }
    if selector:
        spec["nodeSelector"] = _pairs(selector, "--selector", "pool=general")
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": _NAME},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def _pairs(text: str, name: str, example: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not key.strip() or not sign or not value.strip() for key, sign, value in pairs):
        raise UsageError(f"{name} {text}: expected NAME=VALUE, with commas between several", hint=f"such as {example}")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _toleration(text: str) -> dict[str, str]:
    rest, colon, effect = text.rpartition(":")
    key, sign, value = (rest if colon else text).partition("=")
    if not key.strip() or (colon and effect not in EFFECTS):
        hint = f"write KEY, KEY=VALUE or KEY=VALUE:EFFECT, the effect being {', '.join(EFFECTS)}"
        raise UsageError(f"--toleration {text}: is no toleration", hint=hint)
    matches = {"operator": "Equal", "value": value} if sign else {"operator": "Exists"}
    return {"key": key, **matches, **({"effect": effect} if colon else {})}
