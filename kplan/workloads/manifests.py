"""Reading manifests: objects are validated as by the API server, and workloads expanded into their pods.

Of kinds that kplan does not know the pod templates count.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from kplan.admission.decoding import ApiKind, decode_object, kind_named
from kplan.admission.gates import NEWEST
from kplan.admission.judge import Judged, is_judged, judge, template_of
from kplan.admission.stored import for_validation
from kplan.admission.validation.pods import pod_errors
from kplan.api import decode
from kplan.api.core import Pod, PodTemplateSpec, ServiceAccount
from kplan.api.decode import DecodeError, convert
from kplan.api.field_errors import errors_in, invalid_words
from kplan.api.kinds import kind_of, metadata_of, split_api_version
from kplan.api.names import object_name
from kplan.api.workloads import CronJob, HorizontalPodAutoscaler, Job
from kplan.errors import ENOUGH_PROBLEMS, ManifestError, Problem, UsageError
from kplan.facts import InputWarning
from kplan.reading.arguments import listed
from kplan.reading.items import Item
from kplan.snapshot.build import node_pool_problems, time_problems
from kplan.snapshot.defaults import DEFAULT_NAMESPACE, complete, complete_pod
from kplan.snapshot.model import Snapshot
from kplan.workloads import ManifestPod, Manifests, ManifestWorkload, Object, WrittenWorkload, fault_hint, field_problem
from kplan.workloads.autoscalers import Autoscalers, autoscaler_warnings, live_replicas
from kplan.workloads.expansion import Expansion, PodNames, expand, job_of_run, sets_names, workload_type
from kplan.workloads.foreign import (
    PodTemplateAt,
    as_deployments,
    is_foreign,
    name_in,
    not_judged,
    not_placed,
    pod_templates,
    unknown_kind,
)
from kplan.workloads.hooks import has_any, hook_of, not_run
from kplan.workloads.new_pods import template_pod
from kplan.workloads.sources import Source, Sources, no_workloads

Strictness = Literal["strict", "warn", "ignore"]
_DEFAULT_ACCOUNT = "default"  #: the account that every namespace gets
_MOST_STORED = 2**31 - 1  #: ``spec.replicas`` is an int32


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How manifests are read, and for which cluster."""

    snapshot: Snapshot
    minor: int = NEWEST  #: minor version of the API server, such as 36
    namespace: str | None = None  #: of objects that name none
    takes_others: bool = True  #: accept objects that name another namespace; else they are refused as by kubectl
    replicas: int | None = None  #: the number of pods of each workload, in place of its own
    keeps_groups: bool = False  #: `replicas` is not for pods that belong to pod groups: these have their own number
    validate: Strictness = "strict"  #: whether unknown fields are errors, warnings, or ignored
    #: kinds that kplan does not know, whose pod templates are taken for those of Deployments
    as_deployments: Collection[str] = ()
    may_be_idle: bool = False  #: objects without a pod and without a workload among them are no error
    #: files that hold no manifests are passed over also where they are named, as those of a directory
    skips_others: bool = False


def load_manifests(sources: Sequence[Source], options: ReadOptions) -> Manifests:
    """Read manifests and expand their workloads into pods; `sources`: files, directories, ``-``, or objects.

    Raises ManifestError with everything that is wrong, each with file, document, line and JSON path, and UsageError for
    a number of replicas that no API server stores.
    """
    if options.replicas is not None and not 0 <= options.replicas <= _MOST_STORED:
        raise UsageError(f"{options.replicas} replicas", hint=f"ask for 0 to {_MOST_STORED:,} replicas")
    reading = Sources(skips_others=options.skips_others)
    reader = _Reader(namespace=options.namespace or DEFAULT_NAMESPACE, problems=reading.problems, options=options)
    items = reading.items(sources)
    objects: list[Item] = []
    while len(reader.problems) < ENOUGH_PROBLEMS and (item := next(items, None)) is not None:
        objects.append(item)
        reader.take(item)
    unchecked = sum(1 for _ in items)
    reader.expand_all()
    may_be_idle = options.may_be_idle and (options.skips_others or (objects and not reader.unknown_kinds))
    if not reader.problems and not reader.workloads and not may_be_idle:
        reader.problems.append(no_workloads(sources, reading.passed_over, reader.unknown_kinds))
    reader.problems += duplicate_names(reader.pods)
    if reader.problems:
        # Pods are validated as they are written, so that one run reports all problems.
        reader.problems += reader.pod_problems()
        raise ManifestError(map(reading.as_built, reader.problems), unchecked=unchecked)
    return Manifests(
        pods=tuple(reader.pods),
        workloads=tuple(reader.workloads),
        objects=tuple(reader.objects),
        warnings=(*reader.warnings, *_autoscaled(reader), *_unaccounted(reader), *not_judged(reader.unjudged)),
        skipped=dict(reader.skipped),
        passed_over=tuple(reading.passed_over),
        items=tuple(objects),
    )


def _autoscaled(reader: _Reader) -> Iterator[InputWarning]:
    own = [obj for obj in reader.objects if isinstance(obj, HorizontalPodAutoscaler)]
    snapshot, replicas = reader.options.snapshot, reader.options.replicas
    scalers = Autoscalers((*snapshot.horizontal_pod_autoscalers, *own))
    for workload in reader.workloads:
        if matches := scalers.of(workload.item.api_version, workload.kind, workload.namespace, workload.name):
            target = workload.kind, workload.namespace, workload.name
            wanted = workload.item.value()["spec"].get("replicas") if replicas is None else replicas
            yield from autoscaler_warnings(matches, target, wanted, live_replicas(snapshot, *target))


def _unaccounted(reader: _Reader) -> Iterator[InputWarning]:
    """Yield a warning for each service account that may be missing: the API server refuses pods without their account.

    Manifests may create it, and a workload that runs already has it.
    """
    snapshot = reader.options.snapshot
    if snapshot.service_accounts:  # admission then knows which pods it refuses
        return
    known = {obj.metadata.key for obj in reader.objects if isinstance(obj, ServiceAccount)}
    for workload in reader.workloads:
        spec, namespace = workload.template.get("spec", {}), workload.namespace
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or _DEFAULT_ACCOUNT
        is_live = live_replicas(snapshot, workload.kind, namespace, workload.name) is not None
        if workload.kind == "PodTemplate" or is_live or name == _DEFAULT_ACCOUNT or f"{namespace}/{name}" in known:
            continue
        known.add(f"{namespace}/{name}")
        message = "the snapshot holds no service accounts; the API server refuses pods that name one that is not there"
        yield InputWarning("UnknownServiceAccount", object_name("ServiceAccount", namespace, name), message)


class _Read(msgspec.Struct, frozen=True):
    """An object that is read and valid."""

    item: Item
    api_kind: ApiKind
    content: Object
    obj: Any
    is_workload: bool
    is_snapshot_kind: bool

    @property
    def resource(self) -> str:
        """Its resource and API group: ``deployments.apps``."""
        return f"{self.api_kind.resource}.{split_api_version(self.item.api_version)[0]}"


class _ReaderBase(msgspec.Struct, kw_only=True):
    """Takes objects one by one; what is wrong with them is recorded."""

    namespace: str  #: of objects that name none
    problems: list[Problem]
    objects: list[msgspec.Struct] = []  #: those that are no workloads
    warnings: list[InputWarning] = []
    unjudged: list[Item] = []  #: objects of which only the fields are checked, if these

    def take(self, item: Item) -> None:
        """Take an object of one of Kubernetes' kinds, or of another with its pod templates."""
        api_kind = kind_named(item.api_version, item.kind)
        try:
            if api_kind is not None:
                self.take_known(item, api_kind)
            elif is_foreign(item.api_version, item.kind):
                self.take_foreign(item, pod_templates(item.value()))
            else:
                self.problems.append(item.locate(unknown_kind(item.api_version, item.kind)))
        except DecodeError as error:
            self.problems += map(item.locate, error.problems)

    def take_known(self, item: Item, api_kind: ApiKind) -> None:
        """Take an object of one of Kubernetes' kinds; may raise DecodeError."""
        raise NotImplementedError

    def take_foreign(self, item: Item, templates: list[PodTemplateAt]) -> None:
        if templates:
            self.warnings.append(not_placed(item, templates))
        else:
            self.unjudged.append(item)


class _Reader(_ReaderBase, kw_only=True):
    options: ReadOptions
    pods: list[ManifestPod] = []
    workloads: list[ManifestWorkload] = []
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    unknown_kinds: list[str] = []  #: kinds that are not known and have pod templates
    names: dict[str, PodNames] = {}  #: kind -> the names of objects that are drawn for it
    #: resource, namespace and name -> object, in reading order; of what has no name, its number as the name
    read: dict[tuple[str, str, str], _Read] = {}

    def take_known(self, item: Item, api_kind: ApiKind) -> None:
        judged = self._judge(item, api_kind)
        if judged is None:
            return
        if not is_judged(item.kind):
            self.unjudged.append(item)
        kind = kind_of(item.api_version, item.kind)
        workload = workload_type(item.api_version, item.kind)
        target = workload or (kind.type if kind is not None else None)
        if target is None:
            self.skipped[item.kind] += 1
            return
        obj: Any = decode.convert(judged.content, target)
        if wrong := [*time_problems(obj), *node_pool_problems(obj)]:
            self.problems += map(item.locate, wrong)
        else:
            self._keep(_Read(item, api_kind, judged.content, obj, workload is not None, kind is not None))

    def _keep(self, read: _Read) -> None:
        """Keep an object, in place of an earlier one that it updates."""
        metadata, item = read.content.get("metadata") or {}, read.item
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        if not name:
            self.read["", "", str(len(self.read))] = read
            return
        earlier = self.read.pop((read.resource, namespace, name), None)
        self.read[read.resource, namespace, name] = read
        if earlier is not None and not earlier.item.is_at(item):
            both = ((one.path, one.line_of()) for one in (earlier.item, item))
            places = " and ".join(f"{path}:{line}" if line else path for path, line in both)
            message = f"is there twice, in {places}; the last one counts, as an update of the first"
            self.warnings.append(InputWarning("WrittenTwice", object_name(item.kind, namespace, name), message))

    def expand_all(self) -> None:
        """Create the pods of all workloads, first those whose names are written: no other pod gets one of these."""
        self._leave_hooks_out()
        names = PodNames(self.options.snapshot)
        workloads = [read for read in self.read.values() if read.is_workload]
        expanded = {
            id(read): self._expanded(read, names)
            for read in sorted(workloads, key=lambda read: not sets_names(read.obj, self.options.replicas))
        }
        for read in self.read.values():
            if read.is_workload:
                self._take_expanded(read, *expanded[id(read)])
            else:
                self.objects.append(read.obj)

    def _leave_hooks_out(self) -> None:
        """Leave out what Helm creates neither to install a chart nor to upgrade it, whichever of them this is."""
        hooks = {key: hook for key, read in self.read.items() if (hook := hook_of(read.content)) is not None}
        others = [read for key, read in self.read.items() if read.is_workload and key not in hooks]
        if not hooks or not others:
            return
        is_upgrade = has_any(self.options.snapshot, [name_in(read.item.kind, read.content) for read in others])
        for key, hook in hooks.items():
            if not hook.comes(is_upgrade=is_upgrade):
                read = self.read.pop(key)
                self.warnings.append(not_run(name_in(read.item.kind, read.content), hook, is_upgrade=is_upgrade))

    def take_foreign(self, item: Item, templates: list[PodTemplateAt]) -> None:
        if templates and item.kind.lower() in map(str.lower, self.options.as_deployments):
            message = "its pods are placed as those of a new Deployment; what its own controller does is not known"
            self.warnings.append(InputWarning("PlacedAsDeployment", name_in(item.kind, item.value()), message))
            for deployment in as_deployments(item, templates):
                self.take(deployment)
            return
        self.skipped[item.kind] += 1
        self.unknown_kinds += [item.kind] if templates else []
        super().take_foreign(item, templates)

    def _as_sent(self, item: Item) -> Object:
        """Return an object, a job that the cluster does not have without its uid: the API server gives it another."""
        value = item.value()
        metadata = value.get("metadata")
        if item.kind != "Job" or not isinstance(metadata, dict) or "uid" not in metadata:
            return value
        key = f"{metadata.get('namespace') or self.namespace}/{metadata.get('name')}"
        snapshot = self.options.snapshot
        if not snapshot.knows_all("jobs") or any(job.metadata.key == key for job in snapshot.jobs):
            return value
        return {**value, "metadata": {field: text for field, text in metadata.items() if field != "uid"}}

    def _judge(self, item: Item, api_kind: ApiKind) -> Judged | None:
        """Return the object if it can be read at all, and collect its problems."""
        judged = judge(self._as_sent(item), api_kind, item.kind, self.namespace, self.options.minor)
        where = name_in(item.kind, judged.content)
        for fault in judged.faults:
            hint = f"did you mean {fault.hint}?" if fault.hint else fault_hint(fault, item.kind)
            problem = item.locate(Problem(fault.message, json_path=f"$.{fault.path}", hint=hint))
            if not fault.is_strict or self.options.validate == "strict":
                self.problems.append(problem)
            elif self.options.validate == "warn":
                after = f"; {problem.hint}" if fault.hint else ""
                message = f"{problem.json_path}: {fault.message}{after}"
                self.warnings.append(InputWarning("UnknownField", where, message))
        for repeated in item.duplicates() if self.options.validate != "ignore" else ():
            # kubectl reads YAML into a map before the API server sees it: no error, and nobody is told.
            message = f"{repeated.path.removeprefix('$.')} is written twice (line {repeated.line}); the last one counts"
            self.warnings.append(InputWarning("DuplicateField", where, message))
        if not self.options.takes_others and api_kind.is_namespaced:
            self.problems += other_namespace(item, judged.content["metadata"]["namespace"], self.namespace)
        self.problems += dict.fromkeys(field_problem(item, error, error.field) for error in judged.errors)
        return judged if judged.is_readable and not judged.errors else None

    def pod_problems(self) -> Iterator[Problem]:
        """Yield what is invalid in pods before admission, which validates them otherwise."""
        for workload in self.workloads:
            if workload.kind == "Pod":
                whole = for_validation(workload.template, complete_pod(workload.sample), self.options.minor)
                yield from dict.fromkeys(map(workload.locate, errors_in(self.options.minor, pod_errors(whole))))

    def _expanded(self, read: _Read, names: PodNames) -> tuple[Any, Object, Expansion]:
        """Return a workload with its name, its pod template, and what comes of it."""
        obj, content, kind = read.obj, read.content, read.item.kind
        metadata = obj.metadata
        if metadata.name:
            obj = replace(obj, metadata=replace(metadata, generate_name=""))
        elif metadata.generate_name and (self.options.replicas is None or not isinstance(obj, Pod)):
            drawn = names if isinstance(obj, Pod) else self.names.setdefault(kind, PodNames(self.options.snapshot))
            name = drawn.number(metadata.namespace, metadata.generate_name)
            while (read.resource, metadata.namespace, name) in self.read:
                name = drawn.number(metadata.namespace, metadata.generate_name)
            obj = replace(obj, metadata=replace(metadata, name=name))
        template = template_of(content, kind)
        if isinstance(obj, CronJob):
            name = obj.metadata.name or obj.metadata.generate_name
            job = decode.convert(job_of_run(content, name), Job)
            job_template = replace(obj.spec.job_template, metadata=job.metadata, spec=job.spec)
            spec = replace(obj.spec, job_template=job_template)
            obj = replace(obj, metadata=replace(obj.metadata, name=name), spec=spec)
        in_group = self.options.keeps_groups and bool(template.get("spec", {}).get("schedulingGroup"))
        return obj, template, expand(obj, self.options.snapshot, None if in_group else self.options.replicas, names)

    def _take_expanded(self, read: _Read, obj: Any, template: Object, expansion: Expansion) -> None:
        item, namespace = read.item, read.content["metadata"]["namespace"]
        name = obj.metadata.name or obj.metadata.generate_name
        if isinstance(obj, Pod):
            sample = (expansion.pods or [obj])[0]
        else:
            sample_name = expansion.pods[0].metadata.name if expansion.pods else f"{obj.metadata.name}-0"
            pod_template = decode.convert(template, PodTemplateSpec)
            sample = template_pod(pod_template, sample_name, obj.metadata.namespace, None)
        workload = ManifestWorkload(
            item,
            group=split_api_version(item.api_version)[0],
            resource=read.api_kind.resource,
            namespace=namespace,
            name=name,
            template=template,
            sample=sample,
            created=expansion.pods[0] if expansion.pods else sample,
        )
        self.workloads.append(workload)
        self.pods += [ManifestPod(pod, workload) for pod in expansion.pods]
        if expansion.more:
            self.pods[-1] = ManifestPod(expansion.pods[-1], workload, expansion.more)
        self.objects += [one for one in expansion.objects if read.is_snapshot_kind or not isinstance(one, Pod)]
        self.warnings += expansion.warnings
        if expansion.pods and (node := expansion.pods[0].spec.node_name):
            where = object_name(item.kind, namespace, name)
            message = f"sets spec.nodeName to {node}, so kube-scheduler leaves it alone; this is what it would decide"
            self.warnings.append(InputWarning("AlreadyAssigned", where, message))


Manifest = str | Path | Mapping[str, Any]  #: a path, or an object


def read_changes(
    manifests: Iterable[Manifest], namespace: str
) -> tuple[list[WrittenWorkload], list[msgspec.Struct], list[InputWarning]]:
    """Return the workloads and pods of manifests, other objects, and warnings, for changing the cluster's own objects.

    Objects that name no namespace get this one. Other objects have their defaults, and replace the cluster's objects of
    the same name; the warnings are about kinds that are not known and have pod templates. Raises ManifestError with
    everything that an API server cannot decode. Validation happens later, after an object is merged with the
    cluster's object.
    """
    sources = Sources()
    reader = _AppliedReader(namespace=namespace, problems=sources.problems)
    for item in sources.items(listed(manifests)):
        reader.take(item)
    if sources.problems:
        raise ManifestError(sources.problems)
    return reader.workloads, reader.objects, [*reader.warnings, *not_judged(reader.unjudged)]


class _AppliedReader(_ReaderBase):
    workloads: list[WrittenWorkload] = []

    def take_known(self, item: Item, api_kind: ApiKind) -> None:
        content = item.value()
        faults = decode_object(content, api_kind.struct).faults
        for fault in faults:
            hint = f"did you mean {fault.hint}?" if fault.hint else ""
            self.problems.append(item.locate(Problem(fault.message, json_path=f"$.{fault.path}", hint=hint)))
        if faults:
            return
        target = workload_type(item.api_version, item.kind)
        if target is None:
            if not is_judged(item.kind):
                self.unjudged.append(item)
            known = kind_of(item.api_version, item.kind)
            if known is not None and self._accepts(item, api_kind, content):
                self.objects.append(complete(convert(content, known.type), known, self.namespace))
            return
        metadata = metadata_of(convert(content, target))
        if not metadata.name:
            hint = "give it metadata.name"
            raise DecodeError((Problem("has no name", json_path="$.metadata.name", hint=hint),))
        written = {**content["metadata"], "namespace": metadata.namespace or self.namespace}
        self.workloads.append(WrittenWorkload(target, {**content, "metadata": written}))

    def _accepts(self, item: Item, api_kind: ApiKind, content: dict[str, Any]) -> bool:
        """Tell whether the API server accepts an object that is no workload; warn where it does not."""
        judged = judge(copy.deepcopy(content), api_kind, item.kind, self.namespace)
        if judged.errors:
            name = str(judged.content.get("metadata", {}).get("name", ""))
            words = invalid_words(item.kind, split_api_version(item.api_version)[0], name, judged.errors)
            self.warnings.append(InputWarning("Refused", name_in(item.kind, judged.content), words))
        return not judged.errors


def other_namespace(item: Item, namespace: str, wanted: str) -> Iterator[Problem]:
    """Yield what kubectl says of an object in another namespace than the one that its command names.

    Upstream: staging/src/k8s.io/cli-runtime/pkg/resource/visitor.go RequireNamespace.
    """
    if namespace != wanted:
        message = f'the namespace from the provided object "{namespace}" does not match the namespace "{wanted}"'
        hint = f"pass --namespace={namespace}, or leave --namespace out: then each object goes where it says"
        yield item.locate(Problem(message, json_path="$.metadata.namespace", hint=hint))


def duplicate_names(pods: Sequence[ManifestPod]) -> Iterator[Problem]:
    """Yield a problem for pods with the name of an earlier pod, one per workload.

    Only a pod and a stateful set can have such pods: all other names are drawn.
    """
    first: dict[str, ManifestPod] = {}
    reported: set[int] = set()
    for pod in pods:
        key = pod.pod.metadata.key
        earlier = first.setdefault(key, pod)
        if not pod.pod.metadata.name or earlier is pod or id(pod.workload) in reported:
            continue
        reported.add(id(pod.workload))
        place = earlier.workload.item.locate(Problem("")).path
        where = f"{place} (document {earlier.workload.item.document})"
        message = f"has a pod {key}, as has {earlier.workload.key} in {where}"
        hint = "give one of them another name or namespace"
        yield pod.workload.item.locate(Problem(message, json_path="$.metadata.name", hint=hint))
