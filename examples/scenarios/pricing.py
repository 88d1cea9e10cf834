"""A bug hunt in an order-pricing library, then a small feature. Recorded as Claude Code JSONL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from examples.recorder.session import Session
from examples.scenarios.pricing_fixes import FIXES, Fix

START = 1_745_308_800  # 2025-04-22 08:00 UTC


def play(root: Path, project: Path) -> Session:
    """Plays the session in a checkout below `root`, filled with the files of `project`."""
    session = Session("pricing", START, cwd="/home/dev/pricing")
    session.open(root)
    session.checkout.fill(project)
    session.checkout.run("git init -q -b main && git add -A && git commit -q -m 'Import the pricing library'")
    _look_around(session)
    _fix_all(session)
    _free_shipping(session)
    _batch(session)
    _review(session)
    return session


def _look_around(s: Session) -> None:
    s.add_user("""
        Customers keep writing to us that totals are wrong. The library that prices orders is in this checkout. Please find
        out what is wrong with it and mend it. A few rules before you start:
        - Amounts are integer cents. Never introduce a float into an amount, not even in between.
        - Never change anything in orders/ or data/: those are copies of what the shop really sent us (ticket SHOP-2291).
        - Every fix gets a test that fails first.
        - One commit per fix, message starting with "fix: ".
    """)
    s.run_bash(
        "I'll start by seeing what is here and whether it runs.", "git log --oneline && git ls-files && wc -l shop/*.py"
    )
    s.run_both("The tests as they are, and the sample order.", [
        "python -m unittest", "python -m shop price orders/sample.json", "python -m shop price orders/export.json",
    ])  # fmt: skip
    s.read(
        "The sample does not even load: `cents` chokes on a thousands comma. Before touching anything I want to read the "
        "whole library, it is small.",
        "shop/money.py", "shop/catalog.py", "shop/cart.py", "shop/discounts.py", "shop/coupons.py",
    )  # fmt: skip
    s.read("And the other half.", "shop/shipping.py", "shop/tax.py", "shop/checkout.py", "shop/invoice.py", "README.md")
    s.run_both("The tests and the recorded orders, so that I know what is covered.", [
        "cat tests/test_money.py tests/test_catalog.py tests/test_checkout.py", "cat data/catalog.json orders/*.json",
    ])  # fmt: skip
    s.set_todos("Reading it, I count thirteen suspicious places. One item each.", *_todo(0))
    s.say("""
        The tests pass, but they cover little: nothing on coupons, tax, shipping zones, or two lines of one product. I will
        go module by module from the bottom up (money, catalog, cart, discounts, coupons, shipping, tax, invoice), because
        a wrong rounding below shows up in everything above.
    """)
    s.add_user(
        "Good. Go ahead, I'll look over your shoulder. Use plain unittest, we have no pytest on the build host build-07."
    )


def _fix_all(s: Session) -> None:
    interruptions: dict[str, Callable[[Session], None]] = {
        "merge": _commit_prefix, "remove": _keep_going, "coupon-date": _coupon_rule, "tax-included": _tax_question,
    }  # fmt: skip
    for number, fix in enumerate(FIXES, 1):
        _one(s, fix, prefix="fix: " if number <= 5 else "pricing: ")
        if fix.key in interruptions:
            interruptions[fix.key](s)
        if number % 4 == 0:
            s.set_todos(f"{number} of {len(FIXES)} done.", *_todo(number))


def _one(s: Session, fix: Fix, *, prefix: str) -> None:
    module = f"tests.{Path(fix.test_file).stem}"
    if s.checkout.root.joinpath(fix.test_file).exists():
        s.edit(
            fix.why, fix.test_file, '\n\nif __name__ == "__main__":', f'\n\n{fix.test}\n\nif __name__ == "__main__":'
        )
    else:
        body = f'import datetime\nimport unittest\n\n{fix.imports}\n\n\n{fix.test}\n\nif __name__ == "__main__":\n    unittest.main()\n'
        s.write(fix.why, fix.test_file, body if "datetime" in fix.test else body.replace("import datetime\n", ""))
    ran = s.run_bash("It has to fail before I touch the code.", f"python -m unittest {module} -v")
    assert ran.has_failed, f"{fix.key}: the new test passes without the fix"
    if fix.grep:
        s.run_bash(fix.where, f"git grep -n -E '{fix.grep}' -- shop tests")
    for path, old, new in fix.edits:
        s.edit(fix.how, path, old, new)
    ran = s.run_bash("All tests, not only the new one.", "python -m unittest -v")
    assert not ran.has_failed, f"{fix.key}: {ran.output}"
    s.run_bash(fix.after, f"git add -A && git commit -q -m '{prefix}{fix.message}' && git show HEAD")


def _commit_prefix(s: Session) -> None:
    s.add_user("""
        Small change of plan: the release script groups commits by component, so from now on start the messages with
        "pricing: " instead of "fix: ". Leave the commits you already made as they are.
    """)
    s.say('Understood: "pricing: " from the next commit on, and no rewriting of what is committed.')


def _keep_going(s: Session) -> None:
    s.add_user(
        "Does the removal bug explain ticket SHOP-2304, where a removed whetstone still showed up on the invoice?"
    )
    s.run_bash("Let me replay it with the order we have: the whetstone is in it twice.", (
        "python -c \"import json; from shop.catalog import Catalog; from shop.cart import Cart; "
        "c = Cart.from_order(json.load(open('orders/heavy.json')), Catalog.load('data/catalog.json')); "
        "c.remove('TL-201'); print([line.sku for line in c.lines], c.subtotal)\""
    ))  # fmt: skip
    s.say("""
        Yes. Before today's commits the order held two whetstone lines, and `remove` skipped the second because it removed
        from the list it was walking over. Now there is one line and it goes. SHOP-2304 can be closed with the two commits
        "merge lines" and "remove every line".
    """)


def _coupon_rule(s: Session) -> None:
    s.add_user("""
        About coupons: marketing says a coupon is valid to the end of the day printed on it, Europe/Berlin. The dates we get
        are already local dates, so no time zones please. And no, don't make codes fuzzy: only upper/lower case and
        surrounding blanks.
    """)
    s.say(
        "That is how it is now: the last day counts, dates are compared as they come, and I will do case and blanks next."
    )


def _tax_question(s: Session) -> None:
    s.add_user(
        "Accounting asks: with the old formula, how much VAT did we show too much on a 119.00 EUR general order?"
    )
    s.run_bash(
        "By the old and the new formula:", 'python -c "gross = 11900; print(gross * 19 // 100, gross * 19 // 119)"'
    )
    s.say("""
        The old code showed 22.61 EUR, the right amount contained in 119.00 EUR is 19.00 EUR: 3.61 EUR too much on the
        invoice. The total a customer paid was not affected, only the line "of which VAT".
    """)


def _free_shipping(s: Session) -> None:
    s.add_user("""
        One more thing I noticed myself: free shipping is decided on the subtotal before discounts. It should be the goods
        total after discounts. Please change that.
    """)
    s.run_bash(
        "Where the threshold gets its number:",
        "git grep -n 'goods_total' -- shop tests && sed -n 20,60p shop/checkout.py",
    )
    s.edit(
        "`goods` is computed just above, so this is one word.",
        "shop/checkout.py",
        "goods_total=subtotal",
        "goods_total=goods",
    )
    s.run_bash("", "python -m unittest && python -m shop price orders/sample.json")
    s.add_user("""
        Sorry, I have to take that back. Sales checked the terms: "free from 50 EUR order value" means before discounts.
        Put it back as it was, and write a test that pins it so nobody (me included) changes it again.
    """)
    s.edit("Back to the subtotal.", "shop/checkout.py", "goods_total=goods", "goods_total=subtotal")
    s.edit("And the test that pins it.", "tests/test_checkout.py", '\n\nif __name__ == "__main__":', (
        "\n\nclass FreeShipping(unittest.TestCase):\n    def test_the_threshold_looks_at_the_value_before_discounts(self):\n"
        "        cart = Cart()\n        cart.add(Product(\"X\", \"Lamp\", 5000, weight_grams=900))\n"
        "        priced = price(cart, {\"country\": \"DE\", \"date\": \"2025-04-17\", \"customer_years\": 5})\n"
        "        self.assertEqual(priced.shipping, 0)\n        self.assertEqual(priced.total, 4750)\n"
        "\n\nif __name__ == \"__main__\":"
    ))  # fmt: skip
    s.run_bash("", "python -m unittest -v tests.test_checkout")
    s.run_bash(
        "",
        "git add -A && git commit -q -m 'pricing: pin free shipping to the value before discounts' && git show --stat HEAD",
    )


BATCH = '''"""Prices many orders at once: one JSON line per order, errors included."""

import json

from shop.cart import Cart
from shop.checkout import price


def run(orders, catalog):
    """Yields one dictionary per order: its id and total, or its id and the error."""
    for order in orders:
        try:
            priced = price(Cart.from_order(order, catalog), order)
        except (KeyError, ValueError) as error:
            yield {"id": order.get("id"), "error": f"{type(error).__name__}: {error}"}
            continue
        yield {"id": order["id"], "subtotal": priced.subtotal, "shipping": priced.shipping, "total": priced.total}


def lines(orders, catalog):
    """The same as JSON lines."""
    return [json.dumps(row, sort_keys=True) for row in run(orders, catalog)]
'''

BATCH_TEST = """import unittest

from shop import batch
from shop.catalog import Catalog

ROWS = [{"sku": "A", "name": "Lamp", "price": "20.00", "weight_grams": 500}]


class Batch(unittest.TestCase):
    def setUp(self):
        self.catalog = Catalog.from_rows(ROWS)

    def order(self, number, sku="A", quantity=1):
        return {"id": number, "date": "2025-05-01", "country": "DE", "items": [{"sku": sku, "quantity": quantity}]}

    def test_a_row_per_order(self):
        rows = list(batch.run([self.order("1"), self.order("2", quantity=2)], self.catalog))
        self.assertEqual([row["total"] for row in rows], [2490, 4490])

    def test_one_bad_order_does_not_stop_the_rest(self):
        rows = list(batch.run([self.order("1", sku="?"), self.order("2")], self.catalog))
        self.assertIn("UnknownSku", rows[0]["error"])
        self.assertEqual(rows[1]["total"], 2490)

    def test_too_heavy_is_an_error_row(self):
        rows = list(batch.run([self.order("1", quantity=100)], self.catalog))
        self.assertIn("TooHeavy", rows[0]["error"])


if __name__ == "__main__":
    unittest.main()
"""


def _batch(s: Session) -> None:
    s.add_user("""
        Now a small feature: `python -m shop batch FILE...` that prints one JSON line per order and keeps going when an order
        is broken. The nightly job on build-07 will read it; it listens on port 8431 and posts to http://ledger.internal:8431/v2/orders,
        but that is not your concern. Exit code 1 if any order failed.
    """)
    s.write("Tests first, as agreed.", "tests/test_batch.py", BATCH_TEST)
    s.run_bash("", "python -m unittest tests.test_batch")
    s.write("", "shop/batch.py", BATCH)
    s.run_bash("", "python -m unittest tests.test_batch -v")
    s.read_lines(
        "A hundred lamps weigh 50 kg and are priced all the same. That is not the new code:", "shop/shipping.py", 24, 40
    )
    s.edit(
        "Free shipping returns before anybody looks at the weight. A free parcel has a largest size too.",
        "shop/shipping.py", "    zone = zone_of(country)\n    if", (
            "    zone = zone_of(country)\n    if weight_grams > ZONES[zone][-1][0]:\n"
            "        raise TooHeavy(f\"{weight_grams} g is more than the largest parcel holds\")\n    if"
        ),
    )  # fmt: skip
    s.edit("The end of the function cannot be reached any more, but I leave it as a guard.", "shop/shipping.py", (
        "            return amount * 2 if express else amount\n    raise TooHeavy(f\"{weight_grams} g is more than the largest parcel holds\")"
    ), (
        "            return amount * 2 if express else amount\n    raise AssertionError(\"the last limit of a zone was checked above\")"
    ))  # fmt: skip
    s.run_bash(
        "",
        "python -m unittest -v && git add shop/shipping.py && git commit -q -m 'pricing: weigh free parcels too' && git show HEAD",
    )
    s.read_lines("Now the command line.", "shop/__main__.py", 1, 40)
    s.fail_edit(
        "", "shop/__main__.py", "if len(argv) != 2 or argv[0] not in {'price', 'items'}:",
        "if len(argv) < 2 or argv[0] not in {'price', 'items', 'batch'}:",
    )  # fmt: skip
    s.edit(
        "Double quotes in the file, of course.", "shop/__main__.py",
        'if len(argv) != 2 or argv[0] not in {"price", "items"}:\n        print("usage: python -m shop (price|items) FILE", file=sys.stderr)',
        'if len(argv) < 2 or argv[0] not in {"price", "items", "batch"}:\n        print("usage: python -m shop (price|items|batch) FILE...", file=sys.stderr)',
    )  # fmt: skip
    s.edit("", "shop/__main__.py", "    with open(argv[1]", (
        '    if argv[0] == "batch":\n        return run_batch(argv[1:], catalog)\n    with open(argv[1]'
    ))  # fmt: skip
    s.edit("", "shop/__main__.py", "\n\nif __name__", (
        "\n\ndef run_batch(paths, catalog):\n    orders = []\n    for path in paths:\n"
        "        with open(path, encoding=\"utf-8\") as file:\n            orders.append(json.load(file))\n"
        "    failed = False\n    for row in batch.run(orders, catalog):\n        failed = failed or \"error\" in row\n"
        "        print(json.dumps(row, sort_keys=True))\n    return 1 if failed else 0\n\n\nif __name__"
    ))  # fmt: skip
    s.run_bash("", "python -m shop batch orders/*.json; echo exit=$?")
    s.edit(
        "I forgot the import.",
        "shop/__main__.py",
        "from shop.cart import Cart",
        "from shop import batch\nfrom shop.cart import Cart",
    )
    s.run_bash("", "python -m shop batch orders/*.json; echo exit=$?")
    s.say("""
        The heavy order is an error row, and rightly: a workbench of 28.5 kg plus three whetstones of 1.25 kg is 32.25 kg,
        above the 31.5 kg of the largest parcel. Exit code 1, the other two orders are priced. Shall I commit it like this?
    """)
    s.add_user("Yes, commit. And document it in the README, one line.")
    s.edit("", "README.md", "    python -m shop price orders/sample.json", (
        "    python -m shop price orders/sample.json\n    python -m shop batch orders/*.json     # a JSON line per order; exit code 1 if any failed"
    ))  # fmt: skip
    s.run_bash(
        "",
        "python -m unittest && git add -A && git commit -q -m 'pricing: price many orders at once' && git show --stat HEAD",
    )


def _review(s: Session) -> None:
    s.add_user("Before I merge: walk me through everything once more, and check that orders/ and data/ are untouched.")
    s.run_bash(
        "The whole history with its changes:",
        "git log -p --reverse --format='--- %h %s' $(git rev-list --max-parents=0 HEAD)..HEAD -- shop",
    )
    s.run_both("", [
        "git diff --stat $(git rev-list --max-parents=0 HEAD) HEAD",
        "git diff --exit-code $(git rev-list --max-parents=0 HEAD) HEAD -- orders data && echo untouched",
        "git grep -n -E 'float|/ 100' -- shop",
        "python -m unittest -v",
    ])  # fmt: skip
    s.read_lines("One division is left. Let me see it.", "shop/coupons.py", 38, 60)
    s.say("""
        `coupon.minimum / 100` is only for the sentence a customer reads, but your rule says not even in between. I'll use `show`.
    """)
    s.edit("", "shop/coupons.py", "{coupon.minimum / 100:.2f} EUR.", "{show(coupon.minimum)}.")
    s.edit("", "shop/coupons.py", "from shop.money import percent_of", "from shop.money import percent_of, show")
    s.run_bash(
        "",
        "python -m unittest && git add -A && git commit -q -m 'pricing: no float in the refusal of a coupon' && git log --oneline",
    )
    s.set_todos("", *_todo(len(FIXES)))
    s.say("""
        Everything is committed and the tests pass. In short:
        - Money: thousands commas and one-digit fractions are read, percentages round half away from zero, splits add up.
        - Cart: one line per product with the tier of the whole quantity, weight times quantity, removal removes.
        - Discounts and coupons: the cheapest of three is free, the last day of a coupon counts, codes ignore case and blanks.
        - Shipping is free from exactly 50.00 EUR before discounts, never for express.
        - VAT is the tax contained, gift cards carry none, and the parts add up to the discounted total.
        - New: `python -m shop batch FILE...`.

        orders/ and data/ are untouched. Open: the heavy order cannot be shipped as one parcel; that is a decision for you.
    """)
    s.add_user("Thanks. Leave the heavy order for now, I'll ask logistics. Next week we look at splitting parcels.")


def _todo(done: int) -> list[str]:
    return [
        f"[{'x' if number <= done else '>' if number == done + 1 else ' '}] {fix.message}"
        for number, fix in enumerate(FIXES, 1)
    ]
