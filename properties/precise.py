"""Logarithms and exponentials to fifty digits: what laws of probabilities hold answers against."""

from collections.abc import Iterable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Overflow
from fractions import Fraction

PRECISE = Context(prec=50, Emax=MAX_EMAX, Emin=MIN_EMIN)
PRECISE.traps[Overflow] = False
MINUS_INFINITY = Decimal("-Infinity")


def decimal(value: float | Fraction) -> Decimal:
    """A number to fifty digits."""
    if isinstance(value, Fraction):
        return PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))
    return PRECISE.create_decimal(value)


def exp(value: Decimal) -> Decimal:
    return PRECISE.exp(value)


def log(value: Decimal | Fraction | float) -> Decimal:
    """The natural logarithm; −∞ of 0."""
    return PRECISE.ln(value if isinstance(value, Decimal) else decimal(value))


def times(left: Decimal, right: Decimal) -> Decimal:
    return PRECISE.multiply(left, right)


def add(terms: Iterable[Decimal]) -> Decimal:
    total = Decimal(0)
    for term in terms:
        total = PRECISE.add(total, term)
    return total


def below_maximum(row: Sequence[float]) -> list[Decimal]:
    """x_i − max x; −∞ for −∞."""
    logits = [decimal(logit) for logit in row]
    top = max(logits)
    return [PRECISE.subtract(logit, top) for logit in logits]


def log_softmax(row: Sequence[float]) -> list[Decimal]:
    """Log-probabilities of a row of logits, at least one of which is finite."""
    below = below_maximum(row)
    normaliser = log(add(map(exp, below)))
    return [PRECISE.subtract(gap, normaliser) for gap in below]


def root(value: Decimal) -> Decimal:
    """The square root; 0 where rounding left less than nothing."""
    return PRECISE.sqrt(max(value, Decimal(0)))
