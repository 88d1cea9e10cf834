"""A provider on this machine that makes an agent work for many steps, and refuses what a real one would refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai.settings import ModelSettings

from tenfold.apps.agent import Agent
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.summarize.headings import BRANCH_HEADINGS
from tenfold.config.extensions import Extension
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter, choose_counter
from tenfold.core.record.block import Block
from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import Message, get_tool_calls, get_tool_result
from tenfold.designs.tail.writer import PREFIX_HEADINGS
from tenfold.models.provider import open_client
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.models.loopback import Got, Loopback, Served, get_base_url
from tests.models.provider_rules import Issued, Refusal, find_refusal

OPENAI, ANTHROPIC = "openai:gpt-4o-mini", "anthropic:claude-opus-4-6"
DONE = "All of it is done."
RULE = "Never touch lib/old.py."
TASK = f"Please look at every part. {RULE}"
CLIENTS = (
    "openai:gpt-4o-mini",
    "openai-responses:gpt-5-mini",
    "anthropic:claude-opus-4-6",
    "google:gemini-3-flash-preview",
)
"""A model of each API that has rules here, of those that think where the API gives thoughts."""
PolicySource = Policy | Callable[[], Policy]


class Provider(Loopback):
    """Calls the tool `look` for `steps` steps, then says that it is done. Refuses what is ill-formed or too long.

    `per` bytes of a request are a token, and `says` are those that it says with each step. `also` may answer a
    request in another way, as long as it is well-formed. With `thinks` the model thinks before each answer, and what
    it thought is signed; with `several` each so many-th step makes three calls at once. A request without tools asks
    for a summary: `writes` answers it.
    """

    def __init__(
        self,
        steps: int,
        window: int,
        *,
        also: Callable[[int, Got], Served | None] | None = None,
        writes: Callable[[Got], Served] | None = None,
        per: int = 4,
        says: int = 0,
        thinks: bool = False,
        several: int = 0,
        kept: int = 1_000,
    ) -> None:
        super().__init__(script=self._serve_request, sent=self._note_signatures, kept=kept)
        self.steps, self.window, self._also, self._writes = steps, window, also, writes or serve_summary
        self._per, self._says, self._thinks, self._several = per, says, thinks, several
        self.done = 0
        self.calls = 0
        self.summaries = 0
        self.sizes: list[int] = []
        self.told = 0
        self.refused: list[tuple[int, Refusal]] = []
        self.overflows = 0
        self.issued = Issued()
        self._newest: Got | None = None

    @property
    def newest_prompt(self) -> str:
        """The run's own newest request as text. Summaries are asked for beside it, and may come later."""
        assert self._newest is not None
        return self._newest.prompt

    def _note_signatures(self, api: str, answer: dict[str, Any]) -> None:
        self.issued.note(api, answer)

    def measure(self, got: Got) -> int:
        """How many tokens a request has."""
        return got.size // self._per

    def _serve_request(self, got: Got) -> Served:
        size = self.measure(got)
        broken = find_refusal(got.api, got.body, issued=self.issued, tokens=size, window=self.window)
        if broken is not None:
            if ".window" in broken.rule:
                self.overflows += 1
            else:
                self.refused.append((self.done, broken))
            return Served(status=broken.status, body=broken.body)
        if not got.body.get("tools"):
            self.summaries += 1
            return self._writes(got)
        self._newest = got
        self.told += max(size - (self.sizes[-1] if self.sizes else 0), 0)
        self.sizes.append(size)
        other = self._also(self.done, got) if self._also is not None else None
        return other if other is not None else self._serve_step(size)

    def _serve_step(self, size: int) -> Served:
        self.done += 1
        thought = (f"Thinking of step {self.done}.", f"signed-{self.done}") if self._thinks else None
        if thought is not None and self.done % 10 == 0:
            thought = ("", f"redacted-{self.done}")
        if self.done > self.steps:
            return Served(DONE, tokens=(size, 20), thought=thought)
        many = 3 if self._several and self.done % self._several == 0 else 1
        calls = []
        for _ in range(many):
            self.calls += 1
            calls.append((f"n{self.calls}", "look", {"path": f"src/part{self.calls}.py"}))
        text = (f"Step {self.done} of {self.steps}. " * (1 + self._says // 20)).rstrip()
        return Served(text, "tool", tokens=(size, 40), call=calls[0], also=tuple(calls[1:]), thought=thought)


def serve_summary(got: Got) -> Served:
    """A summary as a model writes one: with the headings that it was asked for, one line under each."""
    known = [
        *(make(CharacterCounter()).summary.headings for make in POLICIES.values()),
        PREFIX_HEADINGS,
        BRANCH_HEADINGS,
    ]
    headings = next((each for each in known if each and all(heading in got.prompt for heading in each)), ())
    text = "\n".join(f"{heading}\n- The parts were looked at in turn.\n" for heading in headings)
    return Served(text or "The parts were looked at in turn.", tokens=(got.size // 4, 60))


def build_settings(model: str) -> ModelSettings:
    """What a request asks for beside its list: how long the answer may be, and that an Anthropic model thinks."""
    thinking = {"anthropic_thinking": {"type": "adaptive"}} if model.startswith("anthropic") else {}
    return ModelSettings(max_tokens=1_000, **thinking)  # type: ignore[typeddict-item,no-any-return] # a client's own settings


async def look(path: str) -> str:
    """Reads a file.

    Args:
        path: Which one.
    """
    return f"# {path}\n" + "".join(f"{path} line {n}: value = {n * 37 % 101}\n" for n in range(40))


# -- a session and what is in its log ----------------------------------------------------------------------------------


def make_session(
    policy: str | Policy | Callable[[], Policy] = "tenfold", *, answerer: Answerer | None = None
) -> Session:
    chosen = build_policy(policy, choose_counter("claude").counter) if isinstance(policy, str) else policy
    return Session.create(SessionAddress(SqliteStore(":memory:"), "s"), chosen, answerer=answerer)


def make_agent(
    provider: Provider,
    model: str = OPENAI,
    *,
    memory: Session | None = None,
    tools: Sequence[object] = (look,),
    extensions: Sequence[Extension] = (),
) -> Agent:
    """An agent that works with a model of this provider."""
    return Agent(
        open_client(model, get_base_url(model, provider)),
        session=memory or make_session(),
        window=provider.window,
        instructions="Be brief.",
        settings=build_settings(model),
        tools=tools,
        extensions=extensions,
    )


def get_messages(log: Session) -> list[Message]:
    path = log.view.path
    return [entry.message for p in range(path.length) if isinstance(entry := path.get_entry(p), MessageEntry)]


def get_blocks(log: Session) -> list[Block]:
    path = log.view.path
    return [b for p in range(path.length) if isinstance(b := path.get_entry(p), Block)]


def assert_log_complete(log: Session, calls: int) -> None:
    """Every call of the tool and its result is in the log, once and in order."""
    said = get_messages(log)
    called = [call for message in said for call in get_tool_calls(message) if call.name == "look"]
    answered = [part.call_id for m in said if (part := get_tool_result(m)) is not None and part.name == "look"]
    assert [json.loads(c.arguments) for c in called] == [{"path": f"src/part{n}.py"} for n in range(1, calls + 1)]
    assert answered == [call.id for call in called]
    assert len(set(answered)) == calls
