"""Links the lines of a file that name their parents: what follows what, in the order in which they are read.

The lines of a client form a tree, but not every link says what was sent to the model. An id may come twice, and the
results of parallel calls hang beside each other, each on the part of the answer that made its call. There the order of
the file says what follows what, so that every line is on one path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from tenfold.formats.json_items import JsonItem

REPEATED = "repeated"
"""The type of a line that says what an earlier one has said: it is kept for its bytes alone."""


_COMPARED = 7
"""How many of the lines with one id a further one is compared with, and the newest of them."""


class LineFacts(Struct, frozen=True):
    """What a line says about its place. `own` is its id ("" if it has none) and `parent` its parent's.

    Lines of one `chain` are one conversation. `answer` names the answer that a line is a part of, `calls` and `results`
    hold the ids of the tool calls that it makes and answers. `can_begin` is whether the line begins a conversation anew
    if it names no parent.
    """

    own: str = ""
    parent: str | None = None
    chain: str = ""
    answer: str = ""
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    is_message: bool = False
    can_begin: bool = True


DescribeLine = Callable[[JsonItem], LineFacts]


def link_lines(lines: Sequence[JsonItem], describe: DescribeLine) -> list[JsonItem]:
    """Returns the lines, in the order of the file, with `own` and `parent` set: every `own` is used once.

    A message that is there twice is one: the later line gets the type `REPEATED`. Any other line with an id that was
    used before hangs on the line before it, and what follows it in the file hangs on it. So does a line without a
    parent that cannot begin a conversation, and every such line of one whose messages name no parents at all.
    """
    facts = [describe(line) for line in lines]
    named = _name_lines(lines, facts)
    parents = _Steps(named).link_results()
    return [
        replace(
            line if fact.own or not known.own else replace(line, value={"type": REPEATED}),
            own=fact.own,
            parent=parents.get(fact.own, fact.parent),
        )
        for line, known, fact in zip(lines, facts, named, strict=True)
    ]


def _name_lines(lines: Sequence[JsonItem], facts: Sequence[LineFacts]) -> list[LineFacts]:
    """Gives every line an id of its own, and parents by the newest line before with their id, else the first behind."""
    first = {fact.own: index for index, fact in reversed(list(enumerate(facts))) if fact.own}
    newest: dict[str, str] = {}
    counts: dict[str, int] = {}
    before: dict[str, str] = {}
    said: dict[str, list[object]] = {}
    linked = {fact.chain for fact in facts if fact.is_message and fact.parent}
    out: list[LineFacts] = []
    for index, (line, fact) in enumerate(zip(lines, facts, strict=True)):
        own, parent = fact.own, fact.parent
        if not own:
            out.append(fact)
            continue
        if index == first[own]:
            is_sequel = not parent and not (fact.can_begin and fact.chain in linked)
            parent = before.get(fact.chain) if is_sequel else newest.get(parent, parent) if parent else parent
        elif fact.is_message and _get_words(line) in said.get(own, ()):
            out.append(LineFacts(chain=fact.chain))
            continue
        else:
            counts[own] = counts.get(own, 1) + 1
            own, parent = f"{own}#{counts[own]}", before.get(fact.chain, newest.get(parent or ""))
        said.setdefault(fact.own, [])[_COMPARED:] = [_get_words(line)]
        newest[fact.own] = before[fact.chain] = own
        out.append(replace(fact, own=own, parent=parent))
    return out


def _get_words(line: JsonItem) -> object:
    """Returns what a line says, without the time and whatever else a client writes around it."""
    return line.value.get("message") or line.value.get("attachment") or line.value


class _Step:
    """An answer and its results, by the places of their lines. `runs` are its lines that follow one another."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []
        self.results: dict[int, int] = {}
        self.answered: set[str] = set()

    def list_in_order(self) -> list[int]:
        """Lists the places in the order in which a model is sent them: each run, and the results of its calls."""
        out: list[int] = []
        for number, run in enumerate(self.runs):
            out += [*run, *(place for place, answered in self.results.items() if answered == number)]
        return out


class _Steps:
    """Finds the answers whose results do not follow one another, and chains them.

    What lies between them and is no message, as the lines of hooks, comes behind the results, and whatever hangs on one
    of these lines then hangs on the last of them.
    """

    def __init__(self, facts: Sequence[LineFacts]) -> None:
        self._facts = facts
        self._parents: dict[str, str | None] = {}
        self._children: dict[str | None, list[int]] = {}
        self._before: list[str | None] = []
        newest: dict[str, str] = {}
        for place, fact in enumerate(facts):
            self._before.append(newest.get(fact.chain))
            if fact.own:
                self._children.setdefault(fact.parent, []).append(place)
                newest[fact.chain] = fact.own
        self._spans = self._find_spans()

    def _find_spans(self) -> dict[int, tuple[int, int]]:
        """Numbers the places by a walk through the tree: the span of a place holds those of all that hang on it."""
        known = {fact.own for fact in self._facts}
        roots = [place for parent, places in self._children.items() if parent not in known for place in places]
        walk: list[int] = []
        ends: dict[int, int] = {}
        stack = [(place, False) for place in roots]
        while stack:
            place, is_left = stack.pop()
            if is_left:
                ends[place] = len(walk)
                continue
            walk.append(place)
            stack.append((place, True))
            stack += [(child, False) for child in self._children.get(self._facts[place].own, ())]
        return {place: (start, ends[place]) for start, place in enumerate(walk)}

    def link_results(self) -> dict[str, str | None]:
        """Returns the parents that differ from those that the lines name."""
        for step in self._find_steps():
            order = step.list_in_order()
            if step.results and not self._is_chained(order):
                self._join_lines(order)
        return self._parents

    def _find_steps(self) -> list[_Step]:
        steps: dict[tuple[str, str], _Step] = {}
        calls: dict[tuple[str, str], tuple[_Step, int]] = {}
        for place, fact in enumerate(self._facts):
            if fact.answer:
                step = steps.setdefault((fact.chain, fact.answer), _Step())
                if step.runs and step.runs[-1][-1] == place - 1:
                    step.runs[-1].append(place)
                else:
                    step.runs.append([place])
                calls |= {(fact.chain, call): (step, len(step.runs) - 1) for call in fact.calls}
            made = [calls[fact.chain, call] for call in fact.results if (fact.chain, call) in calls]
            if made and made[0][0].answered.isdisjoint(fact.results):
                step = made[0][0]
                step.answered.update(fact.results)
                step.results[place] = max(run for each, run in made if each is step)
        return list(steps.values())

    def _is_chained(self, order: Sequence[int]) -> bool:
        """Returns whether each line hangs on the one before by the parents that they name, whatever lies between."""
        spans = [self._spans[place] for place in order if place in self._spans]
        return all(start <= later < end for (start, end), (later, _) in pairwise(spans))

    def _join_lines(self, order: list[int]) -> None:
        """Hangs the lines on one another, and what hangs on them behind the last.

        A message behind them all ends that: a line of a hook that comes still later follows the line before it.
        """
        members = set(order)
        end = self._facts[order[0]].own
        for place in order[1:]:
            end = self._set_parent(place, end)
        waiting = [child for place in order for child in self._list_others(place, members)]
        heapify(waiting)
        is_open = True
        while waiting:
            place = heappop(waiting)
            is_message = self._facts[place].is_message
            is_open = is_open and (place < max(order) or not is_message)
            if is_open:
                end = self._set_parent(place, end)
                for child in self._list_others(place, members):
                    heappush(waiting, child)
            else:
                self._set_parent(place, end if is_message else self._before[place])

    def _list_others(self, place: int, members: set[int]) -> list[int]:
        return [child for child in self._children.get(self._facts[place].own, ()) if child not in members]

    def _set_parent(self, place: int, parent: str | None) -> str:
        own = self._facts[place].own
        self._parents[own] = parent
        return own
