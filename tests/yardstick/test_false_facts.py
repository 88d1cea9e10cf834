"""False facts: what a source does not hold is reported, whatever it resembles; what a view says of itself is not."""

from __future__ import annotations

import pytest

from tenfold.testing.false_facts import find_false_facts
from tenfold.testing.probes.kinds import ChatMessage
from tests.yardstick.chats import make_call, make_reply, make_user_message

FACTS = [
    make_user_message("Mend shop/money.py for SHOP-2291."),
    make_reply("In /home/dev I ran price_of on 12000 rows, see 1a2b3c4d."),
]
ORDER = [
    make_user_message(
        "Order W2378156 and port 84410, see shop/cart.py at 51234, host5x7 and rateLimits, $4,500 of v2.13.1"
    )
]
COMMIT = "7fc3a58ca262cc5d45396733f4f7aaa2b68ca5f8"


def get_false_texts(source: list[ChatMessage], text: str) -> list[str]:
    return [fact.text for fact in find_false_facts(source, [make_user_message(text)])]


def test_what_the_source_holds_is_true() -> None:
    view = [
        make_user_message(
            "money.py in shop/money.py, /home/dev/shop/money.py, 12,000 rows, SHOP-2291, price_of, 1a2b3c4d"
        )
    ]
    assert not find_false_facts(FACTS, view)
    assert not find_false_facts(FACTS, FACTS)
    assert not get_false_texts(ORDER, "w2378156, PORT 84,410, ./shop/cart.py, cart.py, 51,234, host5x7, 4500, 2.13.1")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("path", "shop/cash.py"),
        ("url", "https://shop.example/x"),
        ("id", "SHOP-2292"),
        ("symbol", "price_off"),
        ("symbol", "priceOf"),
        ("id", "1a2b3c4e"),
        ("number", "13000"),
        ("number", "$13000"),
        ("path", "this/that"),
    ],
)
def test_what_it_does_not_hold_is_false(kind: str, text: str) -> None:
    found = [
        (f.kind, f.text, f.index) for f in find_false_facts(FACTS, [FACTS[0], make_user_message(f"so {text} it is")])
    ]
    assert found == [(kind, text.lstrip("$"), 1)]


@pytest.mark.parametrize(
    "text",
    ["W9999999", "invented.py", "host5x77", "1234", "8441", "art.py", "W237815", "rateLimit", "shop/art.py", "host5x"],
)
def test_a_part_of_a_longer_name_is_not_held(text: str) -> None:
    """`host5x` has one digit: what two letters and one digit make up is no identifier."""
    assert get_false_texts(ORDER, f"so {text} it is") == ([] if text == "host5x" else [text])


@pytest.mark.parametrize(
    "text", ["W23781…", "W23781...", "W23781 ... and", "…78156", "[... 12 left ...] 78156", "W2378 […]"]
)
def test_names_cut_short_by_dots_are_held_where_a_name_begins_or_ends_so(text: str) -> None:
    assert not get_false_texts(ORDER, f"order {text} it is")


@pytest.mark.parametrize(("text", "name"), [("W99781…", "W99781"), ("…781W9", "781W9"), ("2378156...", "2378156")])
def test_a_name_that_dots_cut_short_may_be_invented_as_well(text: str, name: str) -> None:
    assert get_false_texts(ORDER, f"order {text} it is") == [name]


def test_a_commit_is_named_by_the_beginning_of_its_hash() -> None:
    source = [
        make_reply(f"commit {COMMIT}"),
        make_reply("blob 4973714dd00000000000000000000000000000000000 of 4973714"),
    ]
    assert not get_false_texts(source, f"{COMMIT[:7]} and {COMMIT[:12]}")
    assert get_false_texts(source, f"{COMMIT[1:8]} and {COMMIT[:7]}f") == [COMMIT[1:8], f"{COMMIT[:7]}f"]


def test_terminal_colours_are_no_letters_of_a_name() -> None:
    source = [make_reply("\x1b[2mclaude-sonnet-4\x1b[22m \x1b[1;32mpassed_all\x1b[0m")]
    assert not get_false_texts(source, "claude-sonnet-4 passed_all")
    assert not get_false_texts(source, "\x1b[1Gclaude-sonnet-4 \x1b[0Kpassed_all")
    assert get_false_texts(source, "\x1b[1;32mfailed_all") == ["failed_all"]


def test_the_id_of_a_call_is_held() -> None:
    source = [make_call("run", {}, id_="made_57_0_96d5190b")]
    assert not get_false_texts(source, "function_call run(...) [call_id=made_57_0_96d5190b]")
    assert get_false_texts(source, "function_call run(...) [call_id=made_58_0_96d5190b]") == ["made_58_0_96d5190b"]


def test_what_a_view_says_about_itself_is_no_fact() -> None:
    assert not get_false_texts(FACTS, "[12,345 tokens left out] [5678 lines omitted] [redacted]")
    assert not get_false_texts(FACTS, "The rest is in /conversation_history/session_1a2b3c4f.md")
    assert not get_false_texts(
        FACTS, "ran 155x: ls; Tools: bash 1042x, edit 98x. 1 earlier summary is searchable via memory_read"
    )
    assert not get_false_texts(FACTS, "[9 lines compressed to 1. Retrieve more: hash=602166da8144559a026d3c81]")
    assert not get_false_texts(
        FACTS, "[9 lines elided. Retrieve original: hash=602166da8144559a026d3c81] <<ccr:abc123,base64,2.0KB>>"
    )
    assert get_false_texts(FACTS, "on host 155x7 too") == ["155x7"]


def test_a_break_that_json_escapes_is_no_letter_of_a_name() -> None:
    source = [make_reply("it said: InvalidTotal")]
    assert not get_false_texts(source, r'{"text": "so:\nInvalidTotal"}')
    assert get_false_texts(source, r'{"text": "so:\nInvalidSum"}') == ["InvalidSum"]
    assert not get_false_texts([make_reply(r'{"text": "so:\nInvalidTotal"}')], "InvalidTotal")


def test_the_digits_of_a_name_before_a_unit_are_no_note_about_the_view() -> None:
    source = [make_user_message('{"payment": "credit_card_2112420", "items": 3}')]
    assert get_false_texts(source, "payment: credit_card_2112420 items: 3") == []
    assert get_false_texts(source, "[2,112 items]") == []
