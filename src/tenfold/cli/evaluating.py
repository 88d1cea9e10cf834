"""`tenfold eval`: the yardstick on session files of one's own. Nothing is stored, no model and no network is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from tenfold import __version__
from tenfold.cli.asked import sources_of
from tenfold.cli.reporting import HtmlOption, write
from tenfold.cli.screen import json_line, note, progress, show, table
from tenfold.errors import UnknownFormat, UsageError
from tenfold.evals.bill import LISTS, lists_of, prices_of
from tenfold.evals.cases import Conversation, conversations, counter, cuts_of, names_of
from tenfold.evals.gold import BUDGET, Quiz, answered
from tenfold.evals.gold import tables as gold_tables
from tenfold.evals.methods import ALL, methods
from tenfold.evals.peers import PEERS, Absent, Peer, peers
from tenfold.evals.players import PREFIX, starts, track_of
from tenfold.evals.quality import BUDGETS, measure
from tenfold.evals.replay import Replays, replays
from tenfold.evals.replay import tables as replay_tables
from tenfold.evals.report import OURS, Yardstick, as_json, tables
from tenfold.evals.searching import asked
from tenfold.evals.searching import table as search_table
from tenfold.evals.speed import FULL, LENGTHS, Measured, parts, put
from tenfold.evals.speed_tables import tables as speed_tables
from tenfold.evals.standing import played_as, scored_as
from tenfold.evals.tables import Table
from tenfold.transcripts.files import reader_of

app = typer.Typer(
    name="eval",
    help="Measures compaction on sessions of your own: what an agent goes on to need, and what is left of it. "
    "What each figure means: docs/measures.md.",
    no_args_is_help=True,
)

FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILES...", help="Session files, or folders of them.")]
MethodsOption = Annotated[
    str,
    typer.Option(
        "--methods",
        metavar="NAMES",
        help="all that are no peers, or names with commas, as in tenfold,keep-last; peers by their names, or all of "
        "them: peers.",
    ),
]


def known_format(name: str | None) -> str | None:
    """The format's name, if there is one of that name. Raises `UsageError`."""
    if name is not None:
        try:
            reader_of(name)
        except UnknownFormat as exc:
            raise UsageError(str(exc)) from exc
    return name


FormatOption = Annotated[
    str | None,
    typer.Option("--format", callback=known_format, help="The files' format, where it is not to be detected."),
]
BudgetsOption = Annotated[
    str, typer.Option("--budgets", metavar="TOKENS", help="Sizes to compact to, with commas, as in 4k,8k.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One line of JSON with every score, instead of tables.")]

ALL_PEERS = "peers"
"""Names every peer at once."""
One = TypeVar("One")
_PEERS = frozenset((ALL_PEERS, *(name for peer in PEERS for name in (peer.name, peer.worker))))
_BUDGETS = ",".join(f"{b // 1000}k" for b in BUDGETS)


def register(root: typer.Typer) -> None:
    """Adds the commands."""
    root.add_typer(app)


@app.command("quality", epilog="Example: tenfold eval quality session.jsonl --methods tenfold,keep-last")
def quality(  # noqa: PLR0913 - a parameter for each option
    files: FilesArgument,
    *,
    methods_: MethodsOption = ALL,
    budgets: BudgetsOption = _BUDGETS,
    rounds: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help="Compactions one after the other, up to each cut, as in 1,3,10: the fewest at every budget, the "
            "others at a tenth of the past.",
        ),
    ] = "1",
    every_cut: Annotated[
        bool,
        typer.Option(
            "--every-cut",
            help="Check the validity of Tenfold's methods at every message, not at the cuts alone. Takes long.",
        ),
    ] = False,
    format: FormatOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Cuts each session, compacts what is before the cut, and looks what is left of what is asked of it then.

    What its real future went on to use, what a careful reader would ask, what was invented, what no provider takes.
    What each figure means: docs/measures.md.
    """
    sizes, often = sizes_in(budgets), rounds_in(rounds)
    ours, others = methods_in(methods_)
    ours = [scored_as(name) for name in ours]
    methods(ours)
    found = [case for one in conversations_in(files, format) for case in cuts_of(one)]
    with progress() as bar:
        task = bar.add_task("compacting", total=None)
        chosen = [*methods(ours, found), *others]
        made = measure(
            found,
            chosen,
            budgets=sizes,
            rounds=often,
            every_cut=every_cut,
            told=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if not made.probes:
        note("nothing to measure: no past above the smallest budget")
    often_too = f" --rounds {rounds}" + " --every-cut" * every_cut
    named = f"--methods {methods_} --budgets {budgets}{often_too}{read_as(format)}"
    write(html, Yardstick(made), f"tenfold eval quality FILES... {named}")
    if json:
        json_line(as_json(made))
        return
    for each in tables(made) if made.probes else ():
        draw(each)


@app.command("replay", epilog="Example: tenfold eval replay session.jsonl --windows 100k --methods none,tenfold")
def replaying(  # noqa: PLR0913 - a parameter for each option
    files: FilesArgument,
    *,
    methods_: Annotated[
        str,
        typer.Option(
            "--methods",
            metavar="NAMES",
            help="all that are no peers, or names with commas, as in none,tenfold; tenfold+model has a stand-in "
            "write its summaries; peers by their names, or all of them: peers.",
        ),
    ] = ALL,
    windows: Annotated[str, typer.Option(metavar="TOKENS", help="The model's windows, as in 100k,30k.")] = "100k",
    prices: Annotated[str, typer.Option(metavar="MODELS", help="Whose prices, PROVIDER:MODEL with commas.")] = ",".join(
        LISTS
    ),
    prefix: Annotated[
        int, typer.Option(min=0, help="Tokens of system prompt and tools that the files do not hold.")
    ] = PREFIX,
    format: FormatOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Plays each session request by request, as its agent made them: cached tokens, what is rewritten, the bill.

    What each figure means: docs/measures.md.
    """
    ours, others = methods_in(methods_)
    chosen = starts([*(played_as(name) for name in ours), *(peer.name for peer in others)], others)
    lists = [prices_of(name.strip()) for name in prices.split(",") if name.strip()]
    sizes = sizes_in(windows)
    found = conversations_in(files, format)
    with progress() as bar:
        task = bar.add_task("sessions", total=len(found) * len(sizes) * len(chosen))
        tracks = [track_of(conversation, prefix=prefix) for conversation in found]
        played = replays(tracks, chosen, windows=sizes, prices=lists, told=lambda: bar.advance(task))
    whose = lists_of() if lists else ""
    made = Replays(__version__, counter().name, prefix, tuple(lists), tuple(played), whose)
    named = f"--methods {methods_} --windows {windows} --prices {prices} --prefix {prefix}{read_as(format)}"
    write(html, Yardstick(replay=made), f"tenfold eval replay FILES... {named}")
    if json:
        json_line(msgspec.json.encode(made))
        return
    for each in replay_tables(made):
        draw(each)


@app.command("speed", epilog="Example: tenfold eval speed session.jsonl --methods peers --lengths 100,10k")
def speeding(  # noqa: PLR0913 - the options of a command
    files: FilesArgument,
    *,
    methods_: Annotated[
        str | None,
        typer.Option(
            "--methods",
            metavar="NAMES",
            help="Peers to hold a turn against, by their names with commas, or all of them: peers. Tenfold is timed "
            "whatever is named.",
        ),
    ] = None,
    lengths: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Messages of a history and entries of an archive, as in 1k,10k.")
    ] = ",".join(f"{n // 1000}k" if n >= 1000 else str(n) for n in LENGTHS),
    full: Annotated[
        bool, typer.Option("--full", help=f"Also an archive of {FULL:,} entries: many minutes and gigabytes.")
    ] = False,
    format: FormatOption = None,
    html: HtmlOption = None,
    waits: Annotated[
        bool, typer.Option("--waits/--no-waits", help="What an agent's calls wait: three runs, 16 seconds each.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Times what Tenfold costs beside the model, on these sessions repeated until they are long enough.

    A turn, a compaction, an opening, the archive, memory, and what an agent's calls wait.
    What each figure means: docs/measures.md.
    """
    others = others_in(methods_) if methods_ is not None else []
    made = parts(conversations_in(files, format), peers=others, lengths=sizes_in(lengths), full=full, waits=waits)
    measured: list[Measured] = []
    with progress() as bar:
        task = bar.add_task("", total=len(made))
        for name, part in made:
            bar.update(task, description=name)
            measured += part()
            bar.advance(task)
    found = put(measured)
    named = f" --methods {methods_}" * bool(methods_) + f" --lengths {lengths}"
    named += " --full" * full + " --no-waits" * (not waits) + read_as(format)
    write(html, Yardstick(speed=found), f"tenfold eval speed FILES...{named}")
    if json:
        json_line(msgspec.json.encode(found))
        return
    for each in speed_tables(found):
        draw(each)


@app.command("search", epilog="Example: tenfold eval search scenarios/ --methods tenfold,keep-last")
def searching(
    files: FilesArgument,
    *,
    methods_: MethodsOption = ALL,
    budgets: BudgetsOption = f"{BUDGET // 1000}k",
    format: FormatOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Asks the questions that come with files: does search find the answers, are they there after a compaction?

    How questions come with a file, and what each figure means: docs/measures.md.
    """
    sizes = sizes_in(budgets)
    ours, others = methods_in(methods_)
    chosen = [*methods([scored_as(name) for name in ours]), *others]

    def quiz(path: Path, name: str) -> list[Quiz]:
        after = answered(path, chosen, budgets=sizes, name=name, format=format)
        return [Quiz(tuple(asked(path, name, format=format)), tuple(after))]

    try:
        found = each_in(files, quiz, doing="asking")
    finally:
        for peer in others:
            peer.close()
    made = Quiz(tuple(one for each in found for one in each.search), tuple(one for each in found for one in each.gold))
    named = f"--methods {methods_} --budgets {budgets}{read_as(format)}"
    write(html, Yardstick(search=made.search, gold=made.gold), f"tenfold eval search FILES... {named}")
    if json:
        json_line(msgspec.json.encode(made))
    else:
        for each in (*([search_table(made.search)] if made.search else ()), *gold_tables(made.gold)):
            draw(each)
    if not made.gold:
        note("nothing to ask: no questions come with a file; how to write some: docs/measures.md")


def methods_in(text: str) -> tuple[list[str], list[Peer | Absent]]:
    """The methods of these names with commas: those of Tenfold and by hand as named, and the peers.

    Raises `UsageError` where none is named, or a peer that is none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("no method is named: give all, or names with commas, as in tenfold,keep-last")
    apart = [name for name in names if "/" in name or name in _PEERS]
    others = peers([] if ALL_PEERS in apart else apart) if apart else []
    return [name for name in names if name not in apart], others


def others_in(text: str) -> list[Peer | Absent]:
    """The peers of these names with commas. Tenfold may be named beside them, and `all`, which names no peer."""
    ours, others = methods_in(text)
    strange = [name for name in ours if name not in (ALL, OURS)]
    return peers(strange) if strange else others


def conversations_in(files: Sequence[Path], format: str | None = None) -> list[Conversation]:
    """The sessions of the files named; files found in folders that hold no session are left out with a note."""
    return each_in(files, lambda path, name: conversations(path, name, format=format))


def each_in(files: Sequence[Path], read: Callable[[Path, str], Sequence[One]], *, doing: str = "reading") -> list[One]:
    """What is read of each file with its name; one found in a folder that holds no session is left out with a note."""
    out: list[One] = []
    left: list[UnknownFormat] = []
    sources = sources_of(files)
    names = names_of([source.path for source in sources])
    with progress() as bar:
        for source in bar.track(sources, description=doing):
            try:
                out.extend(read(source.path, names[source.path]))
            except UnknownFormat as exc:
                if source.named:
                    raise
                left.append(exc)
    for why in left:
        note(f"left out: {why}")
    return out


def read_as(format: str | None) -> str:
    """The option that names the format, as it is given again."""
    return f" --format {format}" if format is not None else ""


def sizes_in(text: str) -> list[int]:
    """`4k,8000` as numbers of tokens, smallest first. Raises `UsageError` for anything else."""
    out: set[int] = set()
    for word in filter(None, (w.strip().lower().replace("_", "") for w in text.split(","))):
        digits, scale = (word[:-1], 1_000) if word.endswith("k") else (word, 1)
        if not digits.isdecimal() or not int(digits):
            raise UsageError(f"{word!r} is no size in tokens: give them as in 4k,8k or 4000,8000")
        out.add(int(digits) * scale)
    if not out:
        raise UsageError("no budget is named: give sizes in tokens, as in 4k,8k")
    return sorted(out)


def rounds_in(text: str) -> list[int]:
    """`1,3` as numbers of compactions, fewest first. Raises `UsageError` for anything else."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"{text!r} are no numbers of compactions: give them from 1 on, as in 1,3,10")
    return sorted({int(word) for word in words})


def draw(each: Table) -> None:
    """Prints one table with its title and its note."""
    show(each.title, style="bold")
    table(each.columns, each.rows, right=each.columns[1:])
    if each.note:
        show(each.note, style="dim")
    show()
