"""The version of kplan."""

__version__ = "0.2.0"
