"""A user's memory under `clip`: labels, merging, rebuilding, undo and branches, failed passes."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.core.record.block import Batch, format_time
from tenfold.designs import clip as design
from tenfold.designs.clip import CompactionConfig, Compactor, get_memory
from tenfold.designs.clip.archive import ArchiveRecord, LogArchive
from tenfold.designs.clip.batches import select_stored_batches
from tenfold.session import AsyncSession
from tenfold.session.branches import navigate
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.clip.making import (
    START,
    WINDOW,
    Cabinet,
    Closes,
    Telling,
    build_policy,
    find_archives,
    get_archive,
    get_newest_block,
    list_times,
    make_items,
    make_session,
    make_talk,
    run_rounds,
)
from tests.laws.conversations import Echo

# -- times and labels --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
def test_labels_are_distinct_where_times_are_equal_or_unknown(known: bool) -> None:  # noqa: FBT001 - a parameter
    """Would catch a store that keeps by label and loses a batch, and a time that is made up to tell them apart."""
    cabinet = Cabinet()
    made = design.create_compactor(CompactionConfig(chunk_size=2), model=Echo(), archive=cabinet)
    items: list[Any] = []
    for number in range(4):
        items += make_items(number * 10, number * 10 + 10)
        done = made.compress(items, "conv", times=[START] * len(items) if known else ())
        assert not done.failed, done.reason
    labels = [label for label, _, _ in cabinet.kept.values()]
    assert len(labels) == len(set(labels)) > 30
    end = format_time(1_772_366_400_000_000) if known else "unknown"
    assert labels[:2] == [f"compaction-batch-conv-{end}", f"compaction-batch-conv-{end}-2"]
    assert {b.end_time for b in made.list_batches("conv")} == {end}


def test_times_that_cannot_be_meant_are_a_failure_with_a_reason() -> None:
    made = design.create_compactor(model=Echo())
    items = make_items(0, 10)
    few = made.compress(items, "conv", times=list_times(3))
    assert (few.failed, few.history) == (True, items)
    assert "3 values for 20 items" in few.reason
    naive = made.compress(items, "conv", times=[datetime(2026, 3, 1)] * 20)  # noqa: DTZ001 - the point of the test
    assert naive.failed
    assert "time zone" in naive.reason
    some = made.compress(items, "conv", times=[None, *list_times(19)])
    assert not some.failed
    (only,) = made.list_batches("conv")
    assert (only.start_time, only.end_time) == ("unknown", "2026-03-01T12:13:00.000Z")


# -- merging -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "last"), [(2, 2), (0, 0), (1, 3), (0, 2)])
def test_never_more_batches_stand_than_the_window_and_its_buffer(first: int, last: int) -> None:
    """Would catch seven and eight batches that stand unmerged since no three of them have the same depth."""
    session = make_session(build_policy(chunk_size=6, clip_first=first, clip_last=last))
    earlier: list[Batch] = []
    sizes = set[int]()
    for number in range(14):
        run_rounds(session, 1, size=9)
        standing = get_archive(session)
        sizes.add(len(standing))
        fresh = [b for b in get_newest_block(session).batches if not b.sources]
        merged = [b for b in get_newest_block(session).batches if b.sources]
        assert bool(merged) == (len(earlier) + len(fresh) > first + last + 2), f"pass {number}"
        assert {b.depth for b in fresh} == {0}
        assert all(b.depth > 0 for b in merged)
        assert standing[:first] == earlier[:first] or len(earlier) < first
        earlier = standing
    assert max(sizes) <= first + last + 2
    assert max(b.depth for b in earlier) <= 5


def test_the_parent_of_the_middle_is_written_from_its_sources_and_not_from_itself() -> None:
    """Would catch a summary of a summary of a summary: each merge then loses more of the oldest details."""
    session = make_session(build_policy(chunk_size=6))
    run_rounds(session, 12, size=9)
    memory = get_memory(session)
    for record in memory.list_records("conv"):
        for line in session.expand(record.id) if record.batch.sources else ():
            source = memory.read(line.entry)
            assert source is not None
            assert source.batch.depth < record.batch.depth
            assert record.batch.first <= source.batch.first
            assert source.batch.last <= record.batch.last
    (middle,) = [b for b in get_archive(session) if b.depth]
    lines = session.expand(get_newest_block(session).id, deep=True)
    assert len({line.position for line in lines}) == len(lines), "each original is found once"
    assert middle.count == sum(1 for line in lines if middle.first <= line.position <= middle.last)


# -- an archive that is listed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_times", [True, False])
@pytest.mark.parametrize("shows_archive", [True, False])
def test_a_new_compactor_begins_with_the_batches_of_the_archive(with_times: bool, shows_archive: bool) -> None:  # noqa: FBT001 - parameters
    """Would catch a new process that knows only what the archive message shows, or nothing at all."""
    cabinet = Cabinet()
    config = CompactionConfig(chunk_size=2, keep_recent=2)
    first = design.create_compactor(config, model=Echo(), archive=cabinet)
    items = make_items(0, 20)
    done = first.compress(items, "conv", times=list_times(40) if with_times else ())
    leaves = [c for _, c, _ in cabinet.kept.values() if c.startswith("[depth:0|")]
    assert len(leaves) == 19
    second = design.create_compactor(config, model=Echo(), archive=cabinet)
    listed = second.list_batches("conv")
    assert [design.format_batch_content(b) for b in listed] == leaves, "each message is told once, in order"
    kept = [*(done.history if shows_archive else done.history[1:]), *make_items(50, 54)]
    more = second.compress(kept, "conv")
    assert (more.failed, more.messages_compressed, more.batches_created) == (False, 8, 4)
    (text,) = find_archives(more.history)
    assert text.startswith("[Context Summary — 46 messages compressed across")
    assert sum(b.message_count for b in second.list_batches("conv")) == 46
    assert [c for _, c, _ in cabinet.kept.values() if c.startswith("[depth:0|")][:19] == leaves, "none is written twice"
    assert len([c for _, c, _ in cabinet.kept.values() if c.startswith("[depth:0|")]) == 23
    session = second.get_session("conv")
    assert second.compress(more.history, "conv").history is more.history
    assert session.redo().status in ("compacted", "nothing")
    assert sum(b.message_count for b in second.list_batches("conv")) == 46
    record = next(r for r in get_memory(session).list_records("conv") if r.batch.archive_id)
    assert session.expand(record.id) == [], "its messages lie in another log"


def test_an_archive_of_another_conversation_is_none_of_this_one() -> None:
    cabinet = Cabinet()
    design.create_compactor(model=Echo(), archive=cabinet).compress(make_items(0, 12), "test-123")
    assert len(cabinet.kept) == 1
    made = design.create_compactor(model=Echo(), archive=cabinet)
    assert made.list_batches("test") == []
    assert made.compress(make_items(0, 12), "test").messages_compressed == 19
    assert [b.message_count for b in made.list_batches("test")] == [19]


def test_the_log_lists_its_own_batches_and_none_that_were_undone() -> None:
    session = make_session(build_policy(chunk_size=4))
    run_rounds(session, 3)
    memory = get_memory(session)
    records = memory.list_records("conv")
    leaves = [r for r in records if not r.batch.sources]
    assert [r.id for r in records] == [r.id for r in records if memory.read(r.id) == r]
    assert len({r.label for r in records}) == len(records)
    assert sum(r.batch.count for r in leaves) == sum(b.count for b in get_archive(session))
    assert select_stored_batches([r.batch for r in records]) == [r.batch for r in leaves]
    session.undo()
    assert len(memory.list_records("conv")) < len(records)
    assert memory.list_records("other") == []
    assert LogArchive(SqliteStore(":memory:"), "default", "none").list_records("other") == []


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.randoms())
def test_headers_alone_say_which_batches_tell_each_message_once(sizes: list[int], random: Any) -> None:  # noqa: ANN401 - a generator of Hypothesis
    """Whatever order they are listed in, and whether the sources of a merged one were deleted or not."""
    leaves, at = [], 0
    for number, size in enumerate(sizes):
        leaves.append(Batch(f"text {number}", 0, -1, -1, at * 10**6, (at + size - 1) * 10**6, size))
        at += size
    split = random.randint(0, len(leaves))
    merged = leaves[:split]
    parent = (
        [Batch("merged", 1, -1, -1, merged[0].start, merged[-1].end, sum(b.count for b in merged))] if merged else []
    )
    everything = [*leaves, *parent]
    random.shuffle(everything)
    assert select_stored_batches(everything) == leaves
    deleted = [*parent, *leaves[split:]]
    random.shuffle(deleted)
    assert select_stored_batches(deleted) == [*parent, *leaves[split:]]


def test_labels_are_distinct_in_an_archive_that_several_processes_wrote() -> None:
    """Would catch serial numbers that begin again in a new process, or that leave out the merged batches."""
    cabinet = Cabinet()
    for number in range(6):
        made = design.create_compactor(CompactionConfig(chunk_size=2), model=Echo(), archive=cabinet)
        done = made.compress(make_items(number * 10, number * 10 + 10), "conv")
        assert not done.failed, done.reason
        listed = get_memory(made.get_session("conv")).list_records("conv")
        assert {r.label for r in listed if r.batch.archive_id} <= {label for label, _, _ in cabinet.kept.values()}
    labels = [label for label, _, _ in cabinet.kept.values()]
    assert len(set(labels)) == len(labels) > 45
    assert sum(b.message_count for b in made.list_batches("conv")) == 6 * 15


def count_told(made: Compactor, archive: Cabinet) -> tuple[int, int, int]:
    """How many messages the batches tell: those in force, those that the log lists, those a new compactor lists."""
    log = get_memory(made.get_session("conv")).list_records("conv")
    fresh = design.create_compactor(model=Echo(), archive=archive).list_batches("conv")
    return (
        sum(b.message_count for b in made.list_batches("conv")),
        sum(r.batch.count for r in log if not r.batch.depth),
        sum(b.message_count for b in fresh),
    )


@pytest.mark.parametrize("asynchronous", [False, True])
def test_undo_and_redo_leave_each_message_told_once_in_log_and_archive(asynchronous: bool) -> None:  # noqa: FBT001 - a parameter
    """Would catch an archive that keeps what was undone, and lists that hold a batch and its newer text."""
    cabinet = Cabinet()
    made = design.create_compactor(CompactionConfig(chunk_size=4), model=Telling("first"), archive=cabinet)
    made.compress(make_items(0, 12), "conv")
    session = made.get_session("conv")

    def run(name: str) -> object:
        if asynchronous:
            return asyncio.run(getattr(AsyncSession(session), name)())
        return getattr(session, name)()

    assert count_told(made, cabinet) == (19, 19, 19)
    first = dict(cabinet.kept)
    session.compactor.use_answerer(Answerer(model=Telling("second")))
    run("redo")
    assert count_told(made, cabinet) == (19, 19, 19)
    assert all("second" in content for _, content, _ in cabinet.kept.values())
    run("undo")
    assert (cabinet.kept, count_told(made, cabinet)) == (first, (19, 19, 19))
    run("undo")
    assert (cabinet.kept, count_told(made, cabinet)) == ({}, (0, 0, 0))
    made.compress(make_items(0, 14), "conv")
    assert count_told(made, cabinet) == (23, 23, 23)


@pytest.mark.parametrize("changed", [3, 21])
def test_a_message_that_a_host_changes_is_told_once_in_the_archive(changed: int) -> None:
    """Would catch batches of a branch that was left, which a new compactor lists beside those of the new one."""
    cabinet = Cabinet()
    made = design.create_compactor(CompactionConfig(chunk_size=4), model=Telling("same"), archive=cabinet)
    items = make_items(0, 12)
    made.compress(items, "conv")
    items = [*items[:changed], {**items[changed], "content": "It says something else now."}, *items[changed + 1 :]]
    done = made.compress([*items, *make_items(20, 24)], "conv")
    assert not done.failed, done.reason
    assert count_told(made, cabinet) == (27, 27, 27)


def test_the_archive_follows_to_another_branch_and_back() -> None:
    cabinet = Cabinet()
    session = make_session(build_policy(chunk_size=4), archive=cabinet)
    first, *_ = session.append(*make_talk(0, 12))
    assert session.compact(window=WINDOW).status == "compacted"
    kept, leaf = dict(cabinet.kept), session.leaf
    assert kept
    navigate(session, first)
    assert cabinet.kept == {}
    navigate(session, str(leaf))
    assert cabinet.kept == kept
    session.sync(make_talk(0, 2))
    session.sync([*make_talk(0, 2), *make_talk(40, 41)])
    assert cabinet.kept == {}


def test_a_redo_after_reopening_keeps_the_batches_of_the_earlier_log() -> None:
    cabinet, store = Cabinet(), SqliteStore(":memory:")
    design.create_compactor(model=Echo(), archive=cabinet).compress(make_items(0, 12), "conv")
    later = design.create_compactor(model=Echo(), archive=cabinet, store=store)
    later.compress(make_items(12, 24), "conv")
    before = later.list_batches("conv")
    assert [b.message_count for b in before] == [19, 19]
    again = design.create_compactor(model=Telling("again"), archive=cabinet, store=store)
    assert again.get_session("conv").redo().status == "compacted"
    assert again.list_batches("conv")[0] == before[0]
    assert "again" in again.list_batches("conv")[1].content
    assert count_told(again, cabinet) == (38, 38, 38)


# -- failed passes -----------------------------------------------------------------------------------------------------


def test_a_pass_that_the_archive_refuses_leaves_no_batch_there(caplog: pytest.LogCaptureFixture) -> None:
    """Would catch batches of a pass that failed, which the next pass tells again, and a log that blames the model."""
    cabinet = Cabinet()
    made = design.create_compactor(CompactionConfig(chunk_size=4), model=Echo(), archive=cabinet)
    items = make_items(0, 12)
    cabinet.most = 2
    failed = made.compress(items, "conv")
    assert (failed.failed, failed.history) == (True, items)
    assert failed.reason.endswith("its write gave False, and True says it is kept"), "and nothing is left there"
    assert caplog.messages == [f"a compaction failed and changed nothing: {failed.reason}"]
    assert cabinet.kept == {}
    cabinet.most = 10_000
    assert not made.compress([*items, *make_items(12, 14)], "conv").failed
    assert len(cabinet.kept) == len(made.list_batches("conv"))


def test_what_a_failed_pass_could_not_delete_is_not_told_twice() -> None:
    """Would catch a memory that goes down within a pass: what it holds of it is taken for an earlier log's."""

    class Down(Cabinet):
        is_down = False

        def write(self, record: ArchiveRecord) -> bool:
            self.is_down = self.is_down or len(self.kept) == self.most
            if self.is_down:
                raise ConnectionError("the memory is down")
            return super().write(record)

        def delete(self, id: str) -> None:
            if self.is_down:
                raise ConnectionError("the memory is down")
            super().delete(id)

    cabinet, items = Down(), make_items(0, 12)
    made = design.create_compactor(CompactionConfig(chunk_size=4), model=Echo(), archive=cabinet)
    cabinet.most = 2
    assert made.compress(items, "conv").failed
    assert len(cabinet.kept) == 2
    cabinet.most, cabinet.is_down = 10_000, False
    assert made.list_batches("conv") == []
    done = made.compress(items, "conv")
    assert (done.failed, done.messages_compressed) == (False, 19)
    assert sum(b.message_count for b in made.list_batches("conv")) == 19


def test_a_block_that_is_not_appended_leaves_no_batch_in_the_archive() -> None:
    cabinet = Cabinet()
    made = design.create_compactor(model=Echo(), archive=cabinet, store=Closes(":memory:"))
    failed = made.compress(make_items(0, 12), "conv")
    assert failed.failed
    assert "the disk is full" in failed.reason
    assert cabinet.kept == {}


def test_a_batch_that_cannot_be_deleted_again_is_reported() -> None:
    class Sticky(Cabinet):
        def delete(self, id: str) -> None:
            raise PermissionError(f"{id} is read-only")

    cabinet = Sticky()
    cabinet.most = 1
    session = make_session(build_policy(chunk_size=4), archive=cabinet)
    session.append(*make_talk(0, 12))
    outcome = session.compact(window=WINDOW)
    assert outcome.status == "failed"
    assert "is left in the archive: PermissionError" in outcome.reason
