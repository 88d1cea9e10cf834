"""What can be bought, and at which price."""

import json
from dataclasses import dataclass, field

from shop.money import cents


class UnknownSku(KeyError):
    """Raised when an order names something that is not sold."""


@dataclass(frozen=True)
class Product:
    sku: str
    name: str
    price: int
    weight_grams: int = 0
    category: str = "general"
    tiers: tuple = ()

    def price_for(self, quantity):
        """The unit price at this quantity: the deepest tier whose minimum is reached."""
        best = self.price
        for minimum, unit_price in self.tiers:
            if quantity > minimum:
                best = unit_price
        return best


@dataclass
class Catalog:
    products: dict = field(default_factory=dict)

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls.from_rows(json.load(file))

    @classmethod
    def from_rows(cls, rows):
        products = {}
        for row in rows:
            tiers = tuple((tier["min"], cents(tier["price"])) for tier in row.get("tiers", []))
            product = Product(
                sku=row["sku"],
                name=row["name"],
                price=cents(row["price"]),
                weight_grams=row.get("weight_grams", 0),
                category=row.get("category", "general"),
                tiers=tiers,
            )
            products[product.sku] = product
        return cls(products)

    def get(self, sku):
        try:
            return self.products[sku]
        except KeyError:
            raise UnknownSku(sku) from None

    def in_category(self, category):
        return [product for product in self.products.values() if product.category == category]

    def search(self, words):
        """Products whose name holds all the words, whatever the case."""
        wanted = words.split()
        return [p for p in self.products.values() if all(word in p.name.lower() for word in wanted)]
