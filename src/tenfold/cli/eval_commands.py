"""`tenfold eval`: the yardstick on your own session files. It stores nothing and uses no model and no network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from tenfold import __version__
from tenfold.cli.console import build_progress, print_json, print_note, print_table, show
from tenfold.cli.html_report import HtmlOption, write_page
from tenfold.cli.source_files import FormatOption, find_sources
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
from tenfold.evals.quality_report import OURS, Yardstick, build_tables
from tenfold.evals.question_search import build_table as search_table
from tenfold.evals.question_search import run_searches
from tenfold.evals.replay import Replays, replay_sessions
from tenfold.evals.replay import build_tables as replay_tables
from tenfold.evals.speed import FULL_ARCHIVE, LENGTHS, Measurement, build_tasks, collect_speed
from tenfold.evals.speed_tables import build_tables as speed_tables
from tenfold.evals.tables import Table

app = typer.Typer(
    name="eval",
    help="Measures compaction on your own sessions: what the agent needed later, and how much of it a compaction kept. "
    "docs/measures.md explains each figure.",
    no_args_is_help=True,
)

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILES...", help="Session files, or folders with session files.")
]
MethodsOption = Annotated[
    str,
    typer.Option(
        "--methods",
        metavar="NAMES",
        help="The methods to measure, with commas, as in tenfold,keep-last. `all` means every method except peers; "
        "name a peer, or `peers` for all of them.",
    ),
]
BudgetsOption = Annotated[
    str, typer.Option("--budgets", metavar="TOKENS", help="The sizes to compact to, with commas, as in 4k,8k.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print every score as one line of JSON, instead of tables.")]

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
            help="How many compactions to make one after the other, as in 1,3,10. The smallest number is measured at "
            "every budget, the others at a tenth of the past.",
        ),
    ] = "1",
    every_cut: Annotated[
        bool,
        typer.Option(
            "--every-cut",
            help="Check at every message, not only at the cuts, that providers accept what Tenfold's methods leave. "
            "This takes long.",
        ),
    ] = False,
    format: FormatOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Cuts each session, compacts what is before the cut, and measures how much of what was needed later is left.

    It looks for what the rest of the session used, for what a careful reader would ask, for text that was invented,
    and for messages that no provider accepts. docs/measures.md explains each figure.
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
        print_note("nothing to measure: no session has a past larger than the smallest budget")
    round_options = f" --rounds {rounds}" + " --every-cut" * every_cut
    options = f"--methods {methods_} --budgets {budgets}{round_options}{render_format_option(format)}"
    write_page(html, Yardstick(result), f"tenfold eval quality FILES... {options}")
    _print_result(result, build_tables(result) if result.probes else (), json=json)


@app.command("replay", epilog="Example: tenfold eval replay session.jsonl --windows 100k --methods none,tenfold")
def run_replay(  # noqa: PLR0913 - a parameter for each option
    files: FilesArgument,
    *,
    methods_: Annotated[
        str,
        typer.Option(
            "--methods",
            metavar="NAMES",
            help="The methods to play, with commas, as in none,tenfold. `all` means every method except peers; name a "
            "peer, or `peers` for all of them. In tenfold+model a stand-in for a model writes the summaries.",
        ),
    ] = ALL,
    windows: Annotated[
        str, typer.Option(metavar="TOKENS", help="The model's context windows, with commas, as in 100k,30k.")
    ] = "100k",
    prices: Annotated[
        str, typer.Option(metavar="MODELS", help="The models whose prices to use, as PROVIDER:MODEL, with commas.")
    ] = ",".join(DEFAULT_PRICE_LISTS),
    prefix: Annotated[
        int, typer.Option(min=0, help="The tokens of the system prompt and the tools, which the files do not hold.")
    ] = PREFIX_TOKENS,
    format: FormatOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Replays each session request by request, and reports what the provider's cache saves and what it all costs.

    docs/measures.md explains each figure.
    """
    own_names, peer_methods = parse_methods(methods_)
    chosen = get_player_factories(
        [*(get_replay_name(name) for name in own_names), *(peer.name for peer in peer_methods)], peer_methods
    )
    lists = [get_prices(name.strip()) for name in prices.split(",") if name.strip()]
    sizes = parse_sizes(windows)
    sessions = read_conversations(files, format)
    with build_progress() as bar:
        task = bar.add_task("sessions", total=len(sessions) * len(sizes) * len(chosen))
        tracks = [build_recording(session, prefix=prefix) for session in sessions]
        played = replay_sessions(tracks, chosen, windows=sizes, prices=lists, on_progress=lambda: bar.advance(task))
    whose = describe_price_source() if lists else ""
    result = Replays(__version__, get_counter().name, prefix, tuple(lists), tuple(played), whose)
    options = (
        f"--methods {methods_} --windows {windows} --prices {prices} --prefix {prefix}{render_format_option(format)}"
    )
    write_page(html, Yardstick(replay=result), f"tenfold eval replay FILES... {options}")
    _print_result(result, replay_tables(result), json=json)


@app.command("speed", epilog="Example: tenfold eval speed session.jsonl --methods peers --lengths 100,10k")
def run_speed(  # noqa: PLR0913 - the options of a command
    files: FilesArgument,
    *,
    methods_: Annotated[
        str | None,
        typer.Option(
            "--methods",
            metavar="NAMES",
            help="Peers to compare one turn with, by their names, with commas, or `peers` for all of them. Tenfold is "
            "always timed.",
        ),
    ] = None,
    lengths: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help="The messages of a history and the entries of an archive, with commas, as in 1k,10k.",
        ),
    ] = ",".join(f"{n // 1000}k" if n >= 1000 else str(n) for n in LENGTHS),
    full: Annotated[
        bool,
        typer.Option(
            "--full", help=f"Time an archive of {FULL_ARCHIVE:,} entries too. This takes many minutes and gigabytes."
        ),
    ] = False,
    format: FormatOption = None,
    html: HtmlOption = None,
    waits: Annotated[
        bool,
        typer.Option("--waits/--no-waits", help="Time how long an agent's calls wait: three runs of 16 seconds each."),
    ] = True,
    json: JsonOption = False,
) -> None:
    """Times what Tenfold costs besides the model, on your sessions, repeated until they are long enough.

    It times a turn, a compaction, the opening of a session, the archive, and the waits of an agent's calls, and
    measures memory. docs/measures.md explains each figure.
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
    result = collect_speed(measured)
    options = f" --methods {methods_}" * bool(methods_) + f" --lengths {lengths}"
    options += " --full" * full + " --no-waits" * (not waits) + render_format_option(format)
    write_page(html, Yardstick(speed=result), f"tenfold eval speed FILES...{options}")
    _print_result(result, speed_tables(result), json=json)


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
    """Asks the questions that come with session files: does a search find the answers, and does a compaction keep them?

    docs/measures.md says how to write questions for a file, and explains each figure.
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
    searches = [search_table(result.search)] if result.search else []
    _print_result(result, [*searches, *gold_tables(result.gold)], json=json)
    if not result.gold:
        print_note("nothing to ask: no file comes with questions; docs/measures.md says how to write some")


def _print_result(result: msgspec.Struct, tables: Iterable[Table], *, json: bool) -> None:
    """Prints every score as one JSON object, or each table with its title and its note."""
    if json:
        print_json(msgspec.json.encode(result))
        return
    for each in tables:
        show(each.title, style="bold")
        print_table(each.columns, each.rows, right=each.columns[1:])
        if each.note:
            show(each.note, style="dim")
        show()


def parse_methods(text: str) -> tuple[list[str], list[Peer | MissingPeer]]:
    """Parses comma-separated names into names of methods (Tenfold's and those made by hand) and peers.

    Raises `UsageError` if nothing is named, or for an unknown peer.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("no method is named: give `all`, or names with commas, as in tenfold,keep-last")
    peer_names = [name for name in names if "/" in name or name in _PEER_NAMES]
    peer_methods = get_peers([] if ALL_PEERS in peer_names else peer_names) if peer_names else []
    return [name for name in names if name not in peer_names], peer_methods


def parse_peers(text: str) -> list[Peer | MissingPeer]:
    """Parses comma-separated names of peers. Tenfold and `all` may stand beside them, and name no peer."""
    own_names, peer_methods = parse_methods(text)
    unknown = [name for name in own_names if name not in (ALL, OURS)]
    return get_peers(unknown) if unknown else peer_methods


def read_conversations(files: Sequence[Path], format: str | None = None) -> list[EvalSession]:
    """Reads the sessions of the files. A file in a folder that holds no session is skipped with a note."""
    return read_each(files, lambda path, name: read_sessions(path, name, format=format))


def read_each(
    files: Sequence[Path], read: Callable[[Path, str], Sequence[One]], *, description: str = "reading"
) -> list[One]:
    """Reads each file with its name. A file in a folder that holds no session is skipped with a note."""
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
        print_note(f"skipped: {why}")
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
            raise UsageError(f"{word!r} is not a size in tokens: give sizes as in 4k,8k or 4000,8000")
        out.add(int(digits) * scale)
    if not out:
        raise UsageError("no size is named: give sizes in tokens, as in 4k,8k")
    return sorted(out)


def parse_rounds(text: str) -> list[int]:
    """Parses `1,3` as numbers of compactions, fewest first. Raises `UsageError` for anything else."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"{text!r} is not a list of numbers from 1 on: give numbers of compactions, as in 1,3,10")
    return sorted({int(word) for word in words})
