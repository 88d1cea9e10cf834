"""Replays: what two requests share, held against the messages themselves; and the players, each against its rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tenfold.apps.cli.main import run
from tenfold.config.policies import POLICIES
from tenfold.core.record.message import Part, Role
from tenfold.errors import UsageError
from tenfold.testing.chats import count_total_tokens
from tenfold.testing.methods import BASELINES, MethodResult, UnableError
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.bill import DEFAULT_PRICE_LISTS, get_prices
from tenfold_yardstick.cases import EvalSession, read_sessions
from tenfold_yardstick.method_comparison import (
    build_total_tables,
    compute_bills,
    find_longest_sessions,
    find_overflowing,
)
from tenfold_yardstick.peers import Peer, PeerMethod
from tenfold_yardstick.players import (
    MODEL_SUFFIX,
    SUMMARY_TOKENS,
    TRIGGER_SHARE,
    MethodPlayer,
    PlayerFactory,
    PolicyPlayer,
    Recording,
    ReplayMessage,
    build_recording,
    get_player_factories,
)
from tenfold_yardstick.replay import (
    Replays,
    SessionReplay,
    build_tables,
    compute_cached_share,
    count_shared,
    replay_session,
    replay_sessions,
)
from tests import sessions
from tests.yardstick.chats import make_long_past, make_reply, make_step, make_user_message

EXAMPLES = sessions.ROOT / "examples" / "sessions"
WINDOW = 6_000


def make_track(messages: Sequence[ChatMessage], prefix: int = 1_000) -> Recording:
    return build_recording(EvalSession("chat", tuple(messages), (), ()), prefix=prefix)


def make_long_track(steps: int = 80) -> Recording:
    return make_track([*make_long_past(steps), make_reply("It is done.")])


def play_method(name: str, on: Recording, window: int = WINDOW) -> SessionReplay:
    return replay_session(on, name, get_player_factories([name])[name], window=window)


def collect_requests(on: Recording, start: PlayerFactory, window: int = WINDOW) -> list[list[ReplayMessage]]:
    """The list of every request."""
    player, seen, out = start(on, window), 0, []
    for answer in on.answer_indexes:
        out.append(list(player.prepare_request(range(seen, answer)).messages))
        player.record_usage(on.prefix + sum(p.tokens for p in out[-1]))
        seen = answer
    return out


# -- the arithmetic ----------------------------------------------------------------------------------------------------


def test_a_request_is_made_for_each_answer_behind_a_message() -> None:
    on = make_track(
        [
            make_user_message("a"),
            *make_step("ls", {}, "out", id_="1"),
            make_reply("b"),
            make_user_message("c"),
            make_reply("d"),
        ]
    )
    assert on.answer_indexes == (1, 3, 5)
    assert list(on.tokens) == [count_total_tokens([m]) for m in on.chat_messages[:2]] + [on.tokens[2]] + [
        count_total_tokens([m]) for m in on.chat_messages[3:]
    ]


def test_an_answer_that_opens_a_session_answers_no_request() -> None:
    assert make_track([make_reply("Hello."), make_user_message("Hi."), make_reply("What is it?")]).answer_indexes == (
        2,
    )


def test_sent_unchanged_each_request_begins_with_all_of_the_one_before() -> None:
    on = make_track(
        [
            make_user_message("a " * 2_000),
            make_reply("b " * 300),
            make_user_message("c " * 100),
            make_reply("d"),
            make_user_message("e"),
            make_reply("f"),
        ]
    )
    made = play_method("none", on, window=2_500)
    a, b, c, d, e, f = on.tokens
    totals = [1_000 + a, 1_000 + a + b + c, 1_000 + a + b + c + d + e]
    assert made.sent == sum(totals)
    assert made.read == totals[0] + totals[1]
    assert (made.requests, made.peak, made.output) == (3, totals[2], b + d + f)
    assert (made.compactions, made.rewritten, made.rewrote) == (0, 0, ())
    assert made.overflows == sum(t > 2_500 for t in totals) == 3


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("", "ab", 0),
        ("ab", "abc", 2),
        ("abc", "ab", 2),
        ("abc", "axc", 1),
        ("abc", "xbc", 0),
        ("abc", "abc", 3),
        ("a", "", 0),
    ],
)
def test_lists_share_what_they_begin_with(before: str, after: str, same: int) -> None:
    assert count_shared([ReplayMessage(ord(c), 1) for c in before], [ReplayMessage(ord(c), 1) for c in after]) == same


@pytest.mark.parametrize("name", [*get_player_factories(["all"])])
def test_the_sums_of_every_method_add_up(name: str) -> None:
    on = make_long_track()
    made = replay_session(
        on, name, get_player_factories([name])[name], window=WINDOW, prices=[get_prices(n) for n in DEFAULT_PRICE_LISTS]
    )
    assert made.requests == len(on.answer_indexes)
    assert made.output == sum(on.tokens[i] for i in on.answer_indexes)
    assert 0 < made.read < made.sent <= made.requests * made.peak
    assert made.rewritten <= made.sent - made.read
    assert all(bill.total > 0 for bill in made.bills)
    assert (made.compactions > 0) == (name != "none")
    assert 0 <= made.longest <= made.blocked
    assert (made.overflows > 0) == (made.peak > WINDOW)
    assert made.overflows == 0 or name == "none"


# -- Tenfold's policies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [*POLICIES])
def test_what_two_views_share_by_key_is_what_their_messages_share(policy: str) -> None:
    on = make_long_track(70)  # ends well between two compactions: how long an id is in tokens varies
    player = PolicyPlayer(on, WINDOW, policy=policy)
    seen, before, old = 0, list[ReplayMessage](), list[tuple[Role, tuple[Part, ...]]]()
    rewrites = 0
    for answer in on.answer_indexes:
        pieces = list(player.prepare_request(range(seen, answer)).messages)
        now = [(m.role, m.parts) for m in player._session.view.get_messages()]
        same = next((i for i, (a, b) in enumerate(zip(old, now, strict=False)) if a != b), min(len(old), len(now)))
        assert count_shared(before, pieces) == same
        assert len(pieces) == len(now)
        rewrites += same < len(old)
        seen, before, old = answer, pieces, now
        player.record_usage(on.prefix + sum(p.tokens for p in pieces))
    assert rewrites == play_method(policy, on).compactions > 0


def test_a_view_grows_between_compactions_and_shrinks_at_them() -> None:
    made = play_method("tenfold", make_long_track())
    sizes = made.sizes
    assert (len(sizes), max(sizes), sum(sizes)) == (made.requests, made.peak, made.sent)
    shrunk = [i for i in range(1, len(sizes)) if sizes[i] < sizes[i - 1]]
    assert shrunk
    assert set(shrunk) <= set(made.rewrote)
    assert len(made.rewrote) == made.compactions
    assert all(
        sizes[i - 1] <= WINDOW * TRIGGER_SHARE < sizes[i - 1] + 1_000 and sizes[i] < WINDOW * 0.6 for i in shrunk
    )


def test_summaries_that_a_model_writes_are_charged() -> None:
    on = make_long_track()
    for policy in ("tenfold", "threshold", "tail"):
        made = play_method(policy + MODEL_SUFFIX, on)
        assert made.summary_input > made.summary_output > 0
        assert play_method(policy, on).summary_input == 0


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_the_sliding_tail_is_the_longest_that_fits_and_splits_no_step() -> None:
    on = make_track([{"role": "system", "content": "Be brief."}, *make_long_past(80)])
    roles = [m.role for m in on.messages]
    for answer, one in zip(
        on.answer_indexes, collect_requests(on, get_player_factories(["sliding-tail"])["sliding-tail"]), strict=True
    ):
        kept = [p.key for p in one if isinstance(p.key, int)]
        assert kept[0] == 0
        assert kept[1:] == list(range(kept[1], answer))
        assert roles[kept[1]] != "tool"
        assert on.prefix + sum(p.tokens for p in one) <= WINDOW
        earlier = next((i for i in range(kept[1] - 1, 0, -1) if roles[i] != "tool"), None)
        if earlier is not None:
            assert on.prefix + on.tokens[0] + sum(on.tokens[earlier:answer]) > WINDOW


def test_a_summary_by_hand_stands_before_an_unbroken_tail_and_costs_what_it_read() -> None:
    on = make_long_track()
    player, seen = get_player_factories(["summarize"])["summarize"](on, WINDOW), 0
    hidden = 0
    for answer in on.answer_indexes:
        made = player.prepare_request(range(seen, answer))
        seen = answer
        if not made.summary_input:
            continue
        first, *rest = made.messages
        assert first.tokens == made.summary_output == SUMMARY_TOKENS
        keys = [p.key for p in rest]
        start = answer - len(rest)
        assert keys == list(range(start, answer))
        assert on.messages[start].role != "tool"
        assert made.summary_input == sum(on.tokens[hidden:start]) + (SUMMARY_TOKENS if hidden else 0)
        hidden = start
    assert hidden


# -- methods that know one budget --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["keep-last", "truncate-middle", "mask-10"])
def test_a_method_is_played_as_it_is_where_its_recall_is_scored(name: str) -> None:
    on = make_long_track()
    lists = collect_requests(on, lambda t, w: MethodPlayer(t, w, method=BASELINES[name]))
    assert collect_requests(on, get_player_factories([name])[name]) == lists
    assert all(on.prefix + sum(p.tokens for p in one) <= WINDOW for one in lists)


class Copying:
    """Gives back the newest messages, each a copy, and remembers what it was asked."""

    name = "copying"

    def __init__(self, keep: Callable[[int], int]) -> None:
        self.asked: list[int] = []
        self._keep = keep

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        del budget
        self.asked.append(len(past))
        kept = past[-self._keep(len(past)) :]
        return MethodResult(tuple(json.loads(json.dumps(m)) for m in kept), 0, 1.5, 70, 7)


class Refusing:
    """Can compact nothing."""

    name = "refusing"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        self.asked.append(len(past))
        raise UnableError(f"not to {budget}")


def test_a_message_given_back_as_a_copy_is_the_same_message() -> None:
    on = make_long_track()
    method = Copying(lambda count: count)
    made = replay_session(on, "copying", lambda t, w: MethodPlayer(t, w, method=method), window=WINDOW)
    assert method.asked
    assert (made.compactions, made.rewritten) == (0, 0)
    assert made.sent == play_method("none", on).sent
    assert (made.summary_input, made.summary_output) == (70 * len(method.asked), 7 * len(method.asked))
    assert made.longest == 1.5


def test_a_method_is_asked_above_its_share_of_the_window_and_gets_its_own_list() -> None:
    on = make_long_track()
    method = Copying(lambda _count: 4)
    lists = collect_requests(on, lambda t, w: MethodPlayer(t, w, method=method))
    assert len(method.asked) > 2
    assert all(on.prefix + sum(p.tokens for p in one) <= WINDOW * TRIGGER_SHARE for one in lists)
    assert min(map(len, lists[3:])) == 4
    assert method.asked[1] == method.asked[2] > 4


def test_where_a_method_is_unable_the_list_goes_out_as_it_is() -> None:
    on = make_long_track()
    method = Refusing()
    made = replay_session(on, "refusing", lambda t, w: MethodPlayer(t, w, method=method), window=WINDOW)
    assert made.sent == play_method("none", on).sent
    assert len(method.asked) == len(set(method.asked))
    assert made.overflows > 0


class Tired(Copying):
    """Gives a result only every second time it is asked."""

    name = "tired"

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        made = super().compact(past, budget=budget)
        if len(self.asked) % 2:
            raise UnableError("not now")
        return made


def make_absent_start() -> PlayerFactory:
    """A peer that is not installed."""
    method = Peer(PeerMethod("langchain", "trim"), None, missing="langchain is not installed: `make peers`")
    return lambda t, w: MethodPlayer(t, w, method=method)


def play_all(chosen: dict[str, PlayerFactory], *tracks: Recording) -> Replays:
    prices = [get_prices(n) for n in DEFAULT_PRICE_LISTS]
    found = replay_sessions(tracks, chosen, windows=[WINDOW], prices=prices)
    return Replays("1", "o200k", 1_000, tuple(prices), tuple(found))


def test_how_often_a_method_was_asked_and_gave_no_result_is_kept() -> None:
    on = make_long_track()
    tired, refusing = Tired(lambda _count: 4), Refusing()
    some = replay_session(on, "tired", lambda t, w: MethodPlayer(t, w, method=tired), window=WINDOW)
    assert (some.asked, some.refusals, some.unable) == (len(tired.asked), (len(tired.asked) + 1) // 2, "")
    assert some.asked > some.refusals > 1
    never = replay_session(on, "refusing", lambda t, w: MethodPlayer(t, w, method=refusing), window=WINDOW)
    assert never.asked == never.refusals == len(refusing.asked) > 0
    assert never.unable.startswith("not to ")
    short = replay_session(
        make_track([make_user_message("a"), make_reply("b")]), "gone", make_absent_start(), window=WINDOW
    )
    assert (short.asked, short.refusals, short.unable) == (0, 0, ""), "it was never asked"
    assert play_method("tenfold", on).asked == 0, "it has a trigger of its own"


def test_a_peer_that_cannot_run_is_listed_with_its_reason_and_shown_nowhere_else() -> None:
    tired = Tired(lambda _count: 4)
    chosen = get_player_factories(["none", "tenfold"]) | {
        "langchain/trim": make_absent_start(),
        "tired": lambda t, w: MethodPlayer(t, w, method=tired),
    }
    made = play_all(chosen, make_long_track(), make_track([make_user_message("a"), make_reply("b")]))
    *shown, lost, _ = build_tables(made)
    assert lost.title == "Could not run in a replay"
    (row,) = lost.rows
    assert row[0] == "langchain/trim"
    assert row[2].startswith("langchain is not installed")
    asked, refused = (next(p for p in made.played if p.method == "langchain/trim" and p.asked), row[1])
    assert refused == f"{asked.asked}/{asked.asked}"
    shown += build_total_tables(made, {})
    assert all([r[0] for r in table.rows if "/" in r[0]] == [] for table in shown)
    assert {m for costs in compute_bills(made, WINDOW).values() for m in costs} == {"none", "tenfold", "tired"}
    assert "langchain/trim" not in find_overflowing(made, WINDOW)
    assert {one.method for session in find_longest_sessions(made, WINDOW) for one in session} == {
        "none",
        "tenfold",
        "tired",
    }


def test_where_nothing_could_run_only_the_reasons_are_told() -> None:
    made = play_all({"langchain/trim": make_absent_start()}, make_long_track())
    assert [table.title for table in build_tables(made)] == ["Could not run in a replay", "Prices"]
    assert build_total_tables(made, {}) == []


def test_a_method_that_refuses_sometimes_is_shown_with_how_often() -> None:
    tired = Tired(lambda _count: 4)
    made = play_all(
        get_player_factories(["none"]) | {"tired": lambda t, w: MethodPlayer(t, w, method=tired)}, make_long_track()
    )
    for table in (build_tables(made)[0], build_total_tables(made, {})[0]):
        cells = {row[0]: dict(zip(table.columns, row, strict=True))["no result"] for row in table.rows}
        assert cells == {"none": "-", "tired": f"{(len(tired.asked) + 1) // 2}/{len(tired.asked)}"}


def test_an_unknown_method_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'best'; there are all, none, .*tenfold\+model"):
        get_player_factories(["best"])


# -- real sessions -----------------------------------------------------------------------------------------------------


def read_track(name: str) -> Recording:
    sessions.require_sessions()
    return build_recording(read_sessions(sessions.FOLDER / name)[0])


@pytest.mark.parametrize(
    ("name", "window", "requests", "hit"),
    [
        ("pi/before-compaction.jsonl", 100_000, 469, 0.996),
        ("claude-code/large-conversation.jsonl", 60_000, 171, 0.987),
        ("openhands-requests/django__django-11299.json", 30_000, 49, 0.960),
    ],
)
def test_real_sessions_cost_less_when_compacted_rarely_and_more_when_cut_on_every_turn(
    name: str, window: int, requests: int, hit: float
) -> None:
    on = read_track(name)
    prices = [get_prices(n) for n in DEFAULT_PRICE_LISTS]
    found = {
        each: replay_session(on, each, start, window=window, prices=prices)
        for each, start in get_player_factories(["none", "sliding-tail", "tenfold"]).items()
    }
    none, tail, tenfold = (found[n] for n in ("none", "sliding-tail", "tenfold"))
    assert none.requests == requests
    assert compute_cached_share([none]) == pytest.approx(hit, abs=0.002)
    assert compute_cached_share([tail]) < 0.85
    assert compute_cached_share([tenfold]) > 0.9
    for at in range(len(prices)):
        assert tenfold.bills[at].total < min(none.bills[at].total, tail.bills[at].total)
    if name.startswith(("claude", "openhands")):  # the long pi session leaves the cheap tier when nothing is done
        assert none.bills[0].total < tail.bills[0].total
    assert tenfold.overflows == 0
    assert tenfold.peak <= window


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_prints_one_object_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    file = EXAMPLES / "logs.pi.jsonl"
    arguments = ["--windows", "8k,16000", "--methods", "none,tenfold", "--prefix", "2000", "--json"]
    assert run(["eval", "replay", str(file), *arguments]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [(p["window"], p["method"]) for p in made["played"]] == [
        (w, m) for w in (8_000, 16_000) for m in ("none", "tenfold")
    ]
    assert [p["model"] for p in made["prices"]] == list(DEFAULT_PRICE_LISTS)
    assert made["prefix"] == 2_000
    assert made["lists"].startswith("genai-prices ")
    assert all(len(p["bills"]) == 2 and p["session"] == file.name for p in made["played"])


def test_the_command_prints_a_table_for_each_session_and_window(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(EXAMPLES / "logs.pi.jsonl"), str(EXAMPLES / "tracker.codex.jsonl")]
    assert (
        run(
            [
                "eval",
                "replay",
                *files,
                "--windows",
                "8k,20k",
                "--methods",
                "none,mask-10",
                "--prices",
                DEFAULT_PRICE_LISTS[1],
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert out.count("window 8,000") == out.count("window 20,000") == 2
    header = next(line for line in out.splitlines() if line.startswith("method"))
    assert header.split("\t")[-3] == "gpt-5"
    assert sum(line.startswith("mask-10\t") for line in out.splitlines()) == 4


@pytest.mark.parametrize("wrong", [["--methods", "best"], ["--windows", "big"], ["--prices", "gpt-5"]])
def test_arguments_that_cannot_be_meant_are_refused_before_anything_is_played(
    wrong: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["eval", "replay", str(tmp_path / "missing.json"), *wrong]) == 2
    assert wrong[1] in capsys.readouterr().err
