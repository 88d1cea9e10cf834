import os
import tempfile
import unittest
from datetime import date

from tracker import legacy


class TestCsv(unittest.TestCase):
    def test_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "old.csv")
            with open(path, "w", encoding="utf-8") as file:
                file.write("one;2025-06-01;0\ntwo;;1\n")
            items = legacy.read_csv(path, date(2025, 6, 2))
        self.assertEqual([(item.title, item.done) for item in items], [("one", False), ("two", True)])
