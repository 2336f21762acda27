"""Quantities such as ``100m``, ``1.5Gi`` and ``2e3``, with Kubernetes' rounding; how people read amounts and lists."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

from kplan.api.meta import QuantityLike

K = TypeVar("K")
V = TypeVar("V")

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]
MAX_INT64 = 2**63 - 1
INT64 = range(-MAX_INT64 - 1, MAX_INT64 + 1)
MAX_MILLI_VALUE = MAX_INT64 // 1000  # beyond it, thousandths overflow int64
_NANO_DIGITS = 9
_POWERS = ((10**9, 1.0), (10**6, 1e-3), (1000, 1e-6), (1, 1e-9))  #: units in nanos, and in ones
#: Digits that upstream handles in int64 arithmetic; longer numbers have arbitrary precision, which wraps differently.
_INT64_DIGITS = 18
#: Exponents are limited to this: such a number is far beyond int64, and its digits would only cost memory.
_MAX_SCALE = 100
#: Digits are limited, too: Python refuses to parse some thousands, and becomes slow before.
_MAX_DIGITS = 1000

#: Possessive throughout: a text that fails is read once, however many digits it has.
_SYNTAX = re.compile(r"([+-]?+)0*+([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = {0: "", **{exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}}
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_THOUSANDTHS = r"[1-9][0-9]{3,15}m"  #: of cores, one or more of them
_BYTES = r"(-?[0-9]+)(|[KMGTPE]i)"
_LEAST_BYTES = 1 << 20  #: plain numbers below this are as often counts as bytes


class InvalidQuantity(ValueError):  # noqa: N818 - says what is wrong, as Go's error values do
    """A text that is not a quantity; the message is upstream's."""


class Quantity(NamedTuple):
    """An exact amount in nanos, and the format of its suffix."""

    nanos: int
    format: Format = "DecimalSI"

    def value(self) -> int:
        """Return whole units, rounded away from zero."""
        return _divide_away(self.nanos, 10**9)

    def milli_value(self) -> int:
        """Return thousandths, rounded away from zero."""
        return _divide_away(self.nanos, 10**6)

    def approximate(self) -> float:
        """Return what Go makes of the canonical number, times a power of ten (AsApproximateFloat64): 9m is no 0.009."""
        unit, power = next((unit, power) for unit, power in _POWERS if self.nanos % unit == 0)
        try:
            return self.nanos // unit * power
        except OverflowError:
            return math.inf if self.nanos > 0 else -math.inf

    def plus(self, other: Quantity) -> Quantity:
        """Return the exact sum; zero takes the other's format, as upstream's Add does."""
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def minus(self, other: Quantity) -> Quantity:
        """Return the exact difference; zero takes the other's format, as upstream's Sub does."""
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __str__(self) -> str:
        """Return the canonical text (upstream CanonicalizeBytes)."""
        nanos, form = self
        if nanos == 0:
            return "0"
        if form == "BinarySI" and abs(nanos) >= 1024 * 10**9 and nanos % 10**9 == 0:
            number, steps = _take_factors(nanos // 10**9, 1024, len(_BINARY_SUFFIXES))
            return f"{number}{_BINARY_NAMES[steps * 10]}"
        number, steps = _take_factors(nanos, 1000, None if form == "DecimalExponent" else 9)
        exponent = 3 * steps - _NANO_DIGITS
        if form == "DecimalExponent":
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_NAMES[exponent]}"


class _Parsed(NamedTuple):
    """Upstream's value after parsing: `mantissa` times ten to the `scale`, in int64 or in arbitrary precision."""

    mantissa: int
    scale: int
    is_big: bool
    format: Format


def value(quantity: QuantityLike) -> int:
    """Return whole units as int64, rounded away from zero (upstream Value); raises InvalidQuantity."""
    return _scaled(str(quantity), 0)


def milli_value(quantity: QuantityLike) -> int:
    """Return thousandths as int64, rounded away from zero (upstream MilliValue); raises InvalidQuantity."""
    return _scaled(str(quantity), -3)


def parse(quantity: QuantityLike) -> Quantity:
    """Return the exact amount, to be added and compared without rounding; raises InvalidQuantity."""
    return _exact(str(quantity))


def nanos_of(resources: Mapping[str, QuantityLike]) -> dict[str, int]:
    """Return amounts in 1e-9, by resource name; raises InvalidQuantity."""
    return {name: parse(amount).nanos for name, amount in resources.items()}


def canonical(quantity: QuantityLike) -> str:
    """Return the text of an API server: no fraction, the largest suffix without a loss; raises InvalidQuantity."""
    return str(parse(quantity))


def stored(quantity: QuantityLike) -> str:
    """Return the text that an API server keeps of a quantity; raises InvalidQuantity.

    That is the canonical one, or another that upstream's parser takes for it, such as ``1e0``, ``+5`` and ``1.500``.
    """
    text = str(quantity).strip()
    parsed = _parse(text)
    if not parsed.is_big and (match := _SYNTAX.fullmatch(text)) is not None:
        digits = (match[2] or "0") + (match[3] or "")
        # By these signs alone ParseQuantity takes a text for canonical.
        if parsed.format == "BinarySI":
            is_canonical = int(digits) % 8 != 0
        else:
            is_canonical = parsed.scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        if is_canonical:
            return text
    return canonical(text)


@lru_cache(maxsize=1 << 16)
def _exact(text: str) -> Quantity:
    parsed = _parse(text)
    return Quantity(parsed.mantissa * 10 ** (parsed.scale + _NANO_DIGITS), parsed.format)


@lru_cache(maxsize=1 << 16)
def _scaled(text: str, scale: int) -> int:
    """Return the amount in units of ten to the `scale`, with upstream's behaviour beyond int64."""
    parsed = _parse(text)
    shift = parsed.scale - scale
    power: int = 10 ** abs(shift)
    if parsed.is_big:
        return _scale_big(parsed.mantissa, shift)
    if shift < 0:
        return _divide_away(parsed.mantissa, power)
    product = parsed.mantissa * power
    if product in INT64:
        return product
    # Upstream ignores the overflow of the product: shifts that it multiplies in one step wrap, others yield 0.
    return _wrap(product) if shift in {1, 2, 3, 6, 9} else 0


def _scale_big(mantissa: int, shift: int) -> int:
    """Scale as upstream's scaledValue: the quotient is one up wherever something is left, on either side of zero."""
    divisor: int = 10 ** abs(shift)
    if shift >= 0:
        return _wrap(mantissa * divisor)
    if mantissa < MAX_INT64:
        low = _wrap(mantissa)
        quotient = abs(low) // divisor * (1 if low >= 0 else -1)
        return quotient + (1 if low != quotient * divisor else 0)
    return _wrap(-(-mantissa // divisor))


def _parse(text: str) -> _Parsed:
    text = text.strip()
    match = _SYNTAX.fullmatch(text)
    if match is None or not text:
        msg = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        raise InvalidQuantity(msg)
    sign = -1 if match[1] == "-" else 1
    whole, fraction, suffix = (match[2] or "0")[:_MAX_DIGITS], match[3] or "", match[4]
    if len(fraction) > _MAX_DIGITS:  # a last digit still makes it round up
        fraction = fraction[:_MAX_DIGITS] + ("1" if fraction[_MAX_DIGITS:].strip("0") else "")
    if suffix in _BINARY_SUFFIXES:
        return _parse_binary(sign, whole, fraction, _BINARY_SUFFIXES[suffix])
    exponent, form = _decimal_exponent(suffix)
    scale = exponent - len(fraction)
    mantissa = sign * int(whole + fraction)
    if len(whole) + len(fraction) <= _INT64_DIGITS and scale >= -_NANO_DIGITS:
        return _Parsed(mantissa, min(scale, _MAX_SCALE), is_big=False, format=form)
    return _big(mantissa, scale, form)


def _parse_binary(sign: int, whole: str, fraction: str, exponent: int) -> _Parsed:
    mantissa = sign * int(whole + fraction) << exponent
    # The precision estimate by which upstream chooses its representation; float32 and float64 truncate alike here.
    fits = not fraction and 15 - len(whole) - exponent * 3 // 10 - 1 >= 0 and abs(mantissa) <= MAX_INT64
    if fits:
        return _Parsed(mantissa, 0, is_big=False, format="BinarySI")
    scale = -len(fraction)
    if abs(mantissa) > MAX_INT64 * 10 ** len(fraction):
        return _Parsed(sign * MAX_INT64, 0, is_big=True, format="BinarySI")
    is_fraction = 0 < abs(mantissa) < 10 ** len(fraction)
    return _big(mantissa, scale, "DecimalSI" if is_fraction else "BinarySI")


def _big(mantissa: int, scale: int, form: Format) -> _Parsed:
    """Return the amount in nanos, rounded away from zero, as upstream's arbitrary-precision form holds it."""
    shift = scale + _NANO_DIGITS
    if shift < 0:
        # Cutting the shift changes nothing once every digit is below a nano.
        divisor = 10 ** min(-shift, len(str(mantissa)) + 1)
        return _Parsed(_divide_away(mantissa, divisor), -_NANO_DIGITS, is_big=True, format=form)
    return _Parsed(mantissa * 10 ** min(shift, _MAX_SCALE), -_NANO_DIGITS, is_big=True, format=form)


def _decimal_exponent(suffix: str) -> tuple[int, Format]:
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix], "DecimalSI"
    digits = suffix[1:]
    if suffix[:1] in {"e", "E"} and re.fullmatch(r"[-+]?[0-9]+", digits):
        exponent = int(digits[:40])
        if exponent in INT64:
            return (exponent + 2**31) % 2**32 - 2**31, "DecimalExponent"
    raise InvalidQuantity("unable to parse quantity's suffix")


def _divide_away(number: int, divisor: int) -> int:
    return -(-number // divisor) if number > 0 else number // divisor


def _wrap(number: int) -> int:
    """Return the low 64 bits as a signed integer."""
    return (number + 2**63) % 2**64 - 2**63


def _take_factors(number: int, factor: int, limit: int | None) -> tuple[int, int]:
    """Divide by `factor` as often as it divides evenly, at most `limit` times."""
    times = 0
    while number % factor == 0 and (limit is None or times < limit):
        number //= factor
        times += 1
    return number, times


def readable(quantity: str) -> str:
    """Return bytes in the largest suitable unit, rounded to a tenth for display; another quantity unchanged."""
    match = re.fullmatch(_BYTES, quantity)
    if match is None:
        return quantity
    amount = int(match[1]) * 1024 ** _UNITS.index(match[2])
    if abs(amount) < _LEAST_BYTES:
        return quantity
    power = min((abs(amount).bit_length() - 1) // 10, len(_UNITS) - 1)
    value = f"{amount / 1024**power:.1f}".removesuffix(".0")
    return f"{value}{_UNITS[power]}"


def in_cores(quantity: str) -> str:
    """Return a quantity as `readable` does, and one of thousandths from a whole on as a number: 963.6 for 963600m."""
    if re.fullmatch(_THOUSANDTHS, quantity):
        return f"{int(quantity[:-1]) / 1000:.3f}".rstrip("0").rstrip(".")
    return readable(quantity)


_MOST_DIGITS = 640  #: Python always reads so many, and by default no more than 4,300


def natural(text: str, most: int) -> int | None:
    """Return the number that a text of ASCII digits says; None for another text, and for more than `most`."""
    digits = text.lstrip("0") or text[-1:]
    is_number = text.isascii() and text.isdecimal() and len(digits) <= _MOST_DIGITS
    return number if is_number and (number := int(digits)) <= most else None


def capitalized(text: str) -> str:
    """Return a text with a large first letter; all others stay as they are."""
    return text[:1].upper() + text[1:]


def clause(sentence: str) -> str:
    """Return a sentence to stand behind a colon, without a full stop; a name that it begins with stays as it is."""
    text = sentence.removesuffix(".")
    return text[:1].lower() + text[1:] if text.split(" ", 1)[0][1:].islower() else text


def behind_colon(message: str) -> str:
    """Return what somebody says behind a colon, without a full stop; empty where that is nothing."""
    text = message.strip().rstrip(".").rstrip()
    return f": {text}" if text else ""


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def enumerated(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def listing(names: Sequence[str], and_more: int = 0, most: int | None = 3) -> str:
    """Return the first names (None: all) with commas, and how many more there are: those left out, and `and_more`."""
    left_out = len(names) - len(names[:most]) + and_more
    return ", ".join(names[:most]) + (f" and {left_out} more" if left_out else "")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the second of each pair under the first, both in the order in which they come."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
