import unittest
from datetime import date

from tracker.model import Item


class TestItem(unittest.TestCase):
    def test_needs_a_title(self):
        with self.assertRaises(ValueError):
            Item(1, "  ")

    def test_priority_is_bounded(self):
        with self.assertRaises(ValueError):
            Item(1, "x", priority=6)

    def test_late(self):
        self.assertTrue(Item(1, "x", due=date(2025, 6, 1)).is_late(date(2025, 6, 2)))
        self.assertFalse(Item(1, "x", due=date(2025, 6, 1), done=True).is_late(date(2025, 6, 2)))

    def test_tags_ignore_case(self):
        self.assertTrue(Item(1, "x", tags=["Home"]).tagged("home"))
