import unittest

from shop.cart import Cart
from shop.catalog import Product
from shop.checkout import price

BOOK = Product("B", "Book", 1200, weight_grams=300, category="books")
TOOL = Product("T", "Tool", 3000, weight_grams=900)


class Price(unittest.TestCase):
    def order(self, **more):
        return {"country": "DE", "date": "2025-04-17", **more}

    def test_one_book(self):
        cart = Cart()
        cart.add(BOOK)
        priced = price(cart, self.order())
        self.assertEqual(priced.subtotal, 1200)
        self.assertEqual(priced.shipping, 490)
        self.assertEqual(priced.total, 1690)

    def test_empty(self):
        with self.assertRaises(ValueError):
            price(Cart(), self.order())

    def test_loyalty(self):
        cart = Cart()
        cart.add(TOOL)
        priced = price(cart, self.order(customer_years=3))
        self.assertEqual([d.amount for d in priced.discounts], [90])


if __name__ == "__main__":
    unittest.main()
