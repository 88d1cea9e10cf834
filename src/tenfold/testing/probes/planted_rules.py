"""Plants rules into real sessions, at the top, in the middle and at the bottom, and makes the probes that ask for them.

Real sessions hold few rules, mostly at the beginning. A planted rule can stand anywhere, is said in passing, and is
never mentioned again, so a method keeps it only if it keeps what users say. The name of a session decides which rules
it gets, so two runs plant the same ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from msgspec import Struct

from tenfold.testing.probes.chat_text import get_tool_calls
from tenfold.testing.probes.kinds import ChatMessage, Probe, build_terms

PLACES = (("top", 0.1), ("middle", 0.5), ("bottom", 0.85))
"""Where the rules go, as shares of the past's messages."""
Rule = tuple[str, str, str]
"""What is said, the words of the answer, and the words of the anchor."""
RULES: tuple[Rule, ...] = (
    (
        "By the way: never restart heron-17 between 02:00 and 03:10, the backup runs then.",
        "heron-17 02:00 03:10",
        "never restart backup",
    ),
    (
        "One more thing, all dates that customers see are written day first, as in 31.12.2025.",
        "31.12.2025",
        "dates customers day first",
    ),
    (
        "Before I forget, only Ines Falk may approve anything above 4,250 euros.",
        "ines falk 4,250",
        "approve above euros",
    ),
    (
        "Oh, and please don't touch vendor/quartz, it is maintained by another team.",
        "vendor/quartz",
        "touch maintained another team",
    ),
    ('Side note: the word "sunset" is banned in our texts, say "retire" there.', "sunset retire", "word banned texts"),
    (
        "Just so you know, log lines must stay below 180 characters or the collector drops them.",
        "180 collector",
        "log lines below characters",
    ),
    (
        "While you are at it, keep every file in ASCII, the printer in hall 9 chokes on the rest.",
        "ascii printer",
        "keep file hall chokes",
    ),
    (
        "And another thing: nobody but the nightly job may write to bucket marlin-prod-3.",
        "marlin-prod-3",
        "nobody nightly job write bucket",
    ),
    ("Also, port 7463 is taken by the badge reader, so leave it alone.", "7463 badge", "port taken reader"),
)
"""Invented rules whose names and numbers occur nowhere else, so that no session already holds them."""


class PlantedRules(Struct, frozen=True):
    """A past with rules in it, and a probe for each rule. The `place` of a probe is top, middle or bottom."""

    messages: tuple[ChatMessage, ...]
    probes: tuple[Probe, ...]


def plant_rules(past: Sequence[ChatMessage], session: str) -> PlantedRules:
    """Returns the past with three more user messages, placed where no tool call is open.

    The past itself is not changed.
    """
    legal = _find_legal_places(past)
    first = zlib.crc32(session.encode()) % len(RULES)
    messages = list(past)
    probes: list[Probe] = []
    places = [(place, max((i for i in legal if i <= share * len(past)), default=legal[0])) for place, share in PLACES]
    for number, (place, at) in reversed(list(enumerate(places))):
        text, answer, anchor = RULES[(first + number) % len(RULES)]
        messages.insert(at, {"role": "user", "content": text})
        probe = Probe(
            "planted", at + number, text, build_terms(answer.split()), build_terms(anchor.split()), place=place
        )
        probes.insert(0, probe)
    return PlantedRules(tuple(messages), tuple(probes))


def _find_legal_places(past: Sequence[ChatMessage]) -> list[int]:
    """Returns where a user may speak: after the opening, with every call answered.

    The end of the past always qualifies.
    """
    waiting: set[str] = set()
    found: list[int] = []
    for index, message in enumerate(past):
        if index and not waiting and message.get("role") == "assistant" and past[index - 1].get("role") != "system":
            found.append(index)
        waiting.update(call for call, _, _ in get_tool_calls(message))
        waiting.discard(str(message.get("tool_call_id")))
    return found or [len(past)]
