"""``python -m kplan``: the command line."""

from kplan.cli.start import run

run()
