import os
import tempfile
import unittest
from datetime import date

from tracker import store
from tracker.model import Item


class TestStore(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "t.json")

    def test_nothing_yet(self):
        self.assertEqual(store.load(self.path), [])

    def test_there_and_back(self):
        items = [Item(1, "one", date(2025, 6, 1), tags=["a"]), Item(2, "two", every="3d")]
        store.save(self.path, items)
        self.assertEqual(store.load(self.path), items)

    def test_damaged(self):
        with open(self.path, "w") as file:
            file.write("{")
        with self.assertRaises(store.DamagedFile):
            store.load(self.path)

    def test_numbers_go_on(self):
        self.assertEqual(store.next_number([Item(7, "x"), Item(3, "y")]), 8)
