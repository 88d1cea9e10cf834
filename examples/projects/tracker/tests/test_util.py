import unittest
from datetime import date

from tracker import util

MONDAY = date(2025, 6, 2)


class TestParseDate(unittest.TestCase):
    def test_words(self):
        self.assertEqual(util.parse_date("today", MONDAY), MONDAY)
        self.assertEqual(util.parse_date("tomorrow", MONDAY), date(2025, 6, 3))
        self.assertEqual(util.parse_date("+10", MONDAY), date(2025, 6, 12))

    def test_weekday_is_in_the_future(self):
        self.assertEqual(util.parse_date("mon", MONDAY), date(2025, 6, 9))
        self.assertEqual(util.parse_date("friday", MONDAY), date(2025, 6, 6))


class TestShowDate(unittest.TestCase):
    def test_near(self):
        self.assertEqual(util.show_date(MONDAY, MONDAY), "today")
        self.assertEqual(util.show_date(date(2025, 6, 6), MONDAY), "fri")

    def test_far(self):
        self.assertEqual(util.show_date(date(2025, 7, 6), MONDAY), "2025-07-06")


class TestText(unittest.TestCase):
    def test_shorten(self):
        self.assertEqual(util.shorten("a long title", 7), "a long…")
        self.assertEqual(util.shorten("short", 7), "short")

    def test_plural(self):
        self.assertEqual(util.plural(1, "item"), "1 item")
        self.assertEqual(util.plural(0, "item"), "0 items")
