"""How the text of a summary is written: the one place where a policy may use its own way.

A `Writer` gets a `WritingJob` and is a generator: it yields Asks and receives Answers, so the same writer serves sync,
async and replayed runs. Most policies use `SingleTextWriter`: one text by one call. Facts are not a writer's business:
code renders their section and puts it under the writer's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct

from tenfold.compaction.facts.redacted_messages import redact_message
from tenfold.compaction.plan.draft import SUMMARY, DraftPiece, Goal
from tenfold.compaction.summarize.ladder import Asking, SummaryResult, SummarySettings, SummaryTask, WritingGenerator
from tenfold.compaction.summarize.visible_text import get_shown_positions
from tenfold.compaction.summarize.write import write_summary
from tenfold.core.record.ask import Answer, Ask
from tenfold.core.record.block import Block, FileLists
from tenfold.core.record.fact import Fact
from tenfold.core.record.message import Message
from tenfold.core.text.excerpts import Count
from tenfold.core.view.fold import View
from tenfold.core.view.units import Unit
from tenfold.core.wire.marks import get_summary_text


class WritingJob(Struct, frozen=True):
    """One text to write, in at most `budget` tokens.

    `items` are the messages it replaces, with their positions. Earlier summaries are not among them: their texts are in
    `previous`, oldest first; with `has_notes` a model wrote one of them. Nor is what stays in view, of which the user's
    messages are in `kept_items`, and what the view leaves out of those in `hidden_parts`. `piece.cuts` says where the
    plan wants the text in parts. `view` is the view the plan was made on: it gives times, and what older Blocks hold.
    `supplied_text` is a text from a hook, for writers of several texts. `told` is the facts section, which stands below
    the text. `token_factor` is how many of the model's tokens one of the counter's is taken for, where the text must
    fit its window. `redone` is the Block whose text is written again by a redo.
    """

    piece: DraftPiece
    view: View
    goal: Goal
    items: tuple[tuple[int, Message], ...]
    previous: tuple[str, ...]
    facts: tuple[Fact, ...]
    budget: int
    settings: SummarySettings
    count: Count
    focus: str = ""
    supplied_text: str = ""
    kept_items: tuple[tuple[int, Message], ...] = ()
    hidden_parts: Mapping[int, str] = {}
    told: str = ""
    token_factor: float = 1.0
    redone: Block | None = None
    has_notes: bool = False

    @property
    def task(self) -> SummaryTask:
        """The job as one task: a first text, an update of earlier texts, or earlier texts merged into one."""
        merging = bool(self.previous) and not self.items
        return SummaryTask(
            items=tuple(sorted((*self.items, *self.kept_items), key=lambda item: item[0])) if self.items else (),
            told=self.told,
            has_notes=self.has_notes,
            kept={position: self.hidden_parts.get(position, "") for position, _ in self.kept_items},
            facts=self.facts,
            previous="" if merging else "\n\n".join(self.previous),
            parts=self.previous if merging else (),
            allotment=self.budget,
            purpose="merge" if merging else "update" if self.previous else "first",
            focus=self.focus,
        )


class SourceMessage(Struct, frozen=True):
    """A message in view as a writer reads it: at the position it stands for, or at that of the Block that shows it.

    `summary` is the text of an earlier summary, None for any other message. `is_kept` says that the message stays in
    view.
    """

    position: int
    message: Message
    summary: str | None
    is_kept: bool


def read_units(piece: DraftPiece) -> Iterator[tuple[Unit, list[SourceMessage]]]:
    """Yields each unit of the piece with its messages: without secrets, and as an earlier stage has shortened them."""
    kept_positions = get_shown_positions(piece.shown_items)
    shortened = dict(piece.shortened_messages)
    for unit in piece.units:
        sources: list[SourceMessage] = []
        for shown in unit.visible_messages:
            text = get_summary_text(shown.message)
            position = shown.position if shown.original_position is None else shown.original_position
            is_kept = shown.original_position is not None and shown.original_position in kept_positions
            message = redact_message(shortened.get(shown.key, shown.message))
            sources.append(SourceMessage(position, message, text, is_kept))
        yield unit, sources


class Writer(Protocol):
    """A way to write. Returns a `SummaryResult` within `job.budget`, and never raises for what a model did.

    It may have two more methods: `render_footer` (see `get_footer_renderer`) and `explain_wait` (see `explain_wait`).
    """

    def write(self, job: WritingJob) -> WritingGenerator:
        """Yields Asks, receives Answers, and returns the text and how it was written."""
        ...


class Footer(Struct, frozen=True):
    """A text by code that stands last in a summary, and the paths that it names, which the facts need not repeat."""

    text: str = ""
    paths: frozenset[str] = frozenset()


class FooterRenderer(Protocol):
    """Renders the footer of a summary from the files that it covers, in at most `budget` tokens."""

    def __call__(self, files: FileLists, *, budget: int, count: Count) -> Footer:
        """Renders the footer."""
        ...


def get_footer_renderer(writer: Writer) -> FooterRenderer | None:
    """Returns the method `render_footer` of a writer that has one. The Block then keeps the lists of files as well."""
    renderer: FooterRenderer | None = getattr(writer, "render_footer", None)
    return renderer


def explain_wait(writer: Writer, view: View) -> str:
    """Says why it is too early to ask a model again, as the method `explain_wait` of a writer does. "" if it is not.

    Until then code writes the text.
    """
    explain: Callable[[View], str] | None = getattr(writer, "explain_wait", None)
    return explain(view) if explain is not None else ""


@runtime_checkable
class ArchiveWriter(Writer, Protocol):
    """A writer of several texts: its Block holds all of them (`SummaryResult.batches`), the view shows what fits.

    The pieces of its own `kind`, which its policy's stage plans, it is given however little room there is, and with a
    text that a hook supplied as `WritingJob.supplied_text`. `search_tool` is the name that its text gives to the tool
    which finds the others.
    """

    @property
    def kind(self) -> str:
        """The kind of the replacements that it writes."""
        ...

    @property
    def search_tool(self) -> str:
        """The name under which an agent offers its model the search over the session, besides the usual one."""
        ...


def get_text_kinds(writer: Writer) -> tuple[str, ...]:
    """Returns the kinds of replacements that hold a text of this writer."""
    return (SUMMARY, writer.kind) if isinstance(writer, ArchiveWriter) else (SUMMARY,)


class SingleTextWriter(Struct, frozen=True):
    """Writes one text by one call, checked, repaired once, and then down the ladder. It may have a footer."""

    render_footer: FooterRenderer | None = None

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`."""
        return (yield from write_summary(job.task, job.settings, job.count))


def run_together(*efforts: WritingGenerator) -> Asking[tuple[SummaryResult, ...]]:
    """Runs independent writings side by side. Their Asks go out as one tuple, so that drivers work on them at once."""
    done: dict[int, SummaryResult] = {}
    waiting: dict[int, tuple[Ask, ...]] = {}
    for index, effort in enumerate(efforts):
        _advance(index, effort, None, done, waiting)
    while waiting:
        order = sorted(waiting)
        answers = yield tuple(ask for index in order for ask in waiting[index])
        at = 0
        for index in order:
            count = len(waiting.pop(index))
            _advance(index, efforts[index], answers[at : at + count], done, waiting)
            at += count
    return tuple(done[index] for index in range(len(efforts)))


def _advance(
    index: int,
    effort: WritingGenerator,
    answers: tuple[Answer, ...] | None,
    done: dict[int, SummaryResult],
    waiting: dict[int, tuple[Ask, ...]],
) -> None:
    try:
        waiting[index] = next(effort) if answers is None else effort.send(answers)
    except StopIteration as stop:
        done[index] = stop.value
