from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.meter.counters import (
    MAX_CHUNK_CHARACTERS,
    MESSAGE_OVERHEAD,
    BytePairCounter,
    CharacterCounter,
    choose_counter,
    find_family,
    get_family_factor,
    is_bpe_installed,
    measure_messages,
)
from tenfold.core.meter.model_names import normalize_model_name
from tenfold.core.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.record.token_reading import NO_TOKENS

SENTENCES = {
    "zh": "我们需要在部署之前检查配置文件是否正确，并且确保数据库迁移已经完成。",
    "zh-Hant": "請先確認伺服器的記錄檔案，然後再重新啟動服務。如果發生錯誤，請立即通知負責的工程師。",
    "ja": "デプロイする前に設定ファイルが正しいことを確認し、データベースの移行が完了していることを確かめてください。",
    "ko": "배포하기 전에 설정 파일이 올바른지 확인하고 데이터베이스 마이그레이션이 완료되었는지 확인하십시오.",
}


class Length:
    """Counts characters: makes every size visible in a test. Remembers how many texts came in each batch."""

    name = "length"

    def __init__(self) -> None:
        self.batches: list[int] = []

    def count(self, texts: Sequence[str]) -> list[int]:
        self.batches.append(len(texts))
        return [len(t) for t in texts]


def measure_parts(*parts: Part) -> int:
    return measure_messages([Message("user", parts, "human")], Length(), overhead=NO_TOKENS)[0]


def test_a_quarter_of_a_token_per_character_rounded_up() -> None:
    assert CharacterCounter().count(["", "a", "abcd", "hello", "a" * 400]) == [0, 1, 1, 2, 100]
    assert CharacterCounter().count(["Привет"]) == [2]


@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_cjk_counts_about_as_a_real_vocabulary_does(sentence: str) -> None:
    by_rule, quarter = CharacterCounter().count([sentence])[0], -(-len(sentence) // 4)
    o200k, cl100k = BytePairCounter("o200k").count([sentence])[0], BytePairCounter("cl100k").count([sentence])[0]
    assert by_rule >= o200k
    assert by_rule <= 2 * o200k
    assert abs(by_rule - cl100k) < 0.35 * cl100k
    assert quarter < 0.6 * o200k, "the rule would not be needed"


def test_mixed_text_is_split_by_script() -> None:
    assert CharacterCounter().count(["abcd漢字efgh"]) == [2 + 2]


def test_the_vocabulary_is_the_published_one() -> None:
    assert BytePairCounter("o200k").count(["hello world", "", "<|endoftext|>"]) == [2, 0, 7]
    assert BytePairCounter("cl100k").count(["hello world", "how many tokens?"]) == [2, 4]


def test_a_very_large_text_is_cut_where_the_vocabulary_cuts() -> None:
    line = "def f(x): return x + 1  # counted\n\n    indented();\n//\n"
    whole = line * (3 * MAX_CHUNK_CHARACTERS // len(line))
    assert len(whole) > 2 * MAX_CHUNK_CHARACTERS
    per_line = BytePairCounter().count([line * 1000])[0] / 1000
    assert BytePairCounter().count([whole, "hello world"]) == [round(per_line * (len(whole) // len(line))), 2]


def test_a_large_text_without_lines_is_still_counted_within_a_token_per_cut() -> None:
    assert (
        abs(
            BytePairCounter().count(["ab" * MAX_CHUNK_CHARACTERS])[0]
            - 2 * BytePairCounter().count(["ab" * (MAX_CHUNK_CHARACTERS // 2)])[0]
        )
        <= 2
    )


def test_lone_surrogates_are_counted_not_refused() -> None:
    assert BytePairCounter().count(["a\ud83db", "ok"]) == BytePairCounter().count(["a\ufffdb", "ok"])


def test_every_part_of_a_message_is_counted() -> None:
    assert measure_parts(Text("12345"), Thinking("123", signature="x" * 500)) == 8
    assert measure_parts(Thinking("1" * 40, signature="x" * 1_000)) == 40
    assert measure_parts(Thinking("", signature="x" * 4_000)) == (3_000 - 650) // 4
    assert measure_parts(Thinking("123", signature="x" * 4_000)) == (3_000 - 650) // 4
    assert measure_parts(ToolCall("call-id", "read", '{"path": "a"}')) == 4 + 13
    result = ToolResult("call-id", "read", (Text("123456"), Image(width=280, height=10), Document(text="12")))
    assert measure_parts(result) == 4 + 6 + 10 + 2
    assert measure_parts(OpaquePart("odd", b"x" * 9)) == 3


def test_a_frame_is_added_per_message() -> None:
    messages = [Message("user", (), "human"), Message("user", (Text("abcd"),), "human")]
    assert measure_messages(messages, CharacterCounter()) == [MESSAGE_OVERHEAD, MESSAGE_OVERHEAD + 1]


def test_all_texts_are_counted_in_one_batch() -> None:
    counter = Length()
    measure_messages([Message("user", (Text("a"), Text("b")), "human")] * 50, counter)
    assert counter.batches == [100]


@given(st.lists(st.text(max_size=60), max_size=6))
def test_a_count_is_never_negative_and_grows_with_the_text(texts: list[str]) -> None:
    for counter in (CharacterCounter(), BytePairCounter()):
        counts = counter.count(texts)
        assert len(counts) == len(texts)
        assert all(n >= (1 if t else 0) for n, t in zip(counts, texts, strict=True))
    longer = CharacterCounter().count([t + "x漢" for t in texts])
    assert all(more > n for more, n in zip(longer, CharacterCounter().count(texts), strict=True))


@pytest.mark.parametrize(
    ("model", "encoding", "factor"),
    [
        ("gpt-4o-mini", "o200k", 1.0),
        ("openai/gpt-4-0613", "cl100k", 1.0),
        ("gpt-4.1", "o200k", 1.0),
        ("gpt-5", "o200k", 1.0),
        ("claude-3-5-sonnet-20241022", "o200k", 1.25),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "o200k", 1.25),
        ("anthropic/claude-sonnet-4.5", "o200k", 1.25),
        ("claude-opus-4-7", "o200k", 1.6),
        ("claude-sonnet-5-5", "o200k", 1.6),
        ("mystery", "o200k", 1.25),
        (None, "o200k", 1.25),
    ],
)
def test_each_family_has_its_counter_and_correction(model: str | None, encoding: str, factor: float) -> None:
    counter, note = choose_counter(model)
    assert counter.name == encoding
    assert bool(note) == (factor != 1.0)
    assert get_family_factor(model, encoding) == factor
    assert find_family(model).evidence


def test_characters_have_one_correction_for_all() -> None:
    assert get_family_factor("gpt-5", "chars4") == get_family_factor("claude-opus-4-7", "chars4") == 1.35


def test_a_model_loses_its_router_and_cloud() -> None:
    assert normalize_model_name(" Models/Gemini-2.5-Pro ") == "gemini-2.5-pro"
    assert normalize_model_name("global.anthropic.claude-x") == "claude-x"


WITHOUT = """
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "toktok" else super().find_spec(name, path, target)
sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""


def run_code(code: str) -> str:
    """What a fresh interpreter prints."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=500, env=env, check=True
    )
    return done.stdout


def test_without_the_vocabulary_the_fallback_says_so() -> None:
    code = (
        "from tenfold.core.meter.counters import choose_counter\n"
        "chosen = choose_counter('gpt-5')\nprint(*chosen.counter.count(['a' * 9]), chosen.note)"
    )
    assert "toktok-rs is not installed" in run_code(WITHOUT + code)
    assert run_code(WITHOUT + code).startswith("3 ")
    assert "toktok" not in run_code(code)


def test_the_vocabulary_is_loaded_only_to_count() -> None:
    code = (
        "import sys\nfrom tenfold.core.meter.counters import choose_counter\n"
        "c = choose_counter('gpt-5').counter\nprint('toktok' in sys.modules)\nc.count(['a'])\n"
        "print('toktok' in sys.modules)"
    )
    assert run_code(code).split() == ["False", "True"]
    assert is_bpe_installed()
