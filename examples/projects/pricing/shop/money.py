"""Cents and percentages. Integers in, integers out."""

from decimal import ROUND_HALF_UP, Decimal


def cents(text):
    """'12.30' -> 1230. Accepts a leading currency sign and thousands commas."""
    cleaned = text.strip().lstrip("€$£")
    if "." in cleaned:
        whole, fraction = cleaned.split(".")
    else:
        whole, fraction = cleaned, "0"
    return int(whole) * 100 + int(fraction)


def show(amount, currency="EUR"):
    """1230 -> '12.30 EUR'."""
    sign = "-" if amount < 0 else ""
    return f"{sign}{abs(amount) // 100}.{abs(amount) % 100:02d} {currency}"


def percent_of(amount, percent):
    """The given percentage of an amount, to the nearest cent, half away from zero."""
    return int(amount * percent / 100)


def split(amount, parts):
    """Divides an amount into `parts` integers that add up to it; the first ones take the remainder."""
    share = amount // parts
    return [share] * parts


def exact_percent(amount, percent):
    """As percent_of, for percentages given as text such as '7.5'."""
    value = Decimal(amount) * Decimal(percent) / 100
    return int(value.quantize(Decimal(1), rounding=ROUND_HALF_UP))
