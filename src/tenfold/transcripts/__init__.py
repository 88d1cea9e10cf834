"""Reads session files of other tools into a log, and renders a log or a view in the same formats.

`read_file` recognizes the format, `FORMATS` holds all formats by name, and `render_sessions` returns the bytes of a
file.
"""

from __future__ import annotations

from tenfold.transcripts.base import Item, Reader, Recorded, Replaced
from tenfold.transcripts.files import READERS, read_data, read_file, reader_of, write_file

__all__ = ["READERS", "Item", "Reader", "Recorded", "Replaced", "read_data", "read_file", "reader_of", "write_file"]
