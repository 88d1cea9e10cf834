"""`tenfold eval reading`: the only measure that asks models, unless recordings hold what they answered.

The providers' clients are an extra and slow to load. They are imported here, and only if a model is named.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from tenfold import __version__
from tenfold.cli.console import build_progress, print_note
from tenfold.cli.eval_options import JsonOption, parse_methods, parse_rounds, print_result
from tenfold.cli.html_report import HtmlOption, write_page
from tenfold.cli.source_files import FormatOption
from tenfold.errors import UsageError
from tenfold.evals.cases import get_counter, read_sessions
from tenfold.evals.methods import Method
from tenfold.evals.quality_report import Yardstick
from tenfold.evals.reading.judge import Judge
from tenfold.evals.reading.paper_sheets import export_asks, export_judging, export_views, import_answers, import_texts
from tenfold.evals.reading.question_draft import draft_questions, render_question_file
from tenfold.evals.reading.question_files import READING_SUFFIX, ReadingCase, find_question_files, read_case
from tenfold.evals.reading.readers import Reader
from tenfold.evals.reading.recorded_writer import RecordedWriter
from tenfold.evals.reading.recordings import Recordings, load_recordings
from tenfold.evals.reading.score_tables import build_tables
from tenfold.evals.reading.scoring import (
    Examination,
    ReadingScores,
    examine,
    find_ungraded,
    find_unread,
    list_people,
    score_views,
)
from tenfold.evals.reading.views import ROUNDS_SIZE, SIZES, ReadView, make_views
from tenfold.evals.reading.written_methods import get_reading_methods
from tenfold.llm.model import Model

BaseUrlOption = Annotated[
    str, typer.Option(metavar="URL", help="The address of the OpenAI-compatible server that runs the models.")
]
_MODEL_HELP = "as PROVIDER:NAME; its key is read from the provider's environment variable"
_FOLDER = "DIR"
_DEFAULT_SIZES = ",".join(f"{share:.0%}" for share in SIZES)


def run_reading(  # noqa: PLR0913 - a parameter for each option
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES...", help="Files of questions (*.reading.toml), their sessions, or folders."),
    ],
    *,
    methods_: Annotated[
        str,
        typer.Option(
            "--methods",
            metavar="NAMES",
            help="The methods to measure, with commas, as in tenfold,tenfold+model,classic,keep-last. `all` means "
            "every method except peers; name a peer, or `peers` for all of them.",
        ),
    ] = "tenfold,tail,keep-last",
    sizes: Annotated[
        str, typer.Option(metavar="SHARES", help="The sizes of the views as shares of the past, as in 5%,10%.")
    ] = _DEFAULT_SIZES,
    rounds: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help=f"How many compactions to make one after the other, as in 1,5. More than the smallest number are made "
            f"at {ROUNDS_SIZE:.0%} only.",
        ),
    ] = "1",
    writer: Annotated[str, typer.Option(metavar="MODEL", help=f"The model that writes summaries, {_MODEL_HELP}.")] = "",
    reader: Annotated[str, typer.Option(metavar="MODEL", help=f"The model that answers, {_MODEL_HELP}.")] = "",
    judge: Annotated[str, typer.Option(metavar="MODEL", help=f"The model that grades, {_MODEL_HELP}.")] = "",
    base_url: BaseUrlOption = "",
    recall: Annotated[
        bool, typer.Option("--recall/--no-recall", help="Read Tenfold's views with two recall calls a question too.")
    ] = True,
    record: Annotated[
        Path | None, typer.Option(metavar=_FOLDER, help="Record what models write, answer and grade in this folder.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar=_FOLDER, help="Take from this folder what is recorded there.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar=_FOLDER, help="Write the views that nobody has read, and the summaries nobody has written."
        ),
    ] = None,
    import_: Annotated[
        Path | None,
        typer.Option(
            "--import",
            metavar=_FOLDER,
            help="Take what was written in an exported folder. --writer, --reader and --judge then name who wrote it.",
        ),
    ] = None,
    export_judging_: Annotated[
        Path | None,
        typer.Option("--export-judging", metavar=_FOLDER, help="Write sheets with the answers that nobody has graded."),
    ] = None,
    format: FormatOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Lets a model that sees nothing but a view answer questions about the past, and another grade the answers.

    The questions come with the sessions, in files that docs/reading.md describes.
    """
    shares, round_counts = parse_shares(sizes), parse_rounds(rounds)
    own_names, peer_methods = parse_methods(methods_)
    cases = {case.name: case for case in (read_case(path, format=format) for path in find_question_files(files))}
    recordings = _open_recordings(replay, record)
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    names = (writer, reader, judge)
    models = [_open_model(name, base_url) if name and import_ is None else None for name in names]
    if import_ is not None:
        recordings.add_texts(import_texts(import_, writer))
        for reading in import_answers(import_, cases, reader=reader, judge=judge, date=date):
            recordings.add(reading)
    recorded_writer = RecordedWriter(recordings.texts, model=models[0], name=writer)
    methods = [*get_reading_methods(own_names, recorded_writer), *peer_methods]
    try:
        views = _make_all_views(cases, methods, shares, round_counts)
        work = Examination(
            cases,
            views,
            recordings,
            Reader(models[1], reader) if models[1] is not None else None,
            Judge(models[2], judge) if models[2] is not None else None,
            recall,
            date,
        )
        if export is not None:
            _export(export, work, recorded_writer)
        failures = _examine(work)
        if export_judging_ is not None:
            count = export_judging(export_judging_, list(find_ungraded(work)), cases)
            print_note(f"{count} judging sheets in {export_judging_}")
    finally:
        for peer in peer_methods:
            peer.close()
        if record is not None:
            recordings.add_texts(recorded_writer.new_texts)
            recordings.save(record)
    readers, judges = list_people(work)
    bare = tuple(replace(view, text="") for view in views)
    result = ReadingScores(
        __version__, get_counter().name, bare, tuple(score_views(work)), readers, judges, tuple(failures)
    )
    options = f"--methods {methods_} --sizes {sizes} --rounds {rounds}" + " --no-recall" * (not recall)
    write_page(html, Yardstick(reading=result), f"tenfold eval reading FILES... {options} --replay DIR")
    print_result(result, build_tables(result), json=json)


def run_questions(
    session: Annotated[
        Path, typer.Argument(metavar="SESSION", help="A session file, or FILE#NUMBER of one of several.")
    ],
    *,
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help=f"The model that drafts, {_MODEL_HELP}.")],
    out: Annotated[Path, typer.Option("--out", metavar="PATH", help=f"The file to write: NAME{READING_SUFFIX}.")],
    count: Annotated[int, typer.Option(min=1, help="How many questions to ask for.")] = 14,
    base_url: BaseUrlOption = "",
    format: FormatOption = None,
) -> None:
    """Drafts a file of questions about a session, with gold answers, which a person then has to check.

    Check each answer against the messages that its evidence names, and drop what could be known without them.
    """
    if not out.name.endswith(READING_SUFFIX) or out.exists() or not out.parent.is_dir():
        raise UsageError(f"--out {out}: name a new file in an existing folder, as in desk{READING_SUFFIX}")
    file, _, number = str(session).partition("#")
    sessions = read_sessions(Path(file), format=format)
    if not (number or "0").isdecimal() or int(number or 0) >= len(sessions) or (not number and len(sessions) > 1):
        raise UsageError(f"{session}: the file holds {len(sessions)} sessions; name one, as in {file}#0")
    path = os.path.relpath(file, out.parent).replace(os.sep, "/") + f"#{number}" * bool(number)
    name = out.name.removesuffix(READING_SUFFIX)
    draft = draft_questions(sessions[int(number or 0)], _open_model(model, base_url), name=name, path=path, count=count)
    out.write_text(render_question_file(draft), "utf-8")
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


def _open_recordings(replay: Path | None, record: Path | None) -> Recordings:
    """Opens the recordings to replay, else those that are to be added to."""
    if replay is not None:
        return load_recordings(replay)
    return load_recordings(record) if record is not None and record.is_dir() and any(record.iterdir()) else Recordings()


def _open_model(name: str, base_url: str) -> Model:
    from tenfold.llm.provider import ProviderModel  # noqa: PLC0415 - an optional extra

    return ProviderModel(name, base_url=base_url)


def _make_all_views(
    cases: dict[str, ReadingCase], methods: Sequence[Method], sizes: Sequence[float], rounds: Sequence[int]
) -> list[ReadView]:
    with build_progress() as bar:
        task = bar.add_task("compacting", total=None)
        return [
            view
            for case in cases.values()
            for view in make_views(case, methods, sizes=sizes, rounds=rounds, on_progress=lambda: bar.advance(task))
        ]


def _export(folder: Path, work: Examination, writer: RecordedWriter) -> None:
    count = export_views(folder, work, {view.hash for view, _ in find_unread(work)})
    asks = export_asks(folder, writer.pending_asks)
    print_note(f"{count} views to read and {asks} summaries to write in {folder}")


def _examine(work: Examination) -> list[str]:
    if work.reader is None and work.judge is None:
        return []
    with build_progress() as bar:
        task = bar.add_task("reading", total=len(find_unread(work)))
        return examine(work, on_progress=lambda: bar.advance(task))
