"""Automatic discounts. Each rule looks at the cart and gives the cents to take off."""

from dataclasses import dataclass

from shop.money import percent_of


@dataclass(frozen=True)
class Discount:
    label: str
    amount: int


def bulk(cart, *, minimum=10, percent=5):
    """A percentage off every line that holds at least `minimum` pieces."""
    amount = sum(percent_of(line.total, percent) for line in cart.lines if line.quantity >= minimum)
    return Discount(f"bulk {percent} %", amount) if amount else None


def buy_three_pay_two(cart, *, category):
    """In one category the cheapest of every three pieces is free."""
    prices = []
    for line in cart.lines:
        if line.category == category:
            prices.extend([line.unit_price] * line.quantity)
    prices.sort()
    free = prices[2::3]
    return Discount(f"3 for 2 in {category}", sum(free)) if free else None


def loyalty(cart, *, years):
    """One percent per full year, five at most."""
    percent = min(years, 5)
    return Discount(f"loyalty {percent} %", percent_of(cart.subtotal, percent)) if percent else None


def best_of(discounts):
    """Automatic discounts do not add up: the customer gets the largest."""
    found = [discount for discount in discounts if discount is not None]
    return max(found, key=lambda discount: discount.amount) if found else None
