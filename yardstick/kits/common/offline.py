"""What the runs of all public kits share: they stay offline, and they compact with Tenfold to the size a kit asks for.

A run is a script in the kit's own environment, with Tenfold's source on the path. No model is asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tenfold
from tenfold.errors import TenfoldError
from tenfold_yardstick.peers import OFFLINE_SETTINGS

ROOT = Path(__file__).parents[3]
Chat = dict[str, Any]
"""One OpenAI Chat message."""
MODEL = "gpt-4o"
"""The model whose vocabulary (o200k) counts tokens."""
SMALLEST = 64
"""The smallest size that is tried, in tokens."""
STEP = 0.9
"""The factor from one try to the next smaller one."""


def go_offline() -> None:
    """Refuses every connection and name look-up from here on, and tells libraries by variables not to try."""
    os.environ.update(OFFLINE_SETTINGS)
    sys.addaudithook(_refuse_connection)


def _refuse_connection(event: str, args: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        raise OSError(f"kits run offline: no connection to {args[1][0]}")
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        raise OSError(f"kits run offline: no name is looked up ({args[0]})")


def compact_to(messages: Sequence[Chat], to: int, policy: str = "tenfold") -> list[Chat]:
    """Returns the view of at most `to` tokens, by code alone.

    Raises `TenfoldError`, with the arithmetic, if there is none.
    """
    made = tenfold.compact(messages, to=to, model=MODEL, format="openai-chat", policy=policy)
    if made.outcome.status not in ("compacted", "nothing"):
        raise TenfoldError(f"{made.outcome.status}: {made.outcome.reason}")
    return list(made.messages)


def find_largest(messages: Sequence[Chat], tokens: int, is_fitting: Callable[[list[Chat]], bool]) -> list[Chat] | None:
    """Returns the largest view of up to `tokens` tokens that fits by the kit's own measure, or None."""
    while tokens >= SMALLEST:
        try:
            made = compact_to(messages, tokens)
        except TenfoldError:
            return None
        if is_fitting(made):
            return made
        tokens = int(tokens * STEP)
    return None


def get_files() -> list[Path]:
    """Returns the session files named on the command line, or else those that ship with the project."""
    return [Path(name) for name in sys.argv[1:]] or sorted((ROOT / "examples" / "sessions").glob("*.json*"))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a Markdown table."""
    print("| " + " | ".join(columns) + " |")
    print("|" + "|".join("---" for _ in columns) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
