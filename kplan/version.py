"""The version of kplan."""

__version__ = "0.1.0"
