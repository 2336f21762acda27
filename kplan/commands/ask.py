"""`kplan ask`: questions that are written as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from kplan.api.names import camel_case
from kplan.cli.answer import as_data, emit, formats_of, showing_for, write_out
from kplan.cli.flags import AutoscalerFlags, CommonFlags, OutputFlags, SweepFlags, VerbosityFlags
from kplan.cli.messages import busy
from kplan.cli.options import argument, with_flags
from kplan.cli.subject import load_subject
from kplan.errors import ParameterError, UsageError

if TYPE_CHECKING:
    from kplan.documents.base import Head

_DATA = ("json", "yaml")
_FORMATS_OF_SEVERAL = frozenset({"table", "wide", "short", "markdown", "name", *_DATA})

EXAMPLES = """
kplan ask question.yaml  # the question that a file holds
kplan ask questions.yaml -o json  # several questions, as a list
"""


@with_flags
def ask(
    questions_file: Annotated[
        str, argument("QUESTION", "Questions as YAML or JSON, one a document; - for standard input.")
    ],
    *,
    sweeping: SweepFlags,
    following: AutoscalerFlags,
    flags: CommonFlags,
) -> None:
    """Answer questions that are written as documents.

    kplan schema lists their kinds, such as DrainQuestion, and prints the fields of each. A file with several questions
    is answered in its order; json and yaml then hold a list. The exit code is that of the worst answer.
    """
    output, verbosity = flags.output, flags.verbosity
    sweeping.check()
    following.check()
    formats = formats_of(output)
    from kplan.questions.nodes.document import following as followed_by
    from kplan.questions.reading import read_questions

    showing = replace(showing_for(flags), ask_all=sweeping.ask_all)
    questions = read_questions(questions_file)
    alone = [f"format {name}" for name in formats if name not in _FORMATS_OF_SEVERAL]
    alone += ["--report"] if output.report else []
    if alone and len(questions) > 1:
        raise UsageError(f"{alone[0]} is for one question, and the file holds several", hint="ask them one by one")
    base = load_subject(None, flags).base
    if (settings := following.settings_for(base.objects)) is not None:
        base = followed_by(base, settings)
    with busy("answering", quiet=verbosity.quiet) as tell:
        answers = []
        for question in questions:
            try:
                answers.append(question.answer(base, showing))
            except ParameterError as error:
                raise error.naming(camel_case) from None  # as the document names them, and not as options
            tell(f"{len(answers):,} of {len(questions):,} questions")
    if len(answers) > 1 and formats[0] in _DATA:
        from kplan.documents.base import Report

        items = [answer.to_dict() for answer in answers]
        write_out(as_data({"apiVersion": "kplan/v1", "kind": "List", "items": items}, output.output))
        codes = (answer.verdict.exit_code for answer in answers if isinstance(answer, Report))
        raise typer.Exit(0 if output.exit_zero else max(codes, default=0))
    code = 0
    for answer in answers:
        try:
            _print(answer, output, verbosity)
        except typer.Exit as ended:
            code = max(code, ended.exit_code)
    raise typer.Exit(code)


def _print(answer: Head, output: OutputFlags, verbosity: VerbosityFlags) -> None:
    from kplan.documents.base import Report
    from kplan.documents.files import PodsReport

    if isinstance(answer, Report):
        emit(answer, output, verbosity)
    elif isinstance(answer, PodsReport):
        from kplan.commands.pods import PodsFormat, write_pods

        known = [form.value for form in PodsFormat]
        if output.output.value not in known and output.output.template is None:
            raise UsageError(f"pods have no format {output.output.value}", hint=f"choose from {', '.join(known)}")
        write_pods(answer, PodsFormat(output.output))
