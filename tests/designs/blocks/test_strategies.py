"""Block strategies of one's own: plain, as coroutines and generators; from code, entry point and settings."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.config.settings import load_settings
from tenfold.core.record.ask import SummaryAsk
from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.view.fold import View
from tenfold.core.view.rules import check_messages
from tenfold.designs.blocks import (
    BlockCompactionStrategy,
    CompactedSection,
    CompactionBlock,
    CompactionConfig,
    ContextConfig,
    DefaultBlockCompaction,
    LoopRecord,
    TurnMap,
    TurnRange,
    ask_model,
    assign_turns,
    build_policy,
    compact_session_loops,
    from_json,
    get_loop_records,
    with_hooks,
)
from tenfold.designs.blocks.policy import blocks
from tenfold.designs.blocks.runner import take_value
from tenfold.designs.blocks.strategy import StrategyStage
from tenfold.designs.tail.policy import tail
from tenfold.errors import BadInput, UsageError
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import AsyncSession, Session
from tenfold.session.drive import Answerer
from tests.designs.blocks.making import (
    COUNTER,
    Given,
    compact_to,
    count_view_tokens,
    get_loop_block,
    get_newest_block,
    get_ranges,
    get_view_text,
    make_line,
    make_loop,
    make_reply,
    make_session,
    make_turn,
    make_user_message,
    with_strategy,
)
from tests.laws import checks, conversations
from tests.laws.nearby import WIRES
from tests.laws.strategies import ENGINE, Log

NOW = datetime(2026, 1, 2, tzinfo=UTC)


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

    def keep_compacted(self, *given: Given) -> CompactedSection | None:
        _, turn_map, _, is_most_recent = given
        last = turn_map.turn_count() - 1
        covered = TurnRange(1, last - 3) if is_most_recent else TurnRange(0, last)
        return CompactedSection(covered, (make_line("Told."),))


class ThreeAsync(Three):
    """The same as coroutines."""

    async def keep_compacted(self, *given: Given) -> CompactedSection | None:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().keep_compacted(*given)


@pytest.mark.parametrize("strategy", [Three(), ThreeAsync()])
def test_the_default_compact_assembles_the_three_sections(strategy: Three) -> None:
    record = LoopRecord("r", assign_turns(make_loop(20), "r"))
    made, older = (
        asyncio.run(take_value(strategy.compact(record, CompactionConfig(), latest))) for latest in (True, False)
    )
    assert get_ranges(made) == [(0, 0), (1, 16), (17, 19)]
    assert get_ranges(older) == [None, (0, 19), None]


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
    assert compact_to(session, 6).notes == ()
    assert get_ranges(get_loop_block(session)) == [(0, 2), (3, 24), (25, 29)]
    assert "Told as a whole." in get_view_text(session)
    assert "[Summary]" not in get_view_text(session)


def test_an_own_compact_may_be_a_coroutine_that_asks_a_model() -> None:
    model = ScriptedModel(["The parts were read, one after the other."], repeat=True)
    policy = build_policy(ContextConfig(compaction=CompactionConfig(block_strategy=WholeAsync())), COUNTER)
    session = make_session([make_loop(30)], policy, answerer=Answerer(model=model))
    assert compact_to(session, 6).spent.calls == 1
    assert "one after the other" in get_view_text(session)
    assert get_loop_block(session).keep_first == TurnRange(0, 2)


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
    assert any("of no use" in note for note in outcome.notes)
    assert "[Summary] I look at part 5." in get_view_text(session)


def test_naming_the_default_strategy_is_naming_none() -> None:
    named = CompactionConfig(block_strategy=DefaultBlockCompaction(COUNTER))
    assert build_policy(ContextConfig(compaction=named), COUNTER) == build_policy(ContextConfig(), COUNTER)


class CutRecent(DefaultBlockCompaction, frozen=True):
    """The default but for its type: it cuts the outputs of recent turns."""


def test_the_record_knows_the_recent_section_of_a_strategy_that_cuts_outputs() -> None:
    own = CompactionConfig(block_strategy=CutRecent(COUNTER))
    session = make_session([make_loop(20, lines=60)], build_policy(ContextConfig(compaction=own), COUNTER))
    compact_to(session, 7)
    recent = get_loop_block(session).keep_recent
    assert recent is not None
    assert recent.range == TurnRange(10, 19)
    assert any("lines removed" in get_text(m) for m in recent.messages)


def test_the_before_hook_sees_the_originals_and_the_after_hook_the_block() -> None:
    history = make_loop(20)
    session = make_session([history])
    seen: list[object] = []

    def extract_memories(_tokens: int, _messages: int) -> bool:
        seen.append(session.view.get_messages())
        return True

    def verify_block(*_figures: int) -> None:
        seen.append(get_loop_records(session)[0].compaction_block)

    session.compactor.use_answerer(
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


PAGE = Path(__file__).parents[3] / "docs" / "custom-strategy.md"
PRINTED, POLICY = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
(SETTINGS,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
TOLD = "The parts were read, one after the other: I look at a part, and the part says what is in it and what is next."
MORE = "More parts were read after that: I look at each part, and what the part says is what was there before."


@pytest.fixture
def printed() -> Iterator[ModuleType]:
    """What the page defines, as the module that its settings name."""
    module = ModuleType("digests")
    exec(compile(PRINTED + POLICY, str(PAGE), "exec"), module.__dict__)  # noqa: S102 - the page is ours, and running it is the point
    sys.modules["digests"] = module
    yield module
    del sys.modules["digests"]


class Tells(DefaultBlockCompaction, frozen=True):
    """The design's own, whose compacted section is a text of ours."""

    told: tuple[Message, ...] = (make_line("Told plainly."),)

    def keep_compacted(self, *given: Given) -> CompactedSection | None:
        made = super().keep_compacted(*given)
        return CompactedSection(made.range, self.told) if made else None


class Asks(DefaultBlockCompaction, frozen=True):
    """Asks once."""

    async def keep_compacted(self, *given: Given) -> CompactedSection | None:  # type: ignore[override]
        record, turn_map, config, latest = given
        count = turn_map.turn_count()
        answer = await ask_model(SummaryAsk("s", f"p {count} {record.loop_id} {latest}", config.max_summary_tokens))
        return CompactedSection(TurnRange(0, count - 1), (make_line(answer.text),))


class ByCoroutine(DefaultBlockCompaction, frozen=True):
    """Awaits its Asks, and other things beside them."""

    async def keep_first(self, *given: Given) -> TurnRange | None:  # type: ignore[override]
        await asyncio.sleep(0)
        return DefaultBlockCompaction.keep_first(self, *given)

    async def keep_compacted(self, *given: Given) -> CompactedSection | None:  # type: ignore[override]
        record, turn_map, config, latest = given
        asks = (SummaryAsk("s", f"p{n} {record.loop_id} {latest}", config.max_summary_tokens) for n in (1, 2))
        first, second = await asyncio.gather(*map(ask_model, asks))
        return CompactedSection(TurnRange(0, turn_map.turn_count() - 1), (make_line(f"{first.text}\n{second.text}"),))


class Raises(DefaultBlockCompaction, frozen=True):
    """Wrong in every method."""

    def keep_first(self, *given: object) -> TurnRange | None:
        raise RuntimeError(f"no first of {len(given)}")

    def keep_recent(self, *given: object) -> CompactedSection | None:
        raise RuntimeError(f"no recent of {len(given)}")

    def keep_compacted(self, *given: object) -> CompactedSection | None:
        raise RuntimeError(f"the index is down for {len(given)}")


def make_long_session(policy: Policy, model: ScriptedModel | None = None) -> Session:
    return make_session([make_loop(30)], policy, answerer=Answerer(model=model))


def test_the_printed_strategy_and_policy_work(printed: ModuleType) -> None:
    model = ScriptedModel([TOLD])
    session = make_long_session(with_strategy(printed.Digest()), model)
    outcome = compact_to(session, 5)
    assert (outcome.rung, outcome.spent.calls, len(model.asks)) == ("model", 1, 1)
    assert TOLD in get_view_text(session)
    shown = session.view.get_messages()
    assert shown[1:3] == make_turn(0)
    assert shown[-6:] == [m for n in (27, 28, 29) for m in make_turn(n)]
    assert get_ranges(get_loop_block(session))[1] == (1, 26)


def test_the_printed_settings_plug_it_in(printed: ModuleType, tmp_path: Path) -> None:
    place = tmp_path / "tenfold.toml"
    place.write_text(SETTINGS, encoding="utf-8")
    policy = load_settings(place, environ={}).build_policy(COUNTER)
    stage = policy.stages[0]
    assert isinstance(stage, StrategyStage)
    assert isinstance(stage.config.block_strategy, printed.Digest)
    assert stage.config.max_summary_tokens == 1_500
    session = make_long_session(policy, ScriptedModel([TOLD]))
    assert session.compact(to=count_view_tokens(session) // 2).status == "compacted"
    assert TOLD in get_view_text(session)


def test_an_installed_package_publishes_one_by_name(printed: ModuleType, tmp_path: Path) -> None:
    info = tmp_path / "digests-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: digests\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[tenfold.strategies]\ndigest = digests:Digest\n", "utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        policy = blocks(COUNTER, block_strategy="digest", max_summary_tokens=900)
        with pytest.raises(UsageError, match="did you mean 'digest'"):
            blocks(COUNTER, block_strategy="digets")
    finally:
        sys.path.remove(str(tmp_path))
    stage = policy.stages[0]
    assert isinstance(stage, StrategyStage)
    assert isinstance(stage.config.block_strategy, printed.Digest)
    assert stage.config.max_summary_tokens == 900


@pytest.mark.parametrize(
    ("strategy", "wanted", "calls"),
    [(Tells(COUNTER), "Told plainly.", 0), (Asks(COUNTER), TOLD, 1), (ByCoroutine(COUNTER), TOLD, 2)],
)
def test_plain_generator_and_coroutine_are_alike(strategy: DefaultBlockCompaction, wanted: str, calls: int) -> None:
    """The original has no strategy that asks a model."""
    model = ScriptedModel([TOLD], repeat=True)
    session = make_long_session(with_strategy(strategy), model)
    outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
    assert outcome.status == "compacted"
    assert wanted in get_view_text(session)
    assert len(model.asks) == outcome.spent.calls == calls

    async def compact_again() -> str:
        other = make_long_session(with_strategy(strategy), ScriptedModel([TOLD], repeat=True))
        inside = make_long_session(with_strategy(strategy), ScriptedModel([TOLD], repeat=True))
        inside.compact(to=count_view_tokens(inside) * 6 // 10)  # the sync session, inside a running loop
        await AsyncSession(other).compact(to=count_view_tokens(other) * 6 // 10)
        assert [get_text(m) for m in inside.view.get_messages() if m.origin != "tenfold"] == [
            get_text(m) for m in other.view.get_messages() if m.origin != "tenfold"
        ]
        return get_view_text(other)

    assert wanted in asyncio.run(compact_again())


def test_what_a_strategy_raises_is_reported_and_lines_are_written() -> None:
    """The original's methods give an Option: an error can only become a None, which nobody hears of."""
    session = make_long_session(with_strategy(Raises(COUNTER)))
    outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
    assert outcome.status == "compacted"
    said = " ".join(outcome.notes)
    for why in ("RuntimeError: no first", "RuntimeError: no recent", "RuntimeError: the index is down for 4"):
        assert why in said
    assert "[Summary] I look at part 5." in get_view_text(session)


def test_a_model_that_fails_leaves_lines() -> None:
    """The original has no way to go on when a summary cannot be had."""
    broken = ScriptedModel([ScriptedReply(error="the provider is down")], repeat=True)
    own = make_long_session(with_strategy(Asks(COUNTER)), broken)
    preset = make_long_session(conversations.make_policy(models=("m",)), broken)
    preset.compactor.use_policy(blocks(COUNTER, summary=preset.policy.summary))
    for session in (own, preset):
        assert session.compact(to=count_view_tokens(session) * 6 // 10).status == "compacted"
        assert "[Summary] I look at part" in get_view_text(session)


def test_the_outcome_says_why_the_model_of_a_strategy_failed(printed: ModuleType) -> None:
    broken = ScriptedModel([ScriptedReply(error="the key is wrong")], repeat=True)
    for model, why in ((broken, "the key is wrong"), (None, "no model")):
        session = make_long_session(with_strategy(printed.Digest()), model)
        outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
        assert outcome.status == "compacted"
        assert re.search(f"it gave None; the model that it asked failed: .*{why}", " ".join(outcome.notes))


def test_with_a_model_the_middle_is_one_text_and_an_update_of_it_later() -> None:
    """The original has one-liners only, whatever model there is."""
    model = ScriptedModel([TOLD, MORE])
    policy = blocks(COUNTER, summary=with_prompts(SummarySettings(models=("m",))))
    session = make_session([make_loop(30)], policy, answerer=Answerer(model=model))
    assert session.compact(to=count_view_tokens(session) * 6 // 10).rung == "model"
    assert TOLD in get_view_text(session)
    session.append(*[m for n in range(30, 60) for m in make_turn(n)], run="run-1")
    session.compact(to=count_view_tokens(session) * 6 // 10)
    assert [ask.purpose for ask in model.asks] == ["first", "update"]
    assert TOLD in model.asks[1].prompt
    assert MORE in get_view_text(session)


def test_by_hand_the_configured_strategy_and_numbers_are_used_else_those_of_the_session() -> None:
    """The original takes the default strategy and no counter, and here the preset's numbers were used."""

    def compact(
        using: Policy, strategy: BlockCompactionStrategy | None = None, config: CompactionConfig | None = None
    ) -> Session:
        session = make_session([make_loop(30)], using)
        outcome = compact_session_loops(session, "run-1", strategy, config, max_context_tokens=20_000)
        assert outcome.status == "compacted"
        return session

    own = CompactionConfig(keep_first_turns=5, keep_recent_turns=3)
    numbers, default = blocks(COUNTER, keep_first_turns=5, keep_recent_turns=3), blocks(COUNTER)
    assert get_ranges(get_loop_block(compact(numbers))) == [(0, 4), (5, 26), (27, 29)]
    plain = with_strategy(Tells(COUNTER), own)
    told = [compact(numbers, Tells(COUNTER)), compact(plain)]
    assert len({str(get_ranges(get_loop_block(session))) for session in told}) == 1, "it is given the policy's numbers"
    for session in (*told, compact(default, None, CompactionConfig(block_strategy=Tells(COUNTER)))):
        assert "Told plainly." in get_view_text(session)
    assert "Told plainly." not in get_view_text(compact(plain, DefaultBlockCompaction(COUNTER)))
    other = make_session([make_loop(30)], tail(COUNTER))
    assert compact_session_loops(other, "run-1", max_context_tokens=20_000).policy == "blocks"


def test_what_a_strategy_invents_is_marked() -> None:
    invents = Tells(COUNTER, (make_line("Parts were read. The fix is in src/never_was.py."),))
    session = make_long_session(with_strategy(invents))
    outcome = compact_to(session, 6)
    assert "Parts were read." in get_view_text(session)
    assert "The fix is in src/never_was.py [unconfirmed]." in get_view_text(session)
    assert outcome.unconfirmed == 1


@ENGINE
@given(log=conversations.long_logs(), percent=st.integers(10, 80), which=st.sampled_from((Tells, Asks, Raises)))
def test_a_strategy_runs_under_the_laws(log: Log, percent: int, which: type[DefaultBlockCompaction]) -> None:
    config = CompactionConfig(keep_first_turns=1, keep_recent_turns=3)
    policy = with_strategy(which(COUNTER), config)
    session = conversations.open_session(log, policy, Answerer(model=ScriptedModel([TOLD], repeat=True)))
    before = session.view.get_messages()
    outcome = session.compact(to=max(1, count_view_tokens(session) * percent // 100))
    if outcome.status != "compacted":
        assert session.view.get_messages() == before
        return
    path = tuple(session.view.path.get_entries(0, session.view.length - 1))
    checks.assert_agrees_with_oracle(View, path)
    checks.assert_positions_tiled(View, path)
    checks.assert_originals_reachable(View, path)
    checks.assert_opens_from_snapshots(View, path)
    checks.assert_blocks_undoable(View, path)
    checks.assert_fits_later_leaves(View, path[:-1], get_newest_block(session), ())
    assert outcome.tokens_after == count_view_tokens(session) < outcome.tokens_before
    assert outcome.tokens_after <= outcome.target or outcome.target_missed
    for wire in WIRES:
        assert check_messages(session.view.get_messages(), wire) == []


class FirstAsTuple(Tells, frozen=True):
    """Gives a pair of numbers in place of a range."""

    def keep_first(self, *_: object) -> TurnRange | None:
        return (0, 1)  # type: ignore[return-value]


class FirstBeyondTheEnd(Tells, frozen=True):
    """Keeps more turns than there are."""

    def keep_first(self, *_: object) -> TurnRange | None:
        return TurnRange(0, 99)


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        (FirstAsTuple(COUNTER), "keep_first of the block strategy was of no use (it gave a tuple, not a TurnRange)"),
        (FirstBeyondTheEnd(COUNTER), "of 30 turns, numbered from 0, the first 100 stay and those from 20 to 29"),
    ],
)
def test_sections_of_no_use_are_reported_and_the_default_takes_their_place(
    strategy: DefaultBlockCompaction, why: str
) -> None:
    session = make_long_session(with_strategy(strategy))
    assert why in " ".join(compact_to(session, 6).notes)
    assert get_loop_block(session).keep_first == TurnRange(0, 1)
    assert "Told plainly." in get_view_text(session)


def test_the_text_of_a_strategy_is_shown_whatever_its_origin() -> None:
    """Here with the origin of a person's words, beside the words of the user."""
    told = (make_loop(30)[0], Message("user", (Text("Told plainly."),), "human"))
    session = make_long_session(with_strategy(Tells(COUNTER, told)))
    assert compact_to(session, 6).notes == ()
    (shown,) = [m for m in session.view.get_messages() if "Told plainly." in get_text(m)]
    assert shown.origin == "tenfold"
    assert get_view_text(session).count("Go over the parts from 0 on.") == 1, "the user's own words are not repeated"
