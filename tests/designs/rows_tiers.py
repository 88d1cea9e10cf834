"""The names of the design behind `tiers`, and what they are here."""

from __future__ import annotations

from tests.designs.row import Row

_D = "tenfold.designs.tiers."

ROWS: tuple[Row, ...] = (
    Row(
        ("tiers.B1",),
        "CompactionConfig",
        _D + "CompactionConfig",
        "all settings with their published values; `build_policy()` makes the preset of them",
        "(it().context_window, it().trigger_threshold, it().target_threshold, it().output_reserve, "
        "it().max_tool_output_tokens, it().truncate_keep_tokens, it().protected_messages) "
        "== (200000, 0.8, 0.6, 16000, 2000, 250, 12)",
    ),
    Row(
        ("tiers.B1", "tiers.X6"),
        "[compaction] model, auto, protected_messages",
        _D + "CompactionSettings",
        "the table as a value; in tenfold.toml it is read as it stands (D1). Other sizes and shares, and the role, "
        "go into `[tenfold.presets.tiers]` by the same names",
        "it().model == '' and it().auto is True and it().protected_messages == 12",
    ),
    Row(
        ("tiers.B2", "tiers.X5"),
        "available, trigger and target tokens",
        _D + "CompactionConfig",
        "`available_tokens`, `trigger_tokens`, `target_tokens`; the reserve takes at most half of a small window",
        "[(c.available_tokens, c.trigger_tokens, c.target_tokens) for c in "
        "(it(), it(context_window=128000))] == [(184000, 147200, 110400), (112000, 89600, 67200)]",
    ),
    Row(
        ("tiers.B3", "tiers.X6"),
        "check_compaction_needed",
        _D + "check_compaction_needed",
        "total_tokens, trigger_tokens, needs_compaction, message_count; system prompt and tools count where given. "
        "A session checks by itself in `before_model`: after tools at the trigger, before every call at the limit",
        "it([{'role': 'user', 'content': 'hello'}]).trigger_tokens == 147200",
    ),
    Row(
        ("tiers.B3", "tiers.X6"),
        "AgentEvent::ContextWarning",
        _D + "ContextWarning",
        "`tenfold.events.CompactionWarning`, through `build_listener`",
        "it(used=130000, max=200000).used == 130000",
    ),
    Row(
        ("tiers.B4",),
        "token counting, the breakdown by role",
        _D + "count_tokens",
        "a `TokenBreakdown`: total, by role, tool_output_tokens, message_count; images are counted by their pixels",
        "it([{'role': 'user', 'content': 'hello'}]).total == 5",
    ),
    Row(("tiers.B4",), "the fast estimate", _D + "estimate_tokens", "a quarter of the bytes", "it('x' * 400) == 100"),
    Row(
        ("tiers.B5",),
        "the status bar, `[ctx: 45%]`",
        _D + "format_status_line",
        "of a `TokenUsage`; `TokenUsage.from_session(session)` reads a session, and the chat shows the same",
        "it(__import__('tenfold.designs.tiers').designs.tiers.TokenUsage(90000, 200000)) == '[ctx: 45%]'",
    ),
    Row(("tiers.B5",), "TokenUsage{used, max}", _D + "TokenUsage", "", "it(9_990, 20_000).percent == 49"),
    Row(
        ("tiers.B5", "tiers.B15"),
        "AgentEvent::CompactionStatus{before, after}",
        _D + "CompactionStatus",
        "`tenfold.events.CompactionEnd`, through `build_listener`; `line` is the one line that is shown",
        "it(150000, 105000).line == '— context compacted (150k → 105k tokens) —'",
    ),
    Row(
        ("tiers.B6", "tiers.X2", "tiers.X3", "tiers.X4"),
        "tier 1, truncate large tool outputs",
        "tenfold.compaction.plan.stages.outputs.TruncateOutputsStage",
        "a stage; the marker is `[... N lines dropped ...]`",
        "(it().max_tokens, it().keep_tokens, it().side_lines, it(keep_tokens=10).side_lines) == (2000, 250, 25, 5)",
    ),
    Row(
        ("tiers.B7", "tiers.X3", "tiers.X4"),
        "tier 2, remove old tool output content",
        "tenfold.compaction.plan.stages.outputs.RemoveOutputsStage",
        "a stage; the placeholder is `[tool output removed: N lines; it began: ...]`",
        "it().keep_recent_messages == 12",
    ),
    Row(
        ("tiers.B8", "tiers.B12"),
        "prune_messages",
        _D + "prune_messages",
        "tokens_before, tokens_after, messages_modified, tier_reached (None, TruncateOutputs, RemoveOldOutputs), and "
        "`messages`, since nothing is changed in place",
        "it([{'role': 'user', 'content': 'hello'}]).tier_reached == 'None'",
    ),
    Row(
        ("tiers.B9", "tiers.B18", "tiers.X1", "tiers.X7"),
        "tier 3, summarize messages[0..cutoff]",
        "tenfold.compaction.plan.stages.summarize_older.SummarizeOlderStage",
        "a stage; the cutoff falls between steps, and the protected messages are kept as far as they fit",
        "(it().keep_recent_messages, it().max_summary_tokens) == (12, 8000)",
    ),
    Row(
        ("tiers.B10",),
        "the seven sections",
        "tenfold.compaction.summarize.structure.STRUCTURES",
        'the structure "seven": the headings a summary must hold, those of the document in its order. What the prompt '
        "says about them has the document's meaning in our own words",
        "[h.removeprefix('## ') for h in it['seven']] == ['Task State', 'Files', 'Tool History', 'Errors', "
        "'Decisions', 'User Guidance', 'Next Steps']",
    ),
    Row(
        ("tiers.B10", "tiers.X8"),
        "the input of the summary",
        "tenfold.compaction.summarize.short_input.ShortInputWriter",
        "reasoning and tool outputs cut to 500 bytes, arguments to 200, the answer to 8,000 tokens, temperature 0",
        "(it().output_bytes, it().argument_bytes, it().max_tokens) == (500, 200, 8000)",
    ),
    Row(
        ("tiers.B11",),
        "the role of the summary",
        "tenfold.designs.tiers.policy.tiers",
        '`summary_role`: "system" (default) or "user"; inside our delimiter stands `<context-summary>`. Where a wire '
        "takes no system message in the middle of its list, it is in the system prompt, or in a user message",
        "it(__import__('tenfold.core.meter.counters').meter.counters.CharacterCounter()).summary.role == 'system'",
    ),
    Row(
        ("tiers.B12",),
        "summarize_messages",
        _D + "summarize_messages",
        "a coroutine; `SummarizationResult` has summary, api_usage and, where there is none, the reason",
        "__import__('inspect').iscoroutinefunction(it)",
    ),
    Row(
        ("tiers.B12",),
        "compact_with_summarization",
        _D + "compact_with_summarization",
        "a coroutine; all three tiers; where no usable summary comes, what the first two did stands. It takes a model "
        "or the name of the session's, by which one is chosen",
        "__import__('inspect').iscoroutinefunction(it)",
    ),
    Row(
        ("tiers.B12", "tiers.X8"),
        "CompactionResult",
        _D + "CompactionResult",
        "tokens_before, tokens_after, tier_reached (None, Mechanical, Summarized), summary, api_usage; and messages, "
        "and the whole Outcome",
        "it.__struct_fields__[:5] == ('tokens_before', 'tokens_after', 'tier_reached', 'summary', 'api_usage')",
    ),
    Row(
        ("tiers.B13",),
        "the summary model of a provider",
        "tenfold.models.choose.list_choices",
        "configured, else the provider's row, else by price, else the session's; `tenfold policies --model X` says "
        "why, and `choose_summarization_models` in code",
        "it('ollama:llama3', None)[0].model == 'ollama:llama3'",
    ),
    Row(
        ("tiers.B13",),
        "the provider defaults",
        "tenfold.models.choose.PREFERRED_MODELS",
        "openrouter: its own routing by price, `PRICE_ROUTES`; local: the session's model",
        "(it['anthropic'], it['openai'], it['google']) == ('claude-haiku', 'gpt-4o-mini', 'gemini-2.5-flash')",
    ),
    Row(
        ("tiers.B14",),
        "the rule by price",
        "tenfold.models.choose.find_cheapest",
        "a price above zero and a window of 8,000; within twice the lowest price the newest",
        "it([]) is None",
    ),
    Row(
        ("tiers.B15", "tiers.X6"),
        "the tool `compact` with `focus`",
        _D + "CompactTool",
        "`build_schema(wire)` and `handle(arguments)`, whose answer is the tool's result: the summary, or why "
        "there is none",
        "it.name == 'compact'",
    ),
    Row(
        ("tiers.B15",),
        '"No compaction needed"',
        _D + "NOT_NEEDED",
        "the tool's result under the target",
        "it == 'No compaction needed'",
    ),
    Row(
        ("tiers.B16",),
        "eligible from 10K tokens on",
        _D + "MINIMUM_TOKENS",
        "below it the tool says so and does nothing",
        "it == 10000",
    ),
    Row(
        ("tiers.B17",),
        "/compact",
        _D + "run_compact_command",
        "the full pipeline on demand; what follows the command is the focus",
    ),
    Row(
        ("tiers.B18",),
        "the tier-2 result is kept on failure",
        "",
        '`SummarySettings.on_failure` "keep_stages": a Block with the first tiers, the reason among its notes; where '
        "that lies above the hard limit, a summary by code",
    ),
    Row(
        ("tiers.B19",),
        "non-goals",
        "",
        "no memory across sessions, no files, no neural pruning, nothing injected again and again: none is here",
    ),
    Row(
        ("tiers.B20",),
        "the trailing hint `[ctx 64k/128k]`",
        "",
        "not built: a hint that changes with every call breaks the cached prefix. `format_status_line` is for people",
        differs=(("tiers.B20", "not built: a hint that changes with every call breaks the cached prefix"),),
    ),
    Row(
        ("tiers.X9", "tiers.X10"),
        "mask before summarizing; a log and its projection",
        "",
        "the order of the stages of the policy; each tier is an overlay that a Block puts over the log",
    ),
    Row(
        ("tiers.D1",),
        "[compaction] in the configuration file",
        "tenfold.config.settings.CompactionTable",
        "read as it stands by `load_settings` and `LivePolicy`, for library, command and chat; it selects the policy, "
        "and what `[tenfold]`, `[tenfold.presets.tiers]` and the variables say comes first",
        "(it().model, it().auto, it().protected_messages) == ('', True, 12)",
    ),
    Row(
        ("tiers.D2",),
        'model = "", chosen',
        _D + "choose_summarization_models",
        "in a session by its model, in the functions by the name that is passed, in the chat by the agent's model and "
        "again when that changes, in the command by `--model`. If none can be asked, tiers 1 and 2 run, with a note. "
        "A name without a provider is that of `find_model`. OpenRouter: the session's model with `:floor`",
        "it('openrouter:a/b')[0].model == 'openrouter:a/b:floor'",
    ),
    Row(
        ("tiers.D3",),
        "empty or invalid summaries",
        "tenfold.compaction.summarize.ladder.SummarySettings.is_strict",
        "no section even after the repair, a few characters, cut off, words without relation to the messages: what the "
        "first two tiers did is kept, and nothing is filled in by code",
    ),
    Row(
        ("tiers.D4",),
        "a summary that fails is told",
        _D + "SummarizationFailure",
        "`events.SummaryFailure` with the reason, a warning of the logger `tenfold`, a line in the chat, a word in the "
        "tool's result; also where the next model wrote the summary",
        "it('HTTP 401').reason == 'HTTP 401'",
    ),
    Row(
        ("tiers.D5",),
        "tier_reached Summarized",
        _D + "CompactionResult",
        "only where a model wrote the summary; without a model tiers 1 and 2 run, and `summary` is None",
    ),
    Row(
        ("tiers.D6",),
        "70 %, 80 % and `[ctx: 72%]`",
        _D + "TokenUsage.from_session",
        "all are shares of the window less the output reserve, in the bar, the warning and the trigger",
    ),
    Row(
        ("tiers.D7",),
        "Agent::compact_messages_with_summary",
        "tenfold.apps.agent.Agent.run_compaction",
        "with the focus as its argument; `get_summary(agent.session)` is the text. The tool of an agent runs the same",
        "__import__('inspect').iscoroutinefunction(it)",
    ),
    Row(
        ("tiers.D8",),
        "when the agent would use the tool",
        _D + "CompactTool.description",
        "before something new, after finished work, when it loses track; and that the result says what was kept",
    ),
    Row(
        ("tiers.D9",),
        "invisible continuation",
        "tenfold.designs.tiers.policy.CLOSING",
        "the request goes on in the same call: nobody is asked, no message is added but the summary, which says so",
        "'do not ask again' in it",
    ),
    Row(
        ("tiers.D10",),
        "structured metadata: files, tool history, decisions",
        "",
        "code keeps them below the model's text, whatever that says: `Outcome.facts` counts them",
    ),
    Row(
        ("tiers.D11",),
        "the user interface is not blocked",
        "tenfold.session.AsyncSession.compact",
        "the summary is written without holding the event loop, in the functions too",
    ),
)
