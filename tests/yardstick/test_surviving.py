"""`assert_survives`: what is good enough passes, and each kind of loss fails with a text that a person can act on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tenfold import compact
from tenfold.errors import UsageError
from tenfold.testing import SurvivalError, assert_survives
from tenfold.testing.methods import UnableError
from tenfold.testing.probes.kinds import ChatMessage
from tenfold.testing.survival import Compactor
from tests.shape.scan import ROOT
from tests.yardstick.chats import make_call, make_long_past, make_reply, make_result, make_step, make_user_message

DESK = ROOT / "examples" / "sessions" / "desk.openai-chat.json"
RULE = "Tidy up the parser, but never touch legacy_config.toml."
KEY = "sk-abcdefghijklmnopqrstuvwx1234"


def make_newest_compactor(count: int) -> Compactor:
    """A compactor of one line: the newest messages, cut at a step."""
    return lambda messages: messages[-2 * count :]


def make_rule_compactor(extra: list[ChatMessage]) -> Compactor:
    """One that keeps the first request and the newest steps, and puts something between."""
    return lambda messages: [messages[0], *extra, *messages[-6:]]


def catch_lost(compactor: Compactor | str, messages: list[ChatMessage], **options: object) -> str:
    with pytest.raises(SurvivalError) as caught:
        assert_survives(compactor, messages, **options)  # type: ignore[arg-type]
    return str(caught.value)


# -- what passes -------------------------------------------------------------------------------------------------------


def test_a_policy_keeps_what_the_user_said_on_a_recorded_session() -> None:
    (found,) = assert_survives("tenfold", DESK, rounds=3, at_least={"constraint": 1, "correction": 1, "planted": 1})
    assert found.session == DESK.name
    assert found.kept["planted"] == (3, 3)
    assert found.kept["constraint"][0] == found.kept["constraint"][1] > 5
    assert 0 < found.tokens[1] <= found.budget * 1.02 < found.tokens[0]
    assert found.losses == ()


def test_a_function_of_one_s_own_passes() -> None:
    def compact_mine(messages: list[ChatMessage]) -> list[ChatMessage]:
        return list(compact(messages, to=1_500, model="gpt-4o").messages)

    (found,) = assert_survives(
        compact_mine, make_long_past(), budget=1_500, must_hold=["never touch legacy_config.toml"]
    )
    assert found.kept["must hold"] == (1, 1)
    assert found.messages[1] < found.messages[0]


BAN, PERMISSION = "Never push to main, open a pull request instead.", "You may push to main after all."


def make_past_with_revocation() -> list[ChatMessage]:
    """A past in which a rule is set at the beginning and revoked in the middle."""
    past = make_long_past()
    middle = len(past) // 2
    middle += next(n for n, message in enumerate(past[middle:]) if message["role"] == "assistant" and n)
    said = [make_user_message(BAN), make_reply("Noted.")]
    return [*said, *past[:middle], make_user_message(PERMISSION), make_reply("Fine."), *past[middle:]]


def test_a_view_need_not_hold_a_rule_that_was_revoked() -> None:
    past = make_past_with_revocation()
    shown = [make_user_message(f"{RULE} {PERMISSION}"), make_reply("Fine."), *past[-6:]]
    (found,) = assert_survives(lambda _: shown, past, must_hold=[PERMISSION], must_not_hold=[BAN])
    assert found.kept["must hold"] == (1, 1)


def test_a_view_that_shows_only_the_revoked_rule_fails() -> None:
    past = make_past_with_revocation()
    stale = [make_user_message(f"{RULE} {BAN}"), make_reply("Fine."), *past[-6:]]
    assert "revoked, yet said as if it held" in catch_lost(lambda _: stale, past)
    assert "the result says it" in catch_lost(lambda _: stale, past, must_not_hold=[BAN])
    both = [make_user_message(f"{RULE} {BAN}"), make_user_message(PERMISSION), make_reply("Fine."), *past[-6:]]
    assert_survives(lambda _: both, past)


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [(PERMISSION, "Never push to main after all."), (BAN, "You may push to main, or open a pull request instead.")],
)
def test_the_opposite_of_a_text_does_not_hold_it(wanted: str, shown: str) -> None:
    past = make_past_with_revocation()
    view = [make_user_message(f"{RULE} {PERMISSION if wanted == BAN else ''}"), make_reply(shown), *past[-6:]]
    assert "must hold" in catch_lost(lambda _: view, past, must_hold=[wanted])


def test_a_list_that_is_changed_in_place_is_the_compactor_s_own() -> None:
    def shorten(messages: list[ChatMessage]) -> list[ChatMessage]:
        del messages[1:-6]
        return messages

    past = make_long_past()
    assert_survives(shorten, past, budget=1_500)
    assert len(past) == len(make_long_past())


def test_a_share_may_be_lost_that_need_not_be_kept() -> None:
    past = [
        make_user_message("Never use tabs anywhere in src/parser.py."),
        make_reply("Yes."),
        make_user_message("Always run make check before a push."),
    ]
    past += make_long_past()[1:]
    halved: Compactor = lambda messages: [messages[2], *messages[-6:]]  # noqa: E731 - a compactor is a function
    (found,) = assert_survives(halved, past, budget=1_500, at_least={"constraint": 0.5})
    assert found.kept["constraint"] == (1, 2)
    text = catch_lost(halved, past, budget=1_500, at_least={"constraint": 0.6})
    assert "1 of 2 kept (50%) where 60% has to be" in text
    assert "or lower at_least['constraint'] to 0.50" in text


# -- what fails, and how it is told ------------------------------------------------------------------------------------


def test_a_rule_that_is_dropped_is_named_with_its_message_and_the_next_step() -> None:
    text = catch_lost(make_newest_compactor(3), make_long_past(), budget=1_500)
    assert "constraint: 0 of 1 kept (0%) where 100% has to be" in text
    assert f"lost, message 0 (user): {RULE}" in text
    assert "tokens in 81 messages became" in text.splitlines()[1]
    assert "in 6; budget 1,500 (" in text.splitlines()[1]
    assert "next: carry over what is lost" in text
    assert "or take 'constraint' out of at_least" in text


def test_a_call_without_its_result() -> None:
    text = catch_lost(
        make_rule_compactor([make_call("read_file", {"path": "src/module_01.py"}, id_="c1")]),
        make_long_past(),
        budget=1_500,
    )
    assert "orphan call: 1, where none may be" in text
    assert "c1 is not answered" in text
    assert "next: drop or keep a tool call together with its results" in text
    assert "constraint" not in text


def test_a_result_without_its_call_may_be_let_through() -> None:
    orphan = make_rule_compactor([make_result("def handle_01_input(): pass", id_="c1")])
    assert "orphan result: 1, where none may be" in catch_lost(orphan, make_long_past(), budget=1_500)
    assert_survives(orphan, make_long_past(), budget=1_500, gates=["over budget"])


def test_a_path_that_the_session_never_held() -> None:
    text = catch_lost(
        make_rule_compactor([make_user_message("So far: src/invented/made_up.py was edited.")]),
        make_long_past(),
        budget=1_500,
    )
    assert "false facts: 1 in the result that the session never held" in text
    assert "the path src/invented/made_up.py, message 1 of the result" in text
    assert "next: write into a summary only names and numbers" in text


def test_a_result_above_the_budget_says_by_how_much() -> None:
    text = catch_lost(lambda messages: messages, make_long_past(), budget=0.1)
    assert "over budget: 1, where none may be" in text
    words = text.partition("over budget: ")[2].splitlines()[1].split()
    tokens, allowed, over = (int(words[i].replace(",", "")) for i in (0, 3, 6))
    assert tokens - allowed == over > 0
    assert f"raise the budget to {tokens:,} tokens" in text


def test_one_round_above_the_budget_is_found_though_the_last_is_within() -> None:
    sizes = itertools.chain([40], itertools.repeat(3))

    def cut_late(messages: list[ChatMessage]) -> list[ChatMessage]:
        return [messages[0], *messages[1:][-2 * next(sizes) :]]

    text = catch_lost(cut_late, make_long_past(), budget=1_500, rounds=4, gates=["over budget"])
    assert "tokens after compaction 1 where 1,500 were allowed" in text
    assert "after compaction 2" not in text
    assert "compacted 4 times" in text


def test_an_input_that_is_changed() -> None:
    def shout(messages: list[ChatMessage]) -> list[ChatMessage]:
        messages[0]["content"] = RULE.upper()
        return [messages[0], *messages[-6:]]

    text = catch_lost(shout, make_long_past(), budget=1_500)
    assert "changed input" in text
    assert "the messages that were passed in were changed" in text
    assert "change copies only" in text


def test_two_runs_that_differ() -> None:
    names = itertools.count(4_000)
    text = catch_lost(
        lambda messages: [*make_rule_compactor([])(messages), make_user_message(f"run {next(names)}")],
        make_long_past(),
        budget=1_500,
    )
    assert "two runs differ: 1, where none may be" in text
    again = itertools.count(1)
    numbered: Compactor = lambda messages: [  # noqa: E731
        *make_rule_compactor([])(messages),
        make_user_message(f"Go on ({next(again)})."),
    ]
    assert_survives(numbered, make_long_past(), budget=1_500, gates=["orphan call", "over budget"])


def test_what_was_superseded_is_told_apart_from_what_is_gone() -> None:
    tasks = [
        {"content": f"{what} module", "status": "pending"} for what in ("Rename the parser", "Document the writer")
    ]
    done = [{**tasks[0], "status": "completed"}, tasks[1]]
    past = [make_user_message("Plan it."), *make_step("todo_write", {"todos": tasks}, "ok", id_="a")]
    past += make_step("todo_write", {"todos": done}, "ok", id_="b")
    text = catch_lost(lambda messages: messages[:3], past, budget=10_000, at_least={"todo": 1})
    assert "todo: 1 of 2 kept (50%)" in text
    assert "superseded, yet still said, message 3 (assistant): Rename the parser module [completed]" in text


def test_own_texts_are_looked_for_with_their_anchor() -> None:
    past = [
        *make_long_past(),
        make_reply("The invoice total is 4,810.20 EUR after the discount."),
        make_user_message("Good."),
    ]
    held = {"must_hold": [("4,810.20", "invoice total discount")], "at_least": {}, "budget": 5_000}
    assert_survives(lambda messages: messages[-4:], past, **held)  # type: ignore[arg-type]
    apart: Compactor = lambda messages: [*messages[-4:-2], make_user_message("4,810.20")]  # noqa: E731
    text = catch_lost(apart, past, **held)
    assert "must hold: 0 of 1 kept (0%) where 100% has to be" in text
    assert "lost, message 81 (assistant): 4,810.20" in text


def test_secrets_and_control_sequences_are_not_printed() -> None:
    past = [make_user_message(f"Never write the token {KEY} into a\x1b[31m file of src/."), *make_long_past()]
    text = catch_lost(make_newest_compactor(3), past, budget=1_500, must_hold=[f"token {KEY}"])
    assert KEY not in text
    assert "\x1b" not in text
    assert text.count("[redacted]") >= 2


def test_many_losses_are_counted_not_listed() -> None:
    past = [
        m
        for n in range(9)
        for m in (make_user_message(f"Never edit the file docs/part{n}.md without Ines."), make_reply(f"OK {n}."))
    ]
    text = catch_lost(lambda messages: messages[-1:], past, budget=1_000)
    assert text.count("lost, message") == 5
    assert "and 4 more" in text


def test_a_policy_s_own_reason_is_told() -> None:
    text = catch_lost("clip", [make_user_message("Never do it. " + "word " * 3_000)], budget=100)
    assert "over budget: 1, where none may be" in text
    assert "too many; nothing: " in text


def test_a_method_that_is_unable_says_why() -> None:
    def refuse(messages: list[ChatMessage]) -> list[ChatMessage]:
        raise UnableError(f"the model is away, {len(messages)} messages wait")

    text = catch_lost(refuse, make_long_past(), budget=1_500)
    assert "unable: no result" in text
    assert "refuse could not: the model is away, 81 messages wait" in text
    assert "next: raise the budget" in text


# -- what cannot be meant ----------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "a kind": (lambda: assert_survives("tenfold", make_long_past(), at_least={"rule": 1}), "kind 'rule'"),  # type: ignore[dict-item]
    "a share": (lambda: assert_survives("tenfold", make_long_past(), at_least={"task": 2}), "at most 1"),
    "a gate": (lambda: assert_survives("tenfold", make_long_past(), gates=["orphans"]), "no gate"),  # type: ignore[list-item]
    "a policy": (lambda: assert_survives("tenfald", make_long_past()), "there are tenfold|tenfold"),
    "a budget": (lambda: assert_survives("tenfold", make_long_past(), budget=0), "budget of 0"),
    "one text": (lambda: assert_survives("tenfold", make_long_past(), must_hold="legacy"), "not one text"),
    "an empty text": (lambda: assert_survives("tenfold", make_long_past(), must_hold=[" "]), "empty text"),
    "what is not there": (
        lambda: assert_survives("tenfold", make_long_past(), must_hold=["no_such_name"]),
        "does not hold",
    ),
    "no messages": (lambda: assert_survives("tenfold", []), "no messages"),
    "texts": (lambda: assert_survives(lambda _: ["text"], make_long_past()), "convert it"),  # type: ignore[list-item]
    "rounds": (lambda: assert_survives("tenfold", make_long_past(), rounds=0), "at least once"),
    "nothing": (
        lambda: assert_survives(make_newest_compactor(1), [make_user_message("hi"), make_reply("hello")], budget=99),
        "could never fail",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_meant_is_refused(what: str) -> None:
    ask, told = WRONG[what]
    with pytest.raises(UsageError, match=told):
        ask()


def test_what_the_compactor_raises_is_the_caller_s_to_see() -> None:
    def raise_error(messages: list[ChatMessage]) -> list[ChatMessage]:
        raise ConnectionError(f"no model for {len(messages)} messages")

    with pytest.raises(ConnectionError, match="no model for 81"):
        assert_survives(raise_error, make_long_past())


def test_every_session_of_a_file_is_judged(tmp_path: Path) -> None:
    """tau2 keeps many conversations in one file."""
    talks = [
        [make_user_message(f"Never refund order W{n}00{n}, it is disputed."), make_reply("I see.")] for n in (1, 2)
    ]
    turns = [[{"role": m["role"], "content": m["content"]} for m in talk] for talk in talks]
    simulations = [{"id": f"s{n}", "task_id": str(n), "messages": talk} for n, talk in enumerate(turns)]
    (tmp_path / "runs.json").write_text(json.dumps({"tasks": [], "simulations": simulations}))
    text = catch_lost(lambda messages: messages[-1:], tmp_path / "runs.json", budget=1_000)  # type: ignore[arg-type]
    assert "runs.json#0: what has to survive" in text
    assert "runs.json#1: what has to survive" in text
    assert "W1001" in text and "W2002" in text  # noqa: PT018 - one fact
