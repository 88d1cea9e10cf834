import unittest
from datetime import date

from tracker import render
from tracker.model import Item


class TestLine(unittest.TestCase):
    def test_marks(self):
        self.assertTrue(render.line(Item(4, "x", date(2025, 6, 1)), date(2025, 6, 2)).startswith("[!]   4"))
        self.assertTrue(render.line(Item(4, "x", done=True), date(2025, 6, 2)).startswith("[x]"))

    def test_long_titles_are_cut(self):
        self.assertLessEqual(len(render.line(Item(4, "word " * 40, tags=["home"]), date(2025, 6, 2))), render.WIDTH)

    def test_count(self):
        self.assertTrue(render.listing([Item(1, "x")], date(2025, 6, 2)).endswith("1 item"))
