import unittest
from datetime import date

from tracker import recur
from tracker.model import Item


class TestFollowing(unittest.TestCase):
    def test_days_and_weeks(self):
        self.assertEqual(recur.following(date(2025, 6, 28), "3d"), date(2025, 7, 1))
        self.assertEqual(recur.following(date(2025, 6, 2), "2w"), date(2025, 6, 16))

    def test_months(self):
        self.assertEqual(recur.following(date(2025, 12, 5), "1m"), date(2026, 1, 5))


class TestFinish(unittest.TestCase):
    def test_comes_back(self):
        done, following = recur.finish(Item(1, "x", date(2025, 6, 2), every="1w"), 9, date(2025, 6, 3))
        self.assertTrue(done.done)
        self.assertEqual((following.number, following.due), (9, date(2025, 6, 9)))
