"""Small made-up session files, one or more of each format: what the recorded ones do not hold is tested on these.

They lie in `files/FORMAT/`, each modelled on what the program writes.
"""

from __future__ import annotations

import json
from pathlib import Path

FILES: dict[str, tuple[str, bytes]] = {
    path.stem: (path.parent.name, path.read_bytes()) for path in sorted(Path(__file__).parent.glob("files/*/*"))
}
"""Name -> (format, bytes)."""
PI_1, PI_3, CLAUDE, CODEX_NEW, SWE_0, GEMINI_SESSION, TAU2, EVENTS = (
    FILES[name][1] for name in ("pi-1", "pi-3", "claude", "codex-new", "swe-0", "gemini-session", "tau2", "events")
)
ASKED = "What colour is the shed?"
SEEN = "It is green and dry."


def render_lines(*values: object) -> bytes:
    """A file of one JSON value a line."""
    return b"".join(json.dumps(v, ensure_ascii=False).encode() + b"\n" for v in values)


def render_pretty(value: object) -> bytes:
    """A JSON file with indentation."""
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
