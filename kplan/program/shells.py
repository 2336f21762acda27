"""`kplan completion`: a shell's completion script, for users without a package that installs it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kplan.cli.options import argument

Shell = StrEnum("Shell", {"BASH": "bash", "ZSH": "zsh", "FISH": "fish"})
"""Shells with a completion script."""


_FILES = {Shell.BASH: "kplan.bash", Shell.ZSH: "_kplan", Shell.FISH: "kplan.fish"}


EXAMPLES = """
kplan completion bash  # for one shell: source <(kplan completion bash)
kplan completion zsh  # save as _kplan in a directory of fpath
kplan completion fish  # save as ~/.config/fish/completions/kplan.fish
"""


def completion(context: typer.Context, shell: Annotated[Shell, argument("SHELL", "bash, zsh or fish.")]) -> None:
    """Print the completion script of a shell.

    It completes commands and options, and the names of pods, workloads, nodes and namespaces in the snapshot.
    """
    from kplan.cli.answer import write_out
    from kplan.program.completion import completion_files

    write_out(completion_files(context.find_root().command)[_FILES[shell]])
