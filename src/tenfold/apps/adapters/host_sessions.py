"""What every adapter stands on: a session for each conversation of a framework, and the view in place of its list.

The framework keeps its own list, and an adapter never shortens it unless the framework asks for that. So everything
that the framework does with its messages goes on as before, and a new process finds the session again by its id.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, dropwhile, takewhile
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.plan.draft import RecallMode
from tenfold.core.record.entry import Usage
from tenfold.core.view.fold import View
from tenfold.core.wire import WIRES
from tenfold.core.wire.marks import is_system_prompt
from tenfold.core.wire.profiles import RequestFields
from tenfold.errors import UnrelatedList
from tenfold.formats.objects import Converter, ObjectList
from tenfold.recall.tools import EXPAND, READ, SEARCH, RecallTools, describe_parameters, describe_tools
from tenfold.session import AsyncSession, Session
from tenfold.session.concurrency import run_uninterrupted, use_threads_of
from tenfold.session.opening import SessionOptions, check_options, open_session
from tenfold.store.ids import IDS, get_current_time

M = TypeVar("M")
_ASKING_ROLES = frozenset({"user", "system", "developer"})
MAX_SESSIONS = 256
"""Sessions that a process keeps open. One that was closed is opened again by its id, which costs a read of its view."""


class Fitted(Struct, Generic[M], frozen=True):
    """What to send in place of a framework's list: its messages, and its system prompt where that stands apart."""

    messages: list[M]
    system: Any = None


class ReadList(Struct, Generic[M], frozen=True):
    """A framework's list as a request of a wire.

    `items` are its `messages` as the wire has them, each a list of its own. `earlier` stands before them: the view of a
    session that the list does not continue. `prompt` is the item of the system prompt, None if that is a field.
    """

    messages: Sequence[M]
    items: list[list[dict[str, Any]]]
    fields: dict[str, Any]
    wire: str
    earlier: list[dict[str, Any]] = []
    prompt: dict[str, Any] | None = None
    recall: RecallMode = "none"

    def build_request(self) -> dict[str, Any]:
        """Builds the request for `Session.before_model`."""
        own = [*([] if self.prompt is None else [self.prompt]), *chain.from_iterable(self.items)]
        prompts = list(takewhile(_is_prompt, own))
        listed = [*prompts, *self.earlier, *own[len(prompts) :]]
        return {**self.fields, _get_shape(self.wire).list_field: listed}

    def place(self, request: Mapping[str, Any], converter: Converter) -> Fitted[M]:
        """Returns what is sent as the framework's messages: its own objects where nothing was replaced."""
        shape = _get_shape(self.wire)
        sent = [item for item in request[shape.list_field] if item is not self.prompt]
        placed = ObjectList(self.messages, self.items, converter).place(sent)
        return Fitted(placed, request.get(shape.system_fields[0]) if shape.system_fields else None)


class HostSession(Generic[M]):
    """One conversation of a framework, and the session that keeps it.

    Messages that nothing was done to come back as the objects that were passed in. A list that does not continue the
    session, as after a restart of a host that keeps nothing, goes on from it: the model sees the view, and then the
    list. The next lists that begin with the same message do so too.
    """

    def __init__(self, open: Callable[[], Session], converter: Converter) -> None:
        """`open` opens the session, when it is needed first: in a thread, where the host has an event loop."""
        self._open, self._converter = open, converter
        self._session: Session | None = None
        self._last: ReadList[M] | None = None
        self._lock = threading.Lock()

    @property
    def session(self) -> Session:
        """The session. Raises what `open_session` raises."""
        with self._lock:
            if self._session is None:
                self._session = self._open()
            return self._session

    @property
    def tools(self) -> RecallTools:
        """The tools with which the model looks up what it no longer sees."""
        return self.session.tools

    def fit(
        self,
        messages: Sequence[M],
        *,
        system: Any = None,  # noqa: ANN401 - as the framework has it
        recall: RecallMode = "none",
        to: int | None = None,
        **fields: Any,  # noqa: ANN401 - as the wire has them
    ) -> Fitted[M]:
        """Appends what is new in a framework's list, compacts it if that is due, and returns what to send.

        With `to`, where the framework decides when to compact, it is compacted down to so many tokens now. `system` is
        the system prompt, where it is no message of the list. `fields` are other fields of the request as the
        converter's wire has them, such as `model`, `tools` and `max_tokens`. All of it is counted. `recall` is "tool"
        where the model is offered `tools`.
        """
        listed = self._read(messages, system, recall, fields)
        try:
            sent = self.session.before_model(listed.build_request(), recall=recall, wire=listed.wire)
        except UnrelatedList:
            listed = self._put_behind_view(listed, self.session.view)
            sent = self.session.before_model(listed.build_request(), recall=recall, wire=listed.wire)
        if to is not None:
            self.session.compact(self._build_forced_call(to, recall))
            sent = self.session.before_model(listed.build_request(), recall=recall, wire=listed.wire)
        return listed.place(sent, self._converter)

    async def afit(
        self,
        messages: Sequence[M],
        *,
        system: Any = None,  # noqa: ANN401 - as the framework has it
        recall: RecallMode = "none",
        to: int | None = None,
        **fields: Any,  # noqa: ANN401 - as the wire has them
    ) -> Fitted[M]:
        """Does the same as `fit`, and blocks no event loop."""
        listed = await run_uninterrupted(lambda: self._read(messages, system, recall, fields))
        session = AsyncSession(self.session)
        try:
            sent = await session.before_model(listed.build_request(), recall=recall, wire=listed.wire)
        except UnrelatedList:
            listed = await run_uninterrupted(partial(self._put_behind_view, listed, self.session.view))
            sent = await session.before_model(listed.build_request(), recall=recall, wire=listed.wire)
        if to is not None:
            await session.compact(self._build_forced_call(to, recall))
            sent = await session.before_model(listed.build_request(), recall=recall, wire=listed.wire)
        return listed.place(sent, self._converter)

    def shrink(self, error: BaseException) -> Fitted[M]:
        """Returns something shorter to send, after the provider has refused what `fit` gave last.

        Raises the error again if it is about something else. See `Session.after_refusal`.
        """
        listed = self._last
        if listed is None:
            raise error
        request = self.session.after_refusal(listed.build_request(), error, recall=listed.recall, wire=listed.wire)
        return listed.place(request, self._converter)

    async def ashrink(self, error: BaseException) -> Fitted[M]:
        """Does the same as `shrink`, and blocks no event loop."""
        listed = self._last
        if listed is None:
            raise error
        request = await AsyncSession(self.session).after_refusal(
            listed.build_request(), error, recall=listed.recall, wire=listed.wire
        )
        return listed.place(request, self._converter)

    def report_usage(self, prompt: int, output: int, *, cached: int = 0, written: int = 0) -> None:
        """Reports what the last request took, in tokens as the provider counts: the meter learns from it.

        `prompt` counts all that was sent, with the parts of it that were read from the cache or written to it.
        """
        if prompt > 0:
            usage = Usage.build(prompt, output, cached, written, self.session.compactor.model)
            self.session.requests.record_usage(usage)

    async def areport_usage(self, prompt: int, output: int, *, cached: int = 0, written: int = 0) -> None:
        """Does the same as `report_usage`, and blocks no event loop."""
        self._use_threads()
        await run_uninterrupted(partial(self.report_usage, prompt, output, cached=cached, written=written))

    def keep_answer(self, answers: Sequence[M]) -> None:
        """Appends what the model has answered to the last request, where the framework tells it at once.

        Otherwise the session learns of it with the next list, and never if there is none. Report the usage before.
        """
        listed = self._last
        if listed is not None:
            items = [*listed.items, *map(self._converter.read, answers)]
            self._last = listed = replace(listed, messages=[*listed.messages, *answers], items=items)
            self.session.requests.sync_request(
                listed.build_request(), window=None, recall=listed.recall, wire=listed.wire
            )

    async def akeep_answer(self, answers: Sequence[M]) -> None:
        """Does the same as `keep_answer`, and blocks no event loop."""
        self._use_threads()
        await run_uninterrupted(lambda: self.keep_answer(answers))

    def _use_threads(self) -> None:
        """Has what this task runs in threads wait in those of the store, once the session is open."""
        if self._session is not None:
            use_threads_of(self._session.address.store)

    def remove(self) -> None:
        """Removes the session from the store, with all that was ever in it. Nothing may be asked of it afterwards."""
        address = self.session.address
        if self.session.conversation.is_stored():
            address.store.purge(address.namespace, address.session, None, now=get_current_time())

    def _read(
        self,
        messages: Sequence[M],
        system: Any,  # noqa: ANN401 - as the framework has it
        recall: RecallMode,
        fields: Mapping[str, Any],
    ) -> ReadList[M]:
        """Reads a list. An item that reads as it did the last time is the same object as then.

        It stands behind the session's view, if a new process is told a task alone (see `_is_told_alone`), and behind
        the view of then, if another process was told that task.
        """
        last, wire = self._last, self._converter.wire
        items = [self._converter.read(message) for message in messages]
        known = [old if new == old else new for new, old in zip(items, last.items if last else (), strict=False)]
        items = [*known, *items[len(known) :]]
        goes_on = (
            last is not None and len(items) >= len(last.items) and _find_opening(items) == _find_opening(last.items)
        )
        listed: ReadList[M] = ReadList(
            list(messages),
            items,
            {name: value for name, value in fields.items() if value is not None},
            wire,
            earlier=last.earlier if last is not None and goes_on else [],
            recall=recall,
        )
        if system and wire == "openai-responses":
            listed.fields["instructions"] = system
        elif system and _get_shape(wire).system_fields:
            listed.fields[_get_shape(wire).system_fields[0]] = system
        elif system:
            prompt = {"role": "system", "content": system}
            listed = replace(listed, prompt=last.prompt if last is not None and last.prompt == prompt else prompt)
        self._last = listed
        view = None if goes_on else self._find_view_before(listed)
        if view is None and self._is_told_alone(listed, is_first=last is None):
            view = self.session.view
        return listed if view is None else self._put_behind_view(listed, view)

    def _find_view_before(self, listed: ReadList[M]) -> View | None:
        """Finds the view that another process has put this list behind. See `Requests.find_view_before`."""
        items = [msgspec.json.encode(item) for item in chain.from_iterable(listed.items)]
        if not self.session.refresh().path.length or not items:
            return None
        return self.session.requests.find_view_before(WIRES[listed.wire].decode(items))

    def _build_forced_call(self, to: int, recall: RecallMode) -> Call:
        return replace(self.session.compactor.build_call(to=to), recall=recall)

    def _is_told_alone(self, listed: ReadList[M], *, is_first: bool) -> bool:
        """Tells whether a new process is told a task alone, and the session has answers already: then it goes on.

        It may be the task that the session began with, as when somebody runs the same command again.
        """
        has_answers = any(message.role == "assistant" for message in self.session.view.get_messages())
        is_new = all(item.get("role") in _ASKING_ROLES for read in listed.items for item in read)
        return has_answers and is_new and (is_first or not listed.items)

    def _put_behind_view(self, listed: ReadList[M], view: View) -> ReadList[M]:
        """Puts a list behind a view of the session, which it does not continue."""
        shown = dropwhile(is_system_prompt, view.get_messages())
        encoded = WIRES[listed.wire].encode(list(shown))
        self._last = replace(listed, earlier=[msgspec.json.decode(item.raw) for item in encoded.items])
        return self._last


def _find_opening(items: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Finds what a list begins with, system prompts aside: another list may have the same prompt."""
    return next((item for item in items if item and not _is_prompt(item[0])), [])


def _is_prompt(item: Mapping[str, Any]) -> bool:
    return item.get("role") in ("system", "developer")


def _get_shape(wire: str) -> RequestFields:
    return WIRES[wire].profile.request


class HostSessions(Generic[M]):
    """The sessions of an agent, one for each conversation of its framework, by the framework's own ids.

    Those that were used last stay open. Any number of processes may serve the same conversations.
    """

    def __init__(self, converter: Converter, options: SessionOptions, session: str = "") -> None:
        """`session` is the id of the session where the framework has none for its conversation.

        Raises `UsageError` for a wrong option.
        """
        check_options(options)
        self._converter, self._options, self._session = converter, options, session
        self._open: OrderedDict[str, HostSession[M]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, id: str = "", model: str = "") -> HostSession[M]:
        """Returns the session of a conversation, which is opened when it is needed first.

        Without an `id`, it is the session that was named, else a new one: two conversations never share one by chance.
        `model` is the agent's, if the options name none.
        """
        with self._lock:
            name = id or self._session or IDS.generate()
            found = self._open.pop(name, None)
            if found is None:
                options = self._options if self._options.get("model") else {**self._options, "model": model}
                found = HostSession(partial(open_session, name, **options), self._converter)
            self._open[name] = found
            while len(self._open) > MAX_SESSIONS:
                self._open.popitem(last=False)
            return found


def build_lookups(find: Callable[[], RecallTools]) -> list[Callable[..., str]]:
    """Builds the tools to look things up as plain functions, which most frameworks take for tools as they are.

    Their names, parameters and docstrings say to a model what they do. `find` returns the tools of the conversation
    that the call belongs to.
    """

    def recall_search(words: str) -> str:
        return find().handle(SEARCH, {"words": words})

    def recall_read(entry: str, around: int = 0, part: int = 1) -> str:
        return find().handle(READ, {"entry": entry, "around": around, "part": part})

    def recall_expand(block: str, part: int = 1) -> str:
        return find().handle(EXPAND, {"block": block, "part": part})

    functions: list[Callable[..., str]] = [recall_search, recall_read, recall_expand]
    for function in functions:
        parameters = describe_parameters(function.__name__)
        arguments = "\n".join(f"    {name}: {meaning}" for name, meaning in parameters.items())
        function.__doc__ = f"{describe_tools()[function.__name__]}\n\nArgs:\n{arguments}"
    return functions
