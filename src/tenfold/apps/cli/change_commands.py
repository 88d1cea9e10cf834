"""Commands that append to a session or remove something from the store: undo, pin, unpin, purge, rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated

import msgspec
import typer

from tenfold.apps.cli.console import confirm, format_id, print_json, show
from tenfold.apps.cli.exported_files import find_exports
from tenfold.apps.cli.pager import open_pager
from tenfold.apps.cli.process import explain_interrupt
from tenfold.apps.cli.progress import WorkProgress
from tenfold.apps.cli.store_access import (
    SESSION_HELP,
    JsonOption,
    NamespaceOption,
    SessionArgument,
    StoreOption,
    complete_session,
    find_location,
    find_stored_session,
    list_completions,
    open_cli_store,
    open_session,
    purge_jobs,
)
from tenfold.apps.cli.view_commands import get_live_blocks, render_block_sizes
from tenfold.apps.keyring import note_access
from tenfold.compaction.facts.ledger import Instruction
from tenfold.config.settings import load_settings
from tenfold.core.record.block import Block, KeptOriginal
from tenfold.core.text.terminal_safe import strip_controls, to_one_line
from tenfold.errors import NotFoundError, TenfoldError, UsageError
from tenfold.recall.expand import excerpt_message, find_entry_id, is_entry_number
from tenfold.session import Session
from tenfold.store.base import LocatedEntry, Store
from tenfold.store.ids import get_current_time
from tenfold.store.lookup import LAST, find_session, list_heads, match_ids


def _complete_in_session(
    ctx: typer.Context, find_values: Callable[[Session], Iterator[tuple[str, str]]], incomplete: str
) -> list[tuple[str, str]]:
    """Completes what is in the session that the command line names so far. What cannot be read completes nothing."""
    with suppress(TenfoldError, OSError):
        namespace = ctx.params.get("namespace") or load_settings().common.namespace
        with open_cli_store(ctx.params.get("store")) as place:
            row = find_session(place, ctx.params.get("session") or LAST, namespace=namespace)
            session = open_session(place, row, namespace=namespace, head=ctx.params.get("branch") or "")
            return list_completions(find_values(session), incomplete)
    return []


def complete_block(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Completes a compaction in force in a shell, the newest first."""

    def find_blocks(session: Session) -> Iterator[tuple[str, str]]:
        return ((block.id, render_block_sizes(block)) for block in reversed(get_live_blocks(session)))

    return _complete_in_session(ctx, find_blocks, incomplete)


def complete_entry(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Completes a message that the model sees as it was, the newest first: its id, or the number that was begun."""

    def find_messages(session: Session) -> Iterator[tuple[str, str]]:
        for each in reversed([*session.view.get_visible_messages()]):
            at = each.original_position
            if each.is_original and at is not None:
                text = excerpt_message(each.message)
                yield session.view.path.get_entry(at).id, text
                if is_entry_number(incomplete):
                    yield f"{at}", text

    return _complete_in_session(ctx, find_messages, incomplete)


EntryArgument = Annotated[
    str,
    typer.Argument(
        metavar="ENTRY",
        help="A message: its id, the beginning of it, or its number in the session. `tenfold show --brief` lists them.",
        autocompletion=complete_entry,
    ),
]
NumberedSessionOption = Annotated[
    str, typer.Option("--session", help=f"The session of a number. {SESSION_HELP}", autocompletion=complete_session)
]


def undo(
    session: SessionArgument = LAST,
    *,
    block: Annotated[
        str,
        typer.Option(
            metavar="ID",
            help="The compaction: its id, or the beginning of it. Newer ones that build on it are undone with it. "
            "Default: the newest.",
            autocompletion=complete_block,
        ),
    ] = "",
    branch: Annotated[
        str, typer.Option(metavar="NAME", help="The branch. Default: the one that was written to last.")
    ] = "",
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Undoes a compaction: the model sees again what it saw before. Nothing is lost either way.

    One that began anew with the originals had set earlier ones aside: they are in force again.

    A session in which the gateway saw the client go back and go on differently has branches, such as main and
    fork-3f9a61c2.
    """
    with open_cli_store(store) as place:
        row = find_stored_session(place, session, namespace=namespace)
        heads = list_heads(place, row.info.id, namespace=namespace)
        if branch and branch not in heads:
            raise NotFoundError(f"the session has no branch {branch!r}; there are: {', '.join(heads)}")
        branch = branch or heads[0]
        opened_session = open_session(place, row, namespace=namespace, config=load_settings(), head=branch)
        before, blocks = opened_session.take_reading(), {each.id: each for each in get_live_blocks(opened_session)}
        plan = opened_session.conversation.plan_undo(block)
        undone, restored = plan.undone, plan.restored
        opened_session.undo(undone[0])
        note_access(place, namespace, "undo", row.info.id)
        after, count = opened_session.take_reading(), sum(1 for _ in opened_session.view.get_visible_messages())
    if json:
        named = {"undone": undone[0], "undone_with_it": undone[1:], "restored": restored}
        sizes = {"tokens_before": before.estimate, "tokens_after": after.estimate, "messages_after": count}
        print_json({"session": row.info.id, "branch": branch, **named, **sizes})
    else:
        where = f" on the branch {branch} (the session has {', '.join(heads)})" if len(heads) > 1 else ""
        told = [f"block {format_id(id_)}, {render_block_sizes(blocks[id_], is_undone=True)}" for id_ in undone]
        first = f"block {format_id(undone[0])}" if restored else told[0]  # what is restored makes it another size
        show(f"undone: {first}{where}; the model sees {count:,} messages, {after.estimate:,} tokens again")
        for each in told[1:]:
            show(f"undone with it: {each}, which builds on it")
        for id_ in restored:
            show(f"in force again: block {format_id(id_)}, which had been set aside")


def pin(
    entry: EntryArgument,
    *,
    session: NumberedSessionOption = LAST,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Pins a message: the model sees it unshortened, whatever is compacted."""
    _set_pin(entry, session, store, namespace, on=True, json=json)


def unpin(
    entry: EntryArgument,
    *,
    session: NumberedSessionOption = LAST,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Unpins a message: compactions may shorten and hide it again."""
    _set_pin(entry, session, store, namespace, on=False, json=json)


def _set_pin(entry: str, session: str, store: str | None, namespace: str, *, on: bool, json: bool) -> None:
    with open_cli_store(store) as place:
        if is_entry_number(entry):
            row = find_stored_session(place, session, namespace=namespace)
            head = list_heads(place, row.info.id, namespace=namespace)[0]
            entry = find_entry_id(place, namespace, row.info.id, entry, head=head)
        location = place.locate(namespace, entry)
        opened_session = _open_branch_with(place, location, namespace)
        if not on and location.position not in opened_session.view.state.pins:
            raise UsageError(f"entry {location.entry.id} is not pinned; `tenfold show` marks those that are")
        block = _find_hiding_block(opened_session, location.position) if on else None
        if block is not None:
            id_, hiding = format_id(location.session), format_id(block.id)
            raise UsageError(
                f"entry {format_id(location.entry.id)} is hidden or shortened by compaction {hiding}: undo that with "
                f"`tenfold undo {id_} --block {hiding}`, pin it, and compact again; or add what it says as a rule, "
                f"with `tenfold rules {id_} --add TEXT`"
            )
        id_ = opened_session.pin(location.entry.id, on=on)
        note_access(place, namespace, "pin" if on else "unpin", id_)
    if json:
        print_json({"session": location.session, "entry": id_, "pinned": on})
    else:
        show(f"{'pinned' if on else 'unpinned'}: {format_id(id_)}")


def _find_hiding_block(session: Session, position: int) -> Block | None:
    """Finds the compaction in force that took a message out of view first, None if the model sees it as it was."""
    if any(shown.is_original and shown.original_position == position for shown in session.view.get_visible_messages()):
        return None
    covering = (
        block
        for block in get_live_blocks(session)
        for each in block.replacements
        if each.first <= position <= each.last and KeptOriginal(position) not in each.shown_items
    )
    return next(covering, None)


def _open_branch_with(store: Store, location: LocatedEntry, namespace: str) -> Session:
    """Opens the branch with an entry that was written to last."""
    row = find_stored_session(store, location.session, namespace=namespace)
    heads = list_heads(store, row.info.id, namespace=namespace)
    opened = (open_session(store, row, namespace=namespace, head=head) for head in heads)
    at, id_ = location.position, location.entry.id
    holding = (each for each in opened if each.view.path.length > at and each.view.path.get_entry(at).id == id_)
    return next(holding, None) or open_session(store, row, namespace=namespace)


def purge(
    what: Annotated[
        str,
        typer.Argument(
            metavar="SESSION|ENTRY",
            help="A session or one entry: its id, or the beginning of it.",
            autocompletion=complete_session,
        ),
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Purge without asking.")] = False,
    delete_exports: Annotated[
        bool,
        typer.Option(
            "--delete-exports", help="Delete the exported files that quote it too, if nobody has changed them since."
        ),
    ] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Deletes a session for good, or the content of one entry with everything that quotes it.

    Files that `export` and `compact --out` have written are named if they quote it. They stay unless you say otherwise.
    """
    with open_cli_store(store) as place:
        session, entry = _find_target(place, what, namespace)
        target = f"entry {entry} of session {session}" if entry else f"session {session} with all its entries"
        confirm(f"purge {target}", yes=yes)
        exports = find_exports(place, namespace, session, place.locate(namespace, entry).entry if entry else None)
        said = f"{target} is purged whole or not at all: the same command makes sure of it"
        with explain_interrupt(lambda: said), WorkProgress(f"purging {target}"):
            purge_jobs(find_location(store), namespace, [session])
            count = place.purge(namespace, session, entry, now=get_current_time())
        note_access(place, namespace, "purge", entry or session)
    deleted = [each.path for each in exports if delete_exports and each.is_unchanged]
    for path in deleted:
        path.unlink()
    left = [each for each in exports if each.path not in deleted]
    if json:
        record = {"session": session, "entry": entry, "records": count}
        files = {"deleted_files": [str(path) for path in deleted], "left_files": [str(each.path) for each in left]}
        print_json({**record, **files})
        return
    show(f"purged: {target}; {count:,} records were changed or deleted")
    for path in deleted:
        show(f"deleted: {strip_controls(str(path))}")
    for each in left:
        why = "--delete-exports deletes it" if each.is_unchanged else "it was changed since, so it is yours to delete"
        show(f"still quotes it: {strip_controls(str(each.path))}; {why}")


def _find_target(store: Store, what: str, namespace: str) -> tuple[str, str | None]:
    matches = match_ids(store.list_sessions(namespace), what)
    if len(matches) == 1:
        return matches[0].info.id, None
    if matches:
        raise NotFoundError(f"{len(matches)} sessions have an id that begins with {what!r}; give more of it")
    location = store.locate(namespace, what)
    return location.session, location.entry.id


_MAX_TEXT_CHARS = 160


def rules(  # noqa: PLR0913  the options of the command
    session: SessionArgument = LAST,
    *,
    add: Annotated[str | None, typer.Option(metavar="TEXT", help="Add a rule for the agent.")] = None,
    drop: Annotated[int | None, typer.Option(metavar="NUMBER", help="Drop the rule with this number.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="List requests and rules that no longer hold, too.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Lists the rules that the user has set, and what is unclassified. Rules can be added and dropped.

    The next compaction shows the rules as they are then. The messages themselves stay as they are.
    """
    with open_cli_store(store) as place:
        opened_session = open_session(
            place, find_stored_session(place, session, namespace=namespace), namespace=namespace
        )
        if drop is not None:
            opened_session.drop_rule(_get_rule(opened_session.read_instructions(), drop).text)
        if add is not None:
            opened_session.add_rule(add)
        instructions = opened_session.read_instructions()
        if drop is not None or add is not None:
            note_access(place, namespace, "rules", opened_session.address.session)
    numbers = {id(each): number for number, each in enumerate((i for i in instructions if i.is_rule), 1)}
    shown = [each for each in instructions if all_ or each.is_rule or each.scope == "unclassified"]
    if json:
        for each in shown:
            print_json({"number": numbers.get(id(each)), **msgspec.to_builtins(each)})
        return
    with open_pager():
        for each in shown:
            number = numbers.get(id(each))
            state = each.status if each.scope == "standing" else f"{each.scope}, {each.status}"
            label = f"{number}." if number else "-"
            show(f"{label} {to_one_line(each.text, _MAX_TEXT_CHARS)} ({state}, position {each.position})")
        if not shown:
            show("no rules: the user has set none that Tenfold recognises; add one with --add TEXT")


def _get_rule(instructions: tuple[Instruction, ...], number: int) -> Instruction:
    active = [each for each in instructions if each.is_rule]
    if not 1 <= number <= len(active):
        raise UsageError(f"there is no rule {number}; the session has {len(active)}, `tenfold rules` numbers them")
    return active[number - 1]
