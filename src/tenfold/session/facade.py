"""The class `Session`: one conversation in a store, compacted when it grows too long for the model.

Every method is synchronous and can be called from several threads. `AsyncSession` has the same methods for coroutines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.engine.redo import DEFAULT_REDO, RedoRequest
from tenfold.compaction.facts.ledger import Instruction, build_ledger
from tenfold.compaction.plan.draft import RecallMode
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.trigger.limits import Decision
from tenfold.compaction.trigger.sizes import Size
from tenfold.core.record.ask import Outcome
from tenfold.core.record.entry import AUTO_COMPACTION, RULE_ADDED, RULE_DROPPED, Usage
from tenfold.core.record.message import Message, get_text
from tenfold.core.record.token_reading import Counted, Reading
from tenfold.core.view.fold import View
from tenfold.core.wire import OriginCallback
from tenfold.core.wire.given_values import list_own_messages
from tenfold.errors import ContextOverflow, NotFoundError, UsageError
from tenfold.recall.expand import ExpandedMessage, expand, find_entry_id
from tenfold.recall.search import search_store
from tenfold.recall.tools import RecallTools
from tenfold.session.compactor import Archive, CompactionRunner, PolicyProvider, build_provider
from tenfold.session.conversation import Conversation, SessionAddress, Stamps, check_address
from tenfold.session.drive import Answerer, run_engine
from tenfold.session.requests import Requests, read_usage
from tenfold.store.base import HIT_LIMIT, Hit, SessionInfo


class Session:
    """One conversation in a store. It compacts itself before it grows too long for the model.

    `Session.create` makes it, `Session(address, policy)` opens it again. Call `before_model` with each request before
    you send it, and `after_model` with the answer. Or add messages with `append`, and call `compact` yourself.

    `conversation` is the log, `compactor` runs the compactions, and `requests` reads what a host sends. Use these parts
    if you do part of the work yourself, as a gateway does.
    """

    def __init__(  # noqa: PLR0913 - everything after the policy is by keyword
        self,
        address: SessionAddress,
        policy: Policy | PolicyProvider | str,
        *,
        model: str = "",
        answerer: Answerer | None = None,
        archive: Archive | None = None,
        stamps: Stamps | None = None,
        create: Callable[[], None] | None = None,
    ) -> None:
        """Opens a head of the session. Raises `NotFoundError` if the store has no such session, without `create`.

        `policy` is a Policy, or the name of one, such as "tail", which then has its published settings. A function that
        returns a Policy is called at every check (`settings.LivePolicy` follows a file); the counter stays the one that
        the session was opened with. `model` names the agent's model, by which its window and its reports are known.
        `answerer` holds the summary model, hooks and listeners. `archive` gets every Block before it is appended.
        `stamps` give new entries their ids and times. `create` creates a new session in the store, when the first entry
        is appended.
        """
        self.address = check_address(address)
        provider = build_provider(policy, model)
        self.conversation = Conversation(address, provider().counter, stamps or Stamps(), create)
        self.compactor = CompactionRunner(self.conversation, provider, model=model, answerer=answerer, archive=archive)
        self.requests = Requests(self.conversation, self.compactor)

    def __repr__(self) -> str:
        address, model = self.address, self.compactor.model
        named = f", model {model!r}" if model else ""
        size = self.view.describe_size()
        return f"<{type(self).__name__} {address.session!r}, head {address.head!r}{named}: {size}>"

    @classmethod
    def create(  # noqa: PLR0913 - those of the constructor, and the session's information
        cls,
        address: SessionAddress,
        policy: Policy | PolicyProvider | str,
        *,
        model: str = "",
        answerer: Answerer | None = None,
        info: SessionInfo | None = None,
        archive: Archive | None = None,
        stamps: Stamps | None = None,
    ) -> Self:
        """Creates the session in the store, unless one with that id exists, and opens it. See the constructor."""
        policy = build_provider(policy, model)  # a wrong name creates nothing
        check_address(address)
        address.store.create(address.namespace, info or SessionInfo(address.session, model=model))
        return cls(address, policy, model=model, answerer=answerer, archive=archive, stamps=stamps)

    # -- what it is now ------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """What the model sees now. It is an immutable value: it does not change while the session goes on."""
        return self.conversation.view

    @property
    def leaf(self) -> str | None:
        """The id of the last entry on the path, or None if there is no entry yet."""
        return self.conversation.leaf

    @property
    def policy(self) -> Policy:
        """The policy in force now. If it names no model, the session's own (if there is one) writes the summaries."""
        return self.compactor.policy

    @property
    def outcome(self) -> Outcome | None:
        """The Outcome of the last check that `before_model` made, None if none was due yet."""
        return self.compactor.outcome

    # -- around a call of the model ------------------------------------------------------------------------------------

    def before_model(  # noqa: PLR0913 - what may be said of a request besides itself
        self,
        request: Mapping[str, Any],
        *,
        window: int | None = None,
        recall: RecallMode = "none",
        wire: str = "",
        origin: OriginCallback | None = None,
        run: str = "",
        append: bool = False,
    ) -> dict[str, Any]:
        """Returns the request to send in place of this one. Its message list is compacted if it is too long.

        `request` holds the keyword arguments of a provider's call, with the whole conversation. The session appends
        what is new in it to the log. If the policy's trigger fires, it compacts, and `outcome` says how that ended.
        Without a known window it compacts nothing.

        Messages that stay are the same objects that you passed in, so a message that you edited in place is sent as
        you edited it. A list of JSON bytes stays one. In a list of more than 64 messages, the log may notice an edit
        far from the end some requests later, but always before a compaction.

        `window` is the model's, in tokens, if the session does not know it. `recall` says how stubs tell the model
        where to read the original, `wire` names the provider's format if it cannot be detected, and `origin` says whose
        words a user text is (see `tenfold.compact`). `run` is the id of the run that new messages belong to.

        Raises `UsageError` for a request that does not continue the session. With `append`, its messages are appended
        instead, as by `sync`, and the request goes out with the whole view.
        """
        requests = self.requests
        with self.compactor.lock:
            host_request, host_list, check = requests.sync_request(
                request, window=window, recall=recall, wire=wire, origin=origin, run=run, append=append
            )
            if check is not None:
                self.compactor.run(self.compactor.compact(check, is_request=True))
            return requests.build_request(request, host_request, host_list)

    def after_model(self, report: Any, *, lookups: Sequence[Any] = ()) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """Records the token usage the provider reported for the last request.

        `report` is a response, or only its usage, in any of the wire formats. Reports that are partial or failed, or
        that count no prompt tokens, are ignored. `lookups` are the reports of requests that followed it before there
        was an answer, because the model looked hidden messages up: their tokens are on the bill.
        """
        model = self.compactor.model
        usage = read_usage(report, model=model)
        if usage is not None:
            rounds = tuple(found for each in lookups if (found := read_usage(each, model=model)) is not None)
            self.requests.record_usage(replace(usage, lookups=rounds))

    def after_refusal(
        self,
        request: Mapping[str, Any],
        error: BaseException,
        *,
        window: int | None = None,
        recall: RecallMode = "none",
        wire: str = "",
        origin: OriginCallback | None = None,
    ) -> dict[str, Any]:
        """Returns a shorter request to send, after the provider has refused one as too long with this error.

        Counts can be wrong, so it may happen. `request` and the rest are what `before_model` was given. Raises the
        error itself if it says anything else, and `ContextOverflow` with the numbers if nothing makes the request
        shorter.

            try:
                answer = client.chat.completions.create(**session.before_model(request))
            except openai.BadRequestError as error:
                answer = client.chat.completions.create(**session.after_refusal(request, error))
        """
        outcome = self.compact(self.requests.build_overflow_call(error, window))
        check_refusal(outcome, error)
        return self.before_model(request, window=window, recall=recall, wire=wire, origin=origin)

    def sync(self, messages: Sequence[Message], *, run: str = "", append: bool = False) -> View:
        """Syncs the log with a host's whole message list, which hosts resend on every request, and returns the view.

        The list may be the raw history, or begin with an earlier view. Known messages are matched by content and new
        ones are appended, so nothing is duplicated. If a known message was changed, a branch begins before it, with the
        compactions that the change does not concern.
        `run` is the id of the run that new messages belong to.

        Raises `UsageError` for a list that does not continue the session, as when a host sends the new message alone:
        it begins otherwise, and has no answer, tool result or summary of the session before its last message. With
        `append` there is neither an error nor a branch: what a list does not share with the end of the log is appended.
        """
        return self.requests.sync(messages, run=run, append=append)

    def append(
        self, *messages: Message, usage: Usage | None = None, run: str = "", origin: OriginCallback | None = None
    ) -> list[str]:
        """Appends messages at the leaf, atomically, and returns their ids. `run` is the id of the run they belong to.

        `origin` says whose words a user message is: see `tenfold.compact`. `usage` is stored with the last assistant
        message; the usage from `after_model` with the first. What other writers have appended meanwhile stands before
        them.
        """
        said = messages if origin is None else [_with_origin(message, origin) for message in messages]
        conversation = self.conversation
        return conversation.write(lambda: conversation.append_messages(said, usage=usage, run=run))

    # -- compacting ----------------------------------------------------------------------------------------------------

    def take_reading(self, *, window: int | None = None, floor: int = 0) -> Reading:
        """Measures how many tokens the view takes, how reliable that number is, and out of which window.

        `floor` is the number of tokens sent besides the view. Without `window` the model's known window is used.
        """
        return self.compactor.take_reading(self.compactor.build_call(window=window, floor=floor))

    def compact(self, call: Call | None = None, *, to: Size | str | None = None, window: int | None = None) -> Outcome:
        """Compacts down to `to`: a number of tokens, or a share such as "10%". Without it the policy's trigger decides.

        To say more, pass a `call` that `compactor.build_call` has built. Raises `UsageError` if neither a target nor a
        window is known. Every other failure is an Outcome.
        """
        compactor = self.compactor
        call = compactor.validate_call(call or compactor.build_call(to=to, window=window))
        with compactor.lock:
            return compactor.run(compactor.compact(call))

    def preview(
        self, call: Call | None = None, *, to: Size | str | None = None, window: int | None = None
    ) -> tuple[Decision[Counted], Plan | None]:
        """Returns what `compact` would decide and plan for the same arguments. Changes nothing and calls no model."""
        return self.compactor.preview(call or self.compactor.build_call(to=to, window=window))

    def undo(self, block: str = "") -> str:
        """Retracts a Block in force, the newest unless one is named, and returns its id.

        `block` is its id, or the beginning of it. Newer Blocks that build on it are undone with it; the others stay in
        force, as copies with new ids. `conversation.plan_undo` says beforehand which, and what the view will be. The
        newest one is looked for in the log, so it may be another writer's. The archive, if there is one, is told.

        Raises `UsageError` if no Block is in force, and `NotFoundError` if none or several have such an id.
        """
        conversation, before = self.conversation, self.view
        conversation.catch_up()
        undone = conversation.write(lambda: conversation.retract_block(block))
        self.compactor.sync_archive(before)
        return undone

    def redo(self, block: str = "", request: RedoRequest = DEFAULT_REDO) -> Outcome:
        """Rewrites the summaries of the newest live Block from the originals, for instance with another model.

        `block`, if given, is the id of that Block or the beginning of it. The result is a new Block over the same
        ranges, so `undo` brings the earlier text back. Raises `UsageError` for any other Block, because newer Blocks
        build on it.
        """
        compactor = self.compactor
        with compactor.lock:
            return run_engine(compactor.redo(block, request), compactor.get_redo_answerer())

    def switch_auto(self, state: Literal["off", "on"]) -> None:
        """Switches automatic compaction off for this session, or on again. Every process that serves it obeys.

        While it is off, a check compacts only above the hard limit, where the provider would refuse the request.
        `compact` works as ever, and so does what a model asks for. Branches that go on from here keep it. Raises
        `UsageError` for any other state.
        """
        if state not in ("off", "on"):
            raise UsageError(f"automatic compaction is switched off or on, and not {state!r}")
        conversation = self.conversation
        conversation.catch_up()
        if conversation.view.state.is_auto_off != (state == "off"):
            conversation.write(lambda: conversation.change_setting(AUTO_COMPACTION, state))
            self.compactor.drop_preparation()

    # -- looking things up ---------------------------------------------------------------------------------------------

    def search(self, words: str, *, limit: int = HIT_LIMIT) -> list[Hit]:
        """Searches this session's messages and the summaries that are not in view.

        Hits with all the words come first, then hits with some.
        """
        address = self.address
        if not self.conversation.is_stored():
            return []
        return search_store(address.store, address.namespace, words, session=address.session, limit=limit)

    def expand(self, id: str, *, deep: bool = False, around: int = 0) -> list[ExpandedMessage]:
        """Returns what a Block replaces: one level down, or with `deep` the originals.

        For the id of a message, returns that message. An entry's number, its position on the path, is as good as its
        id. With `around`, as many messages before and after are returned too.
        """
        store, namespace, session = self.address.store, self.address.namespace, self.address.session
        entry = find_entry_id(store, namespace, session, id, head=self.address.head)
        return expand(store, namespace, entry, deep=deep, session=session, around=around)

    def refresh(self) -> View:
        """Reads what other writers have appended to this head, which costs O(new), and returns the view.

        What writes does so by itself where another writer was first. Call it to see what others have written.
        """
        return self.conversation.refresh()

    @property
    def tools(self) -> RecallTools:
        """Tools with which the model itself looks up what it no longer sees: their schemas, and a handler.

        Offer `tools.build_schemas(wire)` with the request, call `before_model(..., recall="tool")`, and answer the
        model's calls of them with `tools.handle(name, arguments)`.
        """
        place, count = self.address, self.policy.counter.count
        return RecallTools(place.store, place.namespace, place.session, count=count, head=place.head)

    # -- what must stay ------------------------------------------------------------------------------------------------

    def read_instructions(self) -> tuple[Instruction, ...]:
        """Reads what the user asked for, oldest first: rules with their status, requests, unclassified words.

        It is read from the whole path, so what was revoked, replaced or done long ago is in it too.
        """
        return build_ledger(self.conversation.collect_facts(human_only=True))

    def add_rule(self, text: str) -> None:
        """Adds a rule for the agent, as if the user had said it. The next compaction shows it."""
        if not text.strip():
            raise UsageError("the rule is empty: say what the agent has to keep to")
        conversation = self.conversation
        conversation.write(lambda: conversation.change_setting(RULE_ADDED, text.strip()))

    def drop_rule(self, text: str) -> None:
        """Drops an active rule, given in full. The next compaction no longer shows it as one.

        Raises `NotFoundError` if no active rule has this text.
        """
        conversation = self.conversation
        with conversation.lock:
            conversation.catch_up()
            if not any(each.is_rule and each.text == text for each in self.read_instructions()):
                raise NotFoundError(f"no active rule is {text!r}; `tenfold rules` lists them")
            conversation.write(lambda: conversation.change_setting(RULE_DROPPED, text))

    def pin(self, entry: str, *, on: bool = True) -> str:
        """Pins a message, so that no compaction hides or shortens it; `on=False` unpins it. Returns its full id.

        `entry` may be the beginning of an id. Raises `NotFoundError` unless it names exactly one message in view.
        """
        conversation = self.conversation
        conversation.catch_up()
        return conversation.write(lambda: conversation.pin_message(entry, pinned=on))


def check_refusal(outcome: Outcome, error: BaseException) -> None:
    """Raises `ContextOverflow` if a compaction did not make a request shorter that the provider has refused."""
    if outcome.status != "compacted":
        raise ContextOverflow(
            f"the provider refused a request of {outcome.tokens_before:,} tokens as too long, and it cannot be made "
            f"shorter: {outcome.reason}. Use a model with a larger window, or make the newest messages smaller"
        ) from error


def _with_origin(message: Message, origin: OriginCallback) -> Message:
    (message,) = list_own_messages([message])
    found = origin(get_text(message)) if message.role == "user" else None
    return message if found is None else replace(message, origin=found)
