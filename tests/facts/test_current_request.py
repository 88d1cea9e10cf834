"""The current request is the user's newest message that asks for something: no thank you, in whatever language."""

from __future__ import annotations

import re

import pytest

from tenfold.compaction.facts.current_request import find_current_request, get_user_words, is_acknowledgement
from tenfold.compaction.facts.extractor import extract_facts
from tenfold.compaction.plan.protected import find_protected
from tenfold.core.record.fact import Fact
from tenfold.core.record.message import Image, Message, Text
from tenfold.core.text.language_tables import load_tables
from tests.engine.making import build_view, make_reply, make_user_message

REQUEST = "Why is the parser slow?"
THANKS = (
    "ok thanks, go on",
    "merci",
    "Merci beaucoup !",
    "d'accord, continue",
    "danke, passt",
    "Danke schön, weiter so.",
    "gracias",
    "vale, sigue",
    "¡Perfecto, muchas gracias!",
    "好的",
    "好的，谢谢！",
    "谢谢，继续",
    "了解です、ありがとうございます。",
    "はい、続けてください",
    "obrigado, pode continuar",
    "grazie mille, va bene",
    "спасибо, продолжай",
    "네, 감사합니다",
    "dank je wel, ga door",
    "👍",
    "Yes! 🎉",
)
ASKING = (
    "merci de corriger le test",
    "danke, aber das passt nicht",
    "gracias, ahora borra el archivo",
    "好的，但是不要删除文件",
    "ok, but keep the tests",
    "weiter mit dem Parser",
    "はい、テストも直して",
    "does it work?",
    "ok?",
    "👎",
    "...",
    "okra",
    "goto fail",
    "",
)


def extract(*messages: Message) -> list[Fact]:
    return list(extract_facts(list(enumerate(messages))))


@pytest.mark.parametrize("text", THANKS)
def test_a_mere_acknowledgement_is_neither_a_rule_nor_the_request(text: str) -> None:
    assert is_acknowledgement(text)
    facts = extract(make_user_message(REQUEST), make_reply("Done."), make_user_message(text))
    assert [f.text for f in facts if f.kind in ("rule", "correction")] == []
    assert [f.text for f in facts if f.kind == "request" and f.live] == [REQUEST]


@pytest.mark.parametrize("text", ASKING)
def test_a_message_that_says_more_is_none(text: str) -> None:
    assert not is_acknowledgement(text)


def test_the_newest_message_that_asks_is_the_request() -> None:
    assert find_current_request(["", "merci", "fix b", "fix a"]) == 2
    assert find_current_request(["", "danke", "ok"]) == 1, "where nothing was asked, the newest word of the user"
    assert find_current_request(["", ""]) is None
    assert find_current_request([]) is None


def test_only_the_users_own_words_count() -> None:
    picture = Message("user", (Text("<system-reminder>x</system-reminder>"), Image(media_type="image/png")), "human")
    assert get_user_words(make_user_message("<system-reminder>Be brief.</system-reminder>\nFix it.")) == "Fix it."
    assert get_user_words(picture) == get_user_words(make_reply("Fix it.")) == ""
    assert get_user_words(make_user_message("[Request interrupted by user]")) == ""


def test_what_is_protected_is_the_same_message() -> None:
    history = [
        make_user_message(REQUEST),
        make_reply("Done."),
        make_user_message("ok thanks, go on"),
        make_reply("On."),
    ]
    assert find_protected(build_view(history)) == {(0, 0, -1): "current request"}
    history[0] = make_user_message("hello")
    assert find_protected(build_view(history)) == {(2, 0, -1): "current request"}


def test_every_word_is_an_acknowledgement_by_itself_and_stands_once() -> None:
    tables = {code: table.acknowledging for code, table in load_tables().items()}
    for language, words in tables.items():
        assert len(set(words)) == len(words), language
        assert [w for w in words if not is_acknowledgement(w)] == [], language
        assert [w for w in words if w != w.lower() or re.search(r"\s{2}", w)] == [], language
    assert all(tables.values())
