"""What the tests of the preset `tail` share: a model that answers as its prompts ask, and sessions under the preset."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Sequence

from msgspec.structs import replace
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from tenfold.apps.agent import Agent
from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.summarize.headings import BRANCH_HEADINGS
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.ask import Answer, Outcome, SummaryAsk
from tenfold.core.record.block import Block, ModelCost
from tenfold.core.record.entry import Attempt, Entry, MessageEntry, Usage, get_message
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_text
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.designs.tail import CompactionResult, CompactionSettings, SessionManager
from tenfold.designs.tail.agent import TailAgent
from tenfold.designs.tail.compaction import SettingsProvider
from tenfold.designs.tail.hooks import EventName, TailEvent
from tenfold.designs.tail.policy import HEADINGS, tail
from tenfold.designs.tail.writer import PREFIX_HEADINGS
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore

COUNTER = CharacterCounter()
WINDOW = 15_000
SMALL = CompactionSettings(reserve_tokens=2_000, keep_recent_tokens=3_000)
FILLER = "nothing else of interest was found here and the work went on as it had been planned before. "


class Structured:
    """A model that answers under the headings that the purpose asks for; `said` names what came in. Counts calls."""

    def __init__(self, said: str = "the work went on", *, failing: Sequence[str] = ()) -> None:
        self.said, self.failing = said, failing
        self.asked: list[SummaryAsk] = []
        self._lock = threading.Lock()

    def answer(self, ask: SummaryAsk) -> Answer:
        with self._lock:
            self.asked.append(ask)
        if ask.purpose in self.failing:
            return Answer(error=f"the provider is down for {ask.purpose}", spent=ModelCost(1))
        names = {"prefix": PREFIX_HEADINGS, "branch": BRANCH_HEADINGS}.get(ask.purpose, HEADINGS)
        text = "\n".join(f"{name}\n{self.said} ({ask.purpose})" for name in names)
        return Answer(text=text, spent=ModelCost(1, len(ask.prompt) // 4, len(text) // 4, ask.model))


def make_user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def make_shell_message(text: str) -> Message:
    """A command that the user ran: a user line with a tool's output."""
    return Message("user", (Text(text),), "tool")


def make_harness_message(text: str) -> Message:
    """What a program put in."""
    return Message("user", (Text(text),), "harness")


def make_answer(text: str) -> Message:
    return Message("assistant", (Text(text),), "model")


def make_call(id: str, path: str = "src/a.py", name: str = "read") -> Message:
    return Message("assistant", (ToolCall(id, name, f'{{"path":"{path}"}}'),), "model")


def make_result(id: str, text: str = "done", name: str = "read") -> Message:
    return Message("tool", (ToolResult(id, name, (Text(text),)),), "tool")


def make_words(tokens: int) -> str:
    """A text of that many tokens, by characters / 4."""
    return (FILLER * (tokens * 4 // len(FILLER) + 1))[: tokens * 4]


def make_step(id: str, path: str, name: str = "read", text: str = "done") -> list[Message]:
    """A call and its result."""
    return [make_call(id, path, name), make_result(id, text, name)]


def make_steps(count: int, *, start: int = 0, tokens: int = 400) -> list[Message]:
    """Steps that read a file each and change it."""
    out: list[Message] = []
    for n in range(start, start + count):
        out += make_step(f"r{n}", f"src/part{n}.py", text=make_words(tokens))
        out += make_step(f"e{n}", f"src/part{n}.py", "edit")
    return out


def make_exchanges(count: int, *, start: int = 0, tokens: int = 400, each: int = 4) -> list[Message]:
    """Whole exchanges of about `each` times `tokens`."""
    out: list[Message] = []
    for n in range(start, start + count):
        out += [
            make_user(f"Please do part {n}."),
            *make_steps(each, start=n * each, tokens=tokens),
            make_answer(f"Part {n} is done."),
        ]
    return out


def make_path(messages: Sequence[Message]) -> list[Entry]:
    return [MessageEntry(f"id-{n:04}", f"id-{n - 1:04}" if n else None, "", n, m) for n, m in enumerate(messages)]


def build_view(entries: Sequence[Entry]) -> View:
    return View.from_path(Path(entries))


def build_preset(model: bool = True, *, reserve: int = 2_000, keep: int = 3_000) -> Policy:  # noqa: FBT001, FBT002 - a test's
    return tail(
        COUNTER,
        summary=SummarySettings(models=("m",) if model else ()),
        reserve_tokens=reserve,
        keep_recent_tokens=keep,
    )


def make_session(
    messages: Sequence[Message] = (),
    using: Policy | None = None,
    *,
    model: object = None,
    answerer: Answerer | None = None,
) -> Session:
    """A session under the preset whose summaries `model` writes."""
    writer = model if isinstance(model, Structured) else Structured()
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), "s"),
        using or build_preset(),
        answerer=answerer or Answerer(model=writer),
    )
    session.append(*messages)
    return session


def make_reported_session(tokens: int = 40_000) -> Session:
    """A session of six exchanges whose provider counts so many tokens, several times what the counter does."""
    session = make_session(make_exchanges(6))
    session.compactor.use_model("m")
    session.append(make_user("x"), make_answer("y"), usage=Usage.build(tokens, 10, model="m"))
    return session


class QuietModel(FunctionModel):
    """A model that answers "Fine." and reports no usage. At its first request it calls `tool`, if it is given one.

    The first `refusals` requests are refused with the text `refusal`. `requests` are the lists it was sent.
    """

    def __init__(self, tool: str = "", *, refusals: int = 0, refusal: str = "") -> None:
        self.requests: list[list[ModelMessage]] = []
        self._tool, self._refusals, self._refusal = tool, refusals, refusal
        super().__init__(self._answer)

    def _answer(self, messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        self.requests.append(list(messages))
        if len(self.requests) <= self._refusals:
            raise ModelHTTPError(400, "m", {"error": {"message": self._refusal}})
        if self._tool and len(self.requests) == 1:
            return ModelResponse([ToolCallPart(self._tool, {})])
        return ModelResponse([TextPart("Fine.")])

    async def request(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelResponse:
        response = await super().request(messages, settings, parameters)
        return dataclasses.replace(response, usage=RequestUsage())  # a guess of it would calibrate the readings


def make_agent(
    messages: Sequence[Message] = (),
    *,
    window: int = WINDOW,
    model: object = None,
    settings: CompactionSettings | SettingsProvider | None = SMALL,
    session: Session | None = None,
) -> TailAgent:
    """The design's agent over a session that holds these messages, with small sizes."""
    session = session or make_session(messages, model=model)
    agent = Agent(QuietModel(), session=session, window=window, settings=ModelSettings(max_tokens=1))
    return TailAgent(agent, settings=settings)


def invoke(agent: TailAgent, prompt: str = "") -> str:
    return asyncio.run(agent.invoke(prompt))


def run_compaction(agent: TailAgent, instructions: str | None = None) -> bool:
    return asyncio.run(agent.run_compaction(instructions))


def append_result(session: Session, result: CompactionResult) -> Outcome:
    """Appends what `Compaction.compact` gave, as the design's agent does."""
    return SessionManager(session).append_compaction(
        summary=result.summary,
        first_kept_entry_id=result.retained_from_id,
        tokens_before=result.tokens_before,
        details=result.details,
    )


def build_manual_call(session: Session, window: int = WINDOW) -> Call:
    return replace(session.compactor.build_call(window=window), demand="manual")


def get_entries(session: Session) -> list[Entry]:
    return session.address.store.read_entries(session.address.namespace, session.address.session)


def get_path(session: Session) -> list[Entry]:
    """The entries from the root to the leaf."""
    return list(session.view.path.get_entries(0, session.view.length - 1))


def get_asked(session: Session) -> list[SummaryAsk]:
    """What the session's model was asked."""
    model = session.compactor.answerer.model
    assert isinstance(model, Structured)
    return model.asked


def find_request(session: Session, number: int) -> str:
    """The id of the request that begins an exchange."""
    return next(e.id for e in get_entries(session) if get_message(e) == make_user(f"Please do part {number}."))


def compact_by_hand(session: Session, window: int = WINDOW) -> Outcome:
    """A manual compaction that must come about."""
    outcome = session.compact(build_manual_call(session, window))
    assert outcome.status == "compacted", outcome.reason
    return outcome


def get_blocks(session: Session) -> list[Block]:
    return [e for e in get_entries(session) if isinstance(e, Block)]


def get_attempts(session: Session) -> list[Attempt]:
    return [e for e in get_entries(session) if isinstance(e, Attempt)]


def get_summary(session: Session) -> str:
    """The newest summary in view, as the model sees it."""
    return next(
        get_text(s.message)
        for s in reversed(list(session.view.get_visible_messages()))
        if not s.is_original and s.original_position is None
    )


def read_file_lists(text: str) -> tuple[list[str], list[str]]:
    """The lines of a summary's lists of files, read and modified ones."""
    lists = (text.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0] for tag in ("read-files", "modified-files"))
    read, modified = (found.splitlines() for found in lists)
    return read, modified


def get_messages(path: Sequence[Entry]) -> list[Message]:
    return [m for e in path if (m := get_message(e)) is not None]


NAMES: tuple[EventName, ...] = (
    "session_before_compact", "session_compact", "auto_compaction_start", "auto_compaction_end", "save_point",
    "agent_end", "settled",
)  # fmt: skip


def record_events(agent: TailAgent) -> list[TailEvent]:
    """Every event from here on, in order."""
    events: list[TailEvent] = []
    for name in NAMES:
        agent.on(name)(lambda event, _ctx: events.append(event))
    return events


def get_kinds(events: list[TailEvent]) -> list[str]:
    return [event.type for event in events]
