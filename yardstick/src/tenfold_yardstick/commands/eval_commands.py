"""`tenfold eval`: the measures on your own session files. They store nothing.

Only the reading test uses models and the network, and only those that are named.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tenfold import __version__
from tenfold.apps.cli.console import build_progress, print_note
from tenfold.apps.cli.exported_files import ForceOption
from tenfold.apps.cli.source_files import FormatOption
from tenfold.models.prices import describe_price_source
from tenfold.testing.chats import get_counter
from tenfold_yardstick.asked_sessions import AskedSession
from tenfold_yardstick.bill import DEFAULT_PRICE_LISTS, get_prices
from tenfold_yardstick.cases import find_cuts
from tenfold_yardstick.commands.eval_options import (
    BudgetsOption,
    FilesArgument,
    FirstOption,
    JsonOption,
    MethodsOption,
    SetOption,
    measure_each,
    parse_methods,
    parse_peers,
    parse_rounds,
    parse_sizes,
    print_result,
    read_asked_sessions,
    read_conversations,
    render_format_option,
    render_set_options,
)
from tenfold_yardstick.commands.generations_command import run_generations
from tenfold_yardstick.commands.outputs import CsvOption, FiguresOption, HtmlOption, Outputs, fail_if_unable
from tenfold_yardstick.commands.peer_commands import peers_app
from tenfold_yardstick.commands.reading_commands import run_questions, run_reading
from tenfold_yardstick.gold_answers import GOLD_BUDGET, Quiz, count_answers
from tenfold_yardstick.gold_answers import build_tables as gold_tables
from tenfold_yardstick.method_comparison import get_replay_name, get_score_name
from tenfold_yardstick.methods import ALL, get_methods
from tenfold_yardstick.peers import STANDINS
from tenfold_yardstick.players import PREFIX_TOKENS, build_recording, get_player_factories
from tenfold_yardstick.quality import BUDGETS, measure_quality
from tenfold_yardstick.quality_report import Yardstick, build_tables
from tenfold_yardstick.question_search import build_table as search_table
from tenfold_yardstick.question_search import run_searches
from tenfold_yardstick.replay import Replays, replay_sessions
from tenfold_yardstick.replay import build_tables as replay_tables
from tenfold_yardstick.speed import FULL_ARCHIVE, LENGTHS, Measurement, build_tasks, collect_speed
from tenfold_yardstick.speed_tables import build_tables as speed_tables

_DEFAULT_BUDGETS = ",".join(f"{b // 1000}k" for b in BUDGETS)

app = typer.Typer(
    name="eval",
    help="Measures compaction on your own sessions: what the agent needed later, and how much of it a compaction kept. "
    "docs/measures.md explains each figure.",
    no_args_is_help=True,
)
app.command("generations", epilog="Example: tenfold eval generations examples/sessions --methods tenfold,keep-last")(
    run_generations
)
app.command("reading", epilog="Example: tenfold eval reading examples/sessions --replay examples/reading")(run_reading)
app.command(
    "questions", epilog="Example: tenfold eval questions desk.json --model openai:gpt-5 --out desk.reading.toml"
)(run_questions)


app.add_typer(peers_app)


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
    csv: CsvOption = None,
    figures: FiguresOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Cuts each session, compacts what is before the cut, and measures how much of what was needed later is left.

    It looks for what the rest of the session used, for what a careful reader would ask, for text that was invented,
    and for messages that no provider accepts. docs/measures.md explains each figure.
    """
    outputs = Outputs(html, csv, figures, force)
    outputs.check()
    sizes, round_counts = parse_sizes(budgets), parse_rounds(rounds)
    own_names, peer_methods = parse_methods(methods_, standins=STANDINS)
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
            on_progress=lambda done, total, what: bar.update(task, completed=done, total=total, description=what),
        )
    if not result.probes:
        print_note("nothing to measure: no session has a past larger than the smallest budget")
    round_options = f" --rounds {rounds}" + " --every-cut" * every_cut
    options = f"--methods {methods_} --budgets {budgets}{round_options}{render_format_option(format)}"
    tables = build_tables(result) if result.probes else []
    outputs.write(Yardstick(result), tables, f"tenfold eval quality FILES... {options}")
    print_result(result, tables, json=json)
    fail_if_unable((score.method, score.unable) for score in result.probes)


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
    csv: CsvOption = None,
    figures: FiguresOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Replays each session request by request, and reports what the provider's cache saves and what it all costs.

    docs/measures.md explains each figure.
    """
    outputs = Outputs(html, csv, figures, force)
    outputs.check()
    own_names, peer_methods = parse_methods(methods_)
    lists = [get_prices(name.strip()) for name in prices.split(",") if name.strip()]
    chosen = get_player_factories(
        [*(get_replay_name(name) for name in own_names), *(peer.name for peer in peer_methods)], peer_methods
    )
    sizes = parse_sizes(windows)
    sessions = read_conversations(files, format)
    with build_progress() as bar:
        task = bar.add_task("sessions", total=len(sessions) * len(sizes) * len(chosen))
        tracks = [build_recording(session, prefix=prefix) for session in sessions]
        played = replay_sessions(
            tracks,
            chosen,
            windows=sizes,
            prices=lists,
            on_progress=lambda what: bar.update(task, advance=1, description=what),
        )
    whose = describe_price_source() if lists else ""
    result = Replays(__version__, get_counter().name, prefix, tuple(lists), tuple(played), whose)
    options = (
        f"--methods {methods_} --windows {windows} --prices {prices} --prefix {prefix}{render_format_option(format)}"
    )
    tables = replay_tables(result)
    outputs.write(Yardstick(replay=result), tables, f"tenfold eval replay FILES... {options}")
    print_result(result, tables, json=json)
    fail_if_unable((each.method, each.unable) for each in result.played)


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
    csv: CsvOption = None,
    figures: FiguresOption = None,
    force: ForceOption = False,
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
    outputs = Outputs(html, csv, figures, force)
    outputs.check()
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
    tables = speed_tables(result)
    outputs.write(Yardstick(speed=result), tables, f"tenfold eval speed FILES...{options}")
    print_result(result, tables, json=json)
    fail_if_unable((each.method, each.unable) for each in result.turns)


@app.command("search", epilog="Example: tenfold eval search scenarios/ --methods tenfold,keep-last")
def run_search(  # noqa: PLR0913 - the options of a command
    files: FilesArgument,
    *,
    methods_: MethodsOption = ALL,
    budgets: BudgetsOption = f"{GOLD_BUDGET // 1000}k",
    set_: SetOption = None,
    first: FirstOption = None,
    format: FormatOption = None,
    html: HtmlOption = None,
    csv: CsvOption = None,
    figures: FiguresOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Asks the questions that come with session files: does a search find the answers, and does a compaction keep them?

    The questions may be those of a public set. docs/measures.md says how to write questions for a file, where to get
    the sets, and explains each figure.
    """
    outputs = Outputs(html, csv, figures, force)
    outputs.check()
    sizes = parse_sizes(budgets)
    own_names, peer_methods = parse_methods(methods_)
    chosen = [*get_methods([get_score_name(name) for name in own_names]), *peer_methods]

    sessions = read_asked_sessions(files, set_, first=first, format=format)

    def ask_questions(session: AskedSession) -> Quiz:
        return Quiz(tuple(run_searches(session)), tuple(count_answers(session, chosen, budgets=sizes)))

    try:
        quizzes = measure_each(sessions, ask_questions, description="asking")
    finally:
        for peer in peer_methods:
            peer.close()
    result = Quiz(
        tuple(one for each in quizzes for one in each.search), tuple(one for each in quizzes for one in each.gold)
    )
    options = f"--methods {methods_} --budgets {budgets}{render_set_options(set_, first)}{render_format_option(format)}"
    tables = [*([search_table(result.search)] if result.search else []), *gold_tables(result.gold)]
    outputs.write(Yardstick(search=result.search, gold=result.gold), tables, f"tenfold eval search FILES... {options}")
    print_result(result, tables, json=json)
    if not result.gold:
        print_note("nothing to ask: no file comes with questions; docs/measures.md says how to write some")
    fail_if_unable((each.method, each.unable) for each in result.gold)
