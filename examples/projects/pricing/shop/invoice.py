"""An invoice as plain text."""

from shop.money import show

WIDTH = 60


def render(number, priced):
    """The invoice, one line per position, amounts right-aligned."""
    out = [f"Invoice {number}", "=" * WIDTH]
    for line in priced.lines:
        left = f"{line.quantity:>3} x {line.name}"
        out.append(_row(left, line.total))
    out.append("-" * WIDTH)
    out.append(_row("Subtotal", priced.subtotal))
    for discount in priced.discounts:
        out.append(_row(discount.label, discount.amount))
    out.append(_row("Shipping", priced.shipping))
    out.append(_row("Total", priced.total))
    for rate, amount in sorted(priced.taxes.items()):
        out.append(_row(f"  of which VAT {rate} %", amount))
    return "\n".join(out)


def _row(left, amount):
    right = show(amount)
    return f"{left:<{WIDTH - len(right)}}{right}"
