"""`kplan`: the command line. Every command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from kplan.program.program import Entry, Program, command, group
from kplan.version import __version__

_COMMANDS: dict[str, Entry] = {}


class _Kplan(Program):
    """All of kplan's commands."""

    entries = _COMMANDS


app = typer.Typer(
    name="kplan",
    cls=_Kplan,
    help="""terraform plan for the Kubernetes scheduler: where pods land, whom they evict, and why.

    Decides as the cluster's release of kube-scheduler does, from a snapshot or a live cluster. Changes nothing.""",
    epilog="""Exit codes: 0 nothing in --fail-on happened; 1 something in --fail-on happened; 2 no answer. Try:
    kplan preempt --snapshot demo""",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _print_version(value: bool) -> None:  # noqa: FBT001 - Typer's callback
    if value:
        from kplan.config.releases import known_minors

        minors = known_minors()
        typer.echo(f"kplan {__version__} (decides as Kubernetes {minors[0]} to {minors[-1]})")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback if something fails.")] = False,
) -> None:
    """Options of all commands."""


_PODS = "Ask about pods"
_NODES = "Ask about nodes"
_ROOM = "Ask about capacity"
_ANSWERS = "Compare and keep answers"
_FILES = "Files and settings"


def _add(name: str, home: str, examples: str, short_help: str, section: str) -> None:
    _COMMANDS[name] = command(name, home, examples, short_help, section)


_add(
    "explain",
    "kplan.questions.explain.command:explain",
    """
    kplan explain ml/llm-eval  # why a pod is pending
    kplan explain batch/report-daily-knqdn --explain  # why a running one is where it is, on every node
    kplan explain deploy/shop/cart  # each pod of a workload
    """,
    "Explain why a pod, or each pod of a workload, is where it is.",
    _PODS,
)
_add(
    "place",
    "kplan.questions.place.command:place",
    """
    kplan place web.yaml  # where the pods of a manifest would go
    kplan place shop/voucher-api --explain  # every node, with rejections and scores of every plugin
    kplan place web.yaml --report junit=kplan.xml  # for a pipeline: exit code and JUnit report
    """,
    "Show where pods or workloads would land, and why.",
    _PODS,
)
_add(
    "plan",
    "kplan.questions.plan.command:plan",
    """
    kplan plan  # all pending pods
    kplan plan web.yaml --save plan.json  # also those of a manifest; save the report
    kplan plan --queue  # only the order of the queue
    """,
    "Work through the whole scheduling queue and every rollout.",
    _PODS,
)
_add(
    "preempt",
    "kplan.questions.preempt.command:preempt",
    """
    kplan preempt  # for every pending pod that fits nowhere
    kplan preempt web.yaml --explain  # every candidate node, and the pods that stay
    kplan preempt shop/flash-sale --settle-preemption  # carry it out, then place the pod
    """,
    "Show which pods would be evicted to make room, and why those.",
    _PODS,
)
_add(
    "pods",
    "kplan.questions.pods.command:pods",
    """
    kplan pods web.yaml  # as YAML, with what filled in each value
    kplan pods web.yaml -o name  # their names only
    """,
    "Print the pods that manifests create, as the API server stores them.",
    _PODS,
)
_add(
    "drain",
    "kplan.questions.drain.command:drain",
    """
    kplan drain general-a-1  # where its pods go, and which budgets block it
    kplan drain "spot-*" --rolling  # one node after another
    kplan drain --zone eu-west-1a --lost  # a whole zone fails at once
    """,
    "Show what happens to the pods of drained or lost nodes.",
    _NODES,
)
_add(
    "nodes",
    "kplan.questions.nodes.command:nodes",
    """
    kplan nodes --node-groups groups.yaml  # what the autoscaler adds, removes and keeps
    kplan nodes web.yaml --node-groups groups.yaml --fail-on new-nodes  # exit code 1 if these pods need new nodes
    kplan nodes --node-groups groups.yaml -o wide  # a row for each node, with what would free it
    """,
    "Show which nodes the autoscaler adds, removes and keeps.",
    _NODES,
)
_add(
    "remedy",
    "kplan.questions.remedy.command:remedy",
    """
    kplan remedy  # what to do so that all pending pods run
    kplan remedy ml/llm-eval --only moves  # which running pods to move for one of them
    kplan remedy --not nodes,requests  # without new nodes, and without lower requests
    """,
    "Find the least that has to be done so that pending pods run.",
    _PODS,
)
_add(
    "capacity",
    "kplan.questions.capacity.command:capacity",
    """
    kplan capacity web.yaml --replicas 50  # whether 50 fit, and which nodes to add
    kplan capacity --headroom  # how many more replicas of each workload fit
    kplan capacity web.yaml --zones  # how many fit if any one zone may fail
    """,
    "Count how many replicas fit, where, and what stops the next one.",
    _ROOM,
)
_add(
    "check",
    "kplan.questions.check.command:check",
    """
    kplan check  # the standard checks
    kplan check checks.yaml --report junit=checks.xml  # your own, for a pipeline
    kplan check --since monday.json  # what has changed since an earlier report
    """,
    "Check whether the promises hold that you rely on.",
    _NODES,
)
_add(
    "diff",
    "kplan.questions.diff.command:diff",
    """
    kplan diff before.json after.json  # two saved reports
    kplan diff --add-nodes 3=general-a-1  # all pending pods, without and with three more nodes
    kplan diff web.yaml --against-version 1.34 --fail-on regression  # with another minor; exit code 1 if worse
    """,
    "Compare two answers, and show why they differ.",
    _ANSWERS,
)
_add(
    "ask",
    "kplan.program.ask:ask",
    """
    kplan ask question.yaml  # the question that a file holds
    kplan ask questions.yaml -o json  # several questions, as a list
    """,
    "Answer questions that are written as documents.",
    _ANSWERS,
)
_add(
    "show",
    "kplan.program.show:show",
    """
    kplan show plan.json  # as a table
    kplan show plan.json -o markdown  # as Markdown
    """,
    "Print a saved report of any command in any format.",
    _ANSWERS,
)
_COMMANDS["snapshot"] = group(
    "kplan.program.snapshot:app", "Save a cluster to a file, show what is in it, or check it.", _FILES
)
_COMMANDS["config"] = group(
    "kplan.program.config:app", "Show the effective KubeSchedulerConfiguration, or check one.", _FILES
)
_add(
    "mcp",
    "kplan.program.mcp:mcp",
    """
    kplan mcp --snapshot demo  # about the example cluster
    kplan mcp --context prod-eu  # about a live cluster, read once
    """,
    "Serve the questions as tools for agents (Model Context Protocol).",
    _FILES,
)
_add(
    "schema",
    "kplan.program.schema:schema",
    """
    kplan schema  # list the kinds
    kplan schema PlanReport  # the schema of one kind
    """,
    "Print the JSON Schema of a document, or list the kinds.",
    _FILES,
)
_add(
    "completion",
    "kplan.program.shells:completion",
    """
    kplan completion bash  # for one shell: source <(kplan completion bash)
    kplan completion zsh  # save as _kplan in a directory of fpath
    kplan completion fish  # save as ~/.config/fish/completions/kplan.fish
    """,
    "Print a completion script for bash, zsh or fish.",
    _FILES,
)
_COMMANDS["names"] = command("names", "kplan.program.names:names")
