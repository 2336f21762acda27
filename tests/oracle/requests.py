"""Quantities, exactly."""

import re
from fractions import Fraction
from functools import cache
from math import ceil

UNITS = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": 1}
UNITS |= {suffix: 1000**power for power, suffix in enumerate("kMGTPE", start=1)}
UNITS |= {f"{suffix}i": 1024**power for power, suffix in enumerate("KMGTPE", start=1)}


@cache
def quantity(text):
    """Parse a quantity as the API writes it."""
    number, exponent, suffix = re.fullmatch(r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+))?([A-Za-z]*)", str(text)).groups()
    return Fraction(number) * Fraction(10) ** int(exponent or 0) * UNITS[suffix]


def units(name, amount):
    """Round up to milliCPU, bytes or counts."""
    return ceil(amount * 1000) if name == "cpu" else ceil(amount)
