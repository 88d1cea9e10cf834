"""Compacts a plain list of provider messages without a store. It runs the same engine over an in-memory log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, get_args

import msgspec

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.draft import RecallMode
from tenfold.compaction.trigger.limits import Demand, check_window
from tenfold.compaction.trigger.sizes import Size
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.ask import Outcome, render_table
from tenfold.core.record.message import Message, Text
from tenfold.core.text.redaction import redact
from tenfold.core.wire import WIRES, OriginCallback, detect_wire, encode_messages, parse_value
from tenfold.core.wire.base import EncodedList
from tenfold.core.wire.decoded_history import find_ends
from tenfold.core.wire.given_values import list_messages
from tenfold.core.wire.registry import explain_name
from tenfold.core.wire.sdk_values import render_value
from tenfold.core.wire.system_prompt import take_summaries
from tenfold.core.wire.unread_text import find_unread_items, refuse_unread
from tenfold.errors import UsageError
from tenfold.formats.objects import ObjectList
from tenfold.models.model import Model
from tenfold.recall.tools import RecallTools
from tenfold.session.compactor import check_model
from tenfold.session.conversation import SessionAddress, Stamps
from tenfold.session.drive import Answerer
from tenfold.session.facade import Session
from tenfold.session.requests import can_send_unchanged, drop_opening_stub, read_times, restore_objects
from tenfold.store.ids import IDS, ContentIdGenerator
from tenfold.store.sqlite.store import SqliteStore

SHOWN_CHARACTERS = 200
"""How much of each message a notebook shows."""
P = ParamSpec("P")
R = TypeVar("R")
ProviderMessage = Any
"""A provider's message: a dict, or an object of the provider's SDK."""


class CompactResult:
    """What `compact` returns: the messages to send, and what became of them.

    - `messages` are in the format that you passed. What was not compacted are the same objects.
    - `outcome` says how the compaction ended, with the sizes.
    - `system` holds texts that Tenfold adds to the system prompt, if the format keeps that outside the list; mostly
      there are none. Send them after your own system prompt, and pass both as `system` if you compact the list again.
    - `tools` let the model read what was hidden. They are None unless you asked for them.
    - `adjustments` names what the format made Tenfold change, mostly nothing. `wire` is the format's name.
    - `session` is the session in memory behind the result.
    """

    def __init__(
        self,
        messages: list[ProviderMessage],
        outcome: Outcome,
        *,
        session: Session,
        wire: str,
        encoded: EncodedList,
        tools: RecallTools | None,
    ) -> None:
        """Called by `compact` only."""
        self.messages, self.outcome, self.session, self.wire, self.tools = messages, outcome, session, wire, tools
        self.system = encoded.system
        self.adjustments = tuple(adjustment.kind for adjustment in encoded.adjustments)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self.wire}: {len(self.messages)} messages, {self.outcome!r}>"

    def _repr_html_(self) -> str:
        beginnings = (" ".join(redact(render_value(m)).split())[:SHOWN_CHARACTERS] for m in self.messages)
        return render_table(self.outcome.list_rows()) + render_table(enumerate(beginnings, 1))


def compact(  # noqa: PLR0913 - the signature that DESIGN publishes; everything after the messages is by keyword
    messages: Sequence[ProviderMessage],
    *,
    to: Size | str | None = None,
    window: int | None = None,
    system: ProviderMessage = None,
    tools: ProviderMessage = None,
    output_reserve: int = 0,
    model: str | None = None,
    format: str | None = None,
    policy: str | Policy = "tenfold",
    recall: RecallMode = "none",
    summarizer: Model | None = None,
    origin: OriginCallback | None = None,
) -> CompactResult:
    """Compacts a list of OpenAI Chat, OpenAI Responses, Anthropic or Gemini messages. The list itself does not change.

    It may hold the message objects of a framework (see `tenfold.to_messages`), as does the result then.
    `to` is the target for messages, `system` and `tools` together: a number of tokens, or a share such as "10%".
    Without it the policy's trigger decides. It looks at `window`, or the known window of `model`, of which
    `output_reserve` tokens are kept free for the answer. `policy` is a Policy or its name. `summarizer` is the model
    that writes summaries; without one, code writes them. With `recall="tool"` the result has tools with which the model
    reads what was hidden. `format` names the messages' format if it cannot be detected.

    `origin` gets each text of a user message, and returns whose words it is: "human", "tool", "harness" or "model", or
    None to go by its form. Pass it if your program puts the output of tools into user messages.

    Raises `UsageError` if neither a target nor a window is known, or if `output_reserve` leaves nothing of the window,
    and `BadInput` for messages of an unknown format, or with much that their format does not have.
    """
    _validate_arguments(model, policy, recall, summarizer)
    given = ObjectList.read(list_messages(messages))
    items = encode_messages(given.messages)
    wire = _check_format(format) or given.wire or detect_wire(items)
    chosen = policy if isinstance(policy, Policy) else build_policy(policy, choose_counter(model).counter)
    chosen = chosen.with_list_stages()
    address = SessionAddress(SqliteStore(":memory:"), IDS.generate())
    arguments = repr((wire, to, window, model, chosen.name, output_reserve, recall)).encode()
    ids = ContentIdGenerator(b"\0".join((arguments, *items)))  # the same list gives the same bytes: caches hold
    decoded = WIRES[wire].decode(items, confirm=is_whole_summary, origin=origin)
    refuse_unread(find_unread_items(decoded, wire), len(items), wire, lambda: map(parse_value, items))
    times = dict(zip(map(id, decoded), read_times(items, find_ends(decoded, 0)), strict=False))
    system, decoded = _move_summaries(system, decoded, wire)
    own_times = iter([times.get(id(message)) for message in decoded])
    stamps = Stamps(ids.generate, message_time=lambda: next(own_times, None))
    session = Session.create(address, chosen, model=model or "", answerer=Answerer(model=summarizer), stamps=stamps)
    session.append(*decoded)
    beside = [render_value(t) for t in (system, tools) if t is not None]
    call = session.compactor.build_call(to=to, window=window, floor=sum(chosen.counter.count(beside)))
    _check_window(call.window, chosen, output_reserve)
    demand: Demand = "manual" if to is not None else "check"
    call = msgspec.structs.replace(call, output_reserve=output_reserve, recall=recall, demand=demand)
    outcome = session.compact(call)
    is_unchanged = can_send_unchanged(decoded, session.view, wire)
    violations = () if is_unchanged else session.conversation.find_violations(wire)
    outcome = msgspec.structs.replace(outcome, violations=violations)
    encoded = WIRES[wire].encode(decoded if is_unchanged else session.view.get_messages())
    compacted = given.place(restore_objects(encoded, given.messages, items))
    recall_tools = _build_tools(address, chosen) if recall == "tool" else None
    return CompactResult(compacted, outcome, session=session, wire=wire, encoded=encoded, tools=recall_tools)


def _check_format(name: str | None) -> str | None:
    if name is not None and name not in WIRES:
        raise UsageError(explain_name(name))
    return name


def _build_tools(address: SessionAddress, policy: Policy) -> RecallTools:
    return RecallTools(address.store, address.namespace, address.session, count=policy.counter.count)


def _move_summaries(
    system: ProviderMessage, decoded: list[Message], wire: str
) -> tuple[ProviderMessage, list[Message]]:
    """Moves our summaries from a separate system prompt to the beginning of the list, where other wires have them."""
    rest, texts = take_summaries(system, is_whole_summary) if WIRES[wire].profile.has_separate_system else (system, [])
    summaries = [Message("system", (Text(text),), "tenfold") for text in texts]
    return (rest, [*summaries, *drop_opening_stub(decoded)]) if summaries else (system, decoded)


def _as_coroutine(work: Callable[P, R]) -> Callable[P, Coroutine[None, None, R]]:
    @wraps(work)
    async def run(*given: P.args, **options: P.kwargs) -> R:
        return await asyncio.to_thread(work, *given, **options)

    return run


acompact = _as_coroutine(compact)
"""`compact` as a coroutine, with the same arguments. It runs in a thread, so it does not block the event loop."""


def _check_window(window: int | None, policy: Policy, output_reserve: int) -> None:
    """Raises `UsageError` for a window that is none, or of which the output reserve leaves nothing."""
    if window is not None:
        check_window(window)
    if window is not None and output_reserve >= window:
        raise UsageError(policy.get_limits(window, output_reserve=output_reserve).note)


def _validate_arguments(model: object, policy: object, recall: object, summarizer: object) -> None:
    """Raises `UsageError` for an argument of a wrong type or an unknown value."""
    check_model(model)
    if not isinstance(policy, str | Policy):
        raise UsageError(f"policy is {policy!r}: it is a name ({', '.join(POLICIES)}) or a Policy")
    if recall not in get_args(RecallMode):
        raise UsageError(f"recall is {recall!r}: it is one of {', '.join(get_args(RecallMode))}")
    if isinstance(summarizer, str):
        raise UsageError(
            f"summarizer is a name: give a model, as in ProviderModel({summarizer!r}) of tenfold.models.provider"
        )
    if summarizer is not None and not callable(getattr(summarizer, "answer", None)):
        raise UsageError(
            f"summarizer is {summarizer!r}, which has no answer(ask): a ProviderModel or a ScriptedModel has"
        )


def is_whole_summary(_block: str, _hash: str, is_whole: bool) -> bool:  # noqa: FBT001 - called by position
    """Accepts every well-formed summary that is a whole message, because a plain list has no store to confirm it.

    This is safe: only a mark that makes up a whole user message gets here, and whoever can write a user message could
    write the user's words as well. Tool results are never examined for marks.
    """
    return is_whole
