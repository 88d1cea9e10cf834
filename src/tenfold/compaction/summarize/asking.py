"""Asks a model for a text, checks the form of the answer, and mends by code what can be mended.

This is the one loop behind every text that a model writes. What is asked, and how often, is up to `BuildAsk`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.file_footer import without_footer
from tenfold.compaction.summarize.check import FATAL_KINDS, CheckFailure, Expectation, check_summary, mend_summary
from tenfold.compaction.summarize.headings import (
    EMPTY_SECTION,
    arrange_sections,
    render_guide,
    restore_headings,
    trim_sections,
)
from tenfold.compaction.summarize.ladder import Asking, Purpose, SummarySettings, SummaryTask
from tenfold.compaction.summarize.literals import build_source, mark_unconfirmed
from tenfold.compaction.summarize.quotations import Quotation, split_quotations
from tenfold.compaction.summarize.reserved_marks import escape_marks, escape_speakers
from tenfold.core.record.ask import SummaryAsk
from tenfold.core.record.block import ModelCost, add_costs
from tenfold.core.record.message import Message
from tenfold.core.text.excerpts import Count, Keep, excerpt, trim_lines, wrap_lines
from tenfold.core.text.redaction import redact


class WritingContext(Struct, frozen=True):
    """What is needed to write one text: its task, the settings, and what its answer is checked against.

    `headings` are those that the prompt asks for. Up to `cut_share` of its allotment over it, a text is cut by code:
    between lines, or with `math.inf`, which cuts any text, between sentences.
    """

    task: SummaryTask
    settings: SummarySettings
    count: Count
    expected: Expectation
    headings: tuple[str, ...]
    cut_share: float = 0.25

    @property
    def is_prose(self) -> bool:
        """Whether the model is asked for what `SummarySettings.told` lists, under headings of its own."""
        return not self.headings and self.task.purpose in ("first", "update")


def build_context(task: SummaryTask, settings: SummarySettings, count: Count, known: str = "") -> WritingContext:
    """Builds the context of a task. Headings that would take half of the allotment are not expected.

    `known` is text that is in view beside the summary: what it names may be named.
    """
    headings = task.list_headings(settings)
    empty = "\n".join(f"{heading}\n{EMPTY_SECTION}\n" for heading in headings)
    if headings and count([empty])[0] > task.allotment // 2:
        headings = ()
    earlier = "\n".join((*task.earlier_texts, task.context, known))
    source = build_source(task.items, task.facts, earlier, (task.focus, settings.instructions))
    prompt = f"{task.prompt or settings.get_prompt(task.purpose)}\n{render_guide(headings, settings.sections)}"
    expected = Expectation(source, task.allotment, headings, is_strict=settings.is_strict, prompt=prompt)
    return WritingContext(task, settings, count, expected, headings)


class RejectedAnswer(Struct, frozen=True):
    """A text that may not be used as it is, and why."""

    text: str
    failures: tuple[CheckFailure, ...]

    @property
    def is_fatal(self) -> bool:
        """Whether nothing can be mended: it is no summary."""
        return any(failure.kind in FATAL_KINDS for failure in self.failures)

    @property
    def is_only_too_long(self) -> bool:
        """Whether nothing but its length is wrong."""
        return all(failure.kind in ("too_long", "cut_off") for failure in self.failures)


class AskedText(Struct, frozen=True):
    """What came of asking a model: a `text` that may be used, or "". `error` is that of the last call, if it failed.

    `quotations` are what the last answer quotes as instructions of the user. Nobody has looked them up yet.
    """

    text: str
    rejected: tuple[RejectedAnswer, ...]
    spent: ModelCost
    error: str = ""
    is_mended: bool = False
    quotations: tuple[Quotation, ...] = ()


BuildAsk = Callable[[tuple[RejectedAnswer, ...]], SummaryAsk | None]
"""Builds the next request, knowing the answers rejected so far. None ends the asking."""


def ask_model(context: WritingContext, build_ask: BuildAsk) -> Asking[AskedText]:
    """Asks until an answer may be used, a call fails or nothing more is to be asked. Then mends the best answer."""
    rejected: tuple[RejectedAnswer, ...] = ()
    spent, error = ModelCost(), ""
    quotations: tuple[Quotation, ...] = ()
    while not error and (ask := build_ask(rejected)) is not None:
        (answer,) = yield (ask,)
        cost = replace(answer.spent, calls=max(answer.spent.calls, 1), model=answer.spent.model or ask.model)
        spent, error = add_costs(spent, cost), answer.error
        if not error:
            expected = context.expected
            text, quotations = split_quotations(without_footer(answer.text).strip())
            text = restore_headings(text, expected.headings, is_strict=expected.is_strict)
            text = mark_unconfirmed(escape_speakers(redact(text)), expected.source)  # marks would hide a secret's name
            finish = "stop" if quotations and answer.finish_reason == "length" else answer.finish_reason
            failures = check_summary(text, finish=finish, expected=expected, count=context.count)
            if not failures:
                return AskedText(text, rejected, spent, quotations=quotations)
            rejected = (*rejected, RejectedAnswer(text, failures))
    best = min(reversed(rejected), key=lambda each: (each.is_fatal, len(each.failures)), default=None)
    mended = _mend_by_code(best, context) if best is not None else ""
    return AskedText(mended, rejected, spent, error, is_mended=bool(mended), quotations=quotations)


def _mend_by_code(rejected: RejectedAnswer, context: WritingContext) -> str:
    """Mends a text: without a torn end, under its headings, within its allotment. "" if it fails."""
    expected, count = context.expected, context.count
    mended = mend_summary(rejected.text, rejected.failures)
    excess = count([mended])[0] - expected.allotment if mended else 0
    if not mended or excess > expected.allotment * context.cut_share:
        return ""
    if excess > 0 and context.cut_share == math.inf:  # a section may be one paragraph
        mended = wrap_lines(mended)
    if expected.headings:
        mended = arrange_sections(
            mended, expected.headings, context.task.facts, allotment=expected.allotment, count=count
        )
    elif excess > 0:
        mended = trim_sections(mended, expected.allotment, count)
    return mended if mended and not check_summary(mended, finish="stop", expected=expected, count=count) else ""


# -- requests ----------------------------------------------------------------------------------------------------------


def fill_prompt(prompt: str, context: WritingContext, allowed: int, **values: str) -> str:
    """Fills the placeholders of a prompt: `{allotment}`, `{structure}`, `{focus}`, and those in `values`.

    Models cannot count their tokens, so prose is asked for with a tenth less than it is allowed.
    """
    wishes = dict.fromkeys((context.settings.instructions.strip(), context.task.focus.strip()))
    structure = render_guide(context.headings, context.settings.sections)
    if context.is_prose:
        structure, allowed = context.settings.told, max(allowed * 9 // 10, 1)
    focus = "\n".join(f"Additional focus: {wish}" for wish in wishes if wish)
    for name, value in {"allotment": str(allowed), "structure": structure, "focus": focus, **values}.items():
        prompt = prompt.replace("{" + name + "}", value)
    return _EXTRA_BLANK_LINES.sub("\n\n", prompt).strip()


_EXTRA_BLANK_LINES = re.compile(r"\n{3,}")


def build_ask(
    context: WritingContext, system: str, parts: Sequence[str], *, model: str, max_tokens: int, purpose: Purpose
) -> SummaryAsk:
    """Builds a request from its system prompt and the parts of its prompt; empty parts are left out."""
    settings = context.settings
    return SummaryAsk(
        system=system,
        prompt="\n\n".join(part for part in parts if part),
        max_tokens=max_tokens,
        model=model,
        purpose=purpose,
        timeout=settings.timeout,
        tries=settings.tries,
        temperature=settings.temperature,
        effort=settings.effort,
    )


REJECTED_CHARACTERS = 4
"""Characters of a rejected text that are shown again for each token that was allowed. Its whole may fit no window."""


def build_repair(ask: SummaryAsk, context: WritingContext, rejected: RejectedAnswer) -> SummaryAsk:
    """Builds the request for a repair: the same once more, then the rejected text and what is wrong with it."""
    listed = "\n".join(f"- {failure}" for failure in rejected.failures[:20])
    wish = fill_prompt(context.settings.repair, context, ask.max_tokens).replace("{failures}", listed)
    text = excerpt(rejected.text, REJECTED_CHARACTERS * max(context.task.allotment, ask.max_tokens))
    prompt = f"{ask.prompt}\n\n<rejected-summary>\n{text}\n</rejected-summary>\n\n{wish or listed}"
    return replace(ask, prompt=prompt, purpose="repair")


def render_earlier_texts(task: SummaryTask, budget: int, count: Count) -> str:
    """Renders what goes before the messages, each in its own tag: context, earlier summary, summaries to be merged."""
    texts = [("context", task.context.strip()), ("previous-summary", task.previous.strip())]
    texts += [("summary", part.strip()) for part in task.parts]
    tagged = [(tag, text) for tag, text in texts if text]
    share = budget // max(len(tagged), 1)
    return "\n\n".join(f"<{tag}>\n{trim_lines(text, share, count, Keep.ENDS)}\n</{tag}>" for tag, text in tagged)


def describe_left_out(items: Sequence[tuple[int, Message]], budget: int) -> str:
    """Describes the messages that the text leaves out because they exceed what the model can be sent."""
    which = f"{items[0][0]} to {items[-1][0]}" if len(items) > 1 else f"{items[0][0]}"
    what = f"{len(items):,} messages ({which})" if len(items) > 1 else f"1 message ({which})"
    return f"{what} {NO_ROOM.format(budget)}"


NO_ROOM = "had no room in the {:,} tokens that the summary model is sent; only their facts are carried"


def clean_text(text: str) -> str:
    """Removes secrets from a summary, and what looks like marks that only code writes."""
    return redact(escape_marks(text))
