"""Turns provider JSON into our messages and back, byte for byte where nothing was replaced.

`WIRES[name]` has `decode` and `encode` for a list of native messages, and the `profile` of its provider. Every loss or
insertion of an encoding is a named `Adjustment`. This package imports `record`, `text` and `errors`. It sends nothing.
"""

from __future__ import annotations

from tenfold.core.wire.base import EncodedList
from tenfold.core.wire.decoded_history import DecodedHistory
from tenfold.core.wire.encoding import Wire
from tenfold.core.wire.marks import (
    OriginCallback,
    SummaryConfirmer,
    extract_summary_text,
    find_summary_mark,
    find_text_origin,
)
from tenfold.core.wire.registry import DEFAULT_WIRE, WIRES, can_take_text, count_items, detect_wire, get_wire
from tenfold.core.wire.sdk_values import encode_messages, render_value, to_json_bytes
from tenfold.core.wire.splice import parse_value
from tenfold.core.wire.system_prompt import take_request_summaries, take_summaries

__all__ = [
    "DEFAULT_WIRE",
    "WIRES",
    "DecodedHistory",
    "EncodedList",
    "OriginCallback",
    "SummaryConfirmer",
    "Wire",
    "can_take_text",
    "count_items",
    "detect_wire",
    "encode_messages",
    "extract_summary_text",
    "find_summary_mark",
    "find_text_origin",
    "get_wire",
    "parse_value",
    "render_value",
    "take_request_summaries",
    "take_summaries",
    "to_json_bytes",
]
