"""`tenfold bill`: what the stored sessions cost, what they would have cost without Tenfold, and what that saves."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from msgspec.structs import asdict

from tenfold.apps.cli.console import format_id, print_json, print_table, show
from tenfold.apps.cli.exported_files import ForceOption, write_file
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import (
    JsonOption,
    NamespaceOption,
    StoreOption,
    complete_session,
    complete_values,
    find_location,
    name_other_namespaces,
    open_cli_store,
)
from tenfold.core.record.token_reading import format_thousands
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.errors import UsageError
from tenfold.models.prices import TokenUse
from tenfold.session.bill import build_bill
from tenfold.session.bill_text import (
    describe_limits,
    describe_shares,
    explain_loss,
    format_dollars,
    format_thousands_signed,
    parse_start,
)
from tenfold.session.ledger import Bill, BillLine, BillPoint, Grouping
from tenfold.store.ids import convert_time
from tenfold.store.location import describe_location
from tenfold.store.lookup import find_session

_PLOT_FORMATS = ("svg", "png", "pdf")


def bill(  # noqa: PLR0913 - a parameter for each option
    *,
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Requests from then on: an age (7d, 12h, 30min), or a day (2026-11-30, UTC)."
        ),
    ] = "",
    by: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="A line for each session, model or client.",
            autocompletion=complete_values(*get_args(Grouping)),
        ),
    ] = "session",
    session: Annotated[
        str | None, typer.Option(help="The bill of this session only.", autocompletion=complete_session)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            parser=parse_path, metavar="FILE", help="Draw what was paid, request by request, as .svg, .png or .pdf."
        ),
    ] = None,
    force: ForceOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Shows what your sessions cost, and what they would have cost without Tenfold.

    Summaries, lookups and caches that had to be written anew are paid for in these figures, so that what is saved may
    be below zero: then Tenfold cost you money. docs/bill.md says how each figure is computed.
    """
    grouping, start = _parse_grouping(by), parse_start(since)
    _check_plot(plot)
    with open_cli_store(store) as place:
        only = None if session is None else [find_session(place, session, namespace=namespace).info.id]
        others = name_other_namespaces(place, namespace)
        found = build_bill(place, namespace=namespace, sessions=only, since=start, by=grouping)
    if plot is not None:
        write_file(plot, draw_bill(found, plot.suffix[1:].lower()), force=force, option="--plot")
    if json:
        print_json(build_bill_record(found))
    elif found.lines:
        _print_bill(found)
    else:
        where = f"nothing to bill in {describe_location(find_location(store))}{_name_start(start)}"
        why = "only requests made through chat, run, serve, wrap or a library host report their tokens"
        show(f"{where}: {others}" if others else f"{where}{'' if start else ' yet'}: {why}")


def _parse_grouping(text: str) -> Grouping:
    match text:
        case "session" | "model" | "client":
            return text
        case _:
            raise UsageError(f"--by is {text!r}: it is session, model or client")


def _name_start(start: int | None) -> str:
    return "" if start is None else f" since {convert_time(start):%Y-%m-%d %H:%M} (UTC)"


# -- for programs ------------------------------------------------------------------------------------------------------


def build_bill_record(found: Bill) -> dict[str, Any]:
    """Builds the bill as JSON shows it, with what follows from its figures."""
    whole = {name: value for name, value in asdict(found).items() if name not in ("lines", "total", "points")}
    return {**whole, "lines": [*map(_build_line_record, found.lines)], "total": _build_line_record(found.total)}


def _build_line_record(line: BillLine) -> dict[str, Any]:
    derived = {"saved_tokens": line.saved_tokens, "total_paid": line.total_paid, "saving": line.saving}
    return {**asdict(line), **derived, "shares": line.shares}


# -- for people --------------------------------------------------------------------------------------------------------


def _print_bill(found: Bill) -> None:
    name = found.by
    columns = (name, "requests", "without", "paid", "saved")
    rows = [_build_cells(line, format_id(line.name) if name == "session" else line.name) for line in found.lines]
    if len(rows) > 1:
        rows.append(_build_cells(found.total, "total"))
    print_table(columns, rows, right=columns[1:], fit=name, red=("saved",))
    total = found.total
    show()
    _print_saving(total)
    show()
    print_table(("tokens", "uncached", "cached", "written", "answers"), _list_tokens(total), right=_TOKEN_COLUMNS)
    show()
    for line in describe_limits(found):
        show(line)


_TOKEN_COLUMNS = ("uncached", "cached", "written", "answers")


def _build_cells(line: BillLine, name: str) -> tuple[str, ...]:
    count = line.answers + line.lookups
    if _is_unpriced(line):
        return (to_one_line(name, 400), f"{count:,}", "unknown", "unknown", "unknown")
    amounts = (line.unhidden_paid.total, line.total_paid, line.saving)
    return (to_one_line(name, 400), f"{count:,}", *map(format_dollars, amounts))


def _is_unpriced(line: BillLine) -> bool:
    """Tells whether not a single price is known, so that an amount of 0 would say nothing."""
    return line.unpriced == line.answers + line.lookups + line.summaries


def _print_saving(total: BillLine) -> None:
    own = [
        f"{name} {format_dollars(paid)}"
        for name, paid in (("summaries", total.summary_paid.total), ("lookups", total.lookup_paid.total))
        if paid
    ]
    paid = f" ({' and '.join(own)} are paid)" if own else ""
    style = "red" if total.saving < 0 else "bold"
    saved = (
        f"{format_thousands_signed(total.saved_tokens)} tokens" if _is_unpriced(total) else format_dollars(total.saving)
    )
    show(f"Saved {saved}{paid}", style=style)
    for line, is_loss in describe_shares(total):
        show(f"  {line}", style="red" if is_loss else None)
    for reason in explain_loss(total):
        show(f"  {reason}")


def _list_tokens(total: BillLine) -> Sequence[tuple[str, ...]]:
    uses = [("without", total.unhidden), ("sent", total.sent)]
    uses += [(name, use) for name, use in (("lookups", total.looked_up), ("summaries", total.summarized)) if use.input]
    return [(name, *map(format_thousands, _list_counts(use))) for name, use in uses]


def _list_counts(use: TokenUse) -> tuple[int, ...]:
    return use.uncached, use.cached, use.written, use.output


# -- the plot ----------------------------------------------------------------------------------------------------------


def _check_plot(plot: Path | None) -> None:
    if plot is not None and plot.suffix[1:].lower() not in _PLOT_FORMATS:
        raise UsageError(f"--plot is {plot}: its name ends with .svg, .png or .pdf")


def draw_bill(found: Bill, format: str) -> bytes:
    """Draws what was paid so far after each request, and what would have been.

    Raises `UsageError` where matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra, slow to load
    except ImportError as exc:
        raise UsageError("--plot draws with matplotlib: pip install 'tenfold[eval]'") from exc
    points: Sequence[BillPoint] = found.points
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    numbers = range(1, len(points) + 1)
    axes.plot(numbers, [each.without for each in points], color="#8b929b", label="without Tenfold")
    axes.plot(numbers, [each.paid for each in points], color="#0072b2", label="paid")
    axes.fill_between(
        numbers, 0, [each.own for each in points], color="#d55e00", alpha=0.6, label="of it summaries and lookups"
    )
    axes.set(xlabel="requests, by time", ylabel="US dollars so far", ylim=(0, None), xlim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", frameon=False)
    total = found.total
    title = f"{format_dollars(total.saving)} saved of {format_dollars(total.unhidden_paid.total)}"
    axes.set_title(title, loc="left", parse_math=False)  # two dollar signs would begin and end a formula
    out = io.BytesIO()
    figure.savefig(out, format=format)
    return out.getvalue()
