"""`tenfold eval generations`: what is left of a session's answers after it was compacted again and again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tenfold.apps.cli.console import build_progress, print_note
from tenfold.apps.cli.exported_files import ForceOption
from tenfold.apps.cli.source_files import FormatOption
from tenfold_yardstick.asked_sessions import AskedSession
from tenfold_yardstick.commands.eval_options import (
    BudgetsOption,
    FilesArgument,
    FirstOption,
    JsonOption,
    MethodsOption,
    SetOption,
    parse_methods,
    parse_sizes,
    print_result,
    read_asked_sessions,
    render_format_option,
    render_set_options,
)
from tenfold_yardstick.commands.outputs import CsvOption, FiguresOption, HtmlOption, Outputs, fail_if_unable
from tenfold_yardstick.generations import (
    BUDGET,
    GENERATIONS,
    QUESTIONS,
    build_asked_session,
    build_tables,
    measure_generations,
)
from tenfold_yardstick.method_comparison import get_score_name
from tenfold_yardstick.methods import FULL_PAST, get_methods
from tenfold_yardstick.quality_report import Yardstick
from tenfold_yardstick.reading.question_files import READING_SUFFIX, read_case


def run_generations(  # noqa: PLR0913 - a parameter for each option
    files: FilesArgument,
    *,
    methods_: MethodsOption = "tenfold,tail,keep-last",
    budgets: BudgetsOption = f"{BUDGET // 1000}k",
    generations: Annotated[
        int, typer.Option(min=1, help="How many compactions to make, one after the other.")
    ] = GENERATIONS,
    questions: Annotated[
        int, typer.Option(min=1, help="The most questions to ask about a session, spread evenly over it.")
    ] = QUESTIONS,
    set_: SetOption = None,
    first: FirstOption = None,
    format: FormatOption = None,
    html: HtmlOption = None,
    csv: CsvOption = None,
    figures: FiguresOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Compacts a session again and again as it grows, and asks after each compaction what is left of its answers.

    The questions are those beside the session (*.questions.toml), of a reading test (*.reading.toml), or of a public
    set. Code looks for the answers; to have them read, use `tenfold eval reading --generations`. docs/measures.md
    explains each figure.
    """
    outputs = Outputs(html, csv, figures, force)
    outputs.check()
    sizes = parse_sizes(budgets)
    own_names, peer_methods = parse_methods(methods_)
    names = [name for name in map(get_score_name, own_names) if name != FULL_PAST]
    chosen = [*get_methods(names), *peer_methods, *get_methods([FULL_PAST])]
    sessions = _read_sessions(files, set_, first, format)
    try:
        with build_progress() as bar:
            task = bar.add_task("compacting", total=len(sessions) * len(sizes) * len(chosen))
            result = measure_generations(
                sessions,
                chosen,
                budgets=sizes,
                generations=generations,
                questions=questions,
                on_progress=lambda what: bar.update(task, advance=1, description=what),
            )
    finally:
        for peer in peer_methods:
            peer.close()
    options = f"--methods {methods_} --budgets {budgets} --generations {generations} --questions {questions}"
    options += render_set_options(set_, first) + render_format_option(format)
    tables = build_tables(result)
    outputs.write(Yardstick(generations=result), tables, f"tenfold eval generations FILES... {options}")
    print_result(result, tables, json=json)
    if not result.scores:
        print_note("nothing to ask: no file comes with questions whose answers stand in it word for word")
    fail_if_unable((each.method, each.unable) for each in result.scores)


def _read_sessions(
    files: Sequence[Path], set_: str | None, first: int | None, format: str | None
) -> list[AskedSession]:
    read = [path for path in files if path.name.endswith(READING_SUFFIX)] if set_ is None else []
    cases = [build_asked_session(read_case(path, format=format)) for path in read]
    rest = [path for path in files if path not in read]
    return [*cases, *(read_asked_sessions(rest, set_, first=first, format=format) if rest else ())]
