"""`tenfold eval reading`: the only measure that asks models, unless recordings hold what they answered.

The providers' clients are an extra and slow to load. They are imported here, and only if a model is named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from tenfold.apps.cli.console import build_progress, print_note
from tenfold.apps.cli.exported_files import ForceOption, write_file
from tenfold.apps.cli.source_files import FormatOption, parse_path
from tenfold.errors import UsageError
from tenfold.formats.output_file import check_output
from tenfold.models.model import Model
from tenfold.testing.methods import Method
from tenfold_yardstick.cases import read_sessions
from tenfold_yardstick.commands.eval_options import (
    FirstOption,
    JsonOption,
    SetOption,
    parse_methods,
    parse_rounds,
    print_result,
    read_asked_sessions,
    render_set_options,
)
from tenfold_yardstick.commands.outputs import CsvOption, FiguresOption, HtmlOption, Outputs
from tenfold_yardstick.generations import QUESTIONS
from tenfold_yardstick.quality_report import Yardstick
from tenfold_yardstick.reading.judge import Judge
from tenfold_yardstick.reading.paper_sheets import (
    ReadingNames,
    export_asks,
    export_judging,
    export_views,
    import_sheets,
)
from tenfold_yardstick.reading.question_draft import draft_questions, render_question_file
from tenfold_yardstick.reading.question_files import (
    READING_SUFFIX,
    ReadingCase,
    build_reading_case,
    find_question_files,
    read_case,
)
from tenfold_yardstick.reading.readers import Reader
from tenfold_yardstick.reading.recorded_writer import RecordedWriter
from tenfold_yardstick.reading.recordings import Recordings, list_files, load_recordings
from tenfold_yardstick.reading.score_tables import build_tables
from tenfold_yardstick.reading.scoring import Examination, examine_views, find_unread, score_readings
from tenfold_yardstick.reading.views import ROUNDS_SIZE, SIZES, ReadView, make_generation_views, make_views, split_case
from tenfold_yardstick.reading.written_methods import get_reading_methods

_MODEL_HELP = "as PROVIDER:NAME; its key is read from the provider's environment variable"
_DEFAULT_SIZES = ",".join(f"{share:.0%}" for share in SIZES)

QuestionFilesArgument = Annotated[
    list[Path],
    typer.Argument(
        parser=parse_path,
        metavar="FILES...",
        help="Files of questions (*.reading.toml), their sessions, or folders of them.",
    ),
]
ReadingMethodsOption = Annotated[
    str,
    typer.Option(
        "--methods",
        metavar="NAMES",
        help="The methods to measure, with commas, as in tenfold,tenfold+model,classic,keep-last. `all` means every "
        "method except peers; name a peer, `peers` for all of them, or MODULE:FUNCTION for your own.",
    ),
]
SharesOption = Annotated[
    str, typer.Option("--sizes", metavar="SHARES", help="The sizes of the views as shares of the past, as in 5%,10%.")
]
RoundsOption = Annotated[
    str,
    typer.Option(
        "--rounds",
        metavar="NUMBERS",
        help="How many compactions to make one after the other, as in 1,5. More than the smallest number are made at "
        f"{ROUNDS_SIZE:.0%} only.",
    ),
]
GenerationsOption = Annotated[
    int | None,
    typer.Option(
        "--generations",
        min=1,
        metavar="NUMBER",
        help="Compact each past so often as it grows, and read the view after each compaction, with the questions "
        "whose answers have been said by then. It takes the place of --rounds.",
    ),
]
BaseUrlOption = Annotated[
    str,
    typer.Option("--base-url", metavar="URL", help="The address of the OpenAI-compatible server that runs the models."),
]
WriterOption = Annotated[
    str, typer.Option("--writer", metavar="MODEL", help=f"The model that writes summaries, {_MODEL_HELP}.")
]
ReaderOption = Annotated[str, typer.Option("--reader", metavar="MODEL", help=f"The model that answers, {_MODEL_HELP}.")]
JudgeOption = Annotated[str, typer.Option("--judge", metavar="MODEL", help=f"The model that grades, {_MODEL_HELP}.")]
RecallOption = Annotated[
    bool,
    typer.Option("--recall/--no-recall", help="Read Tenfold's views with two recall calls a question too, or not."),
]
RecordOption = Annotated[
    Path | None,
    typer.Option(
        "--record", parser=parse_path, metavar="DIR", help="Record what models write, answer and grade in this folder."
    ),
]
ReplayOption = Annotated[
    Path | None,
    typer.Option("--replay", parser=parse_path, metavar="DIR", help="Take from this folder what is recorded there."),
]
ExportOption = Annotated[
    Path | None,
    typer.Option(
        "--export",
        parser=parse_path,
        metavar="DIR",
        help="Write the views that nobody has read, and the summaries nobody has written.",
    ),
]
ImportOption = Annotated[
    Path | None,
    typer.Option(
        "--import",
        parser=parse_path,
        metavar="DIR",
        help="Take what was written in an exported folder. --writer, --reader and --judge then name who wrote it.",
    ),
]
ExportJudgingOption = Annotated[
    Path | None,
    typer.Option(
        "--export-judging",
        parser=parse_path,
        metavar="DIR",
        help="Write sheets with the answers that nobody has graded.",
    ),
]


def run_reading(  # noqa: PLR0913 - a parameter for each option
    files: QuestionFilesArgument,
    *,
    methods_: ReadingMethodsOption = "tenfold,tail,keep-last",
    sizes: SharesOption = _DEFAULT_SIZES,
    rounds: RoundsOption = "1",
    generations: GenerationsOption = None,
    set_: SetOption = None,
    first: FirstOption = None,
    writer: WriterOption = "",
    reader: ReaderOption = "",
    judge: JudgeOption = "",
    base_url: BaseUrlOption = "",
    recall: RecallOption = True,
    record: RecordOption = None,
    replay: ReplayOption = None,
    export: ExportOption = None,
    import_: ImportOption = None,
    export_judging_: ExportJudgingOption = None,
    format: FormatOption = None,
    html: HtmlOption = None,
    csv: CsvOption = None,
    figures: FiguresOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Lets a model that sees nothing but a view answer questions about the past, and another grade the answers.

    The questions come with the sessions, in files that docs/reading.md describes, or are those of a public set.
    """
    outputs = Outputs(html, csv, figures, force)
    outputs.check()
    shares, round_counts = parse_shares(sizes), parse_rounds(rounds)
    own_names, peer_methods = parse_methods(methods_)
    pasts = _read_cases(files, format) if set_ is None else _read_set(files, set_, first, generations)
    cases = pasts if generations is None else _split_cases(pasts, generations)
    recordings = _open_recordings(replay, record, force=force)
    names, date = ReadingNames(writer, reader, judge), f"{datetime.now(UTC):%Y-%m-%d}"
    if import_ is not None:
        import_sheets(import_, recordings, cases, names=names, date=date)
        names = ReadingNames()
    own_writer = RecordedWriter(recordings.texts, model=_open_model(names.writer, base_url), name=writer)
    read_by, graded_by = _open_model(names.reader, base_url), _open_model(names.judge, base_url)
    try:
        methods = [*get_reading_methods(own_names, own_writer), *peer_methods]
        work = Examination(
            cases=cases,
            views=_make_all_views(pasts, methods, shares, round_counts, generations),
            recordings=recordings,
            reader=Reader(read_by, reader) if read_by is not None else None,
            judge=Judge(graded_by, judge) if graded_by is not None else None,
            has_recall=recall,
            date=date,
        )
        _export_unread(export, work, own_writer)
        failures = _examine_views(work)
        _export_ungraded(export_judging_, work)
    finally:
        for peer in peer_methods:
            peer.close()
        _write_recordings(record, recordings, own_writer)
    result = replace(score_readings(work, failures), generations=generations or 0)
    options = f"--methods {methods_} --sizes {sizes} "
    options += f"--rounds {rounds}" if generations is None else f"--generations {generations}"
    options += render_set_options(set_, first) + " --no-recall" * (not recall)
    tables = build_tables(result)
    outputs.write(Yardstick(reading=result), tables, f"tenfold eval reading FILES... {options} --replay DIR")
    print_result(result, tables, json=json)


def run_questions(  # noqa: PLR0913 - a parameter for each option
    session: Annotated[
        Path,
        typer.Argument(parser=parse_path, metavar="SESSION", help="A session file, or FILE#NUMBER of one of several."),
    ],
    *,
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help=f"The model that drafts, {_MODEL_HELP}.")],
    out: Annotated[
        Path, typer.Option("--out", parser=parse_path, metavar="PATH", help=f"The file to write: NAME{READING_SUFFIX}.")
    ],
    count: Annotated[int, typer.Option(min=1, help="How many questions to ask for.")] = 14,
    force: ForceOption = False,
    base_url: BaseUrlOption = "",
    format: FormatOption = None,
) -> None:
    """Drafts a file of questions about a session, with gold answers, which a person then has to check.

    Check each answer against the messages that its evidence names, and drop what could be known without them.
    """
    if not out.name.endswith(READING_SUFFIX):
        raise UsageError(f"--out {out}: the name must end in {READING_SUFFIX}, as in desk{READING_SUFFIX}")
    check_output(out, force=force)
    file, _, number = str(session).partition("#")
    sessions = read_sessions(Path(file), format=format)
    if not (number or "0").isdecimal() or int(number or 0) >= len(sessions) or (not number and len(sessions) > 1):
        raise UsageError(f"{session}: the file holds {len(sessions)} sessions; name one, as in {file}#0")
    path = os.path.relpath(file, out.parent).replace(os.sep, "/") + f"#{number}" * bool(number)
    name = out.name.removesuffix(READING_SUFFIX)
    drafter = _open_model(model, base_url)
    if drafter is None:
        raise UsageError("--model names the model that drafts, as in openai:gpt-5")
    draft = draft_questions(sessions[int(number or 0)], drafter, name=name, path=path, count=count)
    write_file(out, render_question_file(draft).encode(), force=force)
    print_note(f"{len(draft.questions)} questions in {out}: check every one before you use it")


def parse_shares(text: str) -> list[float]:
    """Parses `5%,10%` as shares of the past, smallest first. Raises `UsageError` for anything else."""
    out: set[float] = set()
    for word in filter(None, (part.strip() for part in text.split(","))):
        number = word.removesuffix("%")
        if not word.endswith("%") or not number.replace(".", "", 1).isdecimal() or not 0 < float(number) <= 100:
            raise UsageError(f"{word!r} is not a share of the past: give sizes as in 5%,10%,20%")
        out.add(round(float(number) / 100, 6))
    if not out:
        raise UsageError("no size is named: give shares of the past, as in 5%,10%")
    return sorted(out)


def _read_cases(files: Sequence[Path], format: str | None) -> dict[str, ReadingCase]:
    cases: dict[str, ReadingCase] = {}
    for path in find_question_files(files):
        case = read_case(path, format=format)
        if case.name in cases:
            raise UsageError(f"{path}: another file of questions is called {path.name} too; rename one")
        cases[case.name] = case
    return cases


def _open_recordings(replay: Path | None, record: Path | None, *, force: bool) -> Recordings:
    """Opens the recordings to replay, else those that are to be added to.

    Raises `UsageError` if recordings that are not read would be replaced.
    """
    if record is not None and record.is_dir():
        is_kept = replay is None or (replay.is_dir() and replay.samefile(record))
        for path in list_files(record):
            check_output(path, force=force or is_kept, option="--record")
    if replay is not None:
        return load_recordings(replay)
    return load_recordings(record) if record is not None and record.is_dir() and any(record.iterdir()) else Recordings()


def _open_model(name: str, base_url: str) -> Model | None:
    if not name:
        return None
    from tenfold.models.provider import ProviderModel  # noqa: PLC0415 - an optional extra

    return ProviderModel(name, base_url=base_url)


def _write_recordings(folder: Path | None, recordings: Recordings, writer: RecordedWriter) -> None:
    if folder is not None:
        recordings.add_texts(writer.new_texts)
        recordings.write_to(folder)


def _read_set(files: Sequence[Path], set_: str, first: int | None, generations: int | None) -> dict[str, ReadingCase]:
    """Reads a public set. Over generations, no more questions are asked about a past than the procedure has."""
    count = QUESTIONS if generations is not None else None
    sessions = read_asked_sessions(files, set_, first=first)
    return {session.name: build_reading_case(session, count=count) for session in sessions}


def _split_cases(cases: dict[str, ReadingCase], generations: int) -> dict[str, ReadingCase]:
    return {part.name: part for case in cases.values() for part in split_case(case, generations)}


def _make_all_views(
    cases: dict[str, ReadingCase],
    methods: Sequence[Method],
    sizes: Sequence[float],
    rounds: Sequence[int],
    generations: int | None,
) -> list[ReadView]:
    with build_progress() as bar:
        task = bar.add_task("compacting", total=None)

        def make(case: ReadingCase) -> Iterator[ReadView]:
            def advance() -> None:
                bar.advance(task)

            if generations is not None:
                return make_generation_views(case, methods, sizes=sizes, generations=generations, on_progress=advance)
            return make_views(case, methods, sizes=sizes, rounds=rounds, on_progress=advance)

        return [view for case in cases.values() for view in make(case)]


def _export_unread(folder: Path | None, work: Examination, writer: RecordedWriter) -> None:
    if folder is not None:
        count = export_views(folder, work)
        asks = export_asks(folder, writer.pending_asks)
        print_note(f"{count} views to read and {asks} summaries to write in {folder}")


def _export_ungraded(folder: Path | None, work: Examination) -> None:
    if folder is not None:
        print_note(f"{export_judging(folder, work)} judging sheets in {folder}")


def _examine_views(work: Examination) -> list[str]:
    if work.reader is None and work.judge is None:
        return []
    with build_progress() as bar:
        task = bar.add_task("reading", total=len(find_unread(work)))
        return examine_views(work, on_progress=lambda: bar.advance(task))
