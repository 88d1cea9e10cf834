"""Many lines within a token budget, each for a step or a message, in the words of the preset `blocks`.

The stages show each line in place of a step, and the preset's writer writes them one below the other. When the budget
is short, every line gets shorter and none is dropped. Only if even the shortest lines do not fit do neighbouring steps
share a line, which says how many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.section_headings import replace_titles
from tenfold.compaction.facts.tool_calls import find_command, find_path, interpret_call
from tenfold.compaction.plan.stubs import OUTCOME_MARK, SIZE_NOTE, collect_results, describe_result
from tenfold.compaction.summarize.asking import clean_text
from tenfold.compaction.summarize.ladder import SummaryResult, WritingGenerator
from tenfold.compaction.summarize.mechanical import write_mechanical
from tenfold.compaction.summarize.write import write_summary
from tenfold.compaction.summarize.writer import WritingJob
from tenfold.core.record.block import ModelCost
from tenfold.core.record.message import Message, Text, ToolCall, get_text, get_tool_calls
from tenfold.core.text.excerpts import Count, Keep, excerpt, trim_lines
from tenfold.core.text.redaction import redact_cached
from tenfold.core.wire.marks import extract_summary_text

STEP_LINE_PREFIX = "[Summary] "
"""Begins the line that stands for a step."""
USER_LINE_PREFIX = "[User] "
"""Begins the line that stands for a user's message that does not stay word for word."""
MAX_QUOTED_BYTES = 200
"""The most bytes of one text part that such a line quotes. The design omits longer ones; here they are cut."""
_CHARACTER_LIMITS = (MAX_QUOTED_BYTES, 150, 110, 80, 56, 40, 28, 20, 12)
_GROUP_SIZES = (2, 4, 8, 16, 32, 64, 128)
_SHARED_LINE_CHARACTERS = 60
_MIN_CALL_CHARACTERS = 20
_MIN_FOCUS_WORD = 4
_FOCUS_FACTOR = 3

LineMeasure = Callable[[Sequence[str]], Sequence[int]]
"""Counts the tokens of each line as it will be shown."""


def build_marker(text: str) -> Message:
    """Builds a message of ours that stands for a range: a marker, or a line for a step."""
    return Message("user", (Text(text),), "tenfold")


class LabelledLine(Struct, frozen=True):
    """A line: its `label`, its text, and whether it may share a line with the one before it."""

    label: str
    text: str
    can_join: bool = True

    @property
    def line(self) -> str:
        """The whole line."""
        return self.label + self.text


class FittedLine(Struct, frozen=True):
    """A line that stands for `count` of the given ones."""

    count: int
    line: str


def build_step_line(step: Sequence[Message], *, can_join: bool = True) -> LabelledLine:
    """Builds the line of a step: an answer and its results. An answer that is such a line already stays as it is."""
    answer, *results = step
    text = get_text(answer)
    if answer.origin == "tenfold" and text.startswith(STEP_LINE_PREFIX):
        return LabelledLine(STEP_LINE_PREFIX, text.removeprefix(STEP_LINE_PREFIX), can_join)
    summary = extract_summary_text(text) if answer.origin == "tenfold" else None
    if summary is not None:  # the line says what the summary does, without what frames it
        return LabelledLine(STEP_LINE_PREFIX, quote_on_one_line(replace_titles(summary)), can_join)
    return LabelledLine(STEP_LINE_PREFIX, describe_step(answer, results), can_join)


def get_step(messages: Sequence[Message], index: int) -> Sequence[Message]:
    """Returns an answer and what follows it, up to the next answer or line of ours."""
    end = index + 1
    while end < len(messages) and messages[end].role != "assistant" and messages[end].origin != "tenfold":
        end += 1
    return messages[index:end]


def describe_step(answer: Message, results: Iterable[Message] = ()) -> str:
    """Describes a step for its line, by its answer and the messages behind it.

    Quotes the text parts of the answer, at most `MAX_QUOTED_BYTES` of each. Without text it says of each call the tool,
    the target and the outcome, or, if there were none, just that the assistant responded.
    """
    texts = [p.text for p in answer.parts if isinstance(p, Text) and p.text.strip()]
    if texts:
        return " ".join(quote_on_one_line(text) for text in texts)
    found = collect_results(results)
    calls = [
        f"{call.name}({quote_on_one_line(_find_target(call))}{OUTCOME_MARK}{describe_result(call, found.get(call.id))}"
        for call in get_tool_calls(answer)
    ]
    return "; ".join(calls) or "[Assistant response]"


def _find_target(call: ToolCall) -> str:
    """Returns what a call is about: a shell's command, the first path of other calls, or else all arguments."""
    action = interpret_call(call)
    if action.verb == "shell":
        return find_command(action.arguments)
    path = action.effects[0].path if action.effects else find_path(action.arguments)
    return path or call.arguments


def quote_on_one_line(text: str) -> str:
    """Returns a text on one line, in at most `MAX_QUOTED_BYTES`. Secrets are removed before it is cut."""
    return _cut_to_bytes(redact_cached(" ".join(text.split())[: 4 * MAX_QUOTED_BYTES]))


def _cut_to_bytes(text: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= MAX_QUOTED_BYTES:
        return text
    return raw[: MAX_QUOTED_BYTES - 3].decode("utf-8", "ignore").rstrip() + "..."


def build_user_line(message: Message) -> LabelledLine:
    """Builds the line of a user's message."""
    return LabelledLine(USER_LINE_PREFIX, quote_on_one_line(get_text(message)) or "[no text]")


def fit_lines(lines: Sequence[LabelledLine], budget: int, measure: LineMeasure, *, focus: str = "") -> list[FittedLine]:
    """Returns the lines in at most `budget` tokens together, with every one of them represented.

    Lines that mention the `focus` are shortened less. If even the shortest lines are too much, neighbours that may be
    joined share lines. Where nothing may be joined, the result is over the budget.
    """
    words = [w for w in focus.lower().split() if len(w) >= _MIN_FOCUS_WORD]
    whole = [FittedLine(1, each.line) for each in lines]
    if _count_total(whole, measure) <= budget:
        return whole
    shorter = whole
    for cap in _CHARACTER_LIMITS:
        shorter = [FittedLine(1, each.label + _cut_text(each.text, cap, words)) for each in lines]
        if _count_total(shorter, measure) <= budget:
            return shorter
    for mixed in (False, True):
        for most in _GROUP_SIZES:
            shared = _share_lines(lines, shorter, most, mixed=mixed)
            if _count_total(shared, measure) <= budget:
                return shared
    return shared


def _count_total(lines: Sequence[FittedLine], measure: LineMeasure) -> int:
    return sum(measure([each.line for each in lines])) if lines else 0


def _cut_text(text: str, limit: int, words: Sequence[str]) -> str:
    """Cuts the end of a text. Of a single call the size and the middle of its arguments go, and the outcome stays."""
    most = limit * _FOCUS_FACTOR if any(word in text.lower() for word in words) else limit
    if len(text) <= most:
        return text
    call, mark, outcome = SIZE_NOTE.sub("", text).partition(OUTCOME_MARK)
    room = most - len(mark + outcome) - len(" ... ")
    if mark and OUTCOME_MARK not in outcome and room >= _MIN_CALL_CHARACTERS:
        return excerpt(call, room, Keep.EDGES).replace("\n", " ... ") + mark + outcome
    return text[: most - 3].rstrip() + "..."


def _share_lines(
    lines: Sequence[LabelledLine], single: Sequence[FittedLine], group_size: int, *, mixed: bool
) -> list[FittedLine]:
    """Puts at most `group_size` neighbours on one line. A user's line joins steps only if `mixed`."""
    out: list[FittedLine] = []
    start = 0
    while start < len(lines):
        end = start + 1
        while end < len(lines) and end - start < group_size and lines[end].can_join:
            if not mixed and USER_LINE_PREFIX in (lines[start].label, lines[end].label):
                break
            end += 1
        group = lines[start:end]
        if len(group) == 1:
            out.append(single[start])
        else:
            begins = "; ".join(_cut_text(each.text, _CHARACTER_LIMITS[-1], ()) for each in group)
            label = STEP_LINE_PREFIX if any(each.label == STEP_LINE_PREFIX for each in group) else USER_LINE_PREFIX
            what = "steps" if all(each.label == STEP_LINE_PREFIX for each in group) else "messages and steps"
            out.append(
                FittedLine(len(group), _cut_text(f"{label}{len(group)} {what}: {begins}", _SHARED_LINE_CHARACTERS, ()))
            )
        start = end
    return out


# -- the writer --------------------------------------------------------------------------------------------------------


class LineWriter(Struct, frozen=True):
    """Asks a model, if there is one. Writes lines if there is none, or if it fails and the policy allows them."""

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`."""
        notes: tuple[str, ...] = ()
        spent = ModelCost()
        if job.settings.models:
            on_failure = job.settings.on_failure
            model_failure = "keep_stages" if on_failure == "ladder" else on_failure
            result = yield from write_summary(job.task, replace(job.settings, on_failure=model_failure), job.count)
            if not result.failure or on_failure != "ladder":
                return result
            notes, spent = result.notes, result.spent
        return write_lines(job, notes, spent)


def write_lines(job: WritingJob, notes: tuple[str, ...] = (), spent: ModelCost = ModelCost()) -> SummaryResult:  # noqa: B008 - a frozen value
    """Writes the job's messages as lines within its budget, after the earlier summary in at most half of it."""
    previous = "\n\n".join(job.previous).strip()
    earlier = trim_lines(previous, job.budget // 2, job.count, Keep.ENDS) if previous else ""
    budget = job.budget - (job.count([earlier + "\n"])[0] + 1 if earlier else 0)
    lines = render_lines([m for _, m in job.items], budget, job.count, focus=f"{job.focus} {job.settings.instructions}")
    text = clean_text("\n".join(t for t in (earlier, lines) if t))
    if text and job.count([text])[0] <= job.budget:
        return SummaryResult(text, "extractive", notes, spent)
    return SummaryResult(write_mechanical(job.items, budget=job.budget, count=job.count), "mechanical", notes, spent)


def render_lines(messages: Sequence[Message], budget: int, count: Count, *, focus: str = "") -> str:
    """Renders a line for each step and each user message in at most `budget` tokens, if that is possible at all."""
    step_lines = [line for at in range(len(messages)) if (line := _build_line(messages, at)) is not None]
    return "\n".join(
        each.line for each in fit_lines(step_lines, budget, lambda lines: _count_sizes(lines, count), focus=focus)
    )


def _count_sizes(lines: Sequence[str], count: Count) -> list[int]:
    return count([line + "\n" for line in lines])


def _build_line(messages: Sequence[Message], at: int) -> LabelledLine | None:
    message = messages[at]
    if message.role == "assistant" or (message.origin == "tenfold" and get_text(message).startswith(STEP_LINE_PREFIX)):
        return build_step_line(get_step(messages, at))
    return build_user_line(message) if message.role == "user" and message.origin == "human" else None
