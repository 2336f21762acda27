"""``python -m kplan``: the command line."""

from kplan.program.start import run

run()
