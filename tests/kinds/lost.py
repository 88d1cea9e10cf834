"""What is lost today, by kind and property. Whoever mends one takes its line out: its test then has to pass."""

from __future__ import annotations

LOST: dict[tuple[str, str], str] = {
    ("tutoring", "stale"): "the old date of the exam is a rule of the user",
    ("mode_switches", "stale"): "the old deadline is told, and the new one has no room",
    ("web_research", "stale"): "the wrong mix is told, and of its correction only that there was a mistake",
    ("friends", "rules"): "must, never, every and nobody make rules of chatter",
    ("pasted_law", "rules"): "a numbered licence after a full stop is taken for the user's words",
    ("tutoring", "rules"): "a need with a date is taken for a rule",
    ("voice_notes", "rules"): "one word makes a rule of a dictation about something else",
}
