"""Replays: what two requests share, held against the messages themselves; and the players, each against its rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tenfold.cli.main import run
from tenfold.errors import UsageError
from tenfold.evals.bill import LISTS, prices_of
from tenfold.evals.cases import ChatMessage, Conversation, conversations, tokens_of
from tenfold.evals.methods import BASELINES, Compacted, Unable
from tenfold.evals.peers import Absent
from tenfold.evals.players import ACT, SUMMARY, WRITTEN, OfMethod, OfPolicy, Piece, Start, Track, starts, track_of
from tenfold.evals.replay import Replayed, Replays, replay, replays, shared, tables
from tenfold.evals.standing import bills, longest, overflowing, together
from tenfold.policies import POLICIES
from tenfold.record.message import Part, Role
from tests import sessions
from tests.evals.chats import long_past, says, step, user

EXAMPLES = sessions.ROOT / "examples" / "sessions"
WINDOW = 6_000


def track(messages: Sequence[ChatMessage], prefix: int = 1_000) -> Track:
    return track_of(Conversation("chat", tuple(messages), (), (), ""), prefix=prefix)


def long_track(steps: int = 80) -> Track:
    return track([*long_past(steps), says("It is done.")])


def played(name: str, on: Track, window: int = WINDOW) -> Replayed:
    return replay(on, name, starts([name])[name], window=window)


def sent(on: Track, start: Start, window: int = WINDOW) -> list[list[Piece]]:
    """The list of every request."""
    player, seen, out = start(on, window), 0, []
    for answer in on.requests:
        out.append(list(player.before(range(seen, answer)).pieces))
        player.after(on.prefix + sum(p.tokens for p in out[-1]))
        seen = answer
    return out


# -- the arithmetic ----------------------------------------------------------------------------------------------------


def test_a_request_is_made_for_each_answer_behind_a_message() -> None:
    on = track([user("a"), *step("ls", {}, "out", id_="1"), says("b"), user("c"), says("d")])
    assert on.requests == (1, 3, 5)
    assert list(on.tokens) == [tokens_of([m]) for m in on.chat[:2]] + [on.tokens[2]] + [
        tokens_of([m]) for m in on.chat[3:]
    ]


def test_an_answer_that_opens_a_session_answers_no_request() -> None:
    assert track([says("Hello."), user("Hi."), says("What is it?")]).requests == (2,)


def test_sent_unchanged_each_request_begins_with_all_of_the_one_before() -> None:
    on = track([user("a " * 2_000), says("b " * 300), user("c " * 100), says("d"), user("e"), says("f")])
    made = played("none", on, window=2_500)
    a, b, c, d, e, f = on.tokens
    totals = [1_000 + a, 1_000 + a + b + c, 1_000 + a + b + c + d + e]
    assert made.sent == sum(totals)
    assert made.read == totals[0] + totals[1]
    assert (made.requests, made.peak, made.output) == (3, totals[2], b + d + f)
    assert (made.compactions, made.rewritten) == (0, 0)
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
    assert shared([Piece(ord(c), 1) for c in before], [Piece(ord(c), 1) for c in after]) == same


@pytest.mark.parametrize("name", [*starts(["all"])])
def test_the_sums_of_every_method_add_up(name: str) -> None:
    on = long_track()
    made = replay(on, name, starts([name])[name], window=WINDOW, prices=[prices_of(n) for n in LISTS])
    assert made.requests == len(on.requests)
    assert made.output == sum(on.tokens[i] for i in on.requests)
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
    on = long_track(76)  # ends well between two compactions: how long an id is in tokens varies
    player = OfPolicy(on, WINDOW, policy=policy)
    seen, before, old = 0, list[Piece](), list[tuple[Role, tuple[Part, ...]]]()
    rewrites = 0
    for answer in on.requests:
        pieces = list(player.before(range(seen, answer)).pieces)
        now = [(m.role, m.parts) for m in player._session.view.messages()]
        same = next((i for i, (a, b) in enumerate(zip(old, now, strict=False)) if a != b), min(len(old), len(now)))
        assert shared(before, pieces) == same
        assert len(pieces) == len(now)
        rewrites += same < len(old)
        seen, before, old = answer, pieces, now
        player.after(on.prefix + sum(p.tokens for p in pieces))
    assert rewrites == played(policy, on).compactions > 0


def test_a_view_grows_between_compactions_and_shrinks_at_them() -> None:
    on = long_track()
    lists = sent(on, starts(["tenfold"])["tenfold"])
    sizes = [on.prefix + sum(p.tokens for p in one) for one in lists]
    shrunk = [i for i in range(1, len(sizes)) if sizes[i] < sizes[i - 1]]
    assert shrunk
    assert all(sizes[i - 1] <= WINDOW * ACT < sizes[i - 1] + 1_000 and sizes[i] < WINDOW * 0.6 for i in shrunk)


def test_summaries_that_a_model_writes_are_charged() -> None:
    on = long_track()
    for policy in ("tenfold", "threshold", "tail"):
        made = played(policy + WRITTEN, on)
        assert made.summary_input > made.summary_output > 0
        assert played(policy, on).summary_input == 0


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_the_sliding_tail_is_the_longest_that_fits_and_splits_no_step() -> None:
    on = track([{"role": "system", "content": "Be brief."}, *long_past(80)])
    roles = [m.role for m in on.messages]
    for answer, one in zip(on.requests, sent(on, starts(["sliding-tail"])["sliding-tail"]), strict=True):
        kept = [p.key for p in one if isinstance(p.key, int)]
        assert kept[0] == 0
        assert kept[1:] == list(range(kept[1], answer))
        assert roles[kept[1]] != "tool"
        assert on.prefix + sum(p.tokens for p in one) <= WINDOW
        earlier = next((i for i in range(kept[1] - 1, 0, -1) if roles[i] != "tool"), None)
        if earlier is not None:
            assert on.prefix + on.tokens[0] + sum(on.tokens[earlier:answer]) > WINDOW


def test_a_summary_by_hand_stands_before_an_unbroken_tail_and_costs_what_it_read() -> None:
    on = long_track()
    player, seen = starts(["summarize"])["summarize"](on, WINDOW), 0
    hidden = 0
    for answer in on.requests:
        made = player.before(range(seen, answer))
        seen = answer
        if not made.summary_input:
            continue
        first, *rest = made.pieces
        assert first.tokens == made.summary_output == SUMMARY
        keys = [p.key for p in rest]
        start = answer - len(rest)
        assert keys == list(range(start, answer))
        assert on.messages[start].role != "tool"
        assert made.summary_input == sum(on.tokens[hidden:start]) + (SUMMARY if hidden else 0)
        hidden = start
    assert hidden


# -- methods that know one budget --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["keep-last", "truncate-middle", "mask-10"])
def test_a_method_is_played_as_it_is_where_its_recall_is_scored(name: str) -> None:
    on = long_track()
    lists = sent(on, lambda t, w: OfMethod(t, w, method=BASELINES[name]))
    assert sent(on, starts([name])[name]) == lists
    assert all(on.prefix + sum(p.tokens for p in one) <= WINDOW for one in lists)


class Copying:
    """Gives back the newest messages, each a copy, and remembers what it was asked."""

    name = "copying"

    def __init__(self, keep: Callable[[int], int]) -> None:
        self.asked: list[int] = []
        self._keep = keep

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> Compacted:
        del budget
        self.asked.append(len(past))
        kept = past[-self._keep(len(past)) :]
        return Compacted(tuple(json.loads(json.dumps(m)) for m in kept), 0, 1.5, 70, 7)


class Refusing:
    """Can compact nothing."""

    name = "refusing"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> Compacted:
        self.asked.append(len(past))
        raise Unable(f"not to {budget}")


def test_a_message_given_back_as_a_copy_is_the_same_message() -> None:
    on = long_track()
    method = Copying(lambda count: count)
    made = replay(on, "copying", lambda t, w: OfMethod(t, w, method=method), window=WINDOW)
    assert method.asked
    assert (made.compactions, made.rewritten) == (0, 0)
    assert made.sent == played("none", on).sent
    assert (made.summary_input, made.summary_output) == (70 * len(method.asked), 7 * len(method.asked))
    assert made.longest == 1.5


def test_a_method_is_asked_above_its_share_of_the_window_and_gets_its_own_list() -> None:
    on = long_track()
    method = Copying(lambda _count: 4)
    lists = sent(on, lambda t, w: OfMethod(t, w, method=method))
    assert len(method.asked) > 2
    assert all(on.prefix + sum(p.tokens for p in one) <= WINDOW * ACT for one in lists)
    assert min(map(len, lists[3:])) == 4
    assert method.asked[1] == method.asked[2] > 4


def test_where_a_method_is_unable_the_list_goes_out_as_it_is() -> None:
    on = long_track()
    method = Refusing()
    made = replay(on, "refusing", lambda t, w: OfMethod(t, w, method=method), window=WINDOW)
    assert made.sent == played("none", on).sent
    assert len(method.asked) == len(set(method.asked))
    assert made.overflows > 0


class Tired(Copying):
    """Gives a result only every second time it is asked."""

    name = "tired"

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> Compacted:
        made = super().compact(past, budget=budget)
        if len(self.asked) % 2:
            raise Unable("not now")
        return made


def gone() -> Start:
    """A peer that is not installed."""
    method = Absent("langchain/trim", "langchain is not installed: `make peers`")
    return lambda t, w: OfMethod(t, w, method=method)


def all_played(chosen: dict[str, Start], *tracks: Track) -> Replays:
    prices = [prices_of(n) for n in LISTS]
    found = replays(tracks, chosen, windows=[WINDOW], prices=prices)
    return Replays("1", "o200k", 1_000, tuple(prices), tuple(found))


def test_how_often_a_method_was_asked_and_gave_no_result_is_kept() -> None:
    on = long_track()
    tired, refusing = Tired(lambda _count: 4), Refusing()
    some = replay(on, "tired", lambda t, w: OfMethod(t, w, method=tired), window=WINDOW)
    assert (some.asked, some.refusals, some.unable) == (len(tired.asked), (len(tired.asked) + 1) // 2, "")
    assert some.asked > some.refusals > 1
    never = replay(on, "refusing", lambda t, w: OfMethod(t, w, method=refusing), window=WINDOW)
    assert never.asked == never.refusals == len(refusing.asked) > 0
    assert never.unable.startswith("not to ")
    short = replay(track([user("a"), says("b")]), "gone", gone(), window=WINDOW)
    assert (short.asked, short.refusals, short.unable) == (0, 0, ""), "it was never asked"
    assert played("tenfold", on).asked == 0, "it has a trigger of its own"


def test_a_peer_that_cannot_run_is_listed_with_its_reason_and_shown_nowhere_else() -> None:
    tired = Tired(lambda _count: 4)
    chosen = starts(["none", "tenfold"]) | {
        "langchain/trim": gone(),
        "tired": lambda t, w: OfMethod(t, w, method=tired),
    }
    made = all_played(chosen, long_track(), track([user("a"), says("b")]))
    *shown, lost, _ = tables(made)
    assert lost.title == "Could not run in a replay"
    (row,) = lost.rows
    assert row[0] == "langchain/trim"
    assert row[2].startswith("langchain is not installed")
    asked, refused = (next(p for p in made.played if p.method == "langchain/trim" and p.asked), row[1])
    assert refused == f"{asked.asked}/{asked.asked}"
    shown += together(made, {})
    assert all([r[0] for r in table.rows if "/" in r[0]] == [] for table in shown)
    assert {m for costs in bills(made, WINDOW).values() for m in costs} == {"none", "tenfold", "tired"}
    assert "langchain/trim" not in overflowing(made, WINDOW)
    assert {one.method for session in longest(made, WINDOW) for one in session} == {"none", "tenfold", "tired"}


def test_where_nothing_could_run_only_the_reasons_are_told() -> None:
    made = all_played({"langchain/trim": gone()}, long_track())
    assert [table.title for table in tables(made)] == ["Could not run in a replay", "Prices"]
    assert together(made, {}) == []


def test_a_method_that_refuses_sometimes_is_shown_with_how_often() -> None:
    tired = Tired(lambda _count: 4)
    made = all_played(starts(["none"]) | {"tired": lambda t, w: OfMethod(t, w, method=tired)}, long_track())
    for table in (tables(made)[0], together(made, {})[0]):
        cells = {row[0]: dict(zip(table.columns, row, strict=True))["no result"] for row in table.rows}
        assert cells == {"none": "-", "tired": f"{(len(tired.asked) + 1) // 2}/{len(tired.asked)}"}


def test_an_unknown_method_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'best'; there are all, none, .*tenfold\+model"):
        starts(["best"])


# -- real sessions -----------------------------------------------------------------------------------------------------


def real(name: str) -> Track:
    sessions.needed()
    return track_of(conversations(sessions.FOLDER / name)[0])


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
    on = real(name)
    prices = [prices_of(n) for n in LISTS]
    found = {
        each: replay(on, each, start, window=window, prices=prices)
        for each, start in starts(["none", "sliding-tail", "tenfold"]).items()
    }
    none, tail, tenfold = (found[n] for n in ("none", "sliding-tail", "tenfold"))
    assert none.requests == requests
    assert none.hit == pytest.approx(hit, abs=0.002)
    assert tail.hit < 0.85
    assert tenfold.hit > 0.9
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
    assert [p["model"] for p in made["prices"]] == list(LISTS)
    assert made["prefix"] == 2_000
    assert made["lists"].startswith("genai-prices ")
    assert all(len(p["bills"]) == 2 and p["session"] == file.name for p in made["played"])


def test_the_command_prints_a_table_for_each_session_and_window(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(EXAMPLES / "logs.pi.jsonl"), str(EXAMPLES / "tracker.codex.jsonl")]
    assert (
        run(["eval", "replay", *files, "--windows", "8k,20k", "--methods", "none,mask-10", "--prices", LISTS[1]]) == 0
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


def test_the_sizes_of_all_requests_are_kept_and_which_of_them_were_rewritten() -> None:
    made = played("tenfold", long_track())
    assert len(made.sizes) == made.requests
    assert (max(made.sizes), sum(made.sizes)) == (made.peak, made.sent)
    assert len(made.rewrote) == made.compactions > 0
    assert any(made.sizes[at] < made.sizes[at - 1] for at in made.rewrote)
    assert played("none", long_track()).rewrote == ()
