from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.quantity import MAX_INT64, InvalidQuantity, canonical, milli_value, natural, parse, value

DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
BASES = {suffix: Fraction(1000) ** (power - 3) for power, suffix in enumerate(DECIMAL)} | {
    f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", 1)
}

digits = st.text("0123456789", min_size=1, max_size=12)
suffixes = st.one_of(st.sampled_from(sorted(BASES)), st.integers(-12, 9).map(lambda e: f"e{e}"))


def up(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator)


def exact_of(whole: str, fraction: str, suffix: str) -> Fraction:
    factor = Fraction(10) ** int(suffix[1:]) if suffix.startswith("e") else BASES[suffix]
    return (Fraction(int(whole)) + Fraction(int(fraction or "0"), 10 ** len(fraction))) * factor


@given(whole=digits, fraction=st.one_of(st.just(""), digits), suffix=suffixes)
def test_rounding_up_agrees_with_exact_fractions(whole: str, fraction: str, suffix: str) -> None:
    text = f"{whole}.{fraction}{suffix}" if fraction else whole + suffix
    nanos = up(exact_of(whole, fraction, suffix) * 10**9)
    if nanos // 10**9 >= MAX_INT64 // 1000:
        return
    assert parse(text).nanos == nanos
    assert value(text) == up(Fraction(nanos, 10**9))
    assert milli_value(text) == up(Fraction(nanos, 10**6))


@given(whole=digits, fraction=st.one_of(st.just(""), digits), suffix=suffixes)
def test_canonical_form_means_the_same_and_is_stable(whole: str, fraction: str, suffix: str) -> None:
    text = f"-{whole}.{fraction}{suffix}" if fraction else whole + suffix
    shown = canonical(text)
    assert parse(shown).nanos == parse(text).nanos
    assert canonical(shown) == shown


@given(a=st.integers(0, 10**9), b=st.integers(0, 10**9), one=st.sampled_from(["m", "u", "Ki"]))
def test_sums_are_exact_until_rounded_once(a: int, b: int, one: str) -> None:
    total = parse(f"{a}{one}").plus(parse(f"{b}{one}"))
    assert total.nanos == parse(f"{a + b}{one}").nanos
    assert total.minus(parse(f"{b}{one}")).nanos == parse(f"{a}{one}").nanos


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("0", 0, 0), ("100m", 1, 100), ("1.5Gi", 1610612736, 1610612736000), ("0.5", 1, 500), (".5", 1, 500),
        ("1.", 1, 1000), ("+2", 2, 2000), ("12e6", 12000000, 12000000000), ("12E6", 12000000, 12000000000),
        ("1e-3", 1, 1), ("0.0000000001", 1, 1), ("-1.5", -2, -1500), (" 4 ", 4, 4000), ("0000100", 100, 100000),
        (2, 2, 2000), (0.25, 1, 250), (1e3, 1000, 1000000),
    ],
)  # fmt: skip
def test_reading(text: str | float, whole: int, milli: int) -> None:
    assert (value(text), milli_value(text)) == (whole, milli)


@pytest.mark.parametrize(
    ("text", "whole", "milli", "why"),
    [
        ("9Ei", MAX_INT64, -1000, "binary amounts are capped at int64, but thousandths of the cap wrap"),
        ("9223372036854775807Ki", MAX_INT64, -1000, "the same"),
        ("100E", 0, 0, "eighteen digits at a time overflow and give nothing"),
        ("12345678901234567890", -6101065172474983726, 4807115922877858896, "long numbers wrap"),
        ("1e2147483647", 0, 0, "an exponent that nobody can count"),
        ("-0.1Gi", -107374181, -107374182400, "long fractions round up on either side of zero"),
        ("18446744073709552k", 384, 384000, "a scale of three is multiplied in one step and wraps"),
    ],
)
def test_beyond_int64_goes_on_as_upstream_does(text: str, whole: int, milli: int, why: str) -> None:
    assert (value(text), milli_value(text)) == (whole, milli), why


@pytest.mark.parametrize(
    "text", ["", " ", "abc", "1x", "1 Gi", "1ki", "1KI", "1e", "1e+", "--1", "1.2.3", "0x10", "1Kii", "1,5", "\u0661"]
)
def test_refused(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        value(text)


SHOWN = """
1536Mi=1536Mi 1024Mi=1Gi 1.5Gi=1536Mi 1000Ki=1000Ki 1023=1023 1Ki=1Ki 0.5Ki=512 1000m=1 1500m=1500m 2000k=2M 1e3=1e3
1e4=10e3 12e1=120 0Gi=0 1.1Mi=1153433600m 0.000000001=1n
"""


@pytest.mark.parametrize("pair", SHOWN.split())
def test_canonical(pair: str) -> None:
    text, shown = pair.split("=")
    assert canonical(text) == shown


def test_a_number_of_digits_is_read_up_to_the_most() -> None:
    assert [natural(text, 10) for text in ("007", "0" * 5000 + "9", "11", "", "-1", "²")] == [7, 9, *[None] * 4]
