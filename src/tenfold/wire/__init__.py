"""Turns provider JSON into our messages and back, byte for byte where nothing was replaced.

`WIRES[name]` has `decode` and `encode` for a list of native messages; `decode_bytes` and `encode_bytes` do the same for
a whole JSON array. Every loss or insertion of an encoding is a named `Adjustment`. This package imports `record` and
`errors`, and sends nothing anywhere.
"""

from __future__ import annotations

from tenfold.wire.base import Adjustment, AdjustmentKind, Encoded, EncodedItem, Wire
from tenfold.wire.container import WIRES, decode_bytes, detect, encode_bytes, items_in, raw_of, wire_of
from tenfold.wire.marks import Confirm, Mark, render_summary, summary_hash, summary_mark, summary_text, text_origin
from tenfold.wire.openai_responses import takes_text
from tenfold.wire.profiles import FAMILY, PROFILES, Profile
from tenfold.wire.resent import Choose, Resent

__all__ = [
    "FAMILY",
    "PROFILES",
    "WIRES",
    "Adjustment",
    "AdjustmentKind",
    "Choose",
    "Confirm",
    "Encoded",
    "EncodedItem",
    "Mark",
    "Profile",
    "Resent",
    "Wire",
    "decode_bytes",
    "detect",
    "encode_bytes",
    "items_in",
    "raw_of",
    "render_summary",
    "summary_hash",
    "summary_mark",
    "summary_text",
    "takes_text",
    "text_origin",
    "wire_of",
]
