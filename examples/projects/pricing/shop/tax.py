"""Value added tax, by category."""

from shop.money import percent_of

RATES = {"general": 19, "books": 7, "food": 7, "gift cards": 0}


def rate_of(category):
    return RATES.get(category) or RATES["general"]


def included(gross, rate):
    """The tax contained in a gross amount."""
    return percent_of(gross, rate)


def by_rate(lines, discount=0):
    """Rate -> tax contained, after the discount was spread over the lines by their share."""
    total = sum(line.total for line in lines)
    taxes = {}
    for line in lines:
        share = discount * line.total // total if total else 0
        rate = rate_of(line.category)
        taxes[rate] = taxes.get(rate, 0) + included(line.total - share, rate)
    return taxes
