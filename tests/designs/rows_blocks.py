"""The names of the design behind the preset `blocks`, and what each is here."""

from __future__ import annotations

from tests.designs.row import Row

_HERE = "tenfold.designs.blocks"


def _make_row(ids: str, name: str, path: str, meaning: str, example: str = "", differs: str = "") -> Row:
    """A row. `differs` is the reason why the one number in `ids` is not as published."""
    numbers = tuple(f"blocks.{i}" for i in ids.split())
    where = f"{_HERE}.{path}" if path else ""
    return Row(numbers, name, where, meaning, example, ((numbers[0], differs),) if differs else ())


ROWS: tuple[Row, ...] = (
    _make_row("C1", "`TurnRange`", "TurnRange", "turns of a loop, both ends included", "it(0, 1).end_turn == 1"),
    _make_row("C1", "`CompactedSection`", "CompactedSection", "a range and what is shown for it"),
    _make_row(
        "C1 Y2",
        "`CompactionBlock`",
        "CompactionBlock",
        "what the Blocks in force show of one loop; the log's own entry is `tenfold.core.record.block.Block`",
        'it(created_at=__import__("datetime").datetime(2026, 1, 2)).keep_first is None',
    ),
    _make_row("D2", "`created_at`", "CompactionBlock", "always set; JSON without it is refused"),
    _make_row(
        "C1 C26 Y2 Y10", "`LoopRecord`", "LoopRecord", "a run of the log with its untouched messages and its block"
    ),
    _make_row(
        "C1 Y2",
        "`LoopRecord.compaction_block`",
        "get_loop_records",
        "the records of a session, read off its log and view",
    ),
    _make_row(
        "C2",
        "JSON out",
        "to_json",
        "`startTurn`, `endTurn`, `createdAt`, `turnId`; absent options left out",
        'it(it.__globals__["TurnRange"](2, 3)) == b\'{"startTurn":2,"endTurn":3}\'',
    ),
    _make_row(
        "C2",
        "JSON in",
        "from_json",
        "strict: nothing loads silently as none",
        'it(it.__globals__["TurnRange"], \'{"startTurn":2,"endTurn":3}\').end_turn == 3',
    ),
    _make_row("C2 C3", "`TurnId`", "TurnId", "`turnId{loopId, turnIndex}`", 'it("a", 1).turn_index == 1'),
    _make_row("C2 C3", "a message with `turnId`", "TurnMessage", "a message and its turn"),
    _make_row(
        "C3 Y12", "`TurnMap`", "TurnMap", "turns as ranges of messages; the loop counts", "it(()).turn_count() == 0"
    ),
    _make_row(
        "C3 Y12", "`TurnMap.from_messages`", "TurnMap.from_messages", "built from messages", "it([]).groups == ()"
    ),
    _make_row("C3", "`TurnMap.turn_count`", "TurnMap.turn_count", "", 'it(it.__globals__["TurnMap"](((0, 2),))) == 1'),
    _make_row(
        "C3",
        "`TurnMap.messages_for_range`",
        "TurnMap.messages_for_range",
        "empty where there are no such turns",
        'it(it.__globals__["TurnMap"](((0, 2), (2, 3))), it.__globals__["TurnRange"](1, 4), "abc") == "c"',
    ),
    _make_row(
        "C3",
        "`TurnMap.turn_msg_range`",
        "TurnMap.turn_msg_range",
        "half-open; None where there is no such turn",
        'it(it.__globals__["TurnMap"](((0, 2), (2, 3))), 1) == (2, 3)',
    ),
    _make_row("D1", "messages without `turn_id`", "TurnMap.from_messages", "a group each, tool results too"),
    _make_row("C3", "turn ids of a run", "assign_turns", "a step with the user messages before it", "it([]) == ()"),
    _make_row(
        "C4 C27 Y11",
        "`CompactionConfig`",
        "CompactionConfig",
        "the knobs of the preset under the design's names",
        "(it().compact_at_pct, it().keep_first_turns, it().keep_recent_turns, it().max_summary_tokens) "
        "== (0.9, 2, 10, 2000)",
    ),
    _make_row(
        "C4 Y12",
        "`ContextConfig`",
        "ContextConfig",
        "a window and what to do when it fills; none: compaction is off. A window other than the default is that of "
        "the policy's sessions, whatever their model",
        "(it().max_context_tokens, it().system_prompt_tokens, it().keep_recent) == (100000, 4000, 10)",
    ),
    _make_row("C4", "`CompactionScope::FixedCount`", "FixedCount", "so many earlier loops", "it().count == 3"),
    _make_row(
        "C4 C22", "`CompactionScope::TokenBudget`", "TokenBudget", "what the window holds beside the current one"
    ),
    Row(
        ("blocks.C4", "blocks.C27"),
        "`[compaction]`",
        "tenfold.designs.blocks.policy.blocks",
        'the same keys under `[tenfold.presets.blocks]`; `compaction_scope` is a number or "token_budget"',
        "it.__kwdefaults__['tool_output_max_lines'] == 50",
    ),
    _make_row(
        "C5",
        "`TokenCounter`",
        "TokenCounter",
        "a Counter of which `estimate_text` is overridden",
        "it().count(['hello', '']) == [2, 0]",
    ),
    _make_row(
        "C5",
        "`TokenCounter.estimate_text`",
        "TokenCounter.estimate_text",
        "bytes by 4, rounded up",
        'it(it.__globals__["TokenCounter"](), "hello") == 2',
    ),
    _make_row(
        "C5",
        "image tokens",
        "estimate_image",
        "from 85 to 16,000",
        "(it(4), it(400000), it(10**9)) == (85, 400, 16000)",
    ),
    _make_row(
        "C6 Y8 Y12",
        "headroom",
        "should_compact",
        "the trigger `tenfold.compaction.trigger.limits.HeadroomTrigger`; its target is a share of the window",
        '[it(n, it.__globals__["ContextConfig"]()) for n in (80000, 80999, 81000, 82000)] == [0, 0, 1, 1]',
    ),
    Row(
        ("blocks.D16",),
        "the trigger with a counter of one's own",
        "tenfold.core.meter.counters.get_family_factor",
        "it counts as it says, without the factor of a model's family, and fires at 81,000",
        'it("claude-opus-4-7", "bytes4") == 1.0',
    ),
    _make_row(
        "C7 Y1",
        "the check before each LLM call",
        "",
        "`Policy.checks` is `before_call`; `Session.before_model` syncs, then checks, and sends what it measured",
    ),
    _make_row(
        "C8 C9",
        "`before_compaction_start`, `after_compaction_end`",
        "with_hooks",
        "plain or coroutines, set on a session",
    ),
    _make_row("D19", "blank-by-default callbacks", "with_hooks", "without arguments it changes nothing"),
    _make_row(
        "D20",
        "indexing before, verification after",
        "with_hooks",
        "the before-hook finds the originals in view, the after-hook the Block in the log",
    ),
    _make_row(
        "C8",
        "`before_compaction_start`",
        "",
        "one of the `before_hooks` of a session's Answerer; False is the Outcome `cancelled`",
    ),
    _make_row(
        "C9 Y8",
        "`CompactionStarted`",
        "CompactionStarted",
        "`tenfold.events.CompactionStart` in the design's words",
        'it("r", 9, 1, 0).estimated_tokens == 9',
    ),
    _make_row(
        "C9 Y10",
        "`CompactionEnded`",
        "CompactionEnded",
        "`tenfold.events.CompactionEnd`, `CompactionSkip` or `CompactionFailure` of what had started",
    ),
    _make_row("C9 Y10", "`loops_compacted`", "count_compacted_loops", "the loops that a Block newly shows otherwise"),
    _make_row(
        "C10 C11 C12 C13 C14 Y7 Y8",
        "`compact_messages`",
        "compact_messages",
        "three levels over a list; the preset's `Policy.in_memory_stages`. A `CompactionConfig` alone stands for the "
        "default window",
        'it([], it.__globals__["ContextConfig"]()) == []',
    ),
    _make_row("C10", "`CompactionStrategy`", "CompactionStrategy", "an in-memory strategy of one's own"),
    _make_row("C10", "`DefaultCompaction`", "DefaultCompaction", "the design's own", "hasattr(it(), 'compact')"),
    _make_row("D17", "`DefaultCompaction.compact`", "DefaultCompaction.compact", "is `compact_messages`"),
    _make_row(
        "C10", "no session present", "compact_in_memory", "the configured in-memory strategy, or the design's own"
    ),
    _make_row(
        "D15",
        "hooks and events, no session present",
        "compact_in_memory",
        "`before_compaction_start=`, `after_compaction_end=` and `sender=`, in the published order",
    ),
    _make_row(
        "D9",
        "`in_memory_strategy`, `block_strategy` (fields)",
        "build_policy",
        "of `CompactionConfig`; the policy of a configuration runs both, for lists and for sessions",
    ),
    Row(
        ("blocks.C12",),
        "level 1",
        "tenfold.core.text.excerpts.excerpt",
        "a stage `CutOutputsStage`, by `Keep.LINE_ENDS`; the marker states the lines dropped",
        'it("\\n".join(map(str, range(1, 101))), 10, __import__("tenfold.core.text.excerpts", fromlist=["x"]).Keep'
        '.LINE_ENDS).split("\\n")[6:] == ["96", "97", "98", "99", "100"]',
    ),
    Row(
        ("blocks.C13", "blocks.Y6"),
        "level 2, `[Summary] `",
        "tenfold.compaction.plan.stages.step_lines.build_step_line",
        "a stage `EarlierLinesStage`; a long text is cut, and a turn without text says tool, target and outcome",
        differs=(
            ("blocks.C13", "a long text is cut and calls are named: a phrase in their place says nothing of them"),
        ),
    ),
    Row(
        ("blocks.C14", "blocks.Y7"),
        "level 3, `[Context compacted: N messages removed]`",
        "tenfold.compaction.plan.stages.levels.DropBetweenStage",
        "cut at whole steps",
        "(it().keep_first_messages, it().keep_recent_messages) == (2, 10)",
    ),
    _make_row(
        "C15 Y13",
        "`BlockCompactionStrategy`",
        "BlockCompactionStrategy",
        "a protocol; methods plain, coroutines or generators of Asks; see docs/custom-strategy.md",
    ),
    _make_row(
        "C15 Y13",
        "`block_strategy` (code)",
        "with_strategy",
        "the preset with a strategy of one's own as its Stage and Writer",
    ),
    _make_row(
        "C15 C27",
        "`block_strategy` (settings, entry point)",
        "build_strategy_policy",
        "named as `package.module:name`, or by the name of an installed package's entry point (docs/plugins.md)",
    ),
    _make_row(
        "C15 Y13", "a model asked from a strategy", "ask_model", "awaited in a coroutine; a generator yields the Ask"
    ),
    _make_row(
        "C16 C17 C18 C19 Y4 Y5 Y6",
        "`DefaultBlockCompaction`",
        "DefaultBlockCompaction",
        "what the stage `OverlayStage` does, section by section",
        "hasattr(it(), 'keep_compacted')",
    ),
    _make_row(
        "D18",
        "a stateless implementation",
        "DefaultBlockCompaction",
        "all its numbers are those of the `CompactionConfig` it is given",
    ),
    _make_row(
        "D21",
        "the turn boundary of `keep_recent_turns`",
        "DefaultBlockCompaction.keep_recent",
        "turns are whole: a request comes with the step that answers it",
    ),
    _make_row(
        "C16 Y5", "`keep_first`", "DefaultBlockCompaction.keep_first", "turns 0 to keep_first_turns - 1; none for 0"
    ),
    _make_row(
        "C17 Y4",
        "`keep_recent`",
        "DefaultBlockCompaction.keep_recent",
        "what keep_first leaves of the last turns, outputs cut",
    ),
    _make_row(
        "C18 C19 Y6",
        "`keep_compacted`",
        "DefaultBlockCompaction.keep_compacted",
        "every turn has a line within max_summary_tokens; user messages stay",
    ),
    _make_row(
        "C15 C18 Y3 Y4", "`compact`", "DefaultBlockCompaction.compact", "the sections together, none overlapping"
    ),
    _make_row(
        "D3",
        "`compact` of a strategy",
        "BlockCompactionStrategy.compact",
        "the default: it assembles the three methods' sections (`combine_sections`), plain, awaited or by steps",
    ),
    _make_row(
        "D4",
        "a `compact` of one's own",
        "BlockCompactionStrategy",
        "is what a session asks, for the ranges and then for the text",
    ),
    Row(
        ("blocks.C18", "blocks.Y4", "blocks.Y5"),
        "sections of 20 turns, 2/5",
        "tenfold.compaction.plan.stages.overlay.divide_steps",
        "ranges that meet",
        "it(20, 2, 5, latest=True).middle == range(2, 15) and not it(20, 0, 5, latest=True).first",
    ),
    _make_row(
        "C20 Y3 Y10",
        "`compact_session_loops`",
        "compact_session_loops",
        "one Block over the current loop and the earlier ones in scope",
    ),
    _make_row(
        "D8",
        "an explicit call",
        "compact_session_loops",
        "the arguments in the published order; compacts whatever the trigger says, and says `nothing` where the loops "
        "are as compact as they are to be: a Block that saves no token would break law 4",
        differs="it says `nothing` where the loops are as compact as they are to be: it would save nothing (law 4)",
    ),
    _make_row(
        "C21 Y1 Y3",
        "`build_context_from_session`",
        "build_context_from_session",
        "of the session's view, which is measured and sent, the loops in scope",
    ),
    _make_row(
        "D7",
        "scope and loading",
        "build_context_from_session",
        "`config` and `max_context_tokens` as published; the scope holds before any compaction too. Requests of "
        "`Session.before_model` hold the whole view until the next Block: hiding a loop without one would break law 2",
        differs="what is sent holds the whole view until the next Block, since nothing is hidden without one (law 2)",
    ),
    _make_row(
        "C22 Y9", "`resolve_scope`", "resolve_scope", "by what each loop takes compacted, the current one charged first"
    ),
    _make_row(
        "D5",
        "the note on `TokenBudget`",
        "resolve_scope",
        "a loop larger than the window is in scope if what stands for it fits; the plan goes by the same walk",
    ),
    _make_row("D6", "loops beyond the scope", "resolve_scope", "hidden by a Block, they are not counted as in scope"),
    _make_row("C22 Y9", "loaded sizes", "count_loop_tokens", "tokens that each loop takes in view"),
    _make_row(
        "C23",
        "the invariants",
        "find_violations",
        "which of them the blocks of a chain break",
        "it([]) == []",
        differs="loops older than the scope have no block, and a loop without turns between has no compacted section",
    ),
    _make_row(
        "C23 Y10",
        "the loop chain",
        "walk_chain",
        "by parents, siblings left out; a circle is an error",
        'it([it.__globals__["LoopRecord"]("a", ())], "a")[0].loop_id == "a"',
    ),
    _make_row(
        "C24 Y11",
        "`ContextTracker`",
        "ContextTracker",
        "for lists; a session's Reading does the same and decides the trigger",
        "it().estimate([]) == 0",
    ),
    _make_row(
        "C25 Y10",
        "`compact_context`",
        "compact_context",
        "a demand by hand, through strategy, counter and hooks",
        "it(None, None) == 0",
    ),
    _make_row(
        "C25",
        "`compact_context_with_sender`",
        "compact_context_with_sender",
        "the same with its events",
        "it(None, None, print) == 0",
    ),
    _make_row(
        "C25 C26",
        "`AgentStart`",
        "AgentStart",
        "a loop opens; kind `compaction` brackets a demand by hand",
        'it("r").kind == "run"',
    ),
    _make_row("C25 C26", "`AgentEnd`", "AgentEnd", "a loop closes, with its messages", 'it("r").messages == ()'),
    _make_row(
        "C26 Y10",
        "`SessionRecorder`",
        "SessionRecorder",
        "messages into the log with the loop as their run, and its events, numbered",
    ),
    _make_row(
        "D11 D12",
        "`SessionRecorder` and compactions",
        "SessionRecorder",
        "hears both events by itself; all events are custom entries of the log, which no model is shown",
    ),
    _make_row(
        "D13",
        "`AgentEnd` and messages",
        "SessionRecorder.record",
        "only those are appended that neither a list nor a request has brought in its own form, nor a Block shows",
    ),
    Row(
        ("blocks.D10", "blocks.D14"),
        "the loop of a request",
        "tenfold.session.Session.before_model",
        "`run=`, as `Session.sync` and `append` take it; a compaction before the loop's first message is filed with it",
    ),
    _make_row("C26", "streaming deltas", "MessageDelta", "left out unless the recorder is told otherwise"),
    _make_row(
        "C27 Y11",
        "`focus_message`",
        "",
        "the knob of the preset, or `focus` of a named instance: `SummarySettings.instructions`, "
        "read by prompts and lines",
    ),
    _make_row(
        "C27",
        "`[[compaction.instances]]`",
        "",
        '`[tenfold.presets.NAME]` with `policy = "blocks"`; an unknown name is an error with the nearest one',
    ),
    _make_row("C27 C4", "a context config exists", "build_policy", "the policy that a configuration is"),
    _make_row(
        "C19 Y13",
        "LLM-based summaries",
        "",
        "with a model configured the middle of a run is one text by `summarize.line_writer.LineWriter`",
    ),
    _make_row("Y13", "overflow recovery", "", "the demand `overflow`, for every preset"),
)
