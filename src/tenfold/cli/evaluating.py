"""`tenfold eval`: the yardstick on your own session files. It stores nothing and uses no model and no network."""

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
    """Returns the format's name. Raises `UsageError` if there is no such format."""
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
    sizes, round_counts = sizes_in(budgets), rounds_in(rounds)
    own_names, peer_methods = methods_in(methods_)
    own_names = [scored_as(name) for name in own_names]
    methods(own_names)
    cases = [case for one in conversations_in(files, format) for case in cuts_of(one)]
    with progress() as bar:
        task = bar.add_task("compacting", total=None)
        chosen = [*methods(own_names, cases), *peer_methods]
        result = measure(
            cases,
            chosen,
            budgets=sizes,
            rounds=round_counts,
            every_cut=every_cut,
            told=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if not result.probes:
        note("nothing to measure: no past above the smallest budget")
    round_options = f" --rounds {rounds}" + " --every-cut" * every_cut
    options = f"--methods {methods_} --budgets {budgets}{round_options}{read_as(format)}"
    write(html, Yardstick(result), f"tenfold eval quality FILES... {options}")
    if json:
        json_line(as_json(result))
        return
    for each in tables(result) if result.probes else ():
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
    own_names, peer_methods = methods_in(methods_)
    chosen = starts([*(played_as(name) for name in own_names), *(peer.name for peer in peer_methods)], peer_methods)
    lists = [prices_of(name.strip()) for name in prices.split(",") if name.strip()]
    sizes = sizes_in(windows)
    conversations_read = conversations_in(files, format)
    with progress() as bar:
        task = bar.add_task("sessions", total=len(conversations_read) * len(sizes) * len(chosen))
        tracks = [track_of(conversation, prefix=prefix) for conversation in conversations_read]
        played = replays(tracks, chosen, windows=sizes, prices=lists, told=lambda: bar.advance(task))
    whose = lists_of() if lists else ""
    result = Replays(__version__, counter().name, prefix, tuple(lists), tuple(played), whose)
    options = f"--methods {methods_} --windows {windows} --prices {prices} --prefix {prefix}{read_as(format)}"
    write(html, Yardstick(replay=result), f"tenfold eval replay FILES... {options}")
    if json:
        json_line(msgspec.json.encode(result))
        return
    for each in replay_tables(result):
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
    peer_methods = others_in(methods_) if methods_ is not None else []
    work = parts(conversations_in(files, format), peers=peer_methods, lengths=sizes_in(lengths), full=full, waits=waits)
    measured: list[Measured] = []
    with progress() as bar:
        task = bar.add_task("", total=len(work))
        for name, part in work:
            bar.update(task, description=name)
            measured += part()
            bar.advance(task)
    speed_result = put(measured)
    options = f" --methods {methods_}" * bool(methods_) + f" --lengths {lengths}"
    options += " --full" * full + " --no-waits" * (not waits) + read_as(format)
    write(html, Yardstick(speed=speed_result), f"tenfold eval speed FILES...{options}")
    if json:
        json_line(msgspec.json.encode(speed_result))
        return
    for each in speed_tables(speed_result):
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
    own_names, peer_methods = methods_in(methods_)
    chosen = [*methods([scored_as(name) for name in own_names]), *peer_methods]

    def quiz(path: Path, name: str) -> list[Quiz]:
        after = answered(path, chosen, budgets=sizes, name=name, format=format)
        return [Quiz(tuple(asked(path, name, format=format)), tuple(after))]

    try:
        quizzes = each_in(files, quiz, doing="asking")
    finally:
        for peer in peer_methods:
            peer.close()
    result = Quiz(
        tuple(one for each in quizzes for one in each.search), tuple(one for each in quizzes for one in each.gold)
    )
    options = f"--methods {methods_} --budgets {budgets}{read_as(format)}"
    write(html, Yardstick(search=result.search, gold=result.gold), f"tenfold eval search FILES... {options}")
    if json:
        json_line(msgspec.json.encode(result))
    else:
        for each in (*([search_table(result.search)] if result.search else ()), *gold_tables(result.gold)):
            draw(each)
    if not result.gold:
        note("nothing to ask: no questions come with a file; how to write some: docs/measures.md")


def methods_in(text: str) -> tuple[list[str], list[Peer | Absent]]:
    """Parses comma-separated names into names of methods (Tenfold's and those made by hand) and peers.

    Raises `UsageError` if nothing is named, or for an unknown peer.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("no method is named: give all, or names with commas, as in tenfold,keep-last")
    peer_names = [name for name in names if "/" in name or name in _PEERS]
    peer_methods = peers([] if ALL_PEERS in peer_names else peer_names) if peer_names else []
    return [name for name in names if name not in peer_names], peer_methods


def others_in(text: str) -> list[Peer | Absent]:
    """Parses comma-separated names of peers. Tenfold and `all` may stand beside them, and name no peer."""
    own_names, peer_methods = methods_in(text)
    unknown = [name for name in own_names if name not in (ALL, OURS)]
    return peers(unknown) if unknown else peer_methods


def conversations_in(files: Sequence[Path], format: str | None = None) -> list[Conversation]:
    """Reads the sessions of the files. A file in a folder that holds no session is left out with a note."""
    return each_in(files, lambda path, name: conversations(path, name, format=format))


def each_in(files: Sequence[Path], read: Callable[[Path, str], Sequence[One]], *, doing: str = "reading") -> list[One]:
    """Reads each file with its name. A file in a folder that holds no session is left out with a note."""
    out: list[One] = []
    skipped: list[UnknownFormat] = []
    sources = sources_of(files)
    names = names_of([source.path for source in sources])
    with progress() as bar:
        for source in bar.track(sources, description=doing):
            try:
                out.extend(read(source.path, names[source.path]))
            except UnknownFormat as exc:
                if source.named:
                    raise
                skipped.append(exc)
    for why in skipped:
        note(f"left out: {why}")
    return out


def read_as(format: str | None) -> str:
    """Renders the `--format` option for the command that repeats a measurement."""
    return f" --format {format}" if format is not None else ""


def sizes_in(text: str) -> list[int]:
    """Parses `4k,8000` as token counts, smallest first. Raises `UsageError` for anything else."""
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
    """Parses `1,3` as numbers of compactions, fewest first. Raises `UsageError` for anything else."""
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
