"""Says why a request is forwarded as it came, in words and numbers.

The log, the header `x-tenfold-unchanged` and `tenfold serve --dry-run` all say what is said here, or the reason that
the session's own check gives.
"""

from __future__ import annotations

from tenfold.core.record.ask import Outcome
from tenfold.session import Session

HEADER = "x-tenfold-unchanged"
MAX_HEADER = 400
"""Characters of the header. The log has the whole reason."""
FIRST_MESSAGE = "a first message: there is no answer yet, and nothing that could be hidden"
SHADOW = "the gateway only watches (shadow)"
UNKNOWN_PART = "the provider holds a part of it that is not known here"
NO_CALL = "its body cannot be read as a call to this API"


def explain_size(most: int, window: int, reserve: int) -> str:
    """Says that a request fits for certain. `most` is what it takes at most, `reserve` the limit of the answer."""
    answer = f", of which the answer may take {reserve:,}" if reserve else ""
    return f"it takes {most:,} tokens at most, less than half of what is free in the window of {window:,}{answer}"


def explain_check(session: Session, outcome: Outcome | None, tokens: int, window: int | None, model: str) -> str:
    """Says why a session hides no more of a request. `outcome` is that of its check, None if it made none."""
    if window is None:
        return f"the window of {model or 'the model'} is unknown: set --window"
    if outcome is None:
        points = ", ".join(session.policy.checks) or "no point"
        return f"{tokens:,} tokens of the window of {window:,}; the policy {session.policy.name} checks at {points}"
    return outcome.reason


def encode_header(text: str) -> bytes:
    """Returns a text as the value of a header: one line of ASCII."""
    line = " ".join(text.encode("ascii", "replace").decode().split())
    return "".join(c for c in line if c.isprintable())[:MAX_HEADER].encode()
