"""Turns provider JSON into our messages and back, byte for byte where nothing was replaced.

`WIRES[name]` has `decode` and `encode` for a list of native messages; `decode_bytes` and `encode_bytes` do the same for
a whole JSON array. Every loss or insertion of an encoding is a named `Adjustment`. This package imports `record` and
`errors`, and sends nothing anywhere.
"""

from __future__ import annotations

from tenfold.wire.base import Adjustment, AdjustmentKind, EncodedItem, EncodedList, Wire
from tenfold.wire.container import WIRES, count_items, decode_bytes, detect_wire, encode_bytes, get_wire, to_json_bytes
from tenfold.wire.decoded_history import DecodedHistory, WireChooser
from tenfold.wire.marks import (
    SummaryConfirmer,
    SummaryMark,
    extract_summary_text,
    find_summary_mark,
    find_text_origin,
    hash_summary,
    render_summary,
)
from tenfold.wire.openai_responses import can_take_text
from tenfold.wire.profiles import PROFILES, WIRE_BY_FORMAT, Profile

__all__ = [
    "PROFILES",
    "WIRES",
    "WIRE_BY_FORMAT",
    "Adjustment",
    "AdjustmentKind",
    "DecodedHistory",
    "EncodedItem",
    "EncodedList",
    "Profile",
    "SummaryConfirmer",
    "SummaryMark",
    "Wire",
    "WireChooser",
    "can_take_text",
    "count_items",
    "decode_bytes",
    "detect_wire",
    "encode_bytes",
    "extract_summary_text",
    "find_summary_mark",
    "find_text_origin",
    "get_wire",
    "hash_summary",
    "render_summary",
    "to_json_bytes",
]
