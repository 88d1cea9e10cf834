"""Broken folds: the source of `tenfold.core.view` with one exact edit each, compiled beside the real package.

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

import tenfold.core.view.fold
import tenfold.core.view.units
from tenfold.core.view.fold import View

UNITS = "tenfold.core.view.units"
VIEW = "tenfold.core.view.fold"


class Mutant(Struct, frozen=True):
    """One edit: in `module`, `old` (which must occur once) becomes `new`."""

    name: str
    module: str
    old: str
    new: str


def build_fold(mutant: Mutant) -> type[View]:
    """The View class of the package with this edit."""
    units_name, view_name = f"_mutant_{mutant.name}_units", f"_mutant_{mutant.name}_view"
    units = read_source(tenfold.core.view.units)
    view = read_source(tenfold.core.view.fold)
    if mutant.module == UNITS:
        units = apply_edit(units, mutant)
    else:
        view = apply_edit(view, mutant)
    view = apply_edit(view, Mutant(mutant.name, VIEW, f"from {UNITS} import", f"from {units_name} import"))
    compile_module(units_name, units)
    made: type[View] = compile_module(view_name, view).View
    return made


def apply_edit(source: str, mutant: Mutant) -> str:
    """The source with the edit. Raises ValueError when its text does not occur exactly once."""
    found = source.count(mutant.old)
    if found != 1:
        raise ValueError(f"mutant {mutant.name}: its text occurs {found} times in {mutant.module}; write it anew")
    return source.replace(mutant.old, mutant.new)


def read_source(module: ModuleType) -> str:
    """The text of a module's file."""
    spec = importlib.util.find_spec(module.__name__)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def compile_module(name: str, source: str) -> ModuleType:
    """A module of this name, made from this text and entered among the modules under that name."""
    module = ModuleType(name)
    module.__file__ = f"<{name}>"
    sys.modules[name] = module
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)  # compiling our own edited source  # noqa: S102  # compiling our own edited source
    return module


def _edit_view(name: str, old: str, new: str) -> Mutant:
    return Mutant(name, VIEW, old, new)


def _edit_units(name: str, old: str, new: str) -> Mutant:
    return Mutant(name, UNITS, old, new)


MUTANTS = (
    _edit_view("slice_misses_its_first_entry", "if ref.last < first or", "if ref.last <= first or"),
    _edit_view("slice_reaches_past_the_leaf", "out[-1].last == last else None", "out[-1].last <= last else None"),
    _edit_view("splice_loses_what_stands_left", "out.append(Run(ref.first, first - 1))", "pass"),
    _edit_view("splice_loses_what_stands_right", "out.append(Run(last + 1, ref.last))", "pass"),
    _edit_view("splice_repeats_an_entry", "out.append(Run(last + 1, ref.last))", "out.append(Run(last, ref.last))"),
    _edit_view(
        "undo_takes_the_oldest",
        "self._without_block(marks.live_blocks[-1])",
        "self._without_block(marks.live_blocks[0])",
    ),
    _edit_view("undo_leaves_it_live", "live_blocks=marks.live_blocks[:-1]", "live_blocks=marks.live_blocks"),
    _edit_view("undo_takes_any_id", "newest is not None and newest.id == entry.block:", "newest is not None:"),
    _edit_view("undo_in_the_order_of_doing", "reversed(block.replacements)", "block.replacements"),
    _edit_view("undo_of_the_first_replacement_only", "reversed(block.replacements)", "block.replacements[:1]"),
    _edit_view(
        "runs_not_merged", "if out and isinstance(ref, Run) and", "if len(out) > 99 and isinstance(ref, Run) and"
    ),
    _edit_view("covers_not_compared", "view.get_slice(first, last) != covers\n                or not", "not"),
    _edit_view("steps_may_be_split", "                or not view.has_whole_units(first, last)\n", ""),
    _edit_view("half_a_unit_is_whole", "units[high].last == last", "units[high].last >= last"),
    _edit_view("a_tail_of_a_unit_is_whole", "units[low].first == first", "units[low].last >= first"),
    _edit_view(
        "futures_share_their_units",
        "        units = self._units if self._unit_count",
        "        units = self._units if 1 or 0",
    ),
    _edit_view("older_views_see_newer_units", "return self._units[: self._unit_count]", "return self._units"),
    _edit_view("older_views_show_newer_units", "in range(self._unit_count):", "in range(len(self._units)):"),
    _edit_view(
        "snapshot_drops_pins", "tuple(sorted(marks.pins)),\n            marks.undone", "(),\n            marks.undone"
    ),
    _edit_view(
        "snapshot_drops_live",
        "            marks.live_blocks,\n            tuple(",
        "            (),\n            tuple(",
    ),
    _edit_view("opening_forgets_the_undo", "            undone=snapshot.undone,\n", ""),
    _edit_view(
        "rescan_forgets_the_open_step",
        "self.length, refs, units, len(units), step,",
        "self.length, refs, units, len(units), None,",
    ),
    _edit_view("rescan_drops_dangling_steps", "                units.append(close_step(step))\n", ""),
    _edit_view("own_batches_not_addressed", "and ref.block == OWN_BLOCK\n", "and ref.block < OWN_BLOCK\n"),
    _edit_view(
        "unpinning_does_nothing",
        "if entry.pinned else marks.pins - {entry.position}",
        "if entry.pinned else marks.pins",
    ),
    _edit_view(
        "refused_blocks_are_live",
        "StaleBlock:\n                    marks = replace(marks, stale_entries=",
        "StaleBlock:\n                    marks = replace(marks, live_blocks=",
    ),
    _edit_view("attempts_outlive_a_block", "undone=False,\n                        attempts=(),\n", "undone=False,\n"),
    _edit_view(
        "replacements_share_an_index",
        "rep = BlockPart(position, index, first, last)",
        "rep = BlockPart(position, 0, first, last)",
    ),
    _edit_view(
        "replacing_leaves_the_last_unit",
        "high = bisect_right(view._units, last,",
        "high = bisect_left(view._units, last,",
    ),
    _edit_view(
        "keep_shows_the_first_of_the_range",
        "get_message(path.get_entry(show.position))",
        "get_message(path.get_entry(replacement.first))",
    ),
    _edit_view("keep_shows_nothing", "out.append(build_original(show.position, message))", "pass"),
    _edit_view(
        "open_step_shown_as_closed",
        "get_step_messages(self.open_step, closing=False)",
        "get_step_messages(self.open_step, closing=True)",
    ),
    _edit_view(
        "open_step_not_shown",
        "if self.open_step is not None:\n            yield",
        "if self.open_step is None:\n            yield",
    ),
    _edit_units("step_closes_one_result_early", "(grown, None) if waiting or", "(grown, None) if len(waiting) > 1 or"),
    _edit_units("step_never_closes_by_results", "(grown, None) if waiting or", "(grown, None) if grown or"),
    _edit_units(
        "step_outlives_the_next_answer", "step is not None and step.is_continued_by(message)", "step is not None"
    ),
    _edit_units(
        "silent_entries_close_a_step",
        "if message is None:\n            return True",
        "if not message:\n            return False",
    ),
    _edit_units(
        "references_open_no_step",
        "(get_tool_calls(message) or has_item_references(message))",
        "get_tool_calls(message)",
    ),
    _edit_units(
        "references_take_no_more", "waiting or (answer is not None and has_item_references(answer))", "waiting"
    ),
    _edit_units("references_take_all_that_follows", 'bool(self.waiting_calls) or message.role == "tool"', "True"),
    _edit_units(
        "references_excuse_duplicates",
        "elif call_id in self._names or not has_item_references(self._message):",
        "elif not has_item_references(self._message):",
    ),
    _edit_units("no_marker_when_closed", "closing or bool(others)", "bool(others)"),
    _edit_units("no_marker_while_open", "closing or bool(others)", "closing"),
    _edit_units("no_marker_between_parallel_calls", " or answer is not answers[-1]", ""),
    _edit_units("parallel_calls_close_a_step", "return self._is_parallel(message)", "return False"),
    _edit_units("any_answer_goes_on_with_a_step", "(*before, message)", "(message,)"),
    _edit_units("calls_with_one_id_are_parallel", "return is_new and all", "return all"),
    _edit_units(
        "marker_for_the_wrong_call",
        "ToolResult(call, self._names[call]",
        "ToolResult(self._waiting[0], self._names[call]",
    ),
    _edit_units(
        "talk_before_results",
        "[build_original(self._position, self._message), *self._results]",
        "[*self._results, build_original(self._position, self._message)]",
    ),
    _edit_units("two_results_for_one_call", "waiting[:at] + waiting[at + 1 :]", "waiting[at + 1 :]"),
    _edit_units(
        "duplicates_shown_as_results",
        "others.append(_label_late_result(at, message))",
        "others.append(build_original(at, message))",
    ),
    _edit_units(
        "orphans_shown_as_results", "(_label_late_result(position, message),)", "(build_original(position, message),)"
    ),
    _edit_units("orphans_read_as_the_user", '*rest), "tool")', '*rest), "human")'),
    _edit_units(
        "aborted_answers_sent", "_mark_aborted_answer(position, message)))", "(build_original(position, message),)))"
    ),
    _edit_units("aborted_calls_open_a_step", 'message.status != "ok":', 'message.status == "error":'),
    _edit_units("silent_entries_lie_nowhere", 'units.append(Unit(position, position, "silent", ()))', "pass"),
)
"""Every edit is a way in which the fold could really be wrong; the laws must tell each from the fold."""
