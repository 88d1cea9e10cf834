import unittest

from shop.catalog import Catalog, Product, UnknownSku


class Prices(unittest.TestCase):
    def setUp(self):
        self.saw = Product("S", "Saw", 3995, tiers=((5, 3650), (20, 3300)))

    def test_single(self):
        self.assertEqual(self.saw.price_for(1), 3995)

    def test_deepest_tier(self):
        self.assertEqual(self.saw.price_for(50), 3300)


class Lookup(unittest.TestCase):
    def test_unknown(self):
        with self.assertRaises(UnknownSku):
            Catalog().get("nothing")


if __name__ == "__main__":
    unittest.main()
