"""Turns provider JSON into our messages and back, byte for byte where nothing was replaced.

`WIRES[name]` has `decode` and `encode` for a list of native messages, and the `profile` of its provider.
`decode_bytes` and `encode_bytes` do the same for a whole JSON array. Every loss or insertion of an encoding is a named
`Adjustment`. This package imports `record` and `errors`, and sends nothing anywhere.
"""

from __future__ import annotations

from tenfold.core.wire.base import Adjustment, AdjustmentKind, EncodedItem, EncodedList
from tenfold.core.wire.container import count_items, decode_bytes, encode_bytes
from tenfold.core.wire.decoded_history import DecodedHistory
from tenfold.core.wire.encoding import Wire
from tenfold.core.wire.marks import (
    OriginCallback,
    SummaryConfirmer,
    SummaryMark,
    extract_summary_text,
    find_summary_mark,
    find_text_origin,
    hash_summary,
    render_summary,
)
from tenfold.core.wire.native_form import FormRule, find_form_faults
from tenfold.core.wire.profiles import Profile
from tenfold.core.wire.registry import DEFAULT_WIRE, WIRES, can_take_text, detect_wire, get_wire
from tenfold.core.wire.sdk_values import encode_messages, render_value, to_json_bytes
from tenfold.core.wire.splice import parse_value
from tenfold.core.wire.system_prompt import take_request_summaries, take_summaries

__all__ = [
    "DEFAULT_WIRE",
    "WIRES",
    "Adjustment",
    "AdjustmentKind",
    "DecodedHistory",
    "EncodedItem",
    "EncodedList",
    "FormRule",
    "OriginCallback",
    "Profile",
    "SummaryConfirmer",
    "SummaryMark",
    "Wire",
    "can_take_text",
    "count_items",
    "decode_bytes",
    "detect_wire",
    "encode_bytes",
    "encode_messages",
    "extract_summary_text",
    "find_form_faults",
    "find_summary_mark",
    "find_text_origin",
    "get_wire",
    "hash_summary",
    "parse_value",
    "render_summary",
    "render_value",
    "take_request_summaries",
    "take_summaries",
    "to_json_bytes",
]
