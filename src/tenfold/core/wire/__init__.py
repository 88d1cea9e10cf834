"""Turns provider JSON into our messages and back, byte for byte where nothing was replaced.

`WIRES[name]` has `decode` and `encode` for a list of native messages, and the `profile` of its provider. Every loss or
insertion of an encoding is a named `Adjustment`. This package imports `record`, `text` and `errors`. It sends nothing.
"""

from __future__ import annotations

from tenfold.core.wire.encoding import Wire
from tenfold.core.wire.marks import OriginCallback, find_text_origin
from tenfold.core.wire.registry import DEFAULT_WIRE, WIRES, count_items, detect_wire, get_wire
from tenfold.core.wire.sdk_values import encode_messages, to_json_bytes
from tenfold.core.wire.splice import parse_value

__all__ = [
    "DEFAULT_WIRE",
    "WIRES",
    "OriginCallback",
    "Wire",
    "count_items",
    "detect_wire",
    "encode_messages",
    "find_text_origin",
    "get_wire",
    "parse_value",
    "to_json_bytes",
]
