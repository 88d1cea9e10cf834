"""The edges of the preset `clip`: sizes that mean nothing, stores that break, lists that come back uncompacted."""

from __future__ import annotations

from typing import Any

import pytest

from tenfold.config.presets.clip import clip
from tenfold.designs import clip as design
from tenfold.designs.clip import CompactionConfig, SummaryBatch
from tenfold.errors import BadInput, UsageError
from tenfold.store.sqlite import SqliteStore
from tests.laws.conversations import Echo
from tests.presets.clipping import COUNTER

GIVEN = [{"role": "user", "content": f"Question {n}. " + "so on " * 200} for n in range(30)]


@pytest.mark.spec("clip.2")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chunk_size", 0),
        ("keep_recent", -1),
        ("clip_first", -1),
        ("clip_last", -1),
        ("max_summary_tokens", 0),
        ("max_chunk_tokens", -1),
        ("max_retries", -1),
        ("compaction_timeout", 0),
        ("context_budget", 0.0),
        ("context_budget", 1.5),
    ],
)
def test_a_size_that_means_nothing_is_an_error_that_names_it(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} is {value}"):
        clip(COUNTER, **{name: value})  # type: ignore[arg-type]


@pytest.mark.spec("clip.11")
def test_a_prompt_that_shows_the_model_no_messages_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"\{messages\}"):
        clip(COUNTER, prompt="You are {persona}. Known: {existing_summary}")


class Breaks(SqliteStore):
    """A user's store that fails once it is `full`, with an error of its own."""

    full = False

    def append(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - whatever the store is given
        if self.full:
            raise RuntimeError("the database is gone")
        super().append(*given, **named)


@pytest.mark.spec("clip.19")
def test_compress_never_raises_whatever_a_store_raises_or_a_host_brings() -> None:
    """Never throws: any error, also one of a user's own store, is `failed` with the list that was given."""
    store = Breaks(":memory:")
    made = design.create_compactor(model=Echo(), store=store)
    assert made.compress(GIVEN[:8], "conv").batches_created == 1
    store.full = True
    done = made.compress(GIVEN, "conv")
    assert (done.failed, done.batches_created) == (True, 0)
    assert done.history is GIVEN
    assert "the database is gone" in done.reason
    for wrong in (None, 7, [1, 2], [{"role": "alien"}], "text"):
        assert made.compress(wrong, "other").failed  # type: ignore[arg-type]


@pytest.mark.spec("clip.8", "clip.3")
def test_a_raw_list_that_was_compressed_before_comes_back_as_the_view() -> None:
    made = design.create_compactor(model=Echo())
    first = made.compress(GIVEN, "conv")
    again = made.compress(GIVEN, "conv")
    assert list(again.history) == list(first.history), "nothing new was said, and the raw list is over the budget again"
    assert (again.batches_created, again.messages_compressed, again.failed) == (0, 0, False)
    assert again.tokens_estimate_before == first.tokens_estimate_before, "of the list that was given"
    assert again.tokens_estimate_after == first.tokens_estimate_after
    assert made.compress(first.history, "conv").history is first.history


@pytest.mark.spec("clip.14")
@pytest.mark.parametrize("time", ["2020", "yesterday", "2020-13-44T00:00:00.000Z", ""])
def test_a_batch_with_a_time_that_is_none_is_bad_input(time: str) -> None:
    with pytest.raises(BadInput, match="no batch header"):
        design.format_batch_label("conv", SummaryBatch("x", 0, time, "unknown", 1))


@pytest.mark.spec("clip.20")
def test_the_settings_of_a_compactor_are_checked_when_it_is_made() -> None:
    with pytest.raises(UsageError, match="chunk_size is 0"):
        design.create_compactor(CompactionConfig(chunk_size=0))
