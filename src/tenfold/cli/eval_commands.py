"""`tenfold eval`: the yardstick on your own session files. It stores nothing and uses no model and no network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from tenfold import __version__
from tenfold.cli.compact_arguments import find_sources
from tenfold.cli.console import build_progress, print_json, print_note, print_table, show
from tenfold.cli.html_report import HtmlOption, write_page
from tenfold.errors import UnknownFormat, UsageError
from tenfold.evals.bill import DEFAULT_PRICE_LISTS, describe_price_source, get_prices
from tenfold.evals.cases import EvalSession, find_cuts, get_counter, name_files, read_sessions
from tenfold.evals.gold_answers import GOLD_BUDGET, Quiz, count_answers
from tenfold.evals.gold_answers import build_tables as gold_tables
from tenfold.evals.method_comparison import get_replay_name, get_score_name
from tenfold.evals.methods import ALL, get_methods
from tenfold.evals.peers import PEERS, MissingPeer, Peer, get_peers
from tenfold.evals.players import PREFIX_TOKENS, build_recording, get_player_factories
from tenfold.evals.quality import BUDGETS, measure_quality
from tenfold.evals.quality_report import OURS, Yardstick, as_json, build_tables
from tenfold.evals.question_search import build_table as search_table
from tenfold.evals.question_search import run_searches
from tenfold.evals.replay import Replays, replay_sessions
from tenfold.evals.replay import build_tables as replay_tables
from tenfold.evals.speed import FULL_ARCHIVE, LENGTHS, Measurement, build_tasks, collect_speed
from tenfold.evals.speed_tables import build_tables as speed_tables
from tenfold.evals.tables import Table
from tenfold.formats.session_files import get_format

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


def check_format(name: str | None) -> str | None:
    """Returns the format's name. Raises `UsageError` if there is no such format."""
    if name is not None:
        try:
            get_format(name)
        except UnknownFormat as exc:
            raise UsageError(str(exc)) from exc
    return name


FormatOption = Annotated[
    str | None,
    typer.Option("--format", callback=check_format, help="The files' format, where it is not to be detected."),
]
BudgetsOption = Annotated[
    str, typer.Option("--budgets", metavar="TOKENS", help="Sizes to compact to, with commas, as in 4k,8k.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One line of JSON with every score, instead of tables.")]

ALL_PEERS = "peers"
"""Names every peer at once."""
One = TypeVar("One")
_PEER_NAMES = frozenset((ALL_PEERS, *(name for peer in PEERS for name in (peer.name, peer.worker))))
_DEFAULT_BUDGETS = ",".join(f"{b // 1000}k" for b in BUDGETS)


def register(root: typer.Typer) -> None:
    """Adds the commands."""
    root.add_typer(app)


@app.command("quality", epilog="Example: tenfold eval quality session.jsonl --methods tenfold,keep-last")
def run_quality(  # noqa: PLR0913 - a parameter for each option
    files: FilesArgument,
    *,
    methods_: MethodsOption = ALL,
    budgets: BudgetsOption = _DEFAULT_BUDGETS,
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
    sizes, round_counts = parse_sizes(budgets), parse_rounds(rounds)
    own_names, peer_methods = parse_methods(methods_)
    own_names = [get_score_name(name) for name in own_names]
    get_methods(own_names)
    cases = [case for one in read_conversations(files, format) for case in find_cuts(one)]
    with build_progress() as bar:
        task = bar.add_task("compacting", total=None)
        chosen = [*get_methods(own_names, cases), *peer_methods]
        result = measure_quality(
            cases,
            chosen,
            budgets=sizes,
            rounds=round_counts,
            every_cut=every_cut,
            on_progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if not result.probes:
        print_note("nothing to measure: no past above the smallest budget")
    round_options = f" --rounds {rounds}" + " --every-cut" * every_cut
    options = f"--methods {methods_} --budgets {budgets}{round_options}{render_format_option(format)}"
    write_page(html, Yardstick(result), f"tenfold eval quality FILES... {options}")
    if json:
        print_json(as_json(result))
        return
    for each in build_tables(result) if result.probes else ():
        print_eval_table(each)


@app.command("replay", epilog="Example: tenfold eval replay session.jsonl --windows 100k --methods none,tenfold")
def run_replay(  # noqa: PLR0913 - a parameter for each option
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
        DEFAULT_PRICE_LISTS
    ),
    prefix: Annotated[
        int, typer.Option(min=0, help="Tokens of system prompt and tools that the files do not hold.")
    ] = PREFIX_TOKENS,
    format: FormatOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Plays each session request by request, as its agent made them: cached tokens, what is rewritten, the bill.

    What each figure means: docs/measures.md.
    """
    own_names, peer_methods = parse_methods(methods_)
    chosen = get_player_factories(
        [*(get_replay_name(name) for name in own_names), *(peer.name for peer in peer_methods)], peer_methods
    )
    lists = [get_prices(name.strip()) for name in prices.split(",") if name.strip()]
    sizes = parse_sizes(windows)
    conversations_read = read_conversations(files, format)
    with build_progress() as bar:
        task = bar.add_task("sessions", total=len(conversations_read) * len(sizes) * len(chosen))
        tracks = [build_recording(conversation, prefix=prefix) for conversation in conversations_read]
        played = replay_sessions(tracks, chosen, windows=sizes, prices=lists, on_progress=lambda: bar.advance(task))
    whose = describe_price_source() if lists else ""
    result = Replays(__version__, get_counter().name, prefix, tuple(lists), tuple(played), whose)
    options = (
        f"--methods {methods_} --windows {windows} --prices {prices} --prefix {prefix}{render_format_option(format)}"
    )
    write_page(html, Yardstick(replay=result), f"tenfold eval replay FILES... {options}")
    if json:
        print_json(msgspec.json.encode(result))
        return
    for each in replay_tables(result):
        print_eval_table(each)


@app.command("speed", epilog="Example: tenfold eval speed session.jsonl --methods peers --lengths 100,10k")
def run_speed(  # noqa: PLR0913 - the options of a command
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
        bool, typer.Option("--full", help=f"Also an archive of {FULL_ARCHIVE:,} entries: many minutes and gigabytes.")
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
    peer_methods = parse_peers(methods_) if methods_ is not None else []
    work = build_tasks(
        read_conversations(files, format),
        peers=peer_methods,
        lengths=parse_sizes(lengths),
        has_full_archive=full,
        has_waits=waits,
    )
    measured: list[Measurement] = []
    with build_progress() as bar:
        task = bar.add_task("", total=len(work))
        for name, part in work:
            bar.update(task, description=name)
            measured += part()
            bar.advance(task)
    speed_result = collect_speed(measured)
    options = f" --methods {methods_}" * bool(methods_) + f" --lengths {lengths}"
    options += " --full" * full + " --no-waits" * (not waits) + render_format_option(format)
    write_page(html, Yardstick(speed=speed_result), f"tenfold eval speed FILES...{options}")
    if json:
        print_json(msgspec.json.encode(speed_result))
        return
    for each in speed_tables(speed_result):
        print_eval_table(each)


@app.command("search", epilog="Example: tenfold eval search scenarios/ --methods tenfold,keep-last")
def run_search(
    files: FilesArgument,
    *,
    methods_: MethodsOption = ALL,
    budgets: BudgetsOption = f"{GOLD_BUDGET // 1000}k",
    format: FormatOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Asks the questions that come with files: does search find the answers, are they there after a compaction?

    How questions come with a file, and what each figure means: docs/measures.md.
    """
    sizes = parse_sizes(budgets)
    own_names, peer_methods = parse_methods(methods_)
    chosen = [*get_methods([get_score_name(name) for name in own_names]), *peer_methods]

    def ask_questions(path: Path, name: str) -> list[Quiz]:
        after = count_answers(path, chosen, budgets=sizes, name=name, format=format)
        return [Quiz(tuple(run_searches(path, name, format=format)), tuple(after))]

    try:
        quizzes = read_each(files, ask_questions, description="asking")
    finally:
        for peer in peer_methods:
            peer.close()
    result = Quiz(
        tuple(one for each in quizzes for one in each.search), tuple(one for each in quizzes for one in each.gold)
    )
    options = f"--methods {methods_} --budgets {budgets}{render_format_option(format)}"
    write_page(html, Yardstick(search=result.search, gold=result.gold), f"tenfold eval search FILES... {options}")
    if json:
        print_json(msgspec.json.encode(result))
    else:
        for each in (*([search_table(result.search)] if result.search else ()), *gold_tables(result.gold)):
            print_eval_table(each)
    if not result.gold:
        print_note("nothing to ask: no questions come with a file; how to write some: docs/measures.md")


def parse_methods(text: str) -> tuple[list[str], list[Peer | MissingPeer]]:
    """Parses comma-separated names into names of methods (Tenfold's and those made by hand) and peers.

    Raises `UsageError` if nothing is named, or for an unknown peer.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("no method is named: give all, or names with commas, as in tenfold,keep-last")
    peer_names = [name for name in names if "/" in name or name in _PEER_NAMES]
    peer_methods = get_peers([] if ALL_PEERS in peer_names else peer_names) if peer_names else []
    return [name for name in names if name not in peer_names], peer_methods


def parse_peers(text: str) -> list[Peer | MissingPeer]:
    """Parses comma-separated names of peers. Tenfold and `all` may stand beside them, and name no peer."""
    own_names, peer_methods = parse_methods(text)
    unknown = [name for name in own_names if name not in (ALL, OURS)]
    return get_peers(unknown) if unknown else peer_methods


def read_conversations(files: Sequence[Path], format: str | None = None) -> list[EvalSession]:
    """Reads the sessions of the files. A file in a folder that holds no session is left out with a note."""
    return read_each(files, lambda path, name: read_sessions(path, name, format=format))


def read_each(
    files: Sequence[Path], read: Callable[[Path, str], Sequence[One]], *, description: str = "reading"
) -> list[One]:
    """Reads each file with its name. A file in a folder that holds no session is left out with a note."""
    out: list[One] = []
    skipped: list[UnknownFormat] = []
    sources = find_sources(files)
    names = name_files([source.path for source in sources])
    with build_progress() as bar:
        for source in bar.track(sources, description=description):
            try:
                out.extend(read(source.path, names[source.path]))
            except UnknownFormat as exc:
                if source.is_named:
                    raise
                skipped.append(exc)
    for why in skipped:
        print_note(f"left out: {why}")
    return out


def render_format_option(format: str | None) -> str:
    """Renders the `--format` option for the command that repeats a measurement."""
    return f" --format {format}" if format is not None else ""


def parse_sizes(text: str) -> list[int]:
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


def parse_rounds(text: str) -> list[int]:
    """Parses `1,3` as numbers of compactions, fewest first. Raises `UsageError` for anything else."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"{text!r} are no numbers of compactions: give them from 1 on, as in 1,3,10")
    return sorted({int(word) for word in words})


def print_eval_table(each: Table) -> None:
    """Prints one table with its title and its note."""
    show(each.title, style="bold")
    print_table(each.columns, each.rows, right=each.columns[1:])
    if each.note:
        show(each.note, style="dim")
    show()
