"""The sizes that a user names: as tokens or shares, thrift, and what they make of a policy's limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.compaction.trigger.sizes import parse_size
from tenfold.config.policies import POLICIES
from tenfold.config.settings import LivePolicy, build_policy, load_settings
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.message import Message, Text
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.errors import UsageError
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore

COUNTER = CharacterCounter()
WINDOW, RESERVE = 200_000, 20_000
FREE = WINDOW - RESERVE


def get_sizes(policy: str = "tenfold", **settings: Any) -> tuple[int, int, int]:  # noqa: ANN401 - settings of every type
    limits = build_policy(policy, COUNTER, **settings).get_limits(WINDOW, output_reserve=RESERVE)
    return limits.warning, limits.soft, limits.target


def test_without_a_named_size_the_default_acts_at_85_percent_of_what_is_free_down_to_40() -> None:
    assert get_sizes() == (126_000, 153_000, 72_000), "70, 85 and 40 % of 180,000"


@pytest.mark.parametrize("size", ["60%", 0.6, "0.6", 108_000, "108,000", "108_000"])
def test_a_size_is_tokens_or_a_share_of_what_is_free(size: float | str) -> None:
    warning, soft, target = get_sizes(compact_at=size)
    assert (soft, target) == (108_000, int(0.40 * FREE))
    assert target < warning < soft
    assert get_sizes(down_to=size)[1:] == (int(0.85 * FREE), 108_000)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_takes_them(policy: str) -> None:
    assert get_sizes(policy, compact_at=100_000, down_to="30%")[1:] == (100_000, 54_000)


def test_a_target_of_its_own_stays_below_a_smaller_trigger() -> None:
    assert get_sizes(compact_at="20%")[1:] == (36_000, 28_800)


def test_thrift_compacts_earlier_and_deeper_whatever_the_window_is() -> None:
    off, half, full = (get_sizes(thrift=thrift) for thrift in (0.0, 0.5, 1.0))
    assert off == get_sizes()
    assert [*off] > [*half] > [*full]
    assert full[1:] == (14_000, 4_000)
    policy = build_policy("tenfold", COUNTER, thrift=1.0)
    for window in (100_000, 1_000_000):
        limits = policy.get_limits(window, floor=ProviderTokens(20_000))
        assert (limits.soft, limits.target) == (34_000, 24_000), "the system prompt and the tools cannot be compacted"
    small = policy.get_limits(10_000)
    assert (small.soft, small.target) == (4_500, 2_500), "shares of what is free, where that is less"


@given(
    thrift=st.floats(0, 1),
    window=st.integers(1_000, 2_000_000),
    floor=st.integers(0, 50_000),
    policy=st.sampled_from(sorted(POLICIES)),
)
def test_thrift_lowers_no_target_below_its_least(thrift: float, window: int, floor: int, policy: str) -> None:
    beside = ProviderTokens(floor)
    own = build_policy(policy, COUNTER).get_limits(window, floor=beside)
    thrifty = build_policy(policy, COUNTER, thrift=thrift).get_limits(window, floor=beside)
    assert min(own.target, thrifty.hard // 4, floor + 4_000) <= thrifty.target <= own.target
    assert thrifty.warning <= thrifty.soft <= own.soft
    assert thrifty.hard == own.hard


def test_a_thrifty_session_is_compacted_again_in_a_large_window() -> None:
    policy = build_policy("tenfold", COUNTER, thrift=1.0)
    session = Session.create(SessionAddress(SqliteStore(":memory:"), "s"), policy)
    for number in range(60):
        session.append(Message("user", (Text(f"{number} " + "please look at the next part of it. " * 60),), "human"))
        check = session.compactor.build_call(window=1_000_000)
        if session.compactor.is_check_due(check):
            session.compact(check)
    assert len(session.view.state.live_blocks) > 1, "a twentieth of the window would be 50,000 tokens"
    assert session.take_reading(window=1_000_000).tokens < 16_000


def test_a_named_target_comes_before_thrift_and_may_be_below_a_quarter() -> None:
    assert get_sizes(thrift=1.0, down_to="10%")[2] == FREE // 10


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"compact_at": "soon"}, "compact_at is 'soon', which is no size: give tokens, as in 120000"),
        ({"down_to": "0"}, "down_to is '0'"),
        ({"compact_at": "120%"}, "compact_at is '120%'"),
        ({"compact_at": -5}, "compact_at is -5"),
        ({"compact_at": True}, "compact_at"),
        ({"thrift": 2.0}, "thrift is 2.0: it is a number from 0"),
        ({"compact_at": "50%", "down_to": "45%"}, "down_to has to be at most four fifths of compact_at, 0.4"),
        ({"compact_to": "50%"}, "did you mean 'compact_at'"),
    ],
)
def test_a_wrong_size_is_an_error_that_says_what_to_write(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        build_policy("tenfold", COUNTER, **settings)
    assert said in str(raised.value)


def test_no_share_is_taken_for_tokens() -> None:
    assert parse_size("x", "1") == 1
    assert parse_size("x", "1.0") == 1.0
    assert isinstance(parse_size("x", "100%"), float)


def test_thousands_and_millions_have_a_letter() -> None:
    assert [parse_size("x", text) for text in ("5k", "1.5K", "2m", "1,000k")] == [5_000, 1_500, 2_000_000, 1_000_000]


FILE = """
[tenfold]
compact_at = "60%"
thrift = 0.5
[tenfold.presets.careful]
policy = "tenfold"
down_to = 50_000
"""


def test_flags_come_before_variables_and_these_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tenfold.toml"
    file.write_text(FILE, "utf-8")

    def read(name: str = "", flags: dict[str, object] | None = None, **environ: str) -> tuple[int, int]:
        config = load_settings(file, environ=environ, flags=flags or {})
        limits = config.build_policy(COUNTER, name).get_limits(WINDOW, output_reserve=RESERVE)
        return limits.soft, limits.target

    assert read() == (108_000, (72_000 + 4_000) // 2)
    assert read("careful") == (108_000, 50_000)
    assert read("careful", TENFOLD_COMPACT_AT="70%") == (126_000, 50_000)
    assert read("careful", {"down_to": "20%"}, TENFOLD_COMPACT_AT="70%") == (126_000, 36_000)
    assert read(TENFOLD_THRIFT="0", TENFOLD_DOWN_TO="90000", TENFOLD_COMPACT_AT="85%") == (153_000, 90_000)
    with pytest.raises(UsageError, match="TENFOLD_THRIFT is 'much'"):
        read(TENFOLD_THRIFT="much")


def test_what_a_flag_says_holds_when_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "tenfold.toml"
    file.write_text('[tenfold]\ncompact_at = "60%"\n', "utf-8")
    live = LivePolicy(COUNTER, file, environ={}, flags={"down_to": 30_000})
    assert live().get_limits(WINDOW, output_reserve=RESERVE).target == 30_000
    file.write_text('[tenfold]\ncompact_at = "50%"   # now earlier\n', "utf-8")
    limits = live().get_limits(WINDOW, output_reserve=RESERVE)
    assert (limits.soft, limits.target) == (90_000, 30_000)
