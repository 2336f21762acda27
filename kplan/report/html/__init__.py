"""The HTML report: one file that needs nothing else and is readable without scripts."""
