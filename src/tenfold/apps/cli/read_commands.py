"""Commands that only look and change nothing: sessions, search, expand, policies, completion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import PurePath
from typing import Annotated, Any, Literal

import msgspec
import typer
from msgspec.structs import replace

from tenfold.apps.cli.console import (
    format_id,
    get_width,
    is_terminal,
    print_json,
    print_note,
    print_table,
    render_age,
    show,
    show_text,
)
from tenfold.apps.cli.pager import open_pager
from tenfold.apps.cli.process import COMPLETE_VARIABLE, explain_interrupt
from tenfold.apps.cli.progress import WorkProgress
from tenfold.apps.cli.store_access import (
    SESSION_HELP,
    JsonOption,
    NamespaceOption,
    StoreOption,
    complete_session,
    find_location,
    find_stored_session,
    name_other_namespaces,
    open_cli_store,
)
from tenfold.apps.keyring import note_access
from tenfold.config import settings
from tenfold.config.policies import POLICIES
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.message import get_text, get_tool_calls
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.errors import StoreError
from tenfold.models.choose import ModelChoice, choose_models, has_price_data
from tenfold.recall.expand import ExpandedMessage, expand, is_entry_number
from tenfold.recall.search import locate_words, search_store
from tenfold.recall.tools import describe_hit, render_expanded
from tenfold.store.base import HIT_LIMIT, Hit, SessionRow, Store
from tenfold.store.ids import convert_time, get_current_time
from tenfold.store.location import describe_location, is_database
from tenfold.store.lookup import LAST, find_title, has_content

_TERMINAL_CHARACTERS = 20_000
"""Characters that `expand` prints in a terminal by default: a few screens."""


def _format_time(row: SessionRow, now: int) -> str:
    """Formats when a session was last written to: in a terminal how long ago, which is shorter."""
    if row.last_time is None:
        return ""
    if is_terminal():
        return render_age(now - row.last_time)
    return convert_time(row.last_time).strftime("%Y-%m-%d %H:%M")


def sessions(*, store: StoreOption = None, namespace: NamespaceOption = "", json: JsonOption = False) -> None:
    """Lists the stored sessions, newest first.

    One without a title and a file, as the chat makes it, is named by the first words of the user.
    """
    with open_cli_store(store) as place:
        rows = [_name_session(place, row, namespace) for row in place.list_sessions(namespace) if has_content(row)]
        others = "" if rows else name_other_namespaces(place, namespace)
    if json:
        for row in rows:
            print_json(_build_session_record(row))
        return
    if not rows:
        where = f"no session in {describe_location(find_location(store))}"
        show(f"{where}: {others}" if others else f"{where} yet; `tenfold compact FILE` adds one")
        return
    titles, files = Counter(r.info.title for r in rows), Counter(r.info.file for r in rows)
    now, when = get_current_time(), "age" if is_terminal() else "last (UTC)"
    cells = [
        (
            format_id(r.info.id),
            r.info.format,
            f"{r.entry_count:,}",
            f"{r.block_count}",
            _format_time(r, now),
            _describe_file(r, is_title_first=titles[r.info.title] <= files[r.info.file]),
        )
        for r in rows
    ]
    columns, numbers = ("session", "format", "entries", "blocks", when, "file"), ("entries", "blocks", "age")
    with open_pager():
        print_table(columns, cells, right=numbers, fit="file", spare=("blocks", "format", "entries", when))


def _name_session(store: Store, row: SessionRow, namespace: str) -> SessionRow:
    """Titles a session that was read from no file, as those of the chat are, with the first words of the user."""
    if row.info.title or row.info.file:
        return row
    return replace(row, info=replace(row.info, title=find_title(store, row, namespace=namespace)))


_WIDE_COLUMNS = 100
"""Columns of a terminal from which on a file is shown with its folder."""


def _describe_file(row: SessionRow, *, is_title_first: bool) -> str:
    """Describes the file and the title. A terminal shows that first of the two by which the sessions differ."""
    file, title = row.info.file, row.info.title
    if is_terminal():
        file = "/".join(PurePath(file).parts[-2 if get_width() >= _WIDE_COLUMNS else -1 :])
        if is_title_first and title:
            file, title = title, file
    return to_one_line(f"{file} ({title})" if title and file else title or file, 400)


def _build_session_record(row: SessionRow) -> dict[str, object]:
    info = row.info
    return {
        "session": info.id,
        "format": info.format,
        "file": info.file,
        "title": sanitize(info.title),
        "model": info.model,
        "parent": info.parent,
        "entries": row.entry_count,
        "blocks": row.block_count,
        "first": row.first_time,
        "last": row.last_time,
    }


def search(
    words: Annotated[
        list[str], typer.Argument(help="Words, or a question. Put a phrase in quotes.", metavar="WORDS...")
    ],
    *,
    session: Annotated[
        str | None,
        typer.Option(
            help="Search this session only. It is named as for `tenfold show`.", autocompletion=complete_session
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Print at most this many results.")] = HIT_LIMIT,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Searches all messages, including those that compactions have hidden, and the summaries that are not in view.

    Messages with all of the words come first, then those that speak most of what was asked, or stand right beside such
    a message; of nearly equal ones the newest. Accents, the marks between the digits of a number and typing errors in
    words that no message has do not matter.
    """
    with open_cli_store(store) as place:
        session_id = find_stored_session(place, session, namespace=namespace).info.id if session is not None else None
        said = "what is indexed stays so, and the next search goes on there"
        with explain_interrupt(lambda: said), WorkProgress("searching") as work:
            if work.is_enabled and not is_database(find_location(store)):
                _index_all(place, work)
            hits = search_store(place, namespace, " ".join(words), session=session_id, limit=limit)
        note_access(place, namespace, "search", session_id or "")
    hits.sort(key=lambda hit: hit.kind != _MESSAGE)  # what was said itself, before what sums it up
    if json:
        for hit in hits:
            print_json(msgspec.structs.replace(hit, snippet=sanitize(hit.snippet)))
        return
    with open_pager():
        for hit in hits:
            _print_hit(hit, " ".join(words))
        what = sanitize(" ".join(words))
        count = (
            f"the best {limit} of what was found, --limit prints more" if len(hits) == limit else f"{len(hits)} found"
        )
        show(
            f"{count}; `tenfold expand NUMBER --session ID` prints one in full" if hits else f"no message has {what!r}"
        )


_INDEXED_AT_ONCE = 250


def _index_all(place: Store, work: WorkProgress) -> None:
    """Indexes what the search would index, in small steps, so that it can be seen how long that takes.

    Where the index cannot be written the search does without.
    """
    with suppress(StoreError):
        count = done = place.index(limit=_INDEXED_AT_ONCE)
        late = place.check().late_entries if count == _INDEXED_AT_ONCE else 0
        while late and count:
            work.tell("indexing entries")
            work.set_done(done, done + max(0, late))
            count = place.index(limit=_INDEXED_AT_ONCE)
            done, late = done + count, late - count
    work.tell("searching")


_MESSAGE = "said"
"""The kind of a hit that is a message."""


def _print_hit(hit: Hit, words: str) -> None:
    """Prints a hit: what it is and where, and its text with the words marked."""
    snippet = sanitize(hit.snippet)
    scanned = "  (found by scan)" if hit.scanned else ""
    names = f"session {format_id(hit.session)}, entry {format_id(hit.entry)}"
    show(f"{hit.position}  {describe_hit(hit)}  ({names}){scanned}", style="bold")
    show_text(snippet, lead="    " if get_width() >= _WIDE_COLUMNS else "  ", marks=locate_words(snippet, words))


def expand_block(  # noqa: PLR0913  the options of a command
    block: Annotated[
        str,
        typer.Argument(
            metavar="ENTRY", help="A Block or a message: its id, the beginning of it, or its number in the session."
        ),
    ],
    *,
    session: Annotated[
        str, typer.Option(help=f"The session of a number. {SESSION_HELP}", autocompletion=complete_session)
    ] = LAST,
    around: Annotated[int, typer.Option(min=0, help="Print this many messages before and after it, too.")] = 0,
    depth: Annotated[
        Literal["one", "all"], typer.Option(help="Go down `one` level, or `all` the way to the originals.")
    ] = "one",
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, help="Print at most this many characters; 0 prints all. Default: 20000 in a terminal, else all."
        ),
    ] = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Prints the messages that a Block replaced, or one message in full.

    The text is exact with --json. Otherwise control characters are removed and secrets redacted.
    """
    with open_cli_store(store) as place:
        id_ = find_stored_session(place, session, namespace=namespace).info.id if is_entry_number(block) else ""
        lines = expand(place, namespace, block, deep=depth == "all", session=id_, around=around)
        note_access(place, namespace, "read", block if not id_ else f"{id_} {block}")
    if json:
        for line in lines:
            print_json(_build_line_record(line))
        return
    most = limit if limit is not None else _TERMINAL_CHARACTERS if is_terminal() else 0
    with open_pager():
        _print_lines(lines, most)


def _print_lines(lines: Sequence[ExpandedMessage], most: int) -> None:
    """Prints messages, at most so many characters of them; 0 prints all."""
    printed = 0
    for number, line in enumerate(lines):
        text = sanitize(render_expanded(line))
        if most and printed + len(text) > most:
            show_text(text[: most - printed])
            rest = f" and {len(lines) - number - 1:,} more messages" if number + 1 < len(lines) else ""
            show(
                f"... {len(text) - (most - printed):,} more characters of this message{rest}; --limit 0 prints all",
                style="bold",
            )
            return
        printed += len(text)
        show_text(f"{text}\n")


def _build_line_record(line: ExpandedMessage) -> dict[str, object]:
    calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in get_tool_calls(line.message)]
    return {
        "position": line.position,
        "entry": line.entry,
        "role": line.message.role,
        "origin": line.message.origin,
        "original": line.original,
        "text": get_text(line.message),
        "calls": calls,
    }


def policies(
    *,
    window: Annotated[
        int, typer.Option(min=1, help="The context window, in tokens, to print the limits for.")
    ] = 200_000,
    model: Annotated[
        str | None,
        typer.Option(
            help="The agent's model. Its tokenizer is used, and the models that would write its summaries are listed."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Lists the policies: when each compacts in a window of this size, down to what, and in which stages."""
    choice = choose_counter(model)
    found = _choose_summary_models(model) if model else ()
    choices, unknown = [c for c in found if ":" in c.model], [c.model for c in found if ":" not in c.model]
    rows = []
    for name, make in POLICIES.items():
        policy = make(choice.counter)
        limits = policy.get_limits(window)
        rows.append((name, limits.soft, limits.hard, limits.target, [s.name for s in policy.stages]))
    if json:
        for row in rows:
            record = dict(zip(("policy", "soft", "hard", "target", "stages"), row, strict=True))
            print_json(record | ({"summaries": choices} if model else {}))
        return
    show(f"limits in tokens for a window of {window:,}, counted by {choice.counter.name}")
    cells = [(n, f"{soft:,}", f"{hard:,}", f"{target:,}", " ".join(stages)) for n, soft, hard, target, stages in rows]
    print_table(
        ("policy", "acts at", "hard limit", "aims at", "stages"), cells, right=("acts at", "hard limit", "aims at")
    )
    for name in unknown:
        print_note(
            f"no provider is known to offer {name}: name it as PROVIDER:NAME to see which models would write summaries"
        )
    if choices:
        show("a policy that uses models asks these for its summaries, in this order:")
        print_table(("model", "why"), [(c.model, c.why) for c in choices], fit="why")
    if model and not has_price_data():
        print_note("to choose by price, Tenfold needs the extra `models`: pip install 'tenfold[models]'")


def _choose_summary_models(model: str) -> tuple[ModelChoice, ...]:
    common = settings.load_settings().common
    return choose_models(model, configured=tuple(name for name in (common.model, *common.fallbacks) if name))


def print_completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="The shell: bash, zsh or fish.")
    ],
) -> None:
    """Prints a script with which a shell completes commands, options and sessions.

    Put `source <(tenfold completion bash)` into ~/.bashrc, `eval "$(tenfold completion zsh)"` behind compinit in
    ~/.zshrc, or `tenfold completion fish | source` into ~/.config/fish/config.fish.
    """
    completion: Any = import_module("typer.completion")  # which marks none of its names as exported
    show_text(completion.get_completion_script(prog_name="tenfold", complete_var=COMPLETE_VARIABLE, shell=shell))
