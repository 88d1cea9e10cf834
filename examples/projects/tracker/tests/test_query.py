import unittest
from datetime import date

from tracker import query
from tracker.model import Item

ITEMS = [Item(1, "Water plants", tags=["home"]), Item(2, "Pay rent", date(2025, 6, 1), priority=1), Item(3, "Call Ann", date(2025, 6, 1), done=True)]


class TestMatching(unittest.TestCase):
    def numbers(self, **conditions):
        return [item.number for item in query.matching(ITEMS, **conditions)]

    def test_open_only(self):
        self.assertEqual(self.numbers(), [2, 1])

    def test_words(self):
        self.assertEqual(self.numbers(words="plants WATER"), [1])

    def test_late(self):
        self.assertEqual(self.numbers(late=True, today=date(2025, 6, 2)), [2])

    def test_by_tag(self):
        self.assertEqual({tag: len(group) for tag, group in query.by_tag(ITEMS).items()}, {"-": 1, "home": 1})
