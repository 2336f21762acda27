"""`kplan`: the command line. Every command imports what it needs when it runs, so that help is there at once."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

from kplan import __version__
from kplan.cli.faults import FAILED, say_traceback
from kplan.cli.program import Entry, Program, command, group

_COMMANDS: dict[str, Entry] = {}


class _Kplan(Program):
    """All of kplan's commands."""

    entries = _COMMANDS


app = typer.Typer(
    name="kplan",
    cls=_Kplan,
    help="""terraform plan for the Kubernetes scheduler: where pods land, whom they evict, and why.

    Decides as the cluster's own release of kube-scheduler, from a snapshot or a live cluster, and changes nothing.""",
    epilog="""Exit codes: 0 answered, nothing in --fail-on happened; 1 answered, something in it happened; 2 could not
    be answered. Try: kplan preempt --snapshot demo""",
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
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
) -> None:
    """Set what holds for all commands."""


def _add(name: str, home: str, examples: str, short_help: str) -> None:
    _COMMANDS[name] = command(name, home, examples, short_help)


_add(
    "place",
    "kplan.cli.place:place",
    """
    kplan place web.yaml  # where the pods of a manifest would go
    kplan place shop/voucher-api --explain  # every node with every plugin's verdict and score
    kplan place web.yaml --report junit=kplan.xml  # for a pipeline: exit code 1 and a test report
    """,
    "Say where pods or workloads would land, and why there.",
)
_add(
    "preempt",
    "kplan.cli.preempt:preempt",
    """
    kplan preempt  # whom each pending pod that fits nowhere would evict
    kplan preempt web.yaml --explain  # every candidate, and who could stay
    kplan preempt shop/flash-sale --settle-preemption  # as if it took place
    """,
    "Say whom pods would evict to get in, and why those.",
)
_add(
    "plan",
    "kplan.cli.plan:plan",
    """
    kplan plan  # the pending pods, worked off to the end
    kplan plan web.yaml --save plan.json  # with those of a manifest; kept for kplan show
    kplan plan --queue  # only the order in which they are tried
    """,
    "Work off the whole scheduling queue, in order, to the end.",
)
_add(
    "capacity",
    "kplan.cli.capacity:capacity",
    """
    kplan capacity web.yaml --replicas 50  # how many fit, what stops the next one, and what to add
    kplan capacity --headroom  # how many more of each workload that the cluster has
    kplan capacity web.yaml --zones  # how many fit, so that any one zone may be lost
    """,
    "Count how many replicas fit, where, and what stops the next.",
)
_add(
    "drain",
    "kplan.cli.drain:drain",
    """
    kplan drain general-a-1  # where its pods go, and which budgets object
    kplan drain "spot-*" --rolling  # node after node
    kplan drain --zone eu-west-1a --lost  # a whole zone gone at once
    """,
    "Say what becomes of the pods of drained or lost nodes.",
)
_add(
    "pods",
    "kplan.cli.pods:pods",
    """
    kplan pods web.yaml  # as the API server would store them, and what filled them in
    kplan pods web.yaml -o name  # their names only
    """,
    "Print the pods that manifests make, as they would be stored.",
)
_add(
    "explain",
    "kplan.cli.explain:explain",
    """
    kplan explain ml/llm-eval  # why a pod is pending
    kplan explain batch/report-daily-knqdn --explain  # why a running one is where it is, in full
    kplan explain deploy/shop/cart  # each pod of a workload
    """,
    "Say why a pod or a workload's pods are where they are.",
)
_add(
    "diff",
    "kplan.cli.diff:diff",
    """
    kplan diff before.json after.json  # two saved reports
    kplan diff --add-nodes 3=general-a-1  # the pending pods, without and with three more nodes
    kplan diff web.yaml --against-version 1.34 --fail-on regression  # on another minor; exit code 1 if it is worse
    """,
    "Say what differs between two answers, and why.",
)
_add(
    "show",
    "kplan.cli.show:show",
    """
    kplan show plan.json  # print a saved report again
    kplan show plan.json -o markdown  # in another format
    """,
    "Print a saved report, of any command, in any format.",
)
_add(
    "schema",
    "kplan.cli.schema:schema",
    """
    kplan schema  # the kinds of documents
    kplan schema PlanReport  # the JSON Schema of one
    """,
    "Print the JSON Schema of a document, or list the kinds.",
)
_add(
    "completion",
    "kplan.cli.shells:completion",
    """
    kplan completion bash  # for one shell: source <(kplan completion bash)
    kplan completion zsh  # into a file _kplan in a directory of fpath
    kplan completion fish  # into ~/.config/fish/completions/kplan.fish
    """,
    "Print a completion script for bash, zsh or fish.",
)
_COMMANDS["snapshot"] = group("kplan.cli.snapshot:app", "Save a cluster into a file, look into one, or check one.")
_COMMANDS["config"] = group("kplan.cli.config:app", "Show the effective KubeSchedulerConfiguration, or check one.")
_COMMANDS["names"] = command("names", "kplan.cli.names:names")


_ALLOCATIONS_A_COLLECTION = 100_000
"""Objects that come to stay, a cluster's above all, are what is allocated; looking through them finds nothing."""

_THREADS_OF_NUMPY = "OPENBLAS_NUM_THREADS"
"""NumPy's linear algebra, of which nothing is asked, would start a thread a core and let each wait busily at first."""


def run_as_plugin() -> None:
    """Run kplan as a plugin of kubectl."""
    run("kubectl kplan")


def complete_for_kubectl() -> None:
    """Print what kubectl offers for the words after ``kubectl kplan``."""
    from kplan.cli.kubectl_completion import complete

    sys.stdout.write(complete(typer.main.get_command(app), sys.argv[1:]))


def run(name: str = "kplan") -> None:
    """Run kplan as a program of this name."""
    gc.set_threshold(_ALLOCATIONS_A_COLLECTION, *gc.get_threshold()[1:])
    os.environ.setdefault(_THREADS_OF_NUMPY, "1")
    try:
        app(prog_name=name)
    except Exception as error:  # noqa: BLE001 - with --debug whatever went wrong arrives here
        say_traceback(error)
        sys.exit(FAILED)
