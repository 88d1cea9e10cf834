"""Coupons a customer types in."""

import datetime
from dataclasses import dataclass

from shop.discounts import Discount
from shop.money import percent_of


class CouponRefused(ValueError):
    """Raised with the sentence the customer reads."""


@dataclass(frozen=True)
class Coupon:
    code: str
    percent: int = 0
    amount: int = 0
    minimum: int = 0
    valid_until: datetime.date | None = None
    once_per_customer: bool = False


COUPONS = {
    coupon.code: coupon
    for coupon in (
        Coupon("WELCOME10", percent=10, once_per_customer=True),
        Coupon("FREIGHT5", amount=500, minimum=2500),
        Coupon("SPRING", percent=15, valid_until=datetime.date(2025, 4, 30)),
        Coupon("BIG50", amount=5000, minimum=20000),
    )
}


def apply(code, subtotal, *, today, used=frozenset()):
    """The discount of a coupon, or CouponRefused with the reason."""
    coupon = COUPONS.get(code)
    if coupon is None:
        raise CouponRefused(f"There is no coupon {code}.")
    if coupon.valid_until is not None and today >= coupon.valid_until:
        raise CouponRefused(f"Coupon {code} was valid until {coupon.valid_until}.")
    if coupon.once_per_customer and code in used:
        raise CouponRefused(f"Coupon {code} was used before.")
    if subtotal < coupon.minimum:
        raise CouponRefused(f"Coupon {code} needs an order of at least {coupon.minimum / 100:.2f} EUR.")
    amount = coupon.amount or percent_of(subtotal, coupon.percent)
    return Discount(f"coupon {code}", amount)
