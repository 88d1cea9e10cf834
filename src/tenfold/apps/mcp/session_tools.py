"""What the MCP server can do, as plain methods that return text: one tenant's sessions, under token caps, read only.

No method takes a path or a tenant. Both are fixed when the server starts, so that nothing a model says leads elsewhere.
"""

from __future__ import annotations

from tenfold.config.settings import Config, load_settings
from tenfold.core.meter.counters import choose_counter
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.errors import UsageError
from tenfold.recall.expand import find_entry_id
from tenfold.recall.tools import EXPAND, READ, SEARCH, RecallTools
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, SessionRow, Store
from tenfold.store.ids import convert_time
from tenfold.store.lookup import LAST, find_session, list_heads

ANSWER_CAP = 4_000
"""The most tokens of one answer. A longer one comes in parts, or says how much is left out."""
LISTED_SESSIONS = 20
"""How many sessions `report_status` lists."""
DEFAULT_SHARE = 10
"""A preview without a target aims at a tenth of the session."""
_TEXT_CHARS = 300
_TITLE_CHARS = 100


class SessionTools:
    """The tools over the sessions of one tenant.

        tools = SessionTools(open_store(), namespace="default")
        tools.search("port 8443")
        tools.read("26", session="last")

    A `session` is an id, the beginning of one, or "last" for the newest. Wrong arguments raise `UsageError` or
    `NotFoundError`, which say what to do.
    """

    def __init__(self, store: Store, *, namespace: str = DEFAULT_NAMESPACE, config: Config | None = None) -> None:
        """`config` are the settings of policies; without them they are read as every command reads them."""
        self._store, self._namespace = store, namespace
        self._config = config or load_settings()

    @property
    def store(self) -> Store:
        """The store that is read."""
        return self._store

    @property
    def namespace(self) -> str:
        """The tenant whose sessions are read."""
        return self._namespace

    def with_namespace(self, namespace: str) -> SessionTools:
        """Returns the tools over another tenant's sessions."""
        return SessionTools(self._store, namespace=namespace, config=self._config)

    def search(self, words: str, session: str = "") -> str:
        """Finds messages and summaries, in one session or, without `session`, in all of them."""
        row = self._find_session(session) if session else None
        answer = self._open_recall(row).handle(SEARCH, {"words": words})
        return answer.replace("nothing in this conversation", "nothing in your sessions", 1) if row is None else answer

    def read(self, entry: str, session: str = "", around: int = 0, part: int = 1) -> str:
        """Reads one message exactly as it was, with `around` messages before and after it."""
        row = self._find_named(session)
        if row is not None:  # the line about the next part then names the id, which needs no session
            entry = find_entry_id(self._store, self._namespace, row.info.id, entry, head=self._find_head(row))
        return self._open_recall(row).handle(READ, {"entry": entry, "around": around, "part": part})

    def expand(self, block: str, session: str = "", part: int = 1) -> str:
        """Shows what a summary stands for."""
        return self._open_recall(self._find_named(session)).handle(EXPAND, {"block": block, "part": part})

    def list_rules(self, session: str = LAST) -> str:
        """Lists the rules that the user has set in a session and that hold."""
        opened = self._open_session(self._find_session(session))
        rules = [each for each in opened.read_instructions() if each.is_rule]
        lines = [
            f"{number}. {to_one_line(each.text, _TEXT_CHARS)} (position {each.position})"
            for number, each in enumerate(rules, 1)
        ]
        return self._limit_lines(lines, opened) or "the user has set no rule in this session that Tenfold recognizes"

    def report_status(self, session: str = "") -> str:
        """Says how large a session is and what compactions have hidden of it. Without `session`, lists the newest."""
        if not session:
            return self._list_sessions()
        row = self._find_session(session)
        opened = self._open_session(row)
        whole, reading = opened.conversation.count_uncompacted(), opened.take_reading()
        newest = opened.conversation.find_newest_block_id() or "none"
        shown = sum(1 for _ in opened.view.get_visible_messages())
        lines = [
            self._describe_row(row),
            f"in view: {shown:,} messages, for the provider {reading.explain()} tokens ({', '.join(reading.evidence)})",
            f"with nothing hidden: {whole:,} tokens, {row.entry_count:,} entries",
            f"compactions: {row.block_count:,}, the newest in force: {newest}",
            f"rules of the user in force: {sum(each.is_rule for each in opened.read_instructions()):,}",
        ]
        return self._limit_lines(lines, opened)

    def preview_compaction(self, session: str = LAST, to: int = 0) -> str:
        """Says what a compaction down to `to` tokens would do, and why. Changes nothing and asks no model.

        Without `to` it aims at a tenth of the session.
        """
        if to < 0:
            raise UsageError(f"a target of {to:,} tokens is none: give at least 1, or 0 for a tenth of the session")
        opened = self._open_session(self._find_session(session))
        whole = opened.conversation.count_uncompacted()
        decision, plan = opened.preview(to=to or max(1, whole * DEFAULT_SHARE // 100))
        lines = [decision.explain(), *(plan.explain().splitlines() if plan is not None else [])]
        return self._limit_lines([*map(sanitize, lines), "nothing was changed"], opened)

    # -- sessions ------------------------------------------------------------------------------------------------------

    def _find_session(self, name: str) -> SessionRow:
        return find_session(self._store, name, namespace=self._namespace)

    def _find_named(self, name: str) -> SessionRow | None:
        return self._find_session(name) if name else None

    def _open_session(self, row: SessionRow) -> Session:
        policy = self._config.build_policy(choose_counter(row.info.model or None).counter)
        place = SessionAddress(self._store, row.info.id, self._namespace, self._find_head(row))
        return Session(place, policy, model=row.info.model)

    def _find_head(self, row: SessionRow) -> str:
        """Finds the branch that was written to last."""
        return list_heads(self._store, row.info.id, namespace=self._namespace)[0]

    def _open_recall(self, row: SessionRow | None) -> RecallTools:
        count = choose_counter((row.info.model if row is not None else "") or None).counter.count
        if row is None:
            return RecallTools(self._store, self._namespace, "", count=count, cap=ANSWER_CAP, prefix="")
        place, head = row.info.id, self._find_head(row)
        return RecallTools(self._store, self._namespace, place, count=count, cap=ANSWER_CAP, prefix="", head=head)

    def _list_sessions(self) -> str:
        rows = self._store.list_sessions(self._namespace)
        if not rows:
            return "no session is stored yet; `tenfold compact FILE` brings one in"
        more = len(rows) - LISTED_SESSIONS
        lines = [self._describe_row(row) for row in rows[:LISTED_SESSIONS]]
        return "\n".join([*lines, *([f"and {more:,} older sessions"] if more > 0 else [])])

    def _describe_row(self, row: SessionRow) -> str:
        time = row.last_time
        parts = (
            row.info.format,
            row.info.model,
            convert_time(time).strftime("%Y-%m-%d %H:%M UTC") if time is not None else "",
            f"{row.entry_count:,} entries",
            f"{row.block_count:,} compactions",
            to_one_line(row.info.title, _TITLE_CHARS),
        )
        return f"{row.info.id}: {', '.join(part for part in parts if part)}"

    def _limit_lines(self, lines: list[str], session: Session) -> str:
        """Joins as many lines as fit the cap, and says how many are left out."""
        count, kept, size = session.policy.counter.count, list[str](), 0
        for line, tokens in zip(lines, count(lines), strict=True):
            size += tokens + 1
            if size > ANSWER_CAP - _REST_TOKENS:
                return "\n".join([*kept, f"and {len(lines) - len(kept):,} more lines"])
            kept.append(line)
        return "\n".join(kept)


_REST_TOKENS = 20
"""Tokens of the last line that says how much is left out."""
