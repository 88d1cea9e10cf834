"""Command line: python -m shop price FILE | python -m shop stock FILE."""

import json
import sys

from shop.cart import Cart
from shop.catalog import Catalog
from shop.checkout import price
from shop.invoice import render

CATALOG = "data/catalog.json"


def main(argv):
    if len(argv) != 2 or argv[0] not in {"price", "items"}:
        print("usage: python -m shop (price|items) FILE", file=sys.stderr)
        return 2
    catalog = Catalog.load(CATALOG)
    with open(argv[1], encoding="utf-8") as file:
        order = json.load(file)
    cart = Cart.from_order(order, catalog)
    if argv[0] == "items":
        for line in cart.lines:
            print(f"{line.sku:<12} {line.quantity:>4} x {line.unit_price:>8}")
        return 0
    print(render(order["id"], price(cart, order)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
