"""What the published page of `blocks` says beside its names: an own `compact`, the two strategy fields, and turns."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tenfold.core.record.ask import Answer, Ask, SummaryAsk
from tenfold.core.record.message import get_text
from tenfold.designs.blocks import (
    BlockCompactionStrategy,
    CompactedSection,
    CompactionBlock,
    CompactionConfig,
    ContextConfig,
    DefaultBlockCompaction,
    DefaultCompaction,
    LoopRecord,
    TurnId,
    TurnMap,
    TurnMessage,
    TurnRange,
    ask_model,
    assign_turns,
    build_policy,
    compact_in_memory,
    compact_messages,
    from_json,
    get_loop_records,
    with_hooks,
)
from tenfold.errors import BadInput, UsageError
from tenfold.models.scripted_model import ScriptedModel
from tenfold.session.drive import Answerer
from tests.designs.blocks.making import (
    COUNTER,
    count_tokens,
    count_view_tokens,
    get_view_text,
    make_call,
    make_line,
    make_loop,
    make_reply,
    make_result,
    make_session,
    make_user_message,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_messages_without_a_turn_are_a_group_each() -> None:
    plain = [make_user_message("go"), make_call("1"), make_result("1", "ok"), make_reply("done"), make_reply("bye")]
    assert TurnMap.from_messages(plain).groups == ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
    mixed = [TurnMessage(m, TurnId("a", 0) if n in (1, 2) else None) for n, m in enumerate(plain)]
    assert TurnMap.from_messages(mixed).groups == ((0, 1), (1, 3), (3, 4), (4, 5))


def test_a_block_always_says_when_it_was_made() -> None:
    before = datetime.now(UTC)
    record = LoopRecord("r", assign_turns(make_loop(20), "r"))
    own = DefaultBlockCompaction(COUNTER)
    for latest in (True, False):
        made = own.compact(record, CompactionConfig(), latest)
        assert isinstance(made, CompactionBlock)
        assert before <= made.created_at <= datetime.now(UTC)
    with pytest.raises(BadInput, match="createdAt"):
        from_json(CompactionBlock, "{}")
    with pytest.raises(BadInput, match="timezone"):
        from_json(CompactionBlock, '{"createdAt": "2026-01-02T00:00:00"}')
    with pytest.raises(TypeError, match="created_at"):
        CompactionBlock()  # type: ignore[call-arg]


class Three(BlockCompactionStrategy):
    """Has the three methods and takes the default of the fourth."""

    def keep_first(self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig) -> TurnRange | None:  # noqa: ARG002
        return TurnRange(0, 0) if turn_map.turn_count() > 4 else None

    def keep_recent(self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig) -> CompactedSection | None:  # noqa: ARG002
        last = turn_map.turn_count() - 1
        covered = TurnRange(max(0, last - 2), last)
        messages = turn_map.messages_for_range(covered, record.messages)
        return CompactedSection(covered, tuple(m.message for m in messages))

    def keep_compacted(
        self,
        record: LoopRecord,  # noqa: ARG002
        turn_map: TurnMap,
        config: CompactionConfig,  # noqa: ARG002
        is_most_recent: bool,  # noqa: FBT001
    ) -> CompactedSection | None:
        last = turn_map.turn_count() - 1
        covered = (1, last - 3) if is_most_recent else (0, last)
        return CompactedSection(TurnRange(*covered), (make_line("Told."),)) if covered[0] <= covered[1] else None


class ThreeAsync(Three):
    """The same as coroutines."""

    async def keep_compacted(  # type: ignore[override]
        self,
        record: LoopRecord,
        turn_map: TurnMap,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001
    ) -> CompactedSection | None:
        await asyncio.sleep(0)
        return super().keep_compacted(record, turn_map, config, is_most_recent)


class ThreeByGenerator(Three):
    """The same as a generator."""

    def keep_compacted(  # type: ignore[override]
        self,
        record: LoopRecord,
        turn_map: TurnMap,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001
    ) -> Generator[Ask, Answer, CompactedSection | None]:
        yield SummaryAsk("s", "p", 100)
        return super().keep_compacted(record, turn_map, config, is_most_recent)


def test_the_default_compact_assembles_the_three_sections() -> None:
    record = LoopRecord("r", assign_turns(make_loop(20), "r"))
    made = Three().compact(record, CompactionConfig(), True)
    assert isinstance(made, CompactionBlock)
    assert (made.keep_first, made.keep_compacted and made.keep_compacted.range) == (TurnRange(0, 0), TurnRange(1, 16))
    assert made.keep_recent is not None
    assert made.keep_recent.range == TurnRange(17, 19)
    older = Three().compact(record, CompactionConfig(), False)
    assert isinstance(older, CompactionBlock)
    assert (older.keep_first, older.keep_recent) == (None, None)
    assert older.keep_compacted is not None
    assert older.keep_compacted.range == TurnRange(0, 19)


def test_the_default_compact_takes_coroutines_and_generators() -> None:
    record = LoopRecord("r", assign_turns(make_loop(20), "r"))
    plain = Three().compact(record, CompactionConfig(), True)
    awaited = ThreeAsync().compact(record, CompactionConfig(), True)
    assert asyncio.iscoroutine(awaited)
    made = asyncio.run(awaited)
    assert isinstance(plain, CompactionBlock)
    assert replace(made, created_at=NOW) == replace(plain, created_at=NOW)
    stepped = ThreeByGenerator().compact(record, CompactionConfig(), True)
    assert isinstance(stepped, Generator)
    assert isinstance(next(stepped), SummaryAsk)
    with pytest.raises(StopIteration) as stop:
        stepped.send(Answer(text="x"))
    assert replace(stop.value.value, created_at=NOW) == replace(plain, created_at=NOW)


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5, 12])
def test_it_adds_nothing_to_what_the_three_methods_give(turns: int) -> None:
    record = LoopRecord("r", assign_turns(make_loop(turns), "r"))
    config, turn_map, own = CompactionConfig(), TurnMap.from_messages(record.messages), Three()
    made = own.compact(record, config, True)
    assert isinstance(made, CompactionBlock)
    assert made.keep_first == own.keep_first(record, turn_map, config)
    assert made.keep_recent == own.keep_recent(record, turn_map, config)
    assert made.keep_compacted == own.keep_compacted(record, turn_map, config, True)


class Whole(Three):
    """Says with `compact` alone what becomes of a loop."""

    def compact(self, record: LoopRecord, config: CompactionConfig, is_most_recent: bool) -> CompactionBlock:  # noqa: ARG002, FBT001
        turn_map = TurnMap.from_messages(record.messages)
        last = turn_map.turn_count() - 1
        told = (make_line("Told as a whole."),)
        if not is_most_recent:
            return CompactionBlock(keep_compacted=CompactedSection(TurnRange(0, last), told), created_at=NOW)
        recent = TurnRange(last - 4, last)
        kept = tuple(m.message for m in turn_map.messages_for_range(recent, record.messages))
        return CompactionBlock(
            keep_first=TurnRange(0, 2),
            keep_compacted=CompactedSection(TurnRange(3, last - 5), told),
            keep_recent=CompactedSection(recent, kept),
            created_at=NOW,
        )


class WholeAsync(Three):
    """The same as a coroutine that asks a model."""

    async def compact(self, record: LoopRecord, config: CompactionConfig, is_most_recent: bool) -> CompactionBlock:  # noqa: FBT001
        made = Whole().compact(record, config, is_most_recent)
        answer = await ask_model(SummaryAsk("s", "p", 100))
        assert made.keep_compacted is not None
        said = (make_line(answer.text or "nothing was answered"),)
        return replace(made, keep_compacted=replace(made.keep_compacted, messages=said))


def test_an_own_compact_is_the_one_that_runs() -> None:
    policy = build_policy(ContextConfig(compaction=CompactionConfig(block_strategy=Whole())), COUNTER)
    session = make_session([make_loop(30)], policy)
    outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
    assert (outcome.status, outcome.notes) == ("compacted", ())
    made = get_loop_records(session)[0].compaction_block
    assert made is not None
    assert made.keep_first == TurnRange(0, 2)
    assert made.keep_recent is not None
    assert made.keep_recent.range == TurnRange(25, 29)
    assert made.keep_compacted is not None
    assert "Told as a whole." in "\n".join(map(get_text, made.keep_compacted.messages))
    assert not any("[Summary]" in get_text(m) for m in session.view.get_messages())


def test_an_own_compact_may_be_a_coroutine_that_asks_a_model() -> None:
    model = ScriptedModel(["The parts were read, one after the other."], repeat=True)
    policy = build_policy(ContextConfig(compaction=CompactionConfig(block_strategy=WholeAsync())), COUNTER)
    session = make_session([make_loop(30)], policy, answerer=Answerer(model=model))
    outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
    assert (outcome.status, outcome.spent.calls) == ("compacted", 1)
    shown = get_view_text(session)
    assert "one after the other" in shown
    made = get_loop_records(session)[0].compaction_block
    assert made is not None
    assert made.keep_first == TurnRange(0, 2)


def test_an_own_compact_is_called_once_for_the_ranges_of_a_plan_and_once_for_the_text() -> None:
    calls: list[str] = []

    class Counted(Whole):
        """Says when it was called."""

        def compact(self, record: LoopRecord, config: CompactionConfig, is_most_recent: bool) -> CompactionBlock:  # noqa: FBT001
            calls.append(record.loop_id)
            return super().compact(record, config, is_most_recent)

    class Alone:
        """Has nothing but `compact`, and that on the object."""

        def __init__(self) -> None:
            self.compact = Counted().compact

    for strategy in (Counted(), Alone()):
        calls.clear()
        policy = build_policy(ContextConfig(compaction=CompactionConfig(block_strategy=strategy)), COUNTER)  # type: ignore[arg-type]
        session = make_session([make_loop(30)], policy)
        outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
        assert (outcome.status, outcome.notes) == ("compacted", ())
        assert calls == ["run-1"] * 3, "for the plan, for what the Outcome notes of it, and for the text"
        made = get_loop_records(session)[0].compaction_block
        assert made is not None
        assert made.keep_first == TurnRange(0, 2)


def test_a_model_cannot_be_asked_without_a_session() -> None:
    record = LoopRecord("r", assign_turns(make_loop(20), "r"))
    made = WholeAsync().compact(record, CompactionConfig(), True)
    with pytest.raises(UsageError, match="ask_model needs a session to ask: name the strategy in a policy"):
        asyncio.run(made)


class Nothing(Three):
    """Returns no block."""

    def compact(self, record: LoopRecord, config: CompactionConfig, is_most_recent: bool) -> CompactionBlock:  # noqa: ARG002, FBT001
        return None  # type: ignore[return-value]


def test_an_own_compact_that_gives_no_block_is_reported() -> None:
    policy = build_policy(ContextConfig(compaction=CompactionConfig(block_strategy=Nothing())), COUNTER)
    session = make_session([make_loop(30)], policy)
    outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
    assert outcome.status == "compacted"
    assert any("compact gave a NoneType" in note for note in outcome.notes)
    assert "[Summary] I look at part 5." in get_view_text(session)


def test_the_default_strategy_for_lists_is_the_function() -> None:
    messages = make_loop(30)
    for window in (10**6, 6_000):
        config = ContextConfig(max_context_tokens=window, system_prompt_tokens=0, token_counter=COUNTER)
        by_function = compact_messages(messages, config)
        by_strategy = DefaultCompaction().compact(messages, config)
        assert [m.role for m in by_strategy] == [m.role for m in by_function]
        assert count_tokens(by_strategy) == count_tokens(by_function) <= window
        assert messages == make_loop(30), "the list that was given stays as it is"


def test_the_default_block_strategy_has_no_state_and_takes_all_from_the_configuration() -> None:
    record = LoopRecord("r", assign_turns(make_loop(20, lines=60), "r"))
    own, base = DefaultBlockCompaction(COUNTER), CompactionConfig()

    def build(config: CompactionConfig) -> CompactionBlock:
        return replace(own.compact(record, config, True), created_at=NOW)

    changes: list[dict[str, int]] = [
        {"keep_first_turns": 3},
        {"keep_recent_turns": 4},
        {"max_summary_tokens": 60},
        {"tool_output_max_lines": 8},
    ]
    made = [build(replace(base, **change)) for change in changes]
    assert all(block != build(base) for block in made)
    assert [build(replace(base, **change)) for change in reversed(changes)] == made[::-1]
    assert build(base) == build(base)


def test_naming_the_default_strategy_is_naming_none() -> None:
    named = CompactionConfig(block_strategy=DefaultBlockCompaction(COUNTER))
    assert build_policy(ContextConfig(compaction=named), COUNTER) == build_policy(ContextConfig(), COUNTER)


class CutRecent(DefaultBlockCompaction, frozen=True):
    """The default but for its type: it cuts the outputs of recent turns."""


def test_the_record_knows_the_recent_section_of_a_strategy_that_cuts_outputs() -> None:
    own = CompactionConfig(block_strategy=CutRecent(COUNTER))
    session = make_session([make_loop(20, lines=60)], build_policy(ContextConfig(compaction=own), COUNTER))
    assert session.compact(to=count_view_tokens(session) * 3 // 4).status == "compacted"
    block = get_loop_records(session)[0].compaction_block
    assert block is not None
    assert block.keep_recent is not None
    assert block.keep_recent.range == TurnRange(10, 19)
    assert any("lines removed" in get_text(m) for m in block.keep_recent.messages)


def test_hooks_are_blank_by_default() -> None:
    session = make_session([make_loop(20)])
    before = session.answerer
    assert with_hooks(session) == before
    session.use_answerer(with_hooks(session))
    assert session.compact(window=9_000).status == "compacted"
    config = ContextConfig(max_context_tokens=9_000, token_counter=COUNTER)
    assert count_tokens(compact_in_memory(make_loop(20), config)) < count_tokens(make_loop(20))


def test_the_before_hook_sees_the_originals_and_the_after_hook_the_block() -> None:
    history = make_loop(20)
    session = make_session([history])
    seen: list[object] = []

    def extract_memories(_tokens: int, _messages: int) -> bool:
        seen.append(session.view.get_messages())
        return True

    def verify_block(*_figures: int) -> None:
        seen.append(get_loop_records(session)[0].compaction_block)

    session.use_answerer(
        with_hooks(session, before_compaction_start=extract_memories, after_compaction_end=verify_block)
    )
    assert session.compact(window=9_000).status == "compacted"
    assert seen == [history, get_loop_records(session)[0].compaction_block]
    assert seen[1] is not None


@pytest.mark.parametrize("kept", [1, 3, 7])
def test_the_recent_turns_begin_with_a_whole_turn(kept: int) -> None:
    history = [m for n in range(12) for m in (make_user_message(f"Do {n}."), make_reply("Done."))]
    record = LoopRecord("r", assign_turns(history, "r"))
    config = CompactionConfig(keep_recent_turns=kept)
    section = DefaultBlockCompaction(COUNTER).keep_recent(record, TurnMap.from_messages(record.messages), config)
    assert section is not None
    assert get_text(section.messages[0]) == f"Do {12 - kept}."
    assert len(section.messages) == 2 * kept
