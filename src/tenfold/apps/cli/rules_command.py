"""The command `rules`: lists the user's instructions in a session, and adds or drops rules."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from tenfold.apps.cli.console import print_json, show
from tenfold.apps.cli.store_access import (
    JsonOption,
    NamespaceOption,
    SessionArgument,
    StoreOption,
    open_cli_store,
    open_session,
)
from tenfold.compaction.facts.ledger import Instruction
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.errors import UsageError
from tenfold.store.lookup import LAST, find_session

_MAX_TEXT_CHARS = 160


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("rules", epilog='Example: tenfold rules last --add "Never push to main."')(rules)


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
        opened_session = open_session(place, find_session(place, session, namespace=namespace), namespace=namespace)
        if drop is not None:
            opened_session.drop_rule(_get_rule(opened_session.read_instructions(), drop).text)
        if add is not None:
            opened_session.add_rule(add)
        instructions = opened_session.read_instructions()
    numbers = {id(each): number for number, each in enumerate((i for i in instructions if i.is_rule), 1)}
    shown = [each for each in instructions if all_ or each.is_rule or each.scope == "unclassified"]
    for each in shown:
        number = numbers.get(id(each))
        if json:
            print_json(msgspec.json.encode({"number": number, **msgspec.to_builtins(each)}))
        else:
            state = each.status if each.scope == "standing" else f"{each.scope}, {each.status}"
            label = f"{number}." if number else "-"
            show(f"{label} {to_one_line(each.text, _MAX_TEXT_CHARS)} ({state}, position {each.position})")
    if not shown and not json:
        show("no rules: the user has set none that Tenfold recognises; add one with --add TEXT")


def _get_rule(instructions: tuple[Instruction, ...], number: int) -> Instruction:
    active = [each for each in instructions if each.is_rule]
    if not 1 <= number <= len(active):
        raise UsageError(f"there is no rule {number}; the session has {len(active)}, `tenfold rules` numbers them")
    return active[number - 1]
