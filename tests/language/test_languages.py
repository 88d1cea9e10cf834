"""Each language is recognised by its own words, with vowel signs as without, and its table holds what it may hold."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import snowballstemmer

from tenfold.compaction.facts.current_request import is_acknowledgement
from tenfold.compaction.facts.instructions import extract_instructions
from tenfold.compaction.facts.ledger import settle_rules
from tenfold.core.record.fact import Rule
from tenfold.core.text.language import Language, detect_language, load_languages
from tenfold.core.text.language_tables import LanguageTable, fold_letters, load_tables

SENTENCES = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text("utf-8"))


def find_rules(*said: str) -> list[str]:
    """The rules that hold after these messages."""
    found = [fact for at, text in enumerate(said) for fact in extract_instructions(at, text, first=False)]
    return [rule.text for rule in settle_rules(fact for fact in found if isinstance(fact, Rule)) if rule.live]


@pytest.mark.parametrize("language", load_languages(), ids=lambda language: language.code)
def test_a_language_is_recognised_by_its_sentences(language: Language) -> None:
    assert detect_language(" ".join(SENTENCES[language.code])) is language


def test_a_text_in_no_known_language_is_none() -> None:
    assert detect_language("Älä koskaan poista varmuuskopioita tästä kansiosta ilman lupaa.") is None
    assert detect_language("Μην διαγράψεις ποτέ τα αντίγραφα ασφαλείας.") is None


@pytest.mark.parametrize(
    ("plain", "signed"),
    [
        ("لا تحذف أبدا ملفات النسخ الاحتياطي.", "لَا تَحْذِفْ أَبَدًا مِلَفَّاتِ النَّسْخِ الِاحْتِيَاطِيِّ."),
        ("يجب أن تسأل قبل الحذف.", "يَجِبُ أَنْ تَسْأَلَ قَبْلَ الحَذْفِ."),
        ("אל תמחק את קבצי הגיבוי.", "אַל תִּמְחַק אֶת קָבְצֵי הַגִּבּוּי."),
    ],
)
def test_vowel_signs_make_no_difference(plain: str, signed: str) -> None:
    assert detect_language(signed) is detect_language(plain)
    assert find_rules(plain) == [plain]
    assert find_rules(signed) == [signed], "verbatim, with its signs"


@pytest.mark.parametrize("said", ["شُكْرًا", "تَمَامٌ", "תּוֹדָה", "cảm ơn nhé", "Cảm ơn bạn, tiếp tục đi", "תודה, תמשיך"])
def test_agreement_is_known_with_vowel_signs_and_in_the_new_languages(said: str) -> None:
    assert is_acknowledgement(said) == ("nhé" not in said)


@pytest.mark.parametrize(
    ("said", "holds"),
    [
        (["Đừng bao giờ xóa các bản sao lưu."], ["Đừng bao giờ xóa các bản sao lưu."]),
        (["Luôn hỏi tôi trước khi cài gói mới."], ["Luôn hỏi tôi trước khi cài gói mới."]),
        (["Không được sửa bảng giá.", "Giờ bạn có thể sửa bảng giá."], ["Giờ bạn có thể sửa bảng giá."]),
        (["Hãy đọc tệp này và tóm tắt nó."], []),
        (["Hôm nay không được chạy kiểm thử, lần này thôi."], []),
        (["לעולם אל תמחק את הגיבויים."], ["לעולם אל תמחק את הגיבויים."]),
        (["תמיד תשאל אותי לפני התקנה של חבילה."], ["תמיד תשאל אותי לפני התקנה של חבילה."]),
        (["אסור לשנות את טבלת המחירים.", "עכשיו מותר לשנות את טבלת המחירים."], ["עכשיו מותר לשנות את טבלת המחירים."]),
        (["קרא את הקובץ הזה וסכם אותו."], []),
        (["אל תריץ את הבדיקות הפעם."], []),
    ],
)
def test_instructions_in_vietnamese_and_hebrew(said: list[str], holds: list[str]) -> None:
    assert find_rules(*said) == holds


@pytest.mark.parametrize(
    ("one", "other", "code"),
    [
        ("the docstrings of functions", "each function's docstring", "en"),
        ("die Tabellen der Preise", "der Tabelle", "de"),
        ("les fichiers", "chaque fichier", "fr"),
        ("таблицы цен", "таблицу", "ru"),
    ],
)
def test_inflected_words_are_about_the_same_subject(one: str, other: str, code: str) -> None:
    language = next(each for each in load_languages() if each.code == code)
    assert language.find_subject(one) & language.find_subject(other)


@pytest.mark.parametrize(("code", "table"), load_tables().items(), ids=load_tables())
def test_a_table_is_in_lower_case_and_says_nothing_twice(code: str, table: LanguageTable) -> None:
    lists = {name: words for name in table.__struct_fields__ if isinstance(words := getattr(table, name), tuple)}
    assert {name: word for name, words in lists.items() for word in words if word != word.lower()} == {}, code
    assert {name: word for name, words in lists.items() for word in words if words.count(word) > 1} == {}, code
    assert {name: word for name, words in lists.items() for word in words if not fold_letters(word)} == {}, code


def test_the_stemmers_that_tables_name_exist() -> None:
    assert {table.stemmer for table in load_tables().values() if table.stemmer} <= set(snowballstemmer.algorithms())
