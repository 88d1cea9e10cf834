"""Clauses: what they are about, and whether they deny it."""

from __future__ import annotations

import pytest

from tenfold.compaction.summarize.negation import detect_language, find_stems, read_clauses, stem_word


@pytest.mark.parametrize(
    ("affirmed", "denied"),
    [
        ("push to main", "never push to main"),
        ("pushing to main is allowed", "pushing to main is not allowed"),
        ("the vendor folder may be changed", "the vendor folder is off limits"),
        ("never skip the tests", "skip the tests"),
        ("rename the functions", "keep the functions as they are"),
        ("Du darfst auf main pushen", "Du darfst nicht auf main pushen"),
        ("Pousse sur main", "Ne pousse pas sur main"),
        ("Se puede subir a main", "No subas nunca a main"),
        ("Pode enviar para main", "Não envie nada para main"),
        ("Puoi inviare a main", "Non inviare niente a main"),
        ("Je mag naar main pushen", "Je mag niet naar main pushen"),
        ("Możesz wypychać do main", "Nigdy nie wypychaj do main"),
        ("main dalına gönderebilirsin", "main dalına asla gönderme"),
        ("Можно пушить в main", "Никогда не пушь в main"),
        ("可以推送到main", "不要推送到main"),
        ("mainにプッシュしてください", "mainにプッシュしないでください"),
        ("main에 푸시하세요", "main에 푸시하지 마세요"),
        ("يمكنك الدفع إلى main", "لا تدفع إلى main"),
        ("main पर पुश करो", "main पर पुश मत करो"),
    ],
)
def test_a_clause_is_affirmed_or_denied(affirmed: str, denied: str) -> None:
    assert not any(clause.is_denied for clause in read_clauses(affirmed))
    assert any(clause.is_denied for clause in read_clauses(denied))


def test_each_clause_has_its_own_polarity() -> None:
    found = {stem: clause.is_denied for clause in read_clauses("Use tabs, not spaces") for stem in clause.stems}
    assert found == {stem_word("tabs"): False, stem_word("spaces"): True}
    listed = read_clauses("never touch orders, data or the vendor folder")
    assert [clause.is_denied for clause in listed] == [True]


def test_a_condition_is_noted() -> None:
    assert all(clause.is_conditional for clause in read_clauses("never deploy before I say so"))
    assert not any(clause.is_conditional for clause in read_clauses("never deploy"))


@pytest.mark.parametrize(
    "forms", ["push pushes pushing pushed", "query queries", "deny denied denies", "test tests testing", "post posts"]
)
def test_inflected_forms_have_one_stem(forms: str) -> None:
    assert len(set(map(stem_word, forms.split()))) == 1


def test_stems_of_text_without_spaces() -> None:
    assert find_stems("推送代码") & find_stems("不要推送")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Is the build green, and do we have to wait for it?", "en"),
        ("Bitte starte die Datenbank nicht, solange die Kunden online sind", "de"),
        ("Ne touche pas à la base, elle est pour les clients", "fr"),
        ("не трогай базу", "ru"),
        ("不要重启", "zh"),
        ("what did i just execute?", ""),
        ("I set the label to 日 in app.py and ran it", "en"),
    ],
)
def test_a_language_is_guessed_only_if_the_words_tell(text: str, language: str) -> None:
    assert detect_language(text) == language
