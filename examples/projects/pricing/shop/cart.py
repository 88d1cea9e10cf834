"""What a customer wants to buy."""

from dataclasses import dataclass, field


@dataclass
class Line:
    sku: str
    name: str
    quantity: int
    unit_price: int
    weight_grams: int
    category: str

    @property
    def total(self):
        return self.quantity * self.unit_price


@dataclass
class Cart:
    lines: list = field(default_factory=list)

    @classmethod
    def from_order(cls, order, catalog):
        cart = cls()
        for item in order["items"]:
            cart.add(catalog.get(item["sku"]), item.get("quantity", 1))
        return cart

    def add(self, product, quantity=1):
        """Adds a product. Adding it twice gives one line with both quantities."""
        if quantity < 0:
            raise ValueError(f"quantity of {product.sku} must be positive, not {quantity}")
        line = Line(
            sku=product.sku,
            name=product.name,
            quantity=quantity,
            unit_price=product.price_for(quantity),
            weight_grams=product.weight_grams,
            category=product.category,
        )
        self.lines.append(line)
        return line

    def remove(self, sku):
        for line in self.lines:
            if line.sku == sku:
                self.lines.remove(line)

    @property
    def subtotal(self):
        return sum(line.total for line in self.lines)

    @property
    def weight_grams(self):
        return sum(line.weight_grams for line in self.lines)

    @property
    def is_empty(self):
        return not self.lines
