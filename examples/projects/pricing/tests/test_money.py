import unittest

from shop import money


class Show(unittest.TestCase):
    def test_two_digits(self):
        self.assertEqual(money.show(1205), "12.05 EUR")

    def test_negative(self):
        self.assertEqual(money.show(-5), "-0.05 EUR")

    def test_currency(self):
        self.assertEqual(money.show(100, "CHF"), "1.00 CHF")


class Cents(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(money.cents("12.30"), 1230)

    def test_sign(self):
        self.assertEqual(money.cents("€4.00"), 400)

    def test_whole(self):
        self.assertEqual(money.cents("7"), 700)


if __name__ == "__main__":
    unittest.main()
