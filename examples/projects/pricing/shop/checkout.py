"""Puts the parts together: cart -> priced order."""

import datetime
from dataclasses import dataclass, field

from shop import coupons, discounts, shipping, tax


@dataclass(frozen=True)
class Priced:
    lines: list
    subtotal: int
    discounts: list = field(default_factory=list)
    shipping: int = 0
    taxes: dict = field(default_factory=dict)
    total: int = 0


def price(cart, order):
    """Prices a cart for an order. Raises ValueError for an empty cart."""
    if cart.is_empty:
        raise ValueError("an empty cart has no price")
    subtotal = cart.subtotal
    taken = []
    automatic = discounts.best_of([
        discounts.bulk(cart),
        discounts.buy_three_pay_two(cart, category="books"),
        discounts.loyalty(cart, years=order.get("customer_years", 0)),
    ])
    if automatic:
        taken.append(automatic)
    if order.get("coupon"):
        today = datetime.date.fromisoformat(order["date"])
        taken.append(coupons.apply(order["coupon"], subtotal, today=today, used=order.get("used_coupons", ())))
    off = sum(discount.amount for discount in taken)
    goods = subtotal - off
    freight = shipping.cost(
        cart.weight_grams, order["country"], goods_total=subtotal, express=order.get("express", False)
    )
    return Priced(
        lines=cart.lines,
        subtotal=subtotal,
        discounts=taken,
        shipping=freight,
        taxes=tax.by_rate(cart.lines, off),
        total=goods + freight,
    )
