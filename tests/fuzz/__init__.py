"""Hostile inputs that know the types: a development tool, run for a bounded time with ``python -m tests.fuzz``."""
