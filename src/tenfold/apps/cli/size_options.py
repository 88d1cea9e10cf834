"""The flags of `chat`, `run`, `serve` and `wrap` that say when a session is compacted, and down to what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

CompactAtOption = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Compact from this size on: tokens (120000), or a share of the window less the answer (60%). Default: the "
        "policy's, 85% in tenfold.",
    ),
]
DownToOption = Annotated[
    str, typer.Option(metavar="SIZE", help="Compact down to this size, in the same form. Default: the policy's, 40%.")
]
ThriftOption = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER",
        help="Pay less for input, from 0 (off, the default) to 1: compact earlier and deeper, at 1 from 45% down to "
        "25%. The agent then sees less of what was said, and has to look more up.",
    ),
]


def build_flags(compact_at: str, down_to: str, thrift: float | None) -> Mapping[str, str | float]:
    """Returns the settings that were given as flags, as `load_settings` takes them."""
    named = {"compact_at": compact_at or None, "down_to": down_to or None, "thrift": thrift}
    return {name: value for name, value in named.items() if value is not None}
