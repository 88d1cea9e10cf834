"""Reads session files of other tools into a log, and renders a log or a view in the same formats.

`read_file` recognizes the format, `FORMATS` holds all formats by name, and `render_sessions` returns the bytes of a
file.
"""

from __future__ import annotations

from tenfold.formats.base import ExportItem, ParsedSession, ReplacementMessage, SessionFormat
from tenfold.formats.session_files import FORMATS, get_format, read_data, read_file, render_sessions

__all__ = [
    "FORMATS",
    "ExportItem",
    "ParsedSession",
    "ReplacementMessage",
    "SessionFormat",
    "get_format",
    "read_data",
    "read_file",
    "render_sessions",
]
