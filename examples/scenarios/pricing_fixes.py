"""The faults planted in `examples/projects/pricing`, each with the test that shows it and the edit that mends it."""

from __future__ import annotations

from typing import NamedTuple


class Fix(NamedTuple):
    """One fault: what the agent says at each step, the test it adds, the edits it makes."""

    key: str
    message: str
    why: str
    test_file: str
    test: str
    edits: tuple[tuple[str, str, str], ...]
    how: str
    after: str
    imports: str = ""
    where: str = "Who else relies on it?"
    grep: str = ""


def case(name: str, *tests: str) -> str:
    """A test class. Each test is 'name: statement; statement'."""
    out = [f"class {name}(unittest.TestCase):"]
    for test in tests:
        title, _, body = test.partition(": ")
        out.append(f"    def test_{title}(self):")
        out.extend(f"        {line}" for line in body.split("; "))
        out.append("")
    return "\n".join(out[:-1]) + "\n"


FIXES = (
    Fix(
        "cents", "read thousands commas and one-digit fractions",
        "First `cents`. The docstring promises thousands commas, the code does not know them, and \"9.5\" would become 9.05.",
        "tests/test_money.py",
        case("CentsFromTheShop", 'thousands: self.assertEqual(money.cents("1,290.00"), 129000)',
             'one_digit: self.assertEqual(money.cents("9.5"), 950)',
             'negative: self.assertEqual(money.cents("-0.05"), -5)'),
        (("shop/money.py", '    cleaned = text.strip().lstrip("€$£")\n    if "." in cleaned:\n        whole, fraction = cleaned.split(".")\n'
          '    else:\n        whole, fraction = cleaned, "0"\n    return int(whole) * 100 + int(fraction)\n',
          '    cleaned = text.strip().lstrip("€$£").replace(",", "")\n    value = Decimal(cleaned) * 100\n'
          '    if value != value.to_integral_value():\n        raise ValueError(f"{text!r} has a fraction of a cent")\n    return int(value)\n'),),
        "Decimal is already imported here, and it gets the sign of \"-0.05\" right as well, which the old code lost.",
        "Three cases at once. The catalogue loads now.", where="Where is `cents` used?", grep="cents\\(",
    ),
    Fix(
        "percent", "round percentages half away from zero",
        "`percent_of` divides floats and truncates: 5 % of 10.10 EUR is 50.5 cents and should be 51, it gives 50.",
        "tests/test_money.py",
        case("Percent", "half_up: self.assertEqual(money.percent_of(1010, 5), 51)",
             "negative_half: self.assertEqual(money.percent_of(-1010, 5), -51)",
             "large: self.assertEqual(money.percent_of(10**17 + 10, 10), 10**16 + 1)"),
        (("shop/money.py", "    return int(amount * percent / 100)\n",
          "    sign = -1 if amount * percent < 0 else 1\n    return sign * ((abs(amount * percent) * 2 + 100) // 200)\n"),),
        "Integers only, as you asked: double, add one hundred, divide by two hundred.",
        "No float left in money.py.", where="Everything above depends on this one:", grep="percent_of",
    ),
    Fix(
        "split", "let the parts of a split add up",
        "`split` says that the parts add up, but it drops the remainder.",
        "tests/test_money.py",
        case("Split", "adds_up: self.assertEqual(money.split(1000, 3), [334, 333, 333])",
             "even: self.assertEqual(money.split(900, 3), [300, 300, 300])"),
        (("shop/money.py", "    share = amount // parts\n    return [share] * parts\n",
          "    share, rest = divmod(amount, parts)\n    return [share + 1] * rest + [share] * (parts - rest)\n"),),
        "divmod gives both numbers.", "Nobody calls it yet, but the tax module should: I'll come back to it there.",
    ),
    Fix(
        "tier", "a price tier begins at its minimum",
        "Catalogue: the tier \"from 5 pieces\" only starts at 6, because of `>`.",
        "tests/test_catalog.py",
        case("Tiers", 'at_the_minimum: self.assertEqual(Product("S", "Saw", 3995, tiers=((5, 3650),)).price_for(5), 3650)',
             'below: self.assertEqual(Product("S", "Saw", 3995, tiers=((5, 3650),)).price_for(4), 3995)',
             'unsorted: self.assertEqual(Product("S", "Saw", 9, tiers=((20, 3), (5, 6))).price_for(25), 3)'),
        (("shop/catalog.py", "        for minimum, unit_price in self.tiers:\n            if quantity > minimum:\n",
          "        for minimum, unit_price in sorted(self.tiers):\n            if quantity >= minimum:\n"),),
        "While here: a catalogue that lists its tiers in another order would have picked the wrong one.",
        "That is SHOP-2291 itself, by the way: five saws at 36.50.", where="Is `min` documented anywhere?", grep="tiers|min",
    ),
    Fix(
        "merge", "merge lines of one product, with the tier of the whole quantity",
        "Cart: `add` says that adding twice gives one line. It gives two, and each gets the tier of its own quantity.",
        "tests/test_cart.py",
        case("Add", "twice_is_one_line: cart = Cart(); cart.add(OIL, 4); cart.add(OIL, 6); self.assertEqual([line.quantity for line in cart.lines], [10])",
             "tier_of_the_sum: cart = Cart(); cart.add(OIL, 4); cart.add(OIL, 6); self.assertEqual(cart.subtotal, 8900)",
             "zero_is_refused: self.assertRaises(ValueError, Cart().add, OIL, 0)"),
        (("shop/cart.py", "        if quantity < 0:\n", "        if quantity < 1:\n"),
         ("shop/cart.py", "        line = Line(\n", "        for line in self.lines:\n            if line.sku == product.sku:\n                line.quantity += quantity\n"
          "                line.unit_price = product.price_for(line.quantity)\n                return line\n        line = Line(\n")),
        "Look for the line first; if it is there, grow it and price it anew.",
        "And a quantity of zero is refused now: the message already said \"must be positive\".",
        imports="from shop.cart import Cart\nfrom shop.catalog import Product\n\nOIL = Product(\"O\", \"Oiler\", 980, weight_grams=120, tiers=((10, 890),))",
        where="Who builds lines?", grep="Line\\(|\\.add\\(",
    ),
    Fix(
        "remove", "remove every line of a product",
        "`remove` takes items out of the list it is iterating over, so of two neighbours one stays.",
        "tests/test_cart.py",
        case("Remove", 'neighbours: cart = Cart(); line = Line("O", "Oiler", 1, 980, 120, "general"); cart.lines = [line, line]; cart.remove("O"); self.assertTrue(cart.is_empty)',
             'unknown: cart = Cart(); cart.add(OIL); cart.remove("nothing"); self.assertEqual(len(cart.lines), 1)'),
        (("shop/cart.py", "        for line in self.lines:\n            if line.sku == sku:\n                self.lines.remove(line)\n",
          "        self.lines = [line for line in self.lines if line.sku != sku]\n"),
         ("tests/test_cart.py", "from shop.cart import Cart\n", "from shop.cart import Cart, Line\n")),
        "A new list instead.", "The first run failed for the wrong reason as well (Line was not imported); both are settled.",
    ),
    Fix(
        "weight", "weigh every piece",
        "`weight_grams` of a cart adds up the lines and forgets the quantities: ten oilers ship as one.",
        "tests/test_cart.py",
        case("Weight", "times_quantity: cart = Cart(); cart.add(OIL, 10); self.assertEqual(cart.weight_grams, 1200)"),
        (("shop/cart.py", "        return sum(line.weight_grams for line in self.lines)\n",
          "        return sum(line.weight_grams * line.quantity for line in self.lines)\n"),),
        "One factor.", "This makes some parcels dearer: they were undercharged before.", where="Who reads the weight?", grep="weight_grams",
    ),
    Fix(
        "three-for-two", "give the cheapest of three, not the dearest",
        "Discounts: prices are sorted upwards and every third is free, which gives away the dearest of the first three.",
        "tests/test_discounts.py",
        case("ThreeForTwo", "cheapest_is_free: self.assertEqual(discounts.buy_three_pay_two(books(900, 1200, 2400), category=\"books\").amount, 900)",
             "six_books: self.assertEqual(discounts.buy_three_pay_two(books(1, 2, 3, 40, 50, 60), category=\"books\").amount, 41)",
             "two_are_not_enough: self.assertIsNone(discounts.buy_three_pay_two(books(900, 1200), category=\"books\"))"),
        (("shop/discounts.py", "    prices.sort()\n    free = prices[2::3]\n", "    prices.sort(reverse=True)\n    free = prices[2::3]\n"),),
        "Sorted downwards, every third is the cheapest of its three.", "The customer loses a little here, but it is what the label says.",
        imports="from shop import discounts\nfrom shop.cart import Cart, Line\n\n\ndef books(*prices):\n    return Cart([Line(str(p), \"Book\", 1, p, 300, \"books\") for p in prices])",
        where="How is the rule described to customers?", grep="3 for 2|cheapest",
    ),
    Fix(
        "coupon-date", "accept a coupon on its last day",
        "Coupons: `today >= valid_until` refuses the last day although the message says \"valid until\".",
        "tests/test_coupons.py",
        case("Dates", 'last_day: self.assertEqual(coupons.apply("SPRING", 10000, today=datetime.date(2025, 4, 30)).amount, 1500)',
             'day_after: self.assertRaises(coupons.CouponRefused, coupons.apply, "SPRING", 10000, today=datetime.date(2025, 5, 1))'),
        (("shop/coupons.py", "today >= coupon.valid_until", "today > coupon.valid_until"),),
        "One character.", "orders/export.json is dated exactly on that day, so it prices now.",
        imports="from shop import coupons", where="Which coupons have a date?", grep="valid_until",
    ),
    Fix(
        "coupon-code", "ignore case and blanks around a coupon code",
        "Codes as customers type them: lower case, and with a blank at the end from copying out of a mail.",
        "tests/test_coupons.py",
        case("Codes", 'lower_case: self.assertEqual(coupons.apply(" welcome10 ", 1000, today=datetime.date(2025, 1, 1)).amount, 100)',
             'used_before_in_any_case: self.assertRaises(coupons.CouponRefused, coupons.apply, "welcome10", 1000, today=datetime.date(2025, 1, 1), used={"WELCOME10"})',
             'not_fuzzy: self.assertRaises(coupons.CouponRefused, coupons.apply, "WELCOME1", 1000, today=datetime.date(2025, 1, 1))',
             'never_more_than_the_goods: self.assertEqual(coupons.capped(coupons.Discount("x", 5000), 4000).amount, 4000)'),
        (("shop/coupons.py", "    coupon = COUPONS.get(code)\n", "    code = code.strip().upper()\n    coupon = COUPONS.get(code)\n"),
         ("shop/coupons.py", "def apply(", "def capped(discount, limit):\n    \"\"\"The discount, cut to what is left to pay for the goods.\"\"\"\n"
          "    return Discount(discount.label, min(discount.amount, limit))\n\n\ndef apply("),
         ("shop/checkout.py", "        taken.append(coupons.apply(order[\"coupon\"], subtotal, today=today, used=order.get(\"used_coupons\", ())))\n",
          "        coupon = coupons.apply(order[\"coupon\"], subtotal, today=today, used=order.get(\"used_coupons\", ()))\n"
          "        taken.append(coupons.capped(coupon, subtotal - sum(discount.amount for discount in taken)))\n")),
        "Normalised once, at the door; and together with an automatic discount a coupon could exceed the goods, so it is capped.",
        "No negative totals any more.", where="Where do codes come from?", grep="coupon",
    ),
    Fix(
        "free-shipping", "ship free from exactly 50.00, and never for express",
        "Shipping: `FREE_FROM` means from, but 50.00 EUR still pays; and express is free where the docstring says it is not.",
        "tests/test_shipping.py",
        case("Free", 'from_the_threshold_on: self.assertEqual(shipping.cost(900, "DE", goods_total=5000), 0)',
             'below: self.assertEqual(shipping.cost(900, "DE", goods_total=4999), 490)',
             'express_pays: self.assertEqual(shipping.cost(900, "DE", goods_total=9000, express=True), 980)',
             'abroad_pays: self.assertEqual(shipping.cost(900, "FR", goods_total=9000), 990)'),
        (("shop/shipping.py", 'if zone == "domestic" and goods_total > FREE_FROM:', 'if zone == "domestic" and goods_total >= FREE_FROM and not express:'),),
        "Both in one condition.", "The zones themselves look right; I checked them against the table in the module.",
        imports="from shop import shipping", where="Who decides what counts towards the threshold?", grep="FREE_FROM|goods_total",
    ),
    Fix(
        "tax-included", "compute the tax contained in a gross amount",
        "Tax: prices are gross, and 19 % of the gross is not the tax in it. 119.00 holds 19.00, not 22.61.",
        "tests/test_tax.py",
        case("Included", "general: self.assertEqual(tax.included(11900, 19), 1900)", "food: self.assertEqual(tax.included(10700, 7), 700)",
             "none: self.assertEqual(tax.included(5000, 0), 0)", "half_up: self.assertEqual(tax.included(3, 100), 2)"),
        (("shop/tax.py", "    return percent_of(gross, rate)\n", "    base = 100 + rate\n    return (gross * rate * 2 + base) // (2 * base)\n"),
         ("shop/tax.py", "from shop.money import percent_of\n\n", "")),
        "gross x rate / (100 + rate), rounded half up, in integers.", "Only the line on the invoice changes, not what people pay.",
        imports="from shop import tax", where="Does anything else use it?", grep="included|by_rate",
    ),
    Fix(
        "tax-zero", "charge no tax on gift cards, and let the shares add up",
        "A rate of 0 is falsy, so `or` turns gift cards into 19 %. And the shares of the discount are cut off line by line.",
        "tests/test_tax.py",
        case("Rates", 'gift_cards: self.assertEqual(tax.rate_of("gift cards"), 0)', 'unknown: self.assertEqual(tax.rate_of("garden"), 19)',
             "shares_add_up: self.assertEqual(sum(tax.shares([100, 100, 100], 100)), 100)"),
        (("shop/tax.py", '    return RATES.get(category) or RATES["general"]\n', '    return RATES.get(category, RATES["general"])\n'),
         ("shop/tax.py", "def by_rate(", "def shares(totals, amount):\n    \"\"\"The amount divided in the ratio of the totals; what rounding leaves goes to the largest.\"\"\"\n"
          "    whole = sum(totals)\n    parts = [amount * total // whole if whole else 0 for total in totals]\n"
          "    if parts:\n        parts[totals.index(max(totals))] += amount - sum(parts)\n    return parts\n\n\ndef by_rate("),
         ("shop/tax.py", "    total = sum(line.total for line in lines)\n    taxes = {}\n    for line in lines:\n        share = discount * line.total // total if total else 0\n",
          "    taxes = {}\n    for line, share in zip(lines, shares([line.total for line in lines], discount), strict=True):\n")),
        "`get` with a default, and one function for the shares.", "I did not use money.split after all: that one is for equal parts.",
    ),
    Fix(
        "invoice", "show discounts as what they are, and keep long names inside the column",
        "Last, the invoice: discounts are printed without a minus, and a long name pushes the amount out of its column.",
        "tests/test_invoice.py",
        case("Invoice", 'minus: self.assertIn("-5.00 EUR", invoice.render("1", PRICED))',
             'width: self.assertEqual({len(line) for line in invoice.render("1", PRICED).splitlines()[1:]}, {60})'),
        (("shop/invoice.py", "_row(discount.label, discount.amount)", "_row(discount.label, -discount.amount)"),
         ("shop/invoice.py", '    right = show(amount)\n    return f"{left:<{WIDTH - len(right)}}{right}"\n',
          '    right = show(amount)\n    room = WIDTH - len(right) - 1\n    shown = left if len(left) <= room else f"{left[: room - 1]}~"\n    return f"{shown:<{room}} {right}"\n')),
        "The name is cut with a tilde when it does not fit.", "That was the last of the list.",
        imports=("from shop import invoice\nfrom shop.cart import Line\nfrom shop.checkout import Priced\nfrom shop.discounts import Discount\n\n"
                 "LONG = Line(\"X\", \"An extraordinarily long product name that never seems to come to an end\", 1, 1999, 10, \"general\")\n"
                 "PRICED = Priced([LONG], 1999, [Discount(\"coupon FREIGHT5\", 500)], 490, {19: 239}, 1989)"),
        where="Who prints invoices?", grep="render\\(",
    ),
)  # fmt: skip
