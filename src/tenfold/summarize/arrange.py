"""The headings of a summary: whether they are all there and in order, and how a text is brought under them.

A heading counts where its line reads as the prompt wrote it. `tidied` restores it where a model only wrote it in
other marks ("**Goal:**", "# goal"); `arranged` sorts, and fills what is missing by code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenfold.record.block import Fact, FactKind
from tenfold.summarize.section import Count, quoted
from tenfold.summarize.structure import KINDS

NONE = "none"
"""What stands under a heading that nothing is known of."""
_FILLED, _CHARACTERS = 3, 160


def misplaced(text: str, headings: Sequence[str]) -> list[str]:
    """What is wrong with the headings of a text: those that are missing, and those that stand before an earlier one."""
    places = {line.strip().lower(): number for number, line in reversed(list(enumerate(text.split("\n"))))}
    found: list[str] = []
    last = -1
    for heading in headings:
        place = places.get(heading.lower())
        if place is None:
            found.append(f"{heading} is missing")
        elif place < last:
            found.append(f"{heading} is out of order")
        else:
            last = place
    return found


def tidied(text: str, headings: Sequence[str]) -> str:
    """The text with each heading as it was asked for, where a line holds its words in other marks and nothing else."""
    by_words = {_words(heading): heading for heading in headings}
    lines = text.split("\n")
    return "\n".join(by_words.get(_words(line), line) for line in lines) if headings else text


def _words(line: str) -> str:
    return " ".join(line.strip().lstrip("#*_0123456789.) ").rstrip("*_: ").replace("&", "and").lower().split())


def arranged(text: str, headings: Sequence[str], facts: Sequence[Fact], *, allotment: int, count: Count) -> str:
    """The text under all the headings in order, within its allotment; what is missing is filled from the facts.

    Where that takes too much it is `none`, and then the longest parts lose their last lines. "" when not even the
    headings fit.
    """
    lead, bodies = _parts(text, headings)
    filled = {h: bodies.get(h) or from_facts(h, facts) or [NONE] for h in headings}
    whole = _joined(lead, filled)
    if count([whole])[0] > allotment:
        filled = {h: bodies.get(h) or [NONE] for h in headings}
        whole = _fitted(lead, filled, allotment, count)
    return whole


def from_facts(heading: str, facts: Sequence[Fact]) -> list[str]:
    """The newest facts of the kinds that belong under a heading, a line each; [] when there are none."""
    kinds: frozenset[FactKind] = KINDS.get(heading, frozenset())
    live = sorted((f for f in facts if f.live and f.kind in kinds), key=lambda fact: fact.at)
    return [quoted(fact, _CHARACTERS) for fact in live[-_FILLED:]]


def _parts(text: str, headings: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """What stands before the first heading, and the lines under each: those of a repeated one together."""
    exact = {heading.lower(): heading for heading in headings}
    lead: list[str] = []
    bodies: dict[str, list[str]] = {}
    current = lead
    for line in text.strip().split("\n"):
        heading = exact.get(line.strip().lower())
        if heading is not None:
            current = bodies.setdefault(heading, [])
        elif line.strip() or current:
            current.append(line)
    for body in (lead, *bodies.values()):
        while body and not body[-1].strip():
            body.pop()
    return lead, bodies


def _joined(lead: Sequence[str], bodies: Mapping[str, Sequence[str]]) -> str:
    parts = ["\n".join(lead)] if lead else []
    parts.extend("\n".join([heading, *body]) for heading, body in bodies.items())
    return "\n\n".join(parts)


def _fitted(lead: list[str], bodies: dict[str, list[str]], allotment: int, count: Count) -> str:
    """The parts joined, without the last lines of the largest ones until all fits. "" when that cannot be."""
    stores = [lead, *bodies.values()]
    sizes = [count([line + "\n" for line in store]) if store else [] for store in stores]
    whole = _joined(lead, bodies)
    while (over := count([whole])[0] - allotment) > 0:
        while over > 0:
            largest = max(range(len(stores)), key=lambda number: sum(sizes[number]))
            if not stores[largest] or stores[largest] == [NONE]:
                return ""
            stores[largest].pop()
            over -= sizes[largest].pop()
            if largest and not stores[largest]:
                stores[largest].append(NONE)
                sizes[largest].append(count([NONE + "\n"])[0])
        whole = _joined(lead, bodies)
    return whole
