"""Session files of other tools as logs, and views back into the same formats.

`read_file` recognises the format; `READERS` names them all; `write_file` writes a container whole.
"""

from __future__ import annotations

from tenfold.transcripts.base import Item, Reader, Recorded, Replaced
from tenfold.transcripts.files import READERS, read_data, read_file, reader_of, write_file

__all__ = ["READERS", "Item", "Reader", "Recorded", "Replaced", "read_data", "read_file", "reader_of", "write_file"]
