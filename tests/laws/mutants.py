"""Broken folds: the source of `tenfold.view` with one exact edit each, compiled beside the real package.

A mutant never touches the real modules: both files are compiled under names of their own, and the edited `view` takes
its units from the edited `units`. An edit whose text does not occur exactly once is an error, so that a mutant cannot
silently become the original when the code moves.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from msgspec import Struct

import tenfold.view.units
import tenfold.view.view
from tenfold.view.view import View

UNITS = "tenfold.view.units"
VIEW = "tenfold.view.view"


class Mutant(Struct, frozen=True):
    """One edit: in `module`, `old` (which must occur once) becomes `new`."""

    name: str
    module: str
    old: str
    new: str


def fold_of(mutant: Mutant) -> type[View]:
    """The View class of the package with this edit."""
    units_name, view_name = f"_mutant_{mutant.name}_units", f"_mutant_{mutant.name}_view"
    units = source_of(tenfold.view.units)
    view = source_of(tenfold.view.view)
    if mutant.module == UNITS:
        units = edited(units, mutant)
    else:
        view = edited(view, mutant)
    view = edited(view, Mutant(mutant.name, VIEW, f"from {UNITS} import", f"from {units_name} import"))
    compiled(units_name, units)
    made: type[View] = compiled(view_name, view).View
    return made


def edited(source: str, mutant: Mutant) -> str:
    """The source with the edit. Raises ValueError when its text does not occur exactly once."""
    found = source.count(mutant.old)
    if found != 1:
        raise ValueError(f"mutant {mutant.name}: its text occurs {found} times in {mutant.module}; write it anew")
    return source.replace(mutant.old, mutant.new)


def source_of(module: ModuleType) -> str:
    """The text of a module's file."""
    spec = importlib.util.find_spec(module.__name__)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def compiled(name: str, source: str) -> ModuleType:
    """A module of this name, made from this text and entered among the modules under that name."""
    module = ModuleType(name)
    module.__file__ = f"<{name}>"
    sys.modules[name] = module
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)  # noqa: S102  # compiling our own edited source
    return module


def _view(name: str, old: str, new: str) -> Mutant:
    return Mutant(name, VIEW, old, new)


def _units(name: str, old: str, new: str) -> Mutant:
    return Mutant(name, UNITS, old, new)


MUTANTS = (
    _view("slice_misses_its_first_entry", "if ref.last < first or", "if ref.last <= first or"),
    _view("slice_reaches_past_the_leaf", "out[-1].last == last else None", "out[-1].last <= last else None"),
    _view("splice_loses_what_stands_left", "out.append(Run(ref.first, first - 1))", "pass"),
    _view("splice_loses_what_stands_right", "out.append(Run(last + 1, ref.last))", "pass"),
    _view("splice_repeats_an_entry", "out.append(Run(last + 1, ref.last))", "out.append(Run(last, ref.last))"),
    _view("undo_takes_the_oldest", "self._without(marks.live[-1])", "self._without(marks.live[0])"),
    _view("undo_leaves_it_live", "live=marks.live[:-1]", "live=marks.live"),
    _view("undo_takes_any_id", " and self.path.at(marks.live[-1]).id == entry.block:", ":"),
    _view("undo_in_the_order_of_doing", "reversed(block.replacements)", "block.replacements"),
    _view("undo_of_the_first_replacement_only", "reversed(block.replacements)", "block.replacements[:1]"),
    _view("runs_not_merged", "if out and isinstance(ref, Run) and", "if len(out) > 99 and isinstance(ref, Run) and"),
    _view("covers_not_compared", "if view.slice(first, last) != covers or not", "if not"),
    _view("steps_may_be_split", " or not view.whole(first, last):", ":"),
    _view("half_a_unit_is_whole", "units[high].last == last", "units[high].last >= last"),
    _view("a_tail_of_a_unit_is_whole", "units[low].first == first", "units[low].last >= first"),
    _view(
        "futures_share_their_units",
        "        units = self._units if self._count",
        "        units = self._units if 1 or 0",
    ),
    _view("older_views_see_newer_units", "return self._units[: self._count]", "return self._units"),
    _view("older_views_show_newer_units", "in range(self._count):", "in range(len(self._units)):"),
    _view("snapshot_drops_pins", "tuple(sorted(marks.pins)), marks.undone", "(), marks.undone"),
    _view(
        "snapshot_drops_live", "Snapshot(self.length, self.refs, marks.live,", "Snapshot(self.length, self.refs, (),"
    ),
    _view("opening_forgets_the_undo", "snapshot.length - 1, snapshot.undone)", "snapshot.length - 1)"),
    _view(
        "rescan_forgets_the_open_step",
        "self.length, refs, units, len(units), step,",
        "self.length, refs, units, len(units), None,",
    ),
    _view("rescan_drops_dangling_steps", "                units.append(close(step))\n", ""),
    _view("own_batches_not_addressed", "and ref.block == OWN else", "and ref.block < OWN else"),
    _view("unpinning_does_nothing", "if entry.on else marks.pins - {entry.at}", "if entry.on else marks.pins"),
    _view(
        "refused_blocks_are_live",
        "StaleBlock:\n                    marks = replace(marks, stale=",
        "StaleBlock:\n                    marks = replace(marks, live=",
    ),
    _view(
        "attempts_outlive_a_block", "changed=position, undone=False, attempts=())", "changed=position, undone=False)"
    ),
    _view(
        "replacements_share_an_index", "rep = Rep(position, index, first, last)", "rep = Rep(position, 0, first, last)"
    ),
    _view(
        "replacing_leaves_the_last_unit",
        "high = bisect_right(view._units, last,",
        "high = bisect_left(view._units, last,",
    ),
    _view(
        "keep_shows_the_first_of_the_range",
        "message_of(path.at(show.position))",
        "message_of(path.at(replacement.first))",
    ),
    _view("keep_shows_nothing", "out.append(original(show.position, message))", "pass"),
    _view("open_step_shown_as_closed", "shown_of(self.step, closing=False)", "shown_of(self.step, closing=True)"),
    _view(
        "open_step_not_shown",
        "if self.step is not None:\n            yield",
        "if self.step is None:\n            yield",
    ),
    _units("step_closes_one_result_early", "(grown, None) if waiting or", "(grown, None) if len(waiting) > 1 or"),
    _units("step_never_closes_by_results", "(grown, None) if waiting or", "(grown, None) if grown or"),
    _units("step_outlives_the_next_answer", "step is not None and step.goes_on(message)", "step is not None"),
    _units(
        "silent_entries_close_a_step",
        "if message is None:\n            return True",
        "if not message:\n            return False",
    ),
    _units("references_open_no_step", "(calls_of(message) or refers(message))", "calls_of(message)"),
    _units("references_take_no_more", "waiting or (answer is not None and refers(answer))", "waiting"),
    _units("references_take_all_that_follows", 'if self.waiting else message.role == "tool"', "if 1 or 0 else 0"),
    _units("references_excuse_duplicates", "refers(call_message) and result.call not in names", "refers(call_message)"),
    _units("no_marker_when_closed", "if waiting and (closing or others):", "if waiting and others:"),
    _units("no_marker_while_open", "if waiting and (closing or others):", "if waiting and closing:"),
    _units("marker_for_the_wrong_call", "ToolResult(call, names[call]", "ToolResult(waiting[0], names[call]"),
    _units("talk_before_results", "*results, *others)", "*others, *results)"),
    _units("two_results_for_one_call", "waiting[:at] + waiting[at + 1 :]", "waiting[at + 1 :]"),
    _units("duplicates_shown_as_results", "others.append(_late(at, message))", "others.append(original(at, message))"),
    _units("orphans_shown_as_results", "(_late(position, message),)", "(original(position, message),)"),
    _units("orphans_read_as_the_user", '*rest), "tool")', '*rest), "human")'),
    _units("aborted_answers_sent", "_aborted(position, message)))", "(original(position, message),)))"),
    _units("aborted_calls_open_a_step", 'message.status != "ok":', 'message.status == "error":'),
    _units("silent_entries_lie_nowhere", 'units.append(Unit(position, position, "silent", ()))', "pass"),
)
"""Every edit is a way in which the fold could really be wrong; the laws must tell each from the fold."""
