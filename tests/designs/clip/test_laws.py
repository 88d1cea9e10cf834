"""The preset `clip` under the laws: on generated histories, with models of every kind, and on recorded sessions."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.compaction.plan.stages.batch_archive import FoldStage, ImportanceScoringConfig
from tenfold.compaction.summarize.batch_writer import BatchWriter
from tenfold.compaction.summarize.batches import format_time, list_top_batches, parse_archive
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.config.settings import load_settings as read_settings
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import Block
from tenfold.core.record.entry import MessageEntry, get_message
from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.view.fold import View
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.clip.policy import clip
from tenfold.errors import UsageError
from tenfold.models.model import Model
from tenfold.recall.tools import RecallTools
from tenfold.session import AsyncSession, Session
from tenfold.session.drive import Answerer
from tenfold.session.stateless import compact
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo
from tenfold.store.sqlite.store import SqliteStore
from tests import sessions
from tests.designs.clip.making import (
    COUNTER,
    WINDOW,
    build_policy,
    get_archive,
    get_archive_text,
    get_newest_block,
    make_session,
    make_talk,
    run_rounds,
)
from tests.laws import checks
from tests.laws.conversations import Broken, Echo, count_tokens, extract_later_messages, long_logs, read_entries
from tests.laws.conversations import open_session as law_session
from tests.laws.strategies import Log
from tests.thorough import IS_THOROUGH


class Drops:
    """A model that forgets half of what it is told and invents a path."""

    def answer(self, ask: SummaryAsk) -> Answer:
        return Answer(
            text=f"Something was done in src/invented/nowhere.py, and {len(ask.prompt) % 7} things went well."
        )


class LateOrEmpty:
    """A model that is late, empty, cut off, or well, in turn."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, ask: SummaryAsk) -> Answer:
        self.calls += 1
        match self.calls % 4:
            case 0:
                return Answer(error="no answer within 120 s", timed_out=True, retryable=True)
            case 1:
                return Answer(text="")
            case 2:
                return Answer(text="It went on and then it", finish_reason="length")
            case _:
                return Echo().answer(ask)


class Told:
    """A model whose answer depends on what it is asked to tell alone: not on times, nor on what is context."""

    def answer(self, ask: SummaryAsk) -> Answer:
        told = ask.prompt.partition("<conversation>")[2] or ask.prompt
        names = ("alpha", "beta", "gamma", "delta")
        seal = hashlib.sha256(told.encode()).digest()[:6]
        return Answer(text=f"It was told of {' and '.join(names[byte % 4] for byte in seal)}.")


MODELS: dict[str, Callable[[], Model]] = {"well": Echo, "badly": Drops, "late": LateOrEmpty, "not at all": Broken}


def assert_laws_hold(session: Session) -> None:
    """The fold's laws on the session's log as it is now, and those of its archives."""
    log = read_entries(session)
    checks.assert_agrees_with_oracle(View, log)
    checks.assert_opens_from_snapshots(View, log)
    checks.assert_originals_reachable(View, log)
    checks.assert_positions_tiled(View, log)
    checks.assert_blocks_undoable(View, log)
    for wire in ("anthropic", "openai-chat", "openai-responses", "gemini"):
        assert not session.find_violations(wire)
    for position, entry in enumerate(log):
        if isinstance(entry, Block) and entry.top_batches:
            top = [batch for _, batch in list_top_batches(session.view.path, position)]
            checks.assert_tiled([(b.first, b.last) for b in top], top[0].first, entry.replacements[0].last)


@pytest.mark.parametrize("kind", MODELS)
@settings(deadline=None, max_examples=40 if IS_THOROUGH else 15)
@given(log=long_logs(), more=long_logs(least=3, most=12), percents=st.tuples(st.integers(10, 60), st.integers(10, 60)))
def test_the_laws_hold_with_any_model(kind: str, log: Log, more: Log, percents: tuple[int, int]) -> None:
    using = clip(COUNTER, summary=with_prompts(SummarySettings(models=("m",))), chunk_size=4, keep_recent=2)
    session = law_session(log, using, Answerer(model=MODELS[kind]()))
    for percent, then in zip(percents, (extract_later_messages(more), []), strict=True):
        before = session.view.get_messages()
        outcome = session.compact(to=max(1, count_tokens(before) * percent // 100))
        assert outcome.status in ("compacted", "nothing", "failed", "unsatisfiable")
        if outcome.status == "compacted":
            assert count_tokens(session.view.get_messages()) < count_tokens(before)
            assert count_tokens(session.view.get_messages()) <= outcome.target or outcome.target_missed
        else:
            assert session.view.get_messages() == before
        session.append(*then)
    assert_laws_hold(session)


@settings(deadline=None, max_examples=40 if IS_THOROUGH else 15)
@given(log=long_logs(), percent=st.integers(10, 60))
def test_without_a_model_code_writes_the_batches(log: Log, percent: int) -> None:
    session = law_session(log, clip(COUNTER, chunk_size=4, keep_recent=2))
    outcome = session.compact(to=max(1, count_tokens(session.view.get_messages()) * percent // 100))
    assert outcome.status in ("compacted", "nothing", "unsatisfiable")
    if outcome.status == "compacted":
        assert all(batch.text.strip() for batch in get_newest_block(session).batches)
    assert_laws_hold(session)


LONG = (
    "pi/before-compaction.jsonl",
    "claude-code/large-conversation.jsonl",
    "gemini-cli/NotFollowingUserIntent.json",
    "openhands-requests/django__django-11299.json",
    "openhands-events/sample.jsonl",
    "swe-agent/sphinx-doc__sphinx-7454.traj",
    "swe-agent/django__django-11885.traj",
)


@pytest.mark.parametrize("name", LONG)
def test_ten_passes_over_a_growing_recorded_session(name: str) -> None:
    """Would catch an archive that forgets, deletes or repeats on real conversations, pass after pass."""
    sessions.require_sessions()
    recorded = max(sessions.read(sessions.FOLDER / name), key=lambda each: len(each.entries))
    said = [m for e in recorded.entries if (m := get_message(e)) is not None]
    session = make_session(build_policy(chunk_size=10), model=(model := Echo()))
    window = max(4_000, count_tokens(said) // 12)
    step = max(1, len(said) // 40)
    compacted = 0
    for start in range(0, len(said), step):
        session.append(*said[start : start + step])
        outcome = session.compact(window=window)
        compacted += outcome.status == "compacted"
        if outcome.status == "compacted":
            assert count_tokens([m for m in session.view.get_messages() if m.origin == "tenfold"]) <= window // 2
            assert outcome.facts.get("request", (0, 0))[0] == outcome.facts.get("request", (0, 0))[1]
    assert compacted >= 8
    assert model.calls >= compacted
    for wire in ("anthropic", "openai-chat", "openai-responses", "gemini"):
        assert not session.find_violations(wire)
    log = read_entries(session)
    checks.assert_agrees_with_oracle(View, log)
    checks.assert_originals_reachable(View, log)
    checks.assert_positions_tiled(View, log)
    lines = session.expand(get_newest_block(session).id, deep=True)
    originals = [checks.BYTES.encode(line.message) for line in lines]
    behind = [e.message for e in log[lines[0].position :] if isinstance(e, MessageEntry)]
    assert originals == [checks.BYTES.encode(m) for m in behind[: len(originals)]]
    assert len(originals) > len(said) // 2
    while session.view.state.live_blocks:
        session.undo()
    assert [checks.BYTES.encode(m) for m in session.view.get_messages()] == [
        checks.BYTES.encode(m) for m in View.from_path(law_session(recorded.entries).view.path).get_messages()
    ]


def test_nothing_is_done_where_nothing_was_said_since() -> None:
    """Would catch an archive that is folded into itself."""
    model = Echo()
    session = make_session(model=model)
    run_rounds(session, 2)
    calls, view = model.calls, session.view.get_messages()
    outcome = session.compact(to=1)
    if outcome.status == "compacted":  # the kept tail was given up for the smaller target
        calls, view = model.calls, session.view.get_messages()
        outcome = session.compact(to=2)
    assert outcome.status in ("nothing", "unsatisfiable")
    assert (model.calls, session.view.get_messages()) == (calls, view)


def test_times_that_the_log_does_not_hold_are_said_to_be_unknown() -> None:
    session = make_session(build_policy(chunk_size=4))
    log, parent = [], None
    for number, message in enumerate(make_talk(0, 12)):
        time = 1_700_000_000_000_000 + number if number % 4 else None
        log.append(MessageEntry(f"e{number:03d}", parent, "", time, message))
        parent = log[-1].id
    store = SqliteStore(":memory:")
    store.create(DEFAULT_NAMESPACE, SessionInfo("conv"))
    store.append(DEFAULT_NAMESPACE, "conv", log, expected=None)
    session = make_session(build_policy(chunk_size=4), store=store)
    assert session.compact(window=WINDOW).status == "compacted"
    first = get_archive(session)[0]
    assert (first.start, first.end) == (None, 1_700_000_000_000_003)
    assert f"[Batch 1 — depth 0, unknown to {format_time(first.end)}]" in get_archive_text(session)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_purge_reaches_the_batches(kind: str, tmp_path: object) -> None:
    """Would catch a secret that lives on in an archived summary after its message was purged."""

    class Tells(Echo):
        def answer(self, ask: SummaryAsk) -> Answer:
            told = "The code word is zanzibarium." if "zanzibarium" in ask.prompt else "They went on."
            return Answer(text=told)

    store = SqliteStore(":memory:") if kind == "memory" else SqliteStore(f"{tmp_path}/log.db")
    session = make_session(build_policy(chunk_size=6), model=Tells(), store=store)
    (secret,) = session.append(Message("user", (Text("remember zanzibarium " + "please " * 50),), "human"))
    run_rounds(session, 3)
    assert session.search("zanzibarium")
    assert any("zanzibarium" in b.text for at in session.view.state.live_blocks for b in _get_batches(session, at))
    store.purge(DEFAULT_NAMESPACE, "conv", secret, now=1)
    again = make_session(store=store)
    assert not again.search("zanzibarium")
    assert not any("zanzibarium" in b.text for at in again.view.state.live_blocks for b in _get_batches(again, at))
    assert "zanzibarium" not in "".join(get_text(m) for m in again.view.get_messages())
    assert store.verify(DEFAULT_NAMESPACE) == []
    store.close()


def _get_batches(session: Session, at: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
    block = session.view.path.get_entry(at)
    return block.batches if isinstance(block, Block) else ()


def test_a_list_without_a_log_may_be_compacted_again_and_again() -> None:
    """Would catch archives that pile up at the head, or one that is told as if it were a message."""
    items = [{"role": m.role, "content": get_text(m)} for m in make_talk(0, 12)]
    for number in range(5):
        done = compact(items, window=WINDOW, policy="clip")
        assert done.outcome.status == "compacted"
        archives = [t for m in done.messages if (t := extract_summary_text(str(m["content"]))) is not None]
        assert len(archives) == 1
        assert archives[0].startswith("[Context Summary — ")
        found = parse_archive(archives[0])
        assert found
        assert f"{found[0].count} messages compressed across {number + 1} compaction cycle" in archives[0]
        more = make_talk(100 * (number + 1), 100 * (number + 1) + 12)
        items = [*done.messages, *({"role": m.role, "content": get_text(m)} for m in more)]


def test_sync_async_and_reopened_runs_give_the_same_archive() -> None:
    sync = make_session(build_policy(chunk_size=4), model=Told())
    asynchronous = AsyncSession(make_session(build_policy(chunk_size=4), model=Told()))

    async def run_host() -> None:
        for start in range(0, 48, 12):
            await asynchronous.append(*make_talk(start, start + 12))
            await asynchronous.compact(window=WINDOW)

    asyncio.run(run_host())
    for start in range(0, 48, 12):
        sync.append(*make_talk(start, start + 12))
        sync.compact(window=WINDOW)

    def get_batch_fields(session: Session) -> list[tuple[object, ...]]:
        return [(b.text, b.depth, b.first, b.last, b.count, b.cycle) for b in get_archive(session)]

    assert len(get_batch_fields(sync)) > 4
    assert get_batch_fields(make_session(store=asynchronous.session.address.store)) == get_batch_fields(sync)


def test_redo_writes_the_batches_of_the_newest_block_again_and_undo_gives_the_first_ones_back() -> None:
    session = make_session(build_policy(chunk_size=6), model=Echo())
    run_rounds(session, 3)
    before, text = get_archive(session), get_archive_text(session)
    session.use_answerer(Answerer(model=Told()))
    assert session.redo().status == "compacted"
    after = get_archive(session)
    ranges = [(b.first, b.last, b.depth, b.count, b.cycle) for b in before]
    assert [(b.first, b.last, b.depth, b.count, b.cycle) for b in after] == ranges
    assert [b.text for b in after[:2]] == [b.text for b in before[:2]], "those of earlier compactions stand"
    assert after[-1].text != before[-1].text
    assert after[-1].text in get_archive_text(session)
    assert_laws_hold(session)
    session.undo()
    assert (get_archive(session), get_archive_text(session)) == (before, text)


def test_the_models_own_tools_reach_every_batch() -> None:
    session = make_session(build_policy(chunk_size=4))
    run_rounds(session, 6)
    block = get_newest_block(session)
    place = session.address
    tools = RecallTools(place.store, place.namespace, place.session, count=COUNTER.count)
    for line in session.expand(block.id):
        assert line.entry in tools.handle("recall_expand", {"block": block.id})
        head = get_text(line.message).split("\n")[0]
        assert head.startswith("[depth:")
        assert "no batch" not in tools.handle("recall_expand", {"block": line.entry})


def test_the_settings_are_the_keys_of_the_presets_table(tmp_path: Path) -> None:
    place = tmp_path / "tenfold.toml"
    table = "chunk_size = 5\nclip_first = 0\ncompaction_timeout = 5000\n[tenfold.presets.clip.scoring]\ndecay = 0.9\n"
    place.write_text(f'[tenfold]\npolicy = "clip"\n[tenfold.presets.clip]\n{table}', encoding="utf-8")
    made = read_settings(place, environ={}).build_policy(COUNTER)
    assert made.writer == BatchWriter(chunk_size=5, clip_first=0)
    assert made.stages == (FoldStage(scoring=ImportanceScoringConfig(decay=0.9)),)
    assert (made.summary.timeout, made.summary.role, made.summary.on_failure) == (5.0, "system", "abort")
    place.write_text('[tenfold]\npolicy = "clip"\n[tenfold.presets.clip]\nchunksize = 5\n', encoding="utf-8")
    with pytest.raises(UsageError, match="chunk_size"):
        read_settings(place, environ={})
