"""A block strategy of one's own: plain, as a coroutine and as a generator; from code, entry point and settings."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Generator, Iterator
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
from tenfold.core.record.ask import Answer, Ask, SummaryAsk
from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.view.fold import View
from tenfold.core.view.rules import check_messages
from tenfold.designs.blocks import (
    CompactedSection,
    CompactionConfig,
    ContextConfig,
    DefaultBlockCompaction,
    LoopRecord,
    TurnMap,
    TurnRange,
    ask_model,
    build_strategy_policy,
    compact_session_loops,
    get_loop_records,
    with_strategy,
)
from tenfold.designs.blocks.policy import blocks
from tenfold.designs.blocks.strategy import StrategyStage
from tenfold.designs.tail.policy import tail
from tenfold.errors import UsageError
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import AsyncSession, Session
from tenfold.session.drive import Answerer
from tests.designs.blocks.making import (
    COUNTER,
    count_view_tokens,
    get_newest_block,
    get_view_text,
    make_line,
    make_loop,
    make_session,
    make_turn,
)
from tests.laws import checks, conversations
from tests.laws.nearby import WIRES
from tests.laws.strategies import ENGINE, Log

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


class Plain(DefaultBlockCompaction, frozen=True):
    """The design's own, whose compacted section is one plain text."""

    def keep_compacted(
        self,
        record: LoopRecord,
        turn_map: TurnMap,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001
    ) -> CompactedSection | None:
        made = super().keep_compacted(record, turn_map, config, is_most_recent)
        if made is None:
            return None
        return CompactedSection(made.range, (make_line("Told plainly."),))


class ByGenerator(DefaultBlockCompaction, frozen=True):
    """Yields its Ask."""

    def keep_compacted(  # type: ignore[override]
        self,
        record: LoopRecord,
        turn_map: TurnMap,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001
    ) -> Generator[Ask, Answer, CompactedSection | None]:
        answer = yield SummaryAsk(
            "s", f"p {turn_map.turn_count()} {record.loop_id} {is_most_recent}", config.max_summary_tokens
        )
        last = turn_map.turn_count() - 1
        return CompactedSection(TurnRange(0, last), (make_line(answer.text),))


class ByCoroutine(DefaultBlockCompaction, frozen=True):
    """Awaits its Ask, and other things beside it."""

    async def keep_first(self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig) -> TurnRange | None:  # type: ignore[override]
        await asyncio.sleep(0)
        return DefaultBlockCompaction.keep_first(self, record, turn_map, config)

    async def keep_compacted(  # type: ignore[override]
        self,
        record: LoopRecord,
        turn_map: TurnMap,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001
    ) -> CompactedSection | None:
        await asyncio.sleep(0.001)
        asks = (
            ask_model(SummaryAsk("s", f"p{n} {record.loop_id} {is_most_recent}", config.max_summary_tokens))
            for n in (1, 2)
        )
        first, second = await asyncio.gather(*asks)
        said = make_line(f"{first.text}\n{second.text}")
        return CompactedSection(TurnRange(0, turn_map.turn_count() - 1), (said,))


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
    assert printed.policy.stages[0].name == "strategy"
    model = ScriptedModel([TOLD])
    session = make_long_session(with_strategy(printed.Digest(), COUNTER), model)
    outcome = session.compact(to=count_view_tokens(session) // 2)
    assert (outcome.status, outcome.rung, len(model.asks)) == ("compacted", "model", 1)
    assert TOLD in get_view_text(session)
    shown = session.view.get_messages()
    assert shown[1:3] == make_turn(0)
    assert shown[-6:] == [m for n in (27, 28, 29) for m in make_turn(n)]
    assert outcome.spent.calls == 1
    made = get_loop_records(session)[0].compaction_block
    assert made is not None
    assert made.keep_compacted is not None
    assert made.keep_compacted.range == TurnRange(1, 26)


def test_the_printed_settings_plug_it_in(printed: ModuleType, tmp_path: Path) -> None:
    place = tmp_path / "tenfold.toml"
    place.write_text(SETTINGS, encoding="utf-8")
    policy = load_settings(place, environ={}).build_policy(COUNTER)
    stage = policy.stages[0]
    assert isinstance(stage, StrategyStage)
    assert isinstance(stage.user_strategy.strategy, printed.Digest)
    assert stage.user_strategy.config.max_summary_tokens == 1_500
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
        policy = build_strategy_policy(COUNTER, block_strategy="digest", max_summary_tokens=900)
        with pytest.raises(UsageError, match="did you mean 'digest'"):
            build_strategy_policy(COUNTER, block_strategy="digets")
    finally:
        sys.path.remove(str(tmp_path))
    stage = policy.stages[0]
    assert isinstance(stage, StrategyStage)
    assert isinstance(stage.user_strategy.strategy, printed.Digest)
    assert stage.user_strategy.config.max_summary_tokens == 900


@pytest.mark.parametrize(
    ("strategy", "wanted", "calls"),
    [(Plain(COUNTER), "Told plainly.", 0), (ByGenerator(COUNTER), TOLD, 1), (ByCoroutine(COUNTER), TOLD, 2)],
)
def test_plain_generator_and_coroutine_are_alike(strategy: DefaultBlockCompaction, wanted: str, calls: int) -> None:
    """The original has no strategy that asks a model."""
    model = ScriptedModel([TOLD], repeat=True)
    session = make_long_session(with_strategy(strategy, COUNTER), model)
    outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
    assert outcome.status == "compacted"
    assert wanted in get_view_text(session)
    assert len(model.asks) == outcome.spent.calls == calls

    async def compact_again() -> str:
        other = make_long_session(with_strategy(strategy, COUNTER), ScriptedModel([TOLD], repeat=True))
        inside = make_long_session(with_strategy(strategy, COUNTER), ScriptedModel([TOLD], repeat=True))
        inside.compact(to=count_view_tokens(inside) * 6 // 10)  # the sync session, inside a running loop
        await AsyncSession(other).compact(to=count_view_tokens(other) * 6 // 10)
        assert [get_text(m) for m in inside.view.get_messages() if m.origin != "tenfold"] == [
            get_text(m) for m in other.view.get_messages() if m.origin != "tenfold"
        ]
        return get_view_text(other)

    assert wanted in asyncio.run(compact_again())


def test_what_a_strategy_raises_is_reported_and_lines_are_written() -> None:
    """The original's methods give an Option: an error can only become a None, which nobody hears of."""
    session = make_long_session(with_strategy(Raises(COUNTER), COUNTER))
    outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
    assert outcome.status == "compacted"
    said = " ".join(outcome.notes)
    for why in ("RuntimeError: no first", "RuntimeError: no recent", "RuntimeError: the index is down for 4"):
        assert why in said
    assert "[Summary] I look at part 5." in get_view_text(session)


def test_a_model_that_fails_leaves_lines() -> None:
    """The original has no way to go on when a summary cannot be had."""
    broken = ScriptedModel([ScriptedReply(error="the provider is down")], repeat=True)
    own = make_long_session(with_strategy(ByGenerator(COUNTER), COUNTER), broken)
    preset = make_long_session(conversations.make_policy(models=("m",)), broken)
    preset.use_policy(blocks(COUNTER, summary=preset.policy.summary))
    for session in (own, preset):
        assert session.compact(to=count_view_tokens(session) * 6 // 10).status == "compacted"
        assert "[Summary] I look at part" in get_view_text(session)


def test_the_outcome_says_why_the_model_of_a_strategy_failed(printed: ModuleType) -> None:
    broken = ScriptedModel([ScriptedReply(error="the key is wrong")], repeat=True)
    for model, why in ((broken, "the key is wrong"), (None, "no model")):
        session = make_long_session(with_strategy(printed.Digest(), COUNTER), model)
        outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
        assert outcome.status == "compacted"
        assert re.search(f"it gave None; the model that it asked failed: .*{why}", " ".join(outcome.notes))


def test_an_overflow_is_recovered_from() -> None:
    """The original gives up when the provider refuses the request as too long."""
    session = make_session([make_loop(30)])
    window = count_view_tokens(session) * 2
    assert session.compact(window=window).status == "nothing"
    call = session.build_call(window=window)
    assert session.compact(replace(call, demand="overflow")).status == "compacted"
    assert count_view_tokens(session) < window // 2


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


def test_the_configured_strategy_and_counter_are_used_by_hand_too() -> None:
    """The original's manual compaction takes the default strategy and no counter, whatever is configured."""
    session = make_session([make_loop(30)])
    config = CompactionConfig(block_strategy=Plain(COUNTER))
    assert compact_session_loops(session, "run-1", None, config, max_context_tokens=8_000).status == "compacted"
    assert "Told plainly." in get_view_text(session)
    other = make_session([make_loop(30)])
    compact_session_loops(other, "run-1", Plain(COUNTER), max_context_tokens=8_000)
    assert "Told plainly." in get_view_text(other)


def test_without_a_configuration_the_one_of_the_session_is_used() -> None:
    """The preset's numbers were used, whatever the session's policy was."""
    session = make_session([make_loop(30)], blocks(COUNTER, keep_first_turns=5, keep_recent_turns=3))
    assert compact_session_loops(session, "run-1", max_context_tokens=20_000).status == "compacted"
    (record,) = get_loop_records(session)
    assert record.compaction_block is not None
    assert record.compaction_block.keep_first == TurnRange(0, 4)
    assert record.compaction_block.keep_recent is not None
    assert record.compaction_block.keep_recent.range == TurnRange(27, 29)
    config = CompactionConfig(keep_first_turns=5, keep_recent_turns=3)
    own = make_session([make_loop(30)], with_strategy(Plain(COUNTER), COUNTER, config=ContextConfig(compaction=config)))
    assert compact_session_loops(own, "run-1", max_context_tokens=20_000).status == "compacted"
    assert "Told plainly." in get_view_text(own)
    other = make_session([make_loop(30)], blocks(COUNTER, keep_first_turns=5, keep_recent_turns=3))
    assert compact_session_loops(other, "run-1", Plain(COUNTER), max_context_tokens=20_000).status == "compacted"
    assert "Told plainly." in get_view_text(other)
    sections = [
        r.compaction_block and (r.compaction_block.keep_first, r.compaction_block.keep_recent)
        for s in (own, other)
        for r in get_loop_records(s)
    ]
    assert sections[0] == sections[1], "the strategy is given the numbers of the policy"
    default = make_session([make_loop(30)], with_strategy(Plain(COUNTER), COUNTER))
    compact_session_loops(default, "run-1", DefaultBlockCompaction(COUNTER), max_context_tokens=20_000)
    assert "Told plainly." not in get_view_text(default)
    other_preset = make_session([make_loop(30)], tail(COUNTER))
    assert compact_session_loops(other_preset, "run-1", max_context_tokens=20_000).policy == "blocks"


class Invents(Plain, frozen=True):
    """Says something that is nowhere in its source."""

    def keep_compacted(
        self,
        record: LoopRecord,
        turn_map: TurnMap,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001
    ) -> CompactedSection | None:
        made = super().keep_compacted(record, turn_map, config, is_most_recent)
        text = "Parts were read. The fix is in src/never_was.py."
        return CompactedSection(made.range, (make_line(text),)) if made else None


def test_what_a_strategy_invents_is_taken_out() -> None:
    session = make_long_session(with_strategy(Invents(COUNTER), COUNTER))
    outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
    assert "Parts were read." in get_view_text(session)
    assert "never_was" not in get_view_text(session)
    assert any("never_was" in note for note in outcome.notes)


@ENGINE
@given(log=conversations.long_logs(), percent=st.integers(10, 80), which=st.sampled_from((Plain, ByGenerator, Raises)))
def test_a_strategy_runs_under_the_laws(log: Log, percent: int, which: type[DefaultBlockCompaction]) -> None:
    config = ContextConfig(compaction=CompactionConfig(keep_first_turns=1, keep_recent_turns=3))
    policy = with_strategy(which(COUNTER), COUNTER, config=config)
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


class FirstAsTuple(Plain, frozen=True):
    """Gives a pair of numbers in place of a range."""

    def keep_first(self, *_: object) -> TurnRange | None:
        return (0, 1)  # type: ignore[return-value]


class FirstBeyondTheEnd(Plain, frozen=True):
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
    session = make_long_session(with_strategy(strategy, COUNTER))
    outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
    assert outcome.status == "compacted"
    assert why in " ".join(outcome.notes)
    made = get_loop_records(session)[0].compaction_block
    assert made is not None
    assert made.keep_first == TurnRange(0, 1)
    assert "Told plainly." in get_view_text(session)


class ToldAsHuman(Plain, frozen=True):
    """Gives its text the origin of a person's words, beside the words of the user."""

    def keep_compacted(
        self,
        record: LoopRecord,
        turn_map: TurnMap,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001
    ) -> CompactedSection | None:
        made = super().keep_compacted(record, turn_map, config, is_most_recent)
        text = Message("user", (Text("Told plainly."),), "human")
        return CompactedSection(made.range, (record.messages[0].message, text)) if made else None


def test_the_text_of_a_strategy_is_shown_whatever_its_origin() -> None:
    session = make_long_session(with_strategy(ToldAsHuman(COUNTER), COUNTER))
    outcome = session.compact(to=count_view_tokens(session) * 6 // 10)
    assert (outcome.status, outcome.notes) == ("compacted", ())
    (told,) = [m for m in session.view.get_messages() if "Told plainly." in get_text(m)]
    assert told.origin == "tenfold"
    assert get_view_text(session).count("Go over the parts from 0 on.") == 1, "the user's own words are not repeated"
