"""`tiers`: an answer that is no summary leaves what the first two tiers did, and the reason is told to everyone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest
from pydantic_ai.models.function import FunctionModel
from textual.pilot import Pilot

from tenfold.apps.agent import Agent
from tenfold.apps.chat.app import Chat
from tenfold.apps.chat.transcript import build_event_line
from tenfold.compaction.summarize.check import Expectation, check_summary
from tenfold.compaction.summarize.headings import render_guide
from tenfold.compaction.summarize.literals import SourceText
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.core.record.ask import Outcome
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import Tokens
from tenfold.designs.tiers import (
    AgentEvent,
    CompactionConfig,
    CompactionStatus,
    SummarizationFailure,
    build_listener,
    get_summary,
)
from tenfold.designs.tiers.policy import HEADINGS, tiers
from tenfold.events import CompactionFailure, Event, SummaryFailure
from tenfold.models.provider import ProviderModel
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import AsyncSession, Session
from tenfold.session.drive import Answerer
from tests.chat.test_program import drive_chat, fail_stream, get_lines, send_text, wait_until
from tests.designs.tiers.making import GOOD, count_total, make_mixed_history, make_talk
from tests.engine.making import COUNTER, FILLER, get_blocks, make_reply, make_user_message, open_session
from tests.laws.presets import QUICK
from tests.models.conftest import SECRET
from tests.models.loopback import Loopback, Served, get_base_url

SEVEN = HEADINGS


def put_under_headings(*texts: str) -> str:
    return "\n".join(f"{heading}\n{texts[at % len(texts)]}\n" for at, heading in enumerate(SEVEN))


def put_names_under_headings(form: str) -> str:
    return "\n".join(f"{heading}\n{form.format(heading.removeprefix('## ').lower())}\n" for heading in SEVEN)


INVALID = {
    "one character": ScriptedReply(text="x"),
    "one character under each heading": ScriptedReply(text=put_under_headings("x")),
    "no heading": ScriptedReply(text=f"The work went on as it had been planned. {FILLER * 3}"),
    "cut off at its length": ScriptedReply(text=GOOD, finish="length"),
    "its template": ScriptedReply(text=put_names_under_headings("[Fill in {} here]")),
    "its template without brackets": ScriptedReply(text=put_names_under_headings("- Describe the **{}** of the work.")),
    "its template with the same place everywhere": ScriptedReply(text=put_under_headings("[what the work is about]")),
    "what it was told to write": ScriptedReply(
        text=render_guide(SEVEN, tiers(COUNTER).summary.sections).partition("\n\n")[2]
    ),
}


def compact_history(reply: ScriptedReply, history: list[Message] | None = None) -> tuple[Session, Outcome]:
    history = history or make_mixed_history()
    policy = tiers(COUNTER, summary=SummarySettings(models=("small",)))
    model = ScriptedModel([reply], repeat=True)
    session = open_session(history, policy, answerer=Answerer(model=model, retry_rule=QUICK))
    return session, session.compact(to=count_total(history) // 12)


@pytest.mark.parametrize("why", INVALID)
def test_an_answer_that_is_no_summary_keeps_what_the_first_tiers_did(why: str) -> None:
    session, outcome = compact_history(INVALID[why])
    assert outcome.status == "compacted"
    (block,) = get_blocks(session)
    assert {r.kind for r in block.replacements} == {"remove-outputs"}, outcome.notes
    assert block.rung == "none"
    assert SEVEN[0] not in (get_summary(session) or ""), "no heading is filled by code"
    assert any("no model gave a usable summary" in note for note in outcome.notes)


GERMAN = (
    "Bitte prüfe die Rechnungen und ändere die Vorlage für den Versand, damit die Anschrift vollständig erscheint. "
)
ENGLISH = (
    "The invoices were checked.", "The template for shipping shows the complete address now.",
    "Nothing failed on the way.", "The layout of the letters stays as it was before.",
    "They decided against a second column.", "The customer wants short sentences everywhere.",
    "Next, the remaining letters have to be proofread.",
)  # fmt: skip


TALK = """Fill in the form here: the state of the task, files, tools, history, errors, decisions, what the user gave as
guidance, the next steps. Describe the work and what it is about: each path that was read, written or edited, with what
matters, and what solved a problem or that it is still open."""


@pytest.mark.parametrize("why", [why for why in INVALID if why.startswith(("its template", "what it was told"))])
def test_an_echoed_template_says_nothing_even_where_the_conversation_has_its_words(why: str) -> None:
    history = [(make_user_message if n % 2 == 0 else make_reply)(f"{n}: {TALK} {FILLER * 3}") for n in range(60)]
    _, outcome = compact_history(INVALID[why], history)
    assert outcome.rung != "model"
    assert "of text, a summary has" in outcome.reason


def test_a_summary_in_another_language_or_in_a_few_words_is_one() -> None:
    history = make_mixed_history()
    terse = put_under_headings(
        "lib/part1.py, lib/part2.py, lib/part3.py", "run: output text", "work went on as planned"
    )
    session, outcome = compact_history(ScriptedReply(text=terse), history)
    assert outcome.rung == "model", outcome.notes
    german = [(make_user_message if n % 2 == 0 else make_reply)(f"{n}: {GERMAN * 6}") for n in range(60)]
    session, outcome = compact_history(ScriptedReply(text=put_under_headings(*ENGLISH)), german)
    assert outcome.rung == "model", outcome.notes
    assert "proofread" in (get_summary(session) or "")


_NAMES = [heading.removeprefix("## ") for heading in SEVEN]


@pytest.mark.parametrize("form", ["{number}. {upper}: {text}", "**{name}:** {text}", "{name}: {text}"])
def test_sections_on_one_line_with_their_headings_are_sections(form: str) -> None:
    """The document's prompt itself names them so, "1. TASK STATE: ...", and models answer in kind."""
    text = "The work went on as it had been planned: all of it."
    lines = [form.format(number=n, name=name, upper=name.upper(), text=text) for n, name in enumerate(_NAMES, 1)]
    session, outcome = compact_history(ScriptedReply(text="\n".join(lines)))
    assert (outcome.rung, outcome.notes) == ("model", ())
    assert "\n".join(f"{heading}\n{text}" for heading in SEVEN) in (get_summary(session) or "")


SAID = {
    "en": "The login page stays empty since the framework went to version 5. Find out why, and never touch billing. "
    "I looked at the router: it expects a function now, so nothing was rendered. I changed the table of routes. ",
    "de": "Seit der Umstellung auf Version 5 bleibt meine Anmeldeseite leer. Finde heraus, woran das liegt, und fasse "
    "billing niemals an. Ich habe mir den Router angesehen: Er erwartet nun eine Funktion. Die Tabelle ist geändert. ",
    "zh": "我把框架升级到第五版之后，登录页面变成一片空白。请查一下原因，绝对不要动 billing 文件夹。"
    "我看了路由器的代码，新版本要求传入函数，所以什么都没有渲染出来。我修改了路由表，现在页面又能显示了。",
    "ja": "フレームワークをバージョン5に更新したら、ログインページが真っ白になりました。原因を調べてください。"
    "ルーターを確認しました。新しいバージョンでは関数が必要なため、何も描画されていませんでした。表を直しました。",
    "ru": "После обновления до версии 5 моя страница входа стала пустой. Выясни, почему, и никогда не трогай billing. "
    "Я посмотрел маршрутизатор: он ожидает функцию, поэтому ничего не отображалось. Я изменил таблицу маршрутов. ",
}
SUMMED_UP = {
    "en": "Empty sign-in screen caused by a breaking change in routing; repaired. The billing folder is off limits.",
    "en in notes": "Login blank, cause: router expecting function. Fix: routes rewritten, rendering restored. "
    "Verification: browser check covering form presence, suite green. Constraint: billing directory frozen.",
    "de": "Leere Anmeldung wegen inkompatibler Routen behoben; das Verzeichnis billing ist tabu und bleibt so.",
    "de in notes": "Ziel: leere Anmeldeseite untersuchen. Ursache: geänderte Schnittstelle. Lösung: Tabelle angepasst. "
    "Absicherung: neuer Formulartest, alles grün. Vorgabe: Ordner billing gesperrt. Offen: nichts.",
    "zh": "升级后登录界面空白的问题已经修复，起因是路由接口变更。补充了回归测试且全部通过。用户禁止改动计费目录。",
    "ja": "更新後にログイン画面が空白になる不具合は、ルート定義の変更で修正済み。再発防止のテストを追加し、全件成功。",
    "ru": "Пустая форма входа исправлена: причина в несовместимом маршруте. Каталог billing трогать запрещено.",
    "el": "Η κενή σελίδα σύνδεσης οφειλόταν σε αλλαγή του δρομολογητή· διορθώθηκε. Ο φάκελος billing δεν αλλάζει.",
}


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("summed_up", SUMMED_UP)
def test_a_true_summary_in_other_words_is_one_in_any_language(said: str, summed_up: str) -> None:
    """Notes without sentences, pairs of Chinese characters and unlisted languages were taken for random words."""
    talk = [(make_user_message if n % 2 == 0 else make_reply)(f"{n}: {SAID[said] * 4}") for n in range(40)]
    _, outcome = compact_history(ScriptedReply(text=put_under_headings(SUMMED_UP[summed_up], *["none"] * 6)), talk)
    assert (outcome.rung, outcome.notes) == ("model", ())


def test_a_short_conversation_has_a_short_summary() -> None:
    greeting = SourceText("Hello! How can I help you?")
    assert explain("The user said hello.", greeting) == ()
    assert explain("x, y", greeting) == ("no summary: 2 letters of text, a summary has 4 or more",)
    assert explain("Hello.", SourceText(FILLER * 40)) == ("no summary: 2 tokens of text, a summary has 20 or more",)


def explain(text: str, source: SourceText) -> tuple[str, ...]:
    expected = Expectation(source, 1_000, is_strict=True)
    return tuple(map(str, check_summary(text, finish="stop", expected=expected, count=COUNTER.count)))


def test_an_answer_that_the_repair_makes_good_is_used() -> None:
    history = make_mixed_history()
    for first in INVALID.values():
        policy = tiers(COUNTER, summary=SummarySettings(models=("small",)))
        model = ScriptedModel([first, GOOD])
        session = open_session(history, policy, answerer=Answerer(model=model, retry_rule=QUICK))
        outcome = session.compact(to=count_total(history) // 12)
        assert [ask.purpose for ask in model.asks] == ["first", "repair"]
        assert outcome.rung == "model"
        assert "The work goes on as planned." in (get_summary(session) or "")


WRITER = "openai:gpt-4o-mini"
WRONG_KEY = Served(status=401, error=f"Incorrect API key provided: {SECRET}")
WINDOW = 16_000
SMALL = CompactionConfig(context_window=24_000)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


def open_tiers(history: Sequence[Message], answerer: Answerer, models: tuple[str, ...] = (WRITER,)) -> Session:
    return open_session(history, tiers(COUNTER, summary=SummarySettings(models=models)), answerer=answerer)


def find_failure(told: Sequence[Event]) -> SummaryFailure:
    (found,) = [event for event in told if isinstance(event, SummaryFailure)]
    return found


@pytest.mark.parametrize("is_async", [False, True])
def test_a_wrong_key_is_told_at_once_in_an_event_and_the_log(
    caplog: pytest.LogCaptureFixture, *, is_async: bool
) -> None:
    told: list[Event] = []
    designs_own: list[AgentEvent] = []
    history = make_mixed_history()
    with Loopback(WRONG_KEY) as loopback:
        model = ProviderModel(WRITER, base_url=get_base_url(WRITER, loopback))
        listeners = (told.append, build_listener(designs_own.append))
        session = open_tiers(history, Answerer(model=model, listeners=listeners, retry_rule=QUICK))
        to = count_total(history) // 12
        with caplog.at_level(logging.WARNING, logger="tenfold"):
            outcome = asyncio.run(AsyncSession(session).compact(to=to)) if is_async else session.compact(to=to)
        assert len(loopback.requests) == 1, "a wrong key is not tried again"
    assert outcome.status == "compacted"
    assert [type(event).__name__ for event in told] == ["CompactionStart", "SummaryFailure", "CompactionEnd"]
    reason = find_failure(told).reason
    assert "HTTP 401" in reason
    assert SECRET not in reason
    assert designs_own == [SummarizationFailure(reason), CompactionStatus(outcome.tokens_before, outcome.tokens_after)]
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tenfold", "WARNING")
    assert "HTTP 401" in record.getMessage()
    assert SECRET not in caplog.text


def test_that_the_next_model_had_to_write_is_told_too() -> None:
    """Otherwise a wrong key for the cheap model is paid for with the dear one, and nobody hears of it."""
    told: list[Event] = []
    model = ScriptedModel([ScriptedReply(error="HTTP 401: wrong key"), GOOD])
    session = open_tiers(make_talk(), Answerer(model=model, listeners=(told.append,)), ("cheap", "dear"))
    outcome = session.compact(to=count_total(make_talk()) // 2)
    assert outcome.rung == "next_model"
    assert "cheap" in find_failure(told).reason
    assert "HTTP 401: wrong key" in find_failure(told).reason


def test_where_nothing_could_be_kept_the_failure_itself_is_the_event(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Event] = []
    designs_own: list[AgentEvent] = []
    model = ScriptedModel([ScriptedReply(error="HTTP 500")], repeat=True)
    session = open_tiers(
        make_talk(), Answerer(model=model, listeners=(told.append, build_listener(designs_own.append)))
    )
    with caplog.at_level(logging.WARNING, logger="tenfold"):
        assert session.compact(to=count_total(make_talk()) // 2).status == "failed"
    assert [type(event).__name__ for event in told] == ["CompactionStart", "CompactionFailure"]
    (failure,) = designs_own
    assert isinstance(failure, SummarizationFailure)
    assert "HTTP 500" in failure.reason
    assert "HTTP 500" in caplog.text


def test_a_good_summary_and_one_by_code_tell_of_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    for models, model in ((("m",), ScriptedModel([GOOD])), ((), None)):
        told: list[Event] = []
        session = open_tiers(make_talk(), Answerer(model=model, listeners=(told.append,)), models)
        assert session.compact(to=count_total(make_talk()) // 2).status == "compacted"
        assert [type(event).__name__ for event in told] == ["CompactionStart", "CompactionEnd"]
    assert caplog.records == []


def test_the_chat_shows_a_line() -> None:
    history = make_mixed_history()

    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(chat, pilot, "/compact")
        await wait_until(pilot, lambda: any("HTTP 401" in line for line in get_lines(chat)), "the reason is shown")
        await wait_until(pilot, lambda: any("context compacted" in line for line in get_lines(chat)), "and the mark")
        assert SECRET not in "\n".join(get_lines(chat))

    with Loopback(WRONG_KEY) as loopback:
        writer = ProviderModel(WRITER, base_url=get_base_url(WRITER, loopback))

        def open_agent(ui: Chat, _: str) -> Agent:
            session = open_tiers(history, Answerer(model=writer))
            model = FunctionModel(stream_function=fail_stream, model_name="scripted")
            return Agent(model, session=session, window=WINDOW, extensions=(ui.extension,))

        drive_chat(lambda: Chat(open_agent), play_scenario)


def test_the_line_names_the_reason() -> None:
    line = build_event_line(SummaryFailure("s", "small: the call failed: HTTP 401: wrong\x1b[2J key", 0))
    assert line is not None
    assert line.kind == "trouble"
    assert line.text == "a summary model failed: small: the call failed: HTTP 401: wrong key"
    outcome = Outcome("failed", "no model gave a usable summary", Tokens(1), Tokens(1), Tokens(1))
    failed = build_event_line(CompactionFailure("s", outcome, 0))
    assert failed is not None
    assert failed.kind == "trouble"
