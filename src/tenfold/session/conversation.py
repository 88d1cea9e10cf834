"""One branch of a session as a conversation: reading it, appending to it, and what it takes to compact it.

Every method is synchronous and can be called from several threads. `Session` adds hosts' requests and compaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from tenfold.compaction.engine.call import Measures
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.compaction.facts.ledger import Instruction, build_ledger, build_setting_facts
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section import is_must_keep, render_facts
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.meter.estimators import Calibration
from tenfold.core.meter.reading import RunningTotal, TokenCache
from tenfold.core.record.block import Block, Fact
from tenfold.core.record.entry import RULE_ADDED, RULE_DROPPED, CustomEntry, Entry, Usage, get_message
from tenfold.core.record.message import Message, NativeBytes, get_text
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.rules import Violation, check_messages
from tenfold.core.view.units import MessageKey
from tenfold.core.wire.given_values import list_own_messages
from tenfold.core.wire.marks import OriginCallback, extract_summary_text
from tenfold.errors import LostRace, NotFoundError, UsageError
from tenfold.models.choose import AUTO, resolve_models
from tenfold.recall.expand import ExpandedMessage, expand, find_entry_id
from tenfold.recall.search import search_store
from tenfold.session.host_sync import HostSync
from tenfold.session.log_cursor import LogCursor, SessionAddress, Stamps, check_address
from tenfold.store.base import HIT_LIMIT, Hit

T = TypeVar("T")
APPEND_TRIES = 100
"""How often something is tried to append while other writers are first."""
PolicyProvider = Callable[[], Policy]
"""Returns the policy in force. It is called at every check, so that a change applies without a restart."""
SESSION_MODEL = "the session's model"
"""The name of the session's own model, which writes the summaries when the policy names no model.

It stands where the model has no name of its own.
"""

_NO_MODEL = "the session was opened without one: pass it, as in Answerer(model=ProviderModel(NAME))"


def name_writer(model: object) -> str:
    """Returns the name of the model that writes a session's summaries, "" for None.

    A provider's model has its own, "openai:gpt-4o-mini": by it its window, its tokenizer and its prices are known.
    """
    name = getattr(model, "model", "")
    named = isinstance(name, str) and ":" in name
    return "" if model is None else name if named else SESSION_MODEL


def check_model(model: object) -> None:
    """Raises `UsageError` for a model that is no name."""
    if model is not None and not isinstance(model, str):
        raise UsageError(f"model is {model!r}: it is the agent's model by name, as in 'gpt-4o'")


def build_provider(policy: Policy | PolicyProvider | str, model: str) -> PolicyProvider:
    """Returns what provides a policy: given a name, the policy of that name with its published settings.

    Raises `UsageError` for an unknown name and for what is no policy.
    """
    check_model(model)
    if isinstance(policy, str):
        policy = build_policy(policy, choose_counter(model or None).counter)
    if isinstance(policy, Policy):
        built = policy
        return lambda: built
    if not callable(policy):
        raise UsageError(f"policy is {policy!r}: it is a name ({', '.join(POLICIES)}), a Policy, or what returns one")
    return policy


class Conversation:
    """The messages of a session on one head: read, append, sync with a host's list, undo, pin and search."""

    def __init__(
        self,
        address: SessionAddress,
        policy: Policy | PolicyProvider | str,
        *,
        model: str = "",
        stamps: Stamps | None = None,
    ) -> None:
        """Opens a head. Raises `NotFoundError` if the session does not exist. For the arguments see `Session`."""
        self.address, self.model, self.stamps = check_address(address), model, stamps or Stamps()
        self.lock = threading.RLock()
        self._is_writing = False
        self.use_policy(policy)
        self._completed: tuple[Policy, tuple[str, str], Policy] | None = None
        self._cursor = LogCursor(address, self.policy_provider().counter, self.stamps)
        self._host = HostSync(self._cursor)

    # -- the policy and the model --------------------------------------------------------------------------------------

    def use_policy(self, policy: Policy | PolicyProvider | str) -> None:
        """Takes another policy, its name, or another provider of it, for the checks to come. The counter stays.

        `policy_provider` is the provider in force. It is called at every check, so it may follow what it reads.
        """
        self.policy_provider: PolicyProvider = build_provider(policy, self.model)

    def use_model(self, model: str) -> None:
        """Names another model of the agent: its window and its calibration are used from now on."""
        self.model = model

    def get_policy(self, model: object) -> Policy:
        """Returns the policy in force with the packaged prompts and the counter that the session was opened with.

        If the policy names no model and the session has one (`model`), that one writes the summaries. For "auto" they
        are those that `choose_writers` chooses by the model of the agent, if it knows that model's provider.
        """
        writer = name_writer(model)
        policy, key = self.policy_provider(), (writer, self.model)
        if self._completed is None or self._completed[0] is not policy or self._completed[1] != key:
            summary = with_prompts(policy.summary)
            if model is not None:
                summary = replace(summary, models=resolve_models(summary.models, self.model))
            elif AUTO in summary.models:
                named = tuple(name for name in summary.models if name != AUTO)
                summary = replace(summary, models=named, no_model=_NO_MODEL)
            if model is not None and not summary.models:
                summary = replace(summary, models=(writer,))
            self._completed = policy, key, replace(policy, summary=summary, counter=self._cursor.counter)
        return self._completed[2]

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """What the model sees now. It is an immutable value: it does not change while the session goes on."""
        return self._cursor.view

    @property
    def leaf(self) -> str | None:
        """The id of the last entry on the path, or None if there is no entry yet."""
        return self._cursor.leaf

    @property
    def calibration(self) -> Calibration:
        """What the providers' usage reports have taught on this path."""
        return self._cursor.calibration

    @property
    def next_calibration(self) -> Calibration:
        """What reports will have taught once the next answer is appended, and the usage of the last request with it."""
        with self.lock:
            return self._cursor.build_next_calibration()

    def use_calibration(self, calibration: Calibration) -> None:
        """Takes what reports have taught elsewhere, for a log whose answers do not hold them."""
        with self.lock:
            self._cursor.calibration = calibration

    def count_uncompacted(self) -> int:
        """Counts the tokens of the whole path with no Block applied. A target such as 10% is a share of this number."""
        with self.lock:
            self._cursor.load_counts()
            return self._cursor.count_uncompacted()

    def get_message_sizes(self) -> dict[MessageKey, int]:
        """Returns the token count of each message in view, by the message's key."""
        with self.lock:
            shown = list(self.view.get_visible_messages())
            return dict(zip((s.key for s in shown), self.get_measures().token_cache.measure(shown), strict=True))

    def list_other_views(self) -> list[View]:
        """Returns what the other heads of the session show, read from the store."""
        address = self.address
        heads = address.store.read_heads(address.namespace, address.session)
        others = (replace(address, head=head) for head in heads if head != address.head)
        return [LogCursor(other, self._cursor.counter, self.stamps).view for other in others]

    def count_messages(self, view: View) -> int:
        """Counts the messages that a view shows. Counting goes on from the view that was counted last."""
        return self._cursor.count_messages(view)

    def search(self, words: str, *, limit: int = HIT_LIMIT) -> list[Hit]:
        """Searches this session's messages and the summaries that are not in view.

        Hits with all the words come first, then hits with some.
        """
        address = self.address
        return search_store(address.store, address.namespace, words, session=address.session, limit=limit)

    def expand(self, id: str, *, deep: bool = False, around: int = 0) -> list[ExpandedMessage]:
        """Returns what a Block replaces: one level down, or with `deep` the originals.

        For the id of a message, returns that message. An entry's number, its position on the path, is as good as its
        id. With `around`, as many messages before and after are returned too.
        """
        store, namespace, session = self.address.store, self.address.namespace, self.address.session
        entry = find_entry_id(store, namespace, session, id, head=self.address.head)
        return expand(store, namespace, entry, deep=deep, session=session, around=around)

    def find_violations(self, wire: str) -> tuple[str, ...]:
        """Returns what a provider with that wire format would refuse in the view, one sentence for each violation."""
        violations = check_messages(self.view.get_messages(), wire)
        return tuple(f"{v.rule} at {_name_place(v)}: {v.problem}" for v in violations)

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The ledger of what the user asked for, oldest first: rules with their status, requests, unclassified words.

        It is read from the whole path, so what was revoked, replaced or done long ago is in it too.
        """
        return build_ledger(self._collect_facts(human_only=True))

    def render_must_keep(self, budget: int) -> str:
        """Renders what must survive of the session, as a summary shows it: rules, request, to-dos, files, open errors.

        It is read from the whole path, within `budget` tokens by the policy's counter. "" if there is nothing.
        """
        facts = [fact for fact in self._collect_facts() if is_must_keep(fact)]
        return render_facts(facts, budget=budget, count=self._cursor.counter.count).text if facts else ""

    def _collect_facts(self, *, human_only: bool = False) -> tuple[Fact, ...]:
        with self.lock:
            path, settings = self.view.path, self.view.state.rule_settings
            entries = path.get_entries(0, path.length - 1) if path.length else []
            said = [(at, m) for at, entry in enumerate(entries) if (m := get_message(entry)) is not None]
            older = tuple(
                replace(fact, position=at)
                for at, message in said
                if message.origin == "tenfold"
                for fact in parse_facts(extract_summary_text(get_text(message)) or "")
            )
            facts = extract_facts((at, m) for at, m in said if not human_only or m.origin == "human")
            return merge_facts(older, (*facts, *build_setting_facts((at, entries[at]) for at in settings)))

    def read_entries(self, positions: Sequence[int]) -> list[Entry]:
        """Reads entries of the path by their positions."""
        with self.lock:
            path = self.view.path
            return [path.get_entry(p) for p in positions]

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(
        self, *messages: Message, usage: Usage | None = None, run: str = "", origin: OriginCallback | None = None
    ) -> list[str]:
        """Appends messages at the leaf, atomically, and returns their ids. `run` is the id of the run they belong to.

        `origin` says whose words a user message is: see `tenfold.compact`.
        `usage` is stored with the last assistant message; the usage from `record_usage` with the first. What other
        writers have appended meanwhile stands before them.
        """
        said = messages if origin is None else [_with_origin(message, origin) for message in messages]
        return self.write(lambda: self._cursor.append_messages(said, usage=usage, run=run))

    def sync(self, messages: Sequence[Message], *, run: str = "", append: bool = False) -> View:
        """Syncs the log with a host's whole message list, which hosts resend on every request, and returns the view.

        The list may be the raw history, or begin with an earlier view. Known messages are matched by content and new
        ones are appended, so nothing is duplicated. If a known message was changed, a branch begins before it.
        `run` is the id of the run that new messages belong to.

        Raises `UsageError` for a list that does not continue the session, as when a host sends the new message alone:
        it begins otherwise, and has no answer, tool result or summary of the session before its last message. With
        `append` such a list is appended, unless the log ends with it already.
        """
        with self.lock:
            clean = self._host.clean(messages)
            self.write(lambda: self._host.sync(clean, run=run, append=append))
            return self.view

    def match(self, messages: Sequence[Message]) -> tuple[int, bool]:
        """Matches a host's list with the log, as `sync` would, and changes nothing.

        Returns how many messages at its beginning are known, and whether it goes on from the end of the log, so that
        syncing it makes no branch.
        """
        with self.lock:
            return self._host.match(messages)

    def append_custom(self, kind: str, body: bytes, *, run: str = "", id: str = "") -> str:
        """Appends data of the host's own to the log, and returns the entry's id. No model is shown it.

        `kind` names what it is, and `run` the run it belongs to. Without an `id` a new one is made.
        """
        entry_id, native = id or self.stamps.new_id(), NativeBytes("json", body)

        def append() -> None:
            self._cursor.append([CustomEntry(entry_id, self.leaf, run, self.stamps.now(), kind, native)])

        self.write(append)
        return entry_id

    def record_usage(self, usage: Usage) -> None:
        """Keeps the usage the provider reported for the last request; the next appended answer is stored with it.

        Any object of this session may append the answer: the store keeps the usage until then. Reports without prompt
        tokens are ignored.
        """
        if usage.prompt > 0:
            with self.lock:
                whole = self._cursor.has_whole_request and self.policy_provider().estimator.kind == "anchored"
                overhead = usage.overhead or self._cursor.sent_overhead
                self._cursor.keep_usage(replace(usage, overhead=overhead, is_whole=usage.is_whole or whole))

    @property
    def pending_usage(self) -> Usage | None:
        """The usage of the last request, as long as its answer is not appended."""
        return self._cursor.pending_usage

    @property
    def sent_overhead(self) -> int:
        """The tokens that the last request of a host held besides its list, by this session's counter."""
        return self._cursor.sent_overhead

    def undo(self) -> str:
        """Retracts the newest live Block and returns its id. Raises `UsageError` if there is none.

        The newest one is looked for in the log, so it may be another writer's.
        """
        self._catch_up()
        return self.write(self._cursor.retract_block)

    def pin(self, entry: str, *, on: bool = True) -> str:
        """Pins a message, so that no compaction hides or shortens it; `on=False` unpins it. Returns its full id.

        `entry` may be the beginning of an id. Raises `NotFoundError` unless it names exactly one message in view.
        """
        self._catch_up()
        return self.write(lambda: self._cursor.pin_message(entry, pinned=on))

    def add_rule(self, text: str) -> None:
        """Adds a rule for the agent, as if the user had said it. The next compaction shows it."""
        if not text.strip():
            raise UsageError("the rule is empty: say what the agent has to keep to")
        self.write(lambda: self._cursor.change_rule(text.strip(), key=RULE_ADDED))

    def drop_rule(self, text: str) -> None:
        """Drops an active rule, given in full. The next compaction no longer shows it as one.

        Raises `NotFoundError` if no active rule has this text.
        """
        with self.lock:
            self._catch_up()
            if not any(each.is_rule and each.text == text for each in self.instructions):
                raise NotFoundError(f"no active rule is {text!r}; `tenfold rules` lists them")
            self.write(lambda: self._cursor.change_rule(text, key=RULE_DROPPED))

    def refresh(self) -> View:
        """Reads what other writers have appended to this head, which costs O(new), and returns the view.

        What writes does so by itself where another writer was first. Call it to see what others have written.
        """
        with self.lock:
            if self._cursor.refresh():
                self._host.forget()
            return self.view

    def _catch_up(self) -> None:
        """Refreshes, unless the session went back or elsewhere and is yet to append there."""
        with self.lock:
            if self._cursor.is_at_head:
                self.refresh()

    def write(self, work: Callable[[], T]) -> T:
        """Does work that appends to this head; where another writer was first, catches up and does all of it again.

        Raises `LostRace` if that happens `APPEND_TRIES` times in a row, or at all after a `move_to`. Nothing is written
        then.
        """
        with self.lock:
            if self._is_writing:  # the work around this one is done again as a whole
                return work()
            self._is_writing = True
            try:
                return self._write_again(work)
            finally:
                self._is_writing = False

    def _write_again(self, work: Callable[[], T]) -> T:
        for _ in range(APPEND_TRIES - 1):
            try:
                return work()
            except LostRace:
                if self._cursor.is_moved:  # what is written belongs to the place that was moved to
                    raise
                self.refresh()
        try:
            return work()
        except LostRace as exc:
            raise LostRace(f"{exc}; so it was {APPEND_TRIES} times in a row, since others keep writing") from exc

    def move_to(self, path: Path, entries: Sequence[Entry], *, expected: str | None) -> bool:
        """Moves to the end of another path of this session's tree and appends `entries` there; see `navigate`.

        Returns False and changes nothing if the leaf is no longer `expected` or another writer was first.
        """
        with self.lock:
            if self.leaf != expected:
                return False
            before = self.view.path
            self._cursor.move_to(path)
            try:
                if entries:
                    self._cursor.append(entries)
            except BaseException as exc:
                self._cursor.move_to(before)
                if isinstance(exc, LostRace):
                    return False
                raise
            self._host.forget()
            self._cursor.drop_usage()
            return True

    # -- what a compaction needs ---------------------------------------------------------------------------------------

    def get_measures(self, view: View | None = None) -> Measures:
        """Returns the token sizes and the counter with which this conversation's views are measured.

        Sizes are kept by position, so they belong to one path. A `view` of another path than the present one, as after
        a rewind, is counted anew.
        """
        self._cursor.load_counts()
        cache, total = self._cursor.token_cache, self._cursor.running_total
        if view is not None and view.path is not self.view.path:
            cache = TokenCache(self._cursor.counter)
            total = RunningTotal(cache)
        return Measures(cache, total, total.measure_media)

    def freeze_measures(self, view: View) -> Measures:
        """Returns measures with the size of this view counted now, so that other threads may append meanwhile."""
        measures = self.get_measures(view)
        tokens, media = measures.count_view(view), measures.measure_media(view)
        return Measures(measures.token_cache, lambda _view: tokens, lambda _view: media)

    def find_newest_block_id(self) -> str | None:
        """Returns the id of the newest Block in force, None if there is none."""
        return self._cursor.find_newest_block_id()

    def can_append_block(self, block: Block, planned_path: Path) -> bool:
        """Tells whether a Block that was planned earlier, on that path, still fits at the leaf."""
        return self._cursor.can_append_block(block, planned_path)

    def append_result(self, entry: Entry, planned_path: Path | None = None) -> bool:
        """Appends a Block or an Attempt at the leaf. Returns False for a Block that does not fit any more.

        `planned_path` is the path of the view that a Block was planned on, if that was not the present one.

        Raises `LostRace` if another writer was first; nothing is written then.
        """
        with self.lock:
            entry = replace(entry, parent=self.leaf)
            if isinstance(entry, Block) and not self._cursor.can_append_block(entry, planned_path):
                return False
            self._cursor.append([entry])
            return True


def _name_place(violation: Violation) -> str:
    return f"message {violation.index}" + (f", {violation.path}" if violation.path else "")


def _with_origin(message: Message, origin: OriginCallback) -> Message:
    (message,) = list_own_messages([message])
    found = origin(get_text(message)) if message.role == "user" else None
    return message if found is None else replace(message, origin=found)
