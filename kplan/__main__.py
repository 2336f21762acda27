"""``python -m kplan``: the command line."""

from kplan.cli.main import run

run()
