"""The names of the design behind `tail`, and what they are here."""

from __future__ import annotations

from tests.designs.row import Row

_D = "tenfold.designs.tail."
_AGENT = "tenfold.apps.agent.TailAgent"
_SESSION = _D + "SessionManager"

ROWS: tuple[Row, ...] = (
    Row(
        ("tail.A1", "tail.W13"),
        "CompactionSettings(enabled, reserve_tokens, keep_recent_tokens)",
        _D + "CompactionSettings",
        "the published defaults, once; also `retain_recent_tokens`. The same keys in `[tenfold.presets.tail]`",
        "(it().enabled, it().reserve_tokens, it().keep_recent_tokens, it().retain_recent_tokens) "
        "== (True, 8192, 16384, 16384)",
    ),
    Row(
        ("tail.A1", "tail.A3"),
        "compaction.reserveTokens, compaction.keepRecentTokens",
        "tenfold.designs.tail.policy.tail",
        "the keywords of the preset's function, `retain_recent_tokens` among them; sizes are clamped to the window: "
        "with a reserve of the whole window the published formula acts at every check, which law 6 forbids",
        "it.__kwdefaults__['reserve_tokens'] == 8192 and it.__kwdefaults__['keep_recent_tokens'] == 16384",
        (("tail.A3", "sizes are clamped to the window: a reserve of all of it would act at every check (law 6)"),),
    ),
    Row(
        ("tail.A2",),
        "settings provider callback",
        _AGENT + ".settings",
        "read at every check: the session's policy, which follows its file (`settings.LivePolicy`); a callable of the "
        "host: `TailAgent(agent, settings=callable)`. Summary settings and `auto` of the file go on under it",
    ),
    Row(
        ("tail.A3", "tail.W9"),
        "should_compact(context_tokens, context_window)",
        _D + "CompactionSettings.should_compact",
        "strictly above window - reserve; never for a window that is not known",
        "[it(it.__globals__['CompactionSettings'](reserve_tokens=10_000), n, 100_000) "
        "for n in (95_000, 90_000, 89_000)] == [True, False, False]",
    ),
    Row(
        ("tail.A3",),
        "should_compact as a function",
        _D + "should_compact",
        "the same with the settings as third argument",
        "it(191_809, 200_000) and not it(191_808, 200_000)",
    ),
    Row(
        ("tail.A3", "tail.A4"),
        "Compaction.should_compact",
        _D + "Compaction.should_compact",
        "the same on a `Compaction`, its settings read then",
    ),
    Row(
        ("tail.A4", "tail.W10"),
        "the check at the end of invoke()",
        _AGENT + ".invoke",
        "one run of `tenfold.apps.agent.Agent`: `save_point`, `agent_end`, the check, `settled`; no check after an "
        "exception. The limit of the window is checked before every call besides; for hosts that only make calls "
        "(`Session.before_model`), the user's next words end a run",
    ),
    Row(
        ("tail.A5",),
        "ctx.compact(CompactOptions(custom_instructions, on_complete))",
        _AGENT + ".compact",
        "asks for a compaction at the end of the run; `_compact_requested` is the waiting request",
    ),
    Row(
        ("tail.A5",),
        "CompactOptions",
        _D + "CompactOptions",
        "its instructions go before the caller's; `on_complete` is given the `CompactionResult`",
        "it('focus').custom_instructions == 'focus' and it().on_complete is None",
    ),
    Row(
        ("tail.A6",),
        "run_compaction(custom_instructions) -> bool",
        _AGENT + ".run_compaction",
        "a coroutine; `run_compaction_sync` without a loop. False: nothing to do, cancelled or failed, as `outcome` "
        "says; RuntimeError naming the phase unless idle",
    ),
    Row(
        ("tail.A6",),
        "phase",
        _AGENT,
        "`phase`: idle, running or compaction, that of the `Agent`; `queue`: the prompts that wait, which hold "
        "`settled` back",
    ),
    Row(
        ("tail.A7",),
        "no model, Already compacted, Nothing to compact, Compaction cancelled",
        "tenfold.core.record.ask.Outcome",
        "reasons of an Outcome, not exceptions; a manual run during another fails at once",
        differs=(("tail.A7", "reasons of an Outcome, not exceptions"),),
    ),
    Row(
        ("tail.A8", "tail.A9"),
        "estimate_tokens(message)",
        _D + "estimate_tokens",
        "UTF-16 units / 4, rounded up, arguments as compact JSON; an image is 1,200 tokens. Sessions count by the "
        "policy's counter",
        "it(it.__globals__['Message']('user', (it.__globals__['Text']('12345'),), 'human')) == 2",
    ),
    Row(
        ("tail.A10", "tail.W7"),
        "calculate_context_tokens(usage)",
        _D + "calculate_context_tokens",
        "the total, else the parts, cached tokens included; of ours or of a provider's usage",
        "it({'input': 1000, 'output': 500, 'cacheRead': 200, 'cacheWrite': 100}) == 1800",
    ),
    Row(
        ("tail.A10", "tail.A41"),
        "the last usable usage",
        _D + "find_last_usage",
        "the index of the answer; aborted and failed ones, zero, and what lies before a compaction are left out",
        "it([]) is None",
    ),
    Row(
        ("tail.A11",),
        "estimate_context_tokens(messages)",
        _D + "estimate_context_tokens",
        "tokens, usage_tokens, trailing_tokens, last_usage_index, over messages, a provider's messages, or the entries "
        "of a path",
        "(it([]).tokens, it([]).last_usage_index) == (0, None)",
    ),
    Row(
        ("tail.A12", "tail.A21"),
        "_refresh_context_tokens_from_session(), getContextUsage()",
        "tenfold.session.Session.take_reading",
        "the calibrated size of the view; `source` is reported only once the provider has answered after a Block. "
        "Every size that is shown is in this unit; `TailAgent.context_tokens`",
    ),
    Row(
        ("tail.A13", "tail.A14", "tail.A15", "tail.W1"),
        "Compaction.prepare(path_entries)",
        _D + "Compaction.prepare",
        "None where the last entry is a compaction or nothing is to be summarised; begins at what the earlier one "
        "kept. Refuses messages, which have no ids",
    ),
    Row(
        ("tail.A16", "tail.A17", "tail.A18", "tail.A19", "tail.W2", "tail.W3", "tail.W5", "tail.W6"),
        "find_cut_point, find_turn_start_index",
        "tenfold.compaction.plan.recent_tail.find_cut_point",
        "the cut as an index of pieces, which are whole steps, and the piece that opens a split exchange",
    ),
    Row(
        ("tail.A14",),
        "find_prev_compaction_index(entries)",
        _D + "find_prev_compaction_index",
        "the index of the newest Block in force, -1 for none",
        "it([]) == -1",
    ),
    Row(
        ("tail.A17", "tail.A19"),
        "find_cut_point(entries, start, end, keep_recent_tokens)",
        _D + "find_cut_point",
        "first_kept_entry_index, turn_start_index, is_split_turn; also with `retain_recent_tokens`",
        "it([]).first_kept_entry_index == 0",
    ),
    Row(
        ("tail.A20", "tail.A22", "tail.A23", "tail.W4"),
        "CompactionPreparation",
        _D + "CompactionPreparation",
        "the design's fields, and `plan`: Tenfold's Plan of it",
        "{'retained_from_id', 'messages_to_summarize', 'turn_prefix_messages', 'is_split_turn', 'tokens_before', "
        "'previous_summary', 'file_ops', 'settings'} <= set(it.__dataclass_fields__)",
    ),
    Row(
        ("tail.A22", "tail.W11"),
        "file_ops",
        "tenfold.compaction.summarize.fill.collect_covered_files",
        "the files of the covered range by the facts: calls and shell commands, deletions and renames, earlier "
        "compactions (a hook's details among them) and branches; the same in footer, `file_ops` and details",
    ),
    Row(
        ("tail.A24", "tail.A30", "tail.W8"),
        "Compaction.compact(preparation, custom_instructions)",
        _D + "Compaction.compact",
        "one call to the given model, an update where there is an earlier summary; bounded, checked, repaired once; a "
        "failure is in `failed`; `acompact` is the coroutine",
    ),
    Row(
        ("tail.A24", "tail.A25"),
        "SUMMARIZATION_PROMPT, UPDATE_SUMMARIZATION_PROMPT, TURN_PREFIX_SUMMARIZATION_PROMPT, BRANCH_SUMMARY_PROMPT",
        "tenfold.compaction.summarize.prompt_files.load_prompts",
        "`first`, `update`, `prefix`, `branch`; Tenfold's own words",
        "{'first', 'update', 'prefix', 'branch'} <= set(it())",
    ),
    Row(
        ("tail.A25",),
        "Goal .. Critical Context; Original Request .. Context for Suffix",
        "tenfold.compaction.summarize.structure.get_headings",
        "the structures `six`, `prefix` and `branch`: all must be there, in order",
        "it('six')[0] == '## Goal' and it('six')[-1] == '## Critical Context' and len(it('prefix')) == 3",
    ),
    Row(
        ("tail.A26",),
        "serialize_conversation",
        _D + "serialize_conversation",
        "the labels `[User]:`, `[Assistant thinking]:`, `[Assistant]:`, `[Assistant tool calls]:`, `[Tool result]:`, "
        "and 2,000 characters of a tool's output, fenced as data; the requests of the preset hold the same, bounded",
        "it([it.__globals__['Message']('user', (__import__('tenfold').record.message.Text('hello'),), 'human')]) "
        "== '[User]: hello'",
    ),
    Row(
        ("tail.A27",),
        "max output: 0.8 x reserve, 0.5 x reserve, 2048",
        "tenfold.compaction.plan.budgets.ReserveBudgets.get_summary_budget",
        "the history's; the prefix has five eighths of it, a branch `tenfold.session.branches.MAX_SUMMARY_TOKENS`",
        "it(it.__globals__['ReserveBudgets'](), 200_000, 0) == 6553",
    ),
    Row(
        ("tail.A27",),
        'reasoning: "high"',
        "tenfold.compaction.summarize.ladder.SummarySettings.effort",
        "asked of models that can reason, for the history alone; what they think takes nothing of the text's room",
    ),
    Row(
        ("tail.A28",),
        "`---`, Turn Context (split turn), No prior history.",
        "tenfold.compaction.summarize.split_writer.SplitWriter",
        "the preset's writer: two calls side by side, `TURN_CONTEXT` between them, `NO_HISTORY` for none",
        "'Turn Context (split turn)' in it.write.__globals__['TURN_CONTEXT']",
    ),
    Row(
        ("tail.A29",),
        "<read-files>, <modified-files>",
        "tenfold.compaction.summarize.file_lists.render_footer",
        "made by code, last in the summary and once; what does not fit is counted in `(N more)`",
        "it(it.__globals__['FileLists'](('a',), ('b',))).text == "
        "'\\n\\n<read-files>\\na\\n</read-files>\\n\\n<modified-files>\\nb\\n</modified-files>'",
    ),
    Row(
        ("tail.A31",),
        "CompactionResult(summary, retained_from_id, tokens_before, details)",
        _D + "CompactionResult",
        "and `failed`, the reason where there is none",
        "it('s', 'id', 3).details.read_files == ()",
    ),
    Row(
        ("tail.A31", "tail.A22"),
        "CompactionDetails(read_files, modified_files)",
        _D + "CompactionDetails",
        "sorted; what was changed is not among those read",
        "it().modified_files == ()",
    ),
    Row(
        ("tail.A32",),
        "append_compaction(summary, first_kept_entry_id, tokens_before, details)",
        _SESSION + ".append_compaction",
        "appends a summary as a Block; gives the Outcome. `details` may be a mapping. "
        "It must be smaller than what it replaces (law 4)",
        differs=(("tail.A32", "a summary that is not smaller than what it replaces is refused (law 4)"),),
    ),
    Row(
        ("tail.A32", "tail.A38", "tail.W14"),
        "CompactionEntry",
        _D + "CompactionEntry",
        "a Block by the design's names: `get_compaction_entry(session, block id)`",
        "'first_kept_entry_id' in it.__dataclass_fields__ and 'from_hook' in it.__dataclass_fields__",
    ),
    Row(
        ("tail.A33",),
        "build_session_context(leaf)",
        _D + "build_session_context",
        "messages, model and thinking_level at a leaf of a list of entries; of a session: "
        "`SessionManager.build_session_context`",
        "it([]).messages == ()",
    ),
    Row(
        ("tail.A34",),
        "compactionSummary, branchSummary; <summary>",
        "tenfold.designs.tail.policy.OPENING",
        "the fixed sentence and the tag of a summary's user message, inside Tenfold's own mark; of a branch: "
        "`tenfold.session.branches.OPENING`",
        "it.endswith('<summary>')",
    ),
    Row(
        ("tail.A35",),
        "session files, versions 1 to 3",
        "tenfold.formats.read_file",
        "reads them (docs/formats/pi.md); a malformed line is an error with its number unless `skip_damaged`. "
        "Tenfold's own log is written at every append",
    ),
    Row(
        ("tail.A35", "tail.A33"),
        "compaction entries of pi and Claude Code",
        _SESSION + ".restore_compaction",
        "the newest of a file as a Block: the context that the tool sent. `tenfold compact --policy tail` does it by "
        "itself (`Policy.restores_recorded`); reading a file alone hides nothing",
    ),
    Row(
        ("tail.A36", "tail.W12"),
        "session_before_compact",
        _D + "SessionBeforeCompact",
        "preparation, branch_entries, and the instructions that will be used; `hooks.on('session_before_compact')`",
        "it.type == 'session_before_compact'",
    ),
    Row(
        ("tail.A36", "tail.A37"),
        "SessionBeforeCompactResult(cancel, compaction)",
        _D + "SessionBeforeCompactResult",
        "the first cancel stops, the last result wins and is stored word for word, marked in `Block.supplied`. One "
        "that is not smaller than what it replaces fails (law 4), as does one that begins inside a step (law 3)",
        "it(cancel=True).cancel and it().compaction is None",
        (("tail.A37", "one that is not smaller (law 4) or that begins inside a step (law 3) fails"),),
    ),
    Row(
        ("tail.A36", "tail.A38"),
        "hooks.on(event)",
        _D + "TailHooks.on",
        "registers `async def f(event, ctx)`, with one argument, or plain; other events and arguments are refused; one "
        "that raises is reported and ignored. `TailAgent.on`; of a session without an agent: `TailHooks.attach`",
    ),
    Row(("tail.A38",), "session_compact", _D + "SessionCompact", "with the new entry", "it.type == 'session_compact'"),
    Row(
        ("tail.A39",),
        "auto_compaction_start{reason}",
        _D + "AutoCompactionStart",
        "threshold or overflow; a session's own listeners hear `tenfold.events.CompactionStart`",
        "it('overflow').reason == 'overflow'",
    ),
    Row(
        ("tail.A39", "tail.A42"),
        "auto_compaction_end{result, aborted, willRetry, errorMessage}",
        _D + "AutoCompactionEnd",
        "`will_retry`, `error_message`; a session's own listeners hear `CompactionEnd`, "
        "`CompactionSkip` or `CompactionFailure`",
        "it().will_retry is False",
    ),
    Row(
        ("tail.A40",),
        "isContextOverflow",
        _D + "is_context_overflow",
        "by the provider's message; a rate limit is none",
        "it('prompt is too long: 9 > 8') and not it('429 too many tokens')",
    ),
    Row(
        ("tail.A40", "tail.A41"),
        "overflow recovery",
        "tenfold.apps.agent.Memory.on_model_request_error",
        "the agent compacts once and sends the request again; a second one is `ContextOverflow`. An answer that failed "
        "is in no view",
    ),
    Row(
        ("tail.A42",),
        "abort_compaction()",
        _AGENT + ".abort_compaction",
        "nothing of it is appended, and a run that waits for it goes on",
    ),
    Row(
        ("tail.A43",),
        "collect_entries_for_branch_summary(session, old_leaf, target)",
        _D + "collect_entries_for_branch_summary",
        "`entries` with their positions, and `common_ancestor_id`",
        "it(None, None, '').entries == ()",
    ),
    Row(
        ("tail.A44",),
        "prepare_branch_entries(entries, budget)",
        _D + "prepare_branch_entries",
        "messages, file_ops, total_tokens",
    ),
    Row(
        ("tail.A45",),
        "generate_branch_summary",
        _D + "generate_branch_summary",
        "a `BranchSummaryResult`: summary and files, or `aborted`, or `error`; the given model writes",
    ),
    Row(
        ("tail.A46", "tail.W13"),
        "navigateTree(target, {summarize, customInstructions, replaceInstructions})",
        "tenfold.session.branches.navigate",
        "`BranchOptions(summarize, focus, prompt)`; `NavigateResult.text` goes back to the editor. "
        "The handlers are asked of every move; `TailAgent.navigate_tree` is the coroutine",
    ),
    Row(
        ("tail.A46",),
        "session_before_tree",
        _D + "SessionBeforeTree",
        "may cancel, give the summary, or change the instructions (`SessionBeforeTreeResult`)",
        "it.type == 'session_before_tree'",
    ),
    Row(
        ("tail.A46",),
        "session_tree",
        _D + "SessionTree",
        "new_leaf_id, old_leaf_id, summary_entry_id; a session's own listeners hear `tenfold.events.BranchSwitch`",
        "it.type == 'session_tree'",
    ),
)
