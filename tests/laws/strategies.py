"""The one shared file of generated sessions: lists of small moves, played into logs.

A move is a kind and three small numbers, so that everything shrinks (fewer moves, earlier kinds, smaller numbers) and
a log can be made from a Hypothesis draw and from a plain seeded generator alike. Moves refer to what is there when
they are played (the n-th unit, the n-th call), so any list of moves is a log. Blocks are chosen on the units that the
oracle predicts, never on those of the fold under test.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from hypothesis import Phase, settings
from hypothesis import strategies as st

from tenfold.core.record.block import OWN_BLOCK, Block, BlockPart, KeptOriginal, Replacement, Run, ShownItem, Substitute
from tenfold.core.record.entry import (
    Attempt,
    BranchSummary,
    CustomEntry,
    Entry,
    MessageEntry,
    Pin,
    Retraction,
    Setting,
    Tombstone,
    Usage,
    get_message,
)
from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    NativeBytes,
    OpaquePart,
    Part,
    Status,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_tool_calls,
    get_tool_result,
)
from tenfold.core.record.token_reading import Counted
from tests.laws import oracle
from tests.thorough import IS_THOROUGH

Move = tuple[str, int, int, int]
Log = tuple[Entry, ...]

TALK: Final = (
    "user",
    "answer",
    "calls",
    "result",
    "result",
    "parallel",
    "late",
    "orphan",
    "reuse",
    "aborted",
    "error",
    "thinking",
    "system",
    "image",
    "document",
    "opaque",
    "empty",
    "injected",
    "named",
)
SILENT: Final = ("custom", "setting", "attempt", "pin", "unpin", "tombstone", "branch")
BLOCKS: Final = ("block", "block", "hide", "nest", "several", "clip", "undo")
STALE: Final = ("overlap", "wrong", "future", "misundo")
KINDS: Final = TALK + SILENT + BLOCKS + STALE
ID: Final = "01930000-0000-7000-8000-{:012x}"
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

_FRESH = "TENFOLD_EXAMPLES" in os.environ
LAW: Final = settings(
    max_examples=int(os.environ.get("TENFOLD_EXAMPLES", "100" if IS_THOROUGH else "60")),
    deadline=None,
    derandomize=not _FRESH,
    database=None,
)
"""How every law is tried: the same examples on every machine, fresh ones where TENFOLD_EXAMPLES asks for a number."""
ENGINE: Final = settings(
    LAW, max_examples=max(1, LAW.max_examples // 5), phases=list(Phase) if _FRESH else (Phase.generate,)
)
"""The same where every example runs whole compactions: fewer, and shrunk only where fresh ones were asked for."""


def moves(kinds: Sequence[str] = KINDS, *, most: int = 24) -> st.SearchStrategy[list[Move]]:
    """Lists of moves of these kinds: short ones, and ones long enough for Blocks to come to lie over Blocks."""
    small = st.integers(0, 7)
    move = st.tuples(st.sampled_from(kinds), small, small, small)
    return st.lists(move, max_size=most // 3) | st.lists(move, min_size=most // 2, max_size=most)


def logs(kinds: Sequence[str] = KINDS, *, most: int = 24) -> st.SearchStrategy[Log]:
    """Logs of at most about `most` entries, of any shape that a session can arrive in."""
    return moves(kinds, most=most).map(play)


def talk(*, most: int = 16) -> st.SearchStrategy[list[Move]]:
    """Moves that append messages and silent entries only: no Block, no retraction."""
    return moves(TALK + SILENT, most=most)


def build_seeded_log(seed: int, *, most: int = 24, kinds: Sequence[str] = KINDS) -> Log:
    """A log without Hypothesis: the same for the same seed, for checks that must not vary from run to run."""
    dice = random.Random(seed)  # test data, nothing secret  # noqa: S311  # test data, nothing secret
    picks = (dice.choice(kinds) for _ in range(most))
    return play([(kind, dice.randrange(8), dice.randrange(8), dice.randrange(8)) for kind in picks])


def play(played: Sequence[Move], before: Log = ()) -> Log:
    """The log that these moves give, after `before`."""
    desk = Desk(list(before))
    for kind, a, b, c in played:
        PLAYS[kind](desk, a, b, c)
    return tuple(desk.entries)


class Desk:
    """A log being written."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.calls = [call for e in entries if (m := get_message(e)) for call in get_tool_calls(m)]

    @property
    def n(self) -> int:
        return len(self.entries)

    @property
    def head(self) -> tuple[str, str | None, str]:
        """Id, parent and run of the next entry."""
        parent = self.entries[-1].id if self.entries else None
        return ID.format(self.n), parent, f"run{self.n // 8}"

    def say(self, message: Message, usage: Usage | None = None) -> None:
        entry_id, parent, run = self.head
        self.entries.append(MessageEntry(entry_id, parent, run, 1_000 * self.n, message, usage))

    def ask(self, count: int, *, ids: Sequence[str] = (), lead: tuple[Part, ...] = (), status: Status = "ok") -> None:
        """An answer that calls tools."""
        made = [
            ToolCall(ids[i] if i < len(ids) else f"call_{self.n}_{i}", f"tool{i}", f'{{"n": {self.n}}}')
            for i in range(count)
        ]
        self.say(Message("assistant", (*lead, *made), "model", status), Usage.build(100 + 10 * self.n))
        self.calls.extend(made)

    def answer_call(self, call: ToolCall, *, picture: bool = False) -> None:
        content: tuple[Text | Image, ...] = (Text(f"output {self.n} of {call.name}"),)
        if picture:
            content = (*content, Image("image/png", PIXEL, width=1, height=1))
        self.say(Message("tool", (ToolResult(call.id, call.name, content),), "tool"))

    def find_open_calls(self) -> list[ToolCall]:
        """The calls of the last assistant message that no result has followed."""
        out: list[ToolCall] = []
        for entry in self.entries:
            message = get_message(entry)
            if message is None:
                continue
            if message.role == "assistant":
                out = list(get_tool_calls(message))
            elif result := get_tool_result(message):
                out = [call for call in out if call.id != result.call_id]
        return out


def build_text(desk: Desk, a: int, what: str) -> Text:
    """A text that names its place; a few are long, a few hold Chinese words or what looks like a summary of ours."""
    tails = (
        "",
        "",
        " please keep src/app.py",
        " 你好，世界",
        ' <tenfold-summary block="x" hash="0">',
        " " + "long " * 30,
    )
    return Text(f"{what} {desk.n}{tails[a % len(tails)]}")


def play_user(desk: Desk, a: int, _b: int, _c: int) -> None:
    desk.say(Message("user", (build_text(desk, a, "user"),), "human"))


def play_injected(desk: Desk, a: int, b: int, _c: int) -> None:
    native = NativeBytes("pi", f'{{"line": {desk.n}}}'.encode()) if b % 2 else None
    desk.say(Message("user", (build_text(desk, a, "reminder"),), "harness", native=native))


def play_system(desk: Desk, a: int, _b: int, _c: int) -> None:
    desk.say(Message("system", (build_text(desk, a, "system"),), "harness"))


def play_answer(desk: Desk, a: int, _b: int, _c: int) -> None:
    desk.say(Message("assistant", (build_text(desk, a, "answer"),), "model"), Usage.build(100 + 10 * desk.n))


def play_thinking(desk: Desk, a: int, b: int, _c: int) -> None:
    thought = Thinking(f"thought {desk.n}", signature=f"sig{desk.n}" if a % 2 else "")
    if b % 2:
        desk.ask(1 + b % 2, lead=(thought,))
    else:
        desk.say(Message("assistant", (thought, Text(f"answer {desk.n}")), "model"))


def play_calls(desk: Desk, a: int, _b: int, _c: int) -> None:
    desk.ask(1, lead=(Text(f"calling {desk.n}"),) if a % 2 else ())


def play_parallel(desk: Desk, a: int, _b: int, _c: int) -> None:
    desk.ask(2 + a % 2)


def play_result(desk: Desk, a: int, b: int, _c: int) -> None:
    """A result that is owed, in any order; a new call when none is."""
    owed = desk.find_open_calls()
    if owed:
        desk.answer_call(owed[a % len(owed)], picture=b == 7)
    else:
        desk.ask(1)


def play_late(desk: Desk, a: int, _b: int, _c: int) -> None:
    """A result for any call ever made: late, a duplicate, or in time."""
    if desk.calls:
        desk.answer_call(desk.calls[a % len(desk.calls)])
    else:
        play_orphan(desk, a, 0, 0)


def play_orphan(desk: Desk, a: int, _b: int, _c: int) -> None:
    desk.answer_call(ToolCall(f"nowhere_{a}", "ghost"))


def play_reuse(desk: Desk, a: int, b: int, _c: int) -> None:
    """Calls whose ids an earlier message used already."""
    desk.ask(1 + b % 2, ids=[desk.calls[a % len(desk.calls)].id] if desk.calls else [])


def play_aborted(desk: Desk, a: int, b: int, c: int, status: Status = "aborted") -> None:
    lead = (Text(f"partial {desk.n}"),) if a % 2 else ()
    desk.ask(b % 3, ids=[desk.calls[-1].id] if desk.calls and c == 7 else [], lead=lead, status=status)


def play_error(desk: Desk, a: int, b: int, c: int) -> None:
    play_aborted(desk, a, b, c, "error")


def play_image(desk: Desk, _a: int, _b: int, _c: int) -> None:
    desk.say(Message("user", (Text(f"see {desk.n}"), Image("image/png", PIXEL, width=1, height=1)), "human"))


def play_document(desk: Desk, a: int, _b: int, _c: int) -> None:
    held = Document(f"f{desk.n}.txt", "text/plain", text=f"content {desk.n}" if a % 2 else "", data="QUJD")
    desk.say(Message("user", (held,), "human"))


def play_opaque(desk: Desk, a: int, _b: int, _c: int) -> None:
    raw = OpaquePart("server_thing", f'{{"type":"server_thing","n":{desk.n}}}'.encode())
    role, origin = ("assistant", "model") if a % 2 else ("user", "harness")
    desk.say(Message(role, (raw, Text(f"with {desk.n}")), origin))  # type: ignore[arg-type]


def play_named(desk: Desk, a: int, b: int, _c: int) -> None:
    """An answer that names items of its provider's, alone or with calls of its own, and what such an item gave."""
    raw = f'{{"type":"item_reference","id":"fc_{desk.n}"}}'
    made = [ToolCall(f"call_{desk.n}_{i}", f"tool{i}", f'{{"n": {desk.n}}}') for i in range(a % 3)]
    items = [raw, *(msgspec.json.encode(build_call_item(call)).decode() for call in made)]
    native = NativeBytes("openai-responses", ",".join(items).encode())
    desk.say(Message("assistant", (OpaquePart("item_reference", raw.encode()), *made), "model", native=native))
    desk.calls.extend(made)
    for number in range(b % 3):
        play_orphan(desk, number, 0, 0)


def build_call_item(call: ToolCall) -> dict[str, str]:
    """A call as an item of OpenAI Responses."""
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def play_empty(desk: Desk, a: int, b: int, _c: int) -> None:
    parts: tuple[Part, ...] = (Text(""),) if b % 2 else ()
    role, origin = (("user", "human"), ("assistant", "model"), ("system", "harness"))[a % 3]
    desk.say(Message(role, parts, origin))  # type: ignore[arg-type]


def play_custom(desk: Desk, _a: int, _b: int, _c: int) -> None:
    entry_id, parent, run = desk.head
    desk.entries.append(CustomEntry(entry_id, parent, run, None, "meta", NativeBytes("pi", b'{"type":"meta"}')))


def play_setting(desk: Desk, a: int, _b: int, _c: int) -> None:
    entry_id, parent, run = desk.head
    desk.entries.append(Setting(entry_id, parent, run, None, "model", f"model-{a}"))


def play_attempt(desk: Desk, _a: int, _b: int, _c: int) -> None:
    entry_id, parent, run = desk.head
    desk.entries.append(
        Attempt(entry_id, parent, run, 1_000 * desk.n, "tenfold", "failed", "no answer", Counted(10), Counted(5))
    )


def play_pin(desk: Desk, a: int, b: int, _c: int, *, on: bool = True) -> None:
    if desk.entries:
        at = (8 * a + b) % desk.n
        entry_id, parent, run = desk.head
        desk.entries.append(Pin(entry_id, parent, run, 1_000 * desk.n, desk.entries[at].id, at, on))


def play_unpin(desk: Desk, a: int, b: int, c: int) -> None:
    pins = sorted(oracle.fold(desk.entries).pins)
    if pins:
        entry_id, parent, run = desk.head
        at = pins[a % len(pins)]
        desk.entries.append(Pin(entry_id, parent, run, 1_000 * desk.n, desk.entries[at].id, at, pinned=False))
    else:
        play_pin(desk, a, b, c, on=False)


def play_tombstone(desk: Desk, a: int, _b: int, _c: int) -> None:
    entry_id, parent, run = desk.head
    left = Message("user", (Text("[purged]"),), "tenfold") if a % 2 else None
    desk.entries.append(Tombstone(entry_id, parent, run, None, "said", bytes(32), 1_000 * desk.n, left))


def play_branch(desk: Desk, a: int, _b: int, _c: int) -> None:
    entry_id, parent, run = desk.head
    message = Message("user", (build_text(desk, a, "left branch"),), "tenfold")
    desk.entries.append(BranchSummary(entry_id, parent, run, None, message, previous_leaf=ID.format(0)))


def play_block(desk: Desk, a: int, b: int, c: int) -> None:
    add_block(desk, [(a, b, c)])


def play_hide(desk: Desk, a: int, b: int, _c: int) -> None:
    add_block(desk, [(a, b, 0)])


def play_nest(desk: Desk, _a: int, b: int, c: int) -> None:
    """Over everything from the first replaced range on, so that Blocks come to lie over Blocks."""
    tiles = oracle.fold(desk.entries).tiles
    replaced = [i for i, tile in enumerate(tiles) if tile.ref is not None]
    add_block(desk, [(replaced[0] if replaced else 0, b + 1, c)])


def play_several(desk: Desk, a: int, b: int, c: int) -> None:
    add_block(desk, [(a, b % 3, c), (a + b % 3 + 1 + c % 2, c % 3, b), (a + 5, b % 4, a)])


def play_clip(desk: Desk, a: int, b: int, c: int) -> None:
    made = build_clip_block(desk.entries, a, b, c)
    if made is not None:
        desk.entries.append(made)


def build_clip_block(entries: Sequence[Entry], a: int, b: int, c: int) -> Block | None:
    """Batches with one line over them, all in one Block: its last replacement covers its own earlier ones."""
    desk = Desk(list(entries))
    before = oracle.fold(entries).tiles
    made = build_legal_block(desk.entries, [(a, b % 3, c), (a + b % 3 + 1, c % 3, b)])
    if made is None:
        return None
    tiles = oracle.apply_block(list(before), made, desk.n)
    assert tiles is not None
    inside = [t for t in tiles if t.ref is not None and t.ref.block == desk.n]
    first, last = inside[0].first, inside[-1].last
    seen = oracle.find_slice(tiles, first, last) or []
    own = [
        BlockPart(OWN_BLOCK, r.index, r.first, r.last) if isinstance(r, BlockPart) and r.block == desk.n else r
        for r in seen
    ]
    line = Substitute(Message("user", (Text(f"clipped {desk.n}"),), "tenfold"))
    over = Replacement(first, last, tuple(own), (line,), "clip", 1 + find_level([*desk.entries, made], inside))
    return wrap(desk, (*made.replacements, over))


def play_misundo(desk: Desk, a: int, _b: int, _c: int) -> None:
    """A retraction of something other than the newest live Block: must be refused."""
    live = oracle.fold(desk.entries).live
    others = [p for p in range(desk.n) if not live or p != live[-1]]
    if others:
        entry_id, parent, run = desk.head
        gone = live[0] if len(live) > 1 and a % 2 else others[a % len(others)]
        desk.entries.append(Retraction(entry_id, parent, run, 1_000 * desk.n, desk.entries[gone].id))


def play_undo(desk: Desk, a: int, _b: int, _c: int) -> None:
    live = oracle.fold(desk.entries).live
    if a % 5 == 4:  # what was undone is on a branch that was left
        entry_id, parent, run = desk.head
        desk.entries.append(Retraction(entry_id, parent, run, 1_000 * desk.n, ""))
    elif live:
        entry_id, parent, run = desk.head
        desk.entries.append(Retraction(entry_id, parent, run, 1_000 * desk.n, desk.entries[live[-1]].id))


def add_block(desk: Desk, wanted: Sequence[tuple[int, int, int]]) -> None:
    """A legal Block: each wish is (unit, how many more units, how to show them); disjoint wishes only."""
    made = build_legal_block(desk.entries, wanted)
    if made is not None:
        desk.entries.append(made)


def build_legal_block(entries: Sequence[Entry], wanted: Sequence[tuple[int, int, int]]) -> Block | None:
    """A Block that fits the leaf of these entries, None when there is nothing to replace."""
    desk = Desk(list(entries))
    tiles = oracle.fold(entries).tiles
    out: list[Replacement] = []
    taken = -1
    for start, more, style in wanted:
        at = start % len(tiles) if tiles else 0
        if at <= taken or at >= len(tiles):
            continue
        chosen = tiles[at : at + more + 1]
        taken = at + len(chosen) - 1
        first, last = chosen[0].first, chosen[-1].last
        covers = oracle.find_slice(tiles, first, last)
        assert covers is not None
        shows = tuple(choose_shown(desk, first, last, style))
        out.append(Replacement(first, last, tuple(covers), shows, "test", 1 + find_level(entries, chosen)))
    return wrap(desk, tuple(out)) if out else None


def wrap(desk: Desk, replacements: tuple[Replacement, ...]) -> Block:
    """The Block entry for these replacements at the next position."""
    entry_id, parent, run = desk.head
    live = oracle.fold(desk.entries).live
    under = desk.entries[live[-1]].id if live else None
    return Block(entry_id, parent, run, 1_000 * desk.n, "test", "chars4", replacements, previous_block=under)


def find_level(entries: Sequence[Entry], chosen: Sequence[oracle.Tile]) -> int:
    """The deepest level among replaced ranges."""
    levels = [0]
    for tile in chosen:
        if tile.ref is not None:
            below = entries[tile.ref.block]
            assert isinstance(below, Block)
            levels.append(below.replacements[tile.ref.index].level)
    return max(levels)


def choose_shown(desk: Desk, first: int, last: int, style: int) -> list[ShownItem]:
    """What may legally stand for `first`..`last`: nothing, a summary, kept user messages, kept or shortened steps."""
    summary = Message("user", (Text(f"summary {desk.n} of {first}-{last}"),), "tenfold")
    if style == 0:
        return []
    if style <= 2:
        return [Substitute(summary)]
    groups = [g for g in oracle.find_groups(desk.entries) if first <= g[0] and g[1] <= last]
    out: list[ShownItem] = [Substitute(summary)] if style % 2 else []
    for group in groups:
        seen = oracle.predict_group(desk.entries, group)
        if len(seen) == 1 and seen[0].what == "original":
            out.append(KeptOriginal(seen[0].at))
        elif seen and all(one.what == "original" for one in seen) and style >= 5:
            out.extend(keep_or_shorten(one, style) for one in seen)
    return out


def keep_or_shorten(seen: oracle.Seen, style: int) -> ShownItem:
    """A message of a whole step: kept, or for results in some styles a shortened stand-in."""
    message = seen.message
    assert message is not None
    held = get_tool_result(message)
    if held is None or style == 5:
        return KeptOriginal(seen.at)
    short = ToolResult(held.call_id, held.name, (Text("[shortened]"),))
    return Substitute(Message("tool", (short,), "tenfold"), original_position=seen.at)


def play_overlap(desk: Desk, a: int, b: int, _c: int) -> None:
    """A Block whose range begins or ends inside a unit, or is no range: must be refused."""
    tiles = [t for t in oracle.fold(desk.entries).tiles if t.last > t.first]
    if not tiles:
        return
    tile = tiles[a % len(tiles)]
    first, last = ((tile.first, tile.last - 1), (tile.first + 1, tile.last), (tile.last, tile.first))[b % 3]
    add_stale_block(desk, Replacement(first, last, (Run(first, last),), (), "test"))


def play_wrong(desk: Desk, a: int, b: int, _c: int) -> None:
    """A Block over whole units whose `covers` names another slice: must be refused."""
    made = build_legal_block(desk.entries, [(a, b, 1)])
    if made is None:
        return
    good = made.replacements[0]
    rep = BlockPart(desk.n + 3, 0, good.first, good.last)
    lies = ((), (rep,), (Run(good.first, good.last + 1),), (*good.covered_ranges, rep))
    add_stale_block(
        desk, Replacement(good.first, good.last, lies[b % 4], good.shown_items, "test"), legal=made if a % 2 else None
    )


def play_future(desk: Desk, a: int, b: int, _c: int) -> None:
    """A Block that reaches into the open step, or past the leaf: must be refused."""
    folded = oracle.fold(desk.entries)
    first = folded.tiles[a % len(folded.tiles)].first if folded.tiles else 0
    last = desk.n - 1 if folded.open_first is not None else desk.n + b
    add_stale_block(desk, Replacement(first, last, (Run(first, last),), (), "test"))


def add_stale_block(desk: Desk, bad: Replacement, legal: Block | None = None) -> None:
    """Appends a Block that cannot apply: alone, or after a replacement that would."""
    good: tuple[Replacement, ...] = ()
    if legal is not None:
        tiles = oracle.fold(desk.entries).tiles
        spare = [t for t in tiles if t.last < bad.first or t.first > bad.last]
        if spare:
            tile = spare[0]
            covers = oracle.find_slice(tiles, tile.first, tile.last)
            good = (Replacement(tile.first, tile.last, tuple(covers or ()), (), "test"),)
    desk.entries.append(wrap(desk, (*good, bad)))


PLAYS: Final[dict[str, Callable[[Desk, int, int, int], None]]] = {
    move.__name__.removeprefix("play_"): move
    for move in (
        play_user,
        play_answer,
        play_calls,
        play_result,
        play_parallel,
        play_late,
        play_orphan,
        play_reuse,
        play_aborted,
        play_error,
        play_thinking,
        play_system,
        play_image,
        play_document,
        play_opaque,
        play_empty,
        play_injected,
        play_named,
        play_custom,
        play_setting,
        play_attempt,
        play_pin,
        play_unpin,
        play_tombstone,
        play_branch,
        play_block,
        play_hide,
        play_nest,
        play_several,
        play_clip,
        play_undo,
        play_overlap,
        play_wrong,
        play_future,
        play_misundo,
    )
}
