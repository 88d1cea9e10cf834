"""Prints the outcomes of `tenfold compact`: a few lines for each session, a table for many, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import msgspec

from tenfold.cli.screen import short, show, table
from tenfold.plan.plan import Plan
from tenfold.record.ask import Outcome
from tenfold.record.block import MUST_KEEP, Spent
from tenfold.session import Session
from tenfold.shown import one_line, told
from tenfold.summarize.ladder import added
from tenfold.trigger.triggers import Decision

_DETAILED = 3
"""Up to this many sessions are each reported in full. More of them make a table."""


class Result(msgspec.Struct, frozen=True):
    """One session's outcome, with what is needed to report it."""

    file: str
    session: str
    format: str
    counter: str
    outcome: Outcome


def as_json(result: Result) -> bytes:
    """Encodes the outcome as one JSON object with all its fields."""
    fields = {f.name: getattr(result.outcome, f.name) for f in msgspec.structs.fields(Outcome)}
    source = {"file": result.file, "session": result.session, "format": result.format, "counter": result.counter}
    return msgspec.json.encode(source | fields)


def report(results: Sequence[Result], *, kept: bool) -> None:
    """Prints the outcome of each session. With `is_stored`, a store holds them, so that a next step is possible."""
    if len(results) > _DETAILED:
        _totals(results)
        return
    for result in results:
        _detailed(result, kept=kept)


def _detailed(result: Result, *, kept: bool) -> None:
    out = result.outcome
    show(told(result.file), style="bold")
    show(f"  {out.status}: {one_line(out.reason, 400)}")
    if out.status != "compacted":
        show(f"  tokens {out.tokens_before:,}, {out.messages_before:,} messages; session {short(result.session)}")
        if out.spent.calls:
            show(f"  model {out.spent.model}: {_spent(out.spent)}")
        _rest(out)
        return
    missed = " MISSED" if out.target_missed else ""
    show(
        f"  tokens {out.tokens_before:,} -> {out.tokens_after:,} ({share_of(out)}; target {out.target:,}{missed}; "
        f"{result.counter}), messages {out.messages_before:,} -> {out.messages_after:,}, rung {out.rung or 'none'}"
    )
    if out.spent.calls:
        show(f"  model {out.spent.model}: {_spent(out.spent)}")
    _rest(out)
    if out.facts:
        show(f"  must-keep facts in view: {_facts(out, must=True)}")
        show(f"  other facts in view:     {_facts(out, must=False)}")
    _warned([result])
    if kept:
        show(f"  session {short(result.session)}, block {short(out.block)}")
        show(f"  next: tenfold diff {short(result.session)}, or show, or undo")


def _warned(results: Sequence[Result]) -> None:
    """Prints how many must-keep facts did not fit, so that nobody has to add them up."""
    counts = [pair for r in results for kind, pair in r.outcome.facts.items() if kind in MUST_KEEP]
    lost = sum(total - kept for kept, total in counts)
    if lost:
        show(
            f"  {lost:,} must-keep facts found no room: a larger target keeps them, `tenfold diff` lists them",
            style="yellow",
        )


def _rest(out: Outcome) -> None:
    if out.itemised:
        show("  what must stay: " + ", ".join(f"{what} {n:,}" for what, n in out.itemised.items()))
    for remark in out.notes:
        show(f"  note: {one_line(remark, 300)}")
    for violation in out.violations:
        show(f"  violation: {one_line(violation, 300)}", style="red")


def _facts(out: Outcome, *, must: bool) -> str:
    found = [(k.replace("_", " "), n, of) for k, (n, of) in sorted(out.facts.items()) if (k in MUST_KEEP) is must]
    return ", ".join(f"{kind} {kept}/{total}" for kind, kept, total in found) or "there are none"


def share_of(out: Outcome) -> str:
    """Renders the tokens that are left as a share of those before."""
    return f"{out.tokens_after / out.tokens_before:.1%}" if out.tokens_before else "0 %"


def price_of(spent: Spent) -> str:
    """Renders the list price of model calls in US dollars, "" if there were none."""
    if not spent.calls:
        return ""
    return "unknown" if spent.price is None else f"${spent.price:.4f}"


def _spent(spent: Spent) -> str:
    calls = f"{spent.calls:,} call{'' if spent.calls == 1 else 's'}"
    return f"{calls}, {spent.input_tokens:,} tokens read, {spent.output_tokens:,} written, price {price_of(spent)}"


def _totals(results: Sequence[Result]) -> None:
    rows = []
    for result in results:
        out = result.outcome
        counts = [pair for kind, pair in out.facts.items() if kind in MUST_KEEP]
        facts = f"{sum(n for n, _ in counts)}/{sum(of for _, of in counts)}" if counts else ""
        state = out.status + (", missed" if out.target_missed else "")
        state += f", {len(out.violations)} violations" if out.violations else ""
        rows.append(
            (
                Path(result.file).name,
                short(result.session),
                state,
                f"{out.tokens_before:,}",
                f"{out.tokens_after:,}",
                share_of(out),
                facts,
            )
        )
    right = ("before", "after", "share", "must-keep facts")
    table(("file", "session", "status", *right), rows, right=right)
    before = sum(r.outcome.tokens_before for r in results)
    after = sum(r.outcome.tokens_after for r in results)
    show(f"{len(results):,} sessions: {before:,} -> {after:,} tokens")
    spent = [r.outcome.spent for r in results if r.outcome.spent.calls]
    if spent:
        show(f"models: {_spent(reduce(added, spent))}")
    _warned(results)


def show_preview(path: Path, session: Session, decision: Decision, plan: Plan | None) -> None:
    """Prints what would be done, and why."""
    show(told(str(path)), style="bold")
    what = "would act" if decision.act else decision.status or "nothing to do"
    show(f"  {what}: {told(decision.reason)}")
    if plan is not None:
        for line in told(plan.explain()).splitlines():
            show(f"  {line}")
    show(f"  in view now: {sum(1 for _ in session.view.shown()):,} messages; nothing was changed")


def preview_json(path: Path, session: Session, decision: Decision, plan: Plan | None) -> bytes:
    """Encodes the Decision and the Plan as one JSON object."""
    return msgspec.json.encode(
        {
            "file": str(path),
            "act": decision.act,
            "status": decision.status,
            "reason": decision.reason,
            "target": decision.target,
            "target_missed": decision.target_missed,
            "messages_before": sum(1 for _ in session.view.shown()),
            "tokens_before": plan.tokens_before if plan else None,
            "tokens_after_at_most": plan.tokens_after if plan else None,
            "stages": [msgspec.to_builtins(s) for s in plan.steps] if plan else [],
            "plan": told(plan.explain()) if plan else "",
        }
    )
