"""The names of the design behind `threshold` and `sliding`, and what they are here."""

from __future__ import annotations

from tests.designs.row import Row

_D = "tenfold.designs.threshold."
_MESSAGE = "__import__('tenfold.core.record.message', fromlist=['x'])"

ROWS: tuple[Row, ...] = (
    Row(
        ("threshold.1",),
        "BeforeModelCallback, AfterModelCallback",
        _D + "PluginConfig",
        "`before_model(context, request)` rewrites the request in place, `after_model(context, response)` "
        "notes what it took; both return nothing. They are `Session.before_model` and `Session.after_model`",
        "it.__struct_fields__[:2] == ('before_model', 'after_model')",
    ),
    Row(
        ("threshold.1", "threshold.D7"),
        "BeforeModelCallback, AfterModelCallback in a framework",
        _D + "PluginConfig",
        "`before_model_callback` and `after_model_callback` are coroutines with ADK's keywords. All four take a "
        "mapping or a framework's own request object, and none raises: what fails is logged, and the conversation goes "
        "on in memory",
        "it.__struct_fields__[2:] == ('before_model_callback', 'after_model_callback')",
    ),
    Row(
        ("threshold.1", "threshold.11"),
        "contextguard, CallbackContext",
        _D + "ContextGuard",
        "agents and their strategies; a call names its agent and conversation by a `Context`",
        "it().plugin_config().before_model(None or __import__('tenfold.designs.threshold', fromlist=['x'])"
        ".Context('nobody'), None) is None",
    ),
    Row(
        ("threshold.2",),
        "New(registry).Add(agentID, llm, options...).PluginConfig()",
        _D + "new",
        "the builder: `new(registry).add(agent, llm, *options).plugin_config()`",
        "list(it().add('a', None).strategies) == ['a']",
    ),
    Row(
        ("threshold.2", "threshold.23"),
        "WithSlidingWindow(n)",
        _D + "with_sliding_window",
        "the preset `sliding`; in settings `max_turns` of `[tenfold.presets.sliding]`",
        "__import__('tenfold.designs.threshold', fromlist=['x']).new().add('a', None, it(0))"
        ".strategies['a'].policy.max_entries == 20",
    ),
    Row(
        ("threshold.2", "threshold.9"),
        "WithMaxTokens(n)",
        _D + "with_max_tokens",
        "the window in place of the registry's; without a guard `window=` of the session's calls",
        "__import__('tenfold.designs.threshold', fromlist=['x']).new().add('a', None, it(9000))"
        ".strategies['a'].get_window('gpt-4o') == 9000",
    ),
    Row(
        ("threshold.2", "threshold.19"),
        "WithMaxCompactionAttempts(n)",
        _D + "with_max_compaction_attempts",
        "how often a text that is too long is asked for; in settings `max_compaction_attempts`. Attempts 2 "
        "and 3 ask over "
        "the same messages with half the words",
        "__import__('tenfold.designs.threshold', fromlist=['x']).new().add('a', None, it(-1))"
        ".strategies['a'].policy.writer.attempts == 3",
    ),
    Row(
        ("threshold.2", "threshold.W9"),
        "Strategy: Name(), Compact(ctx, req)",
        _D + "Strategy",
        "`name` is `threshold` or `sliding_window`; `compact(context, request)` gives the request to send. "
        "No lock of the "
        "agent is held while a model writes",
        "callable(it.compact) and isinstance(it.name, property)",
    ),
    Row(
        ("threshold.3", "threshold.18", "threshold.27"),
        "real tokens",
        "tenfold.core.record.entry.Usage",
        "prompt tokens above zero of a whole response, kept in the log with the answer; after a compaction none counts "
        "until the next report",
        "it(700).prompt == 700",
    ),
    Row(
        ("threshold.4", "threshold.W7"),
        "estimateTokens",
        _D + "estimate_tokens",
        "bytes / 4 rounded down for each field, as published. The preset counts with its session's counter, "
        "by characters "
        "and pixels",
        f"it([{_MESSAGE}.Message('user', ({_MESSAGE}.Text('x' * 400),), 'human')]) == 100",
    ),
    Row(
        ("threshold.5",),
        "estimateRequest",
        _D + "estimate_request",
        "contents, system instruction, tool definitions",
        "it({'system': 'y' * 200, 'messages': [{'role': 'user', 'content': 'x' * 400}]}) == 150",
    ),
    Row(
        ("threshold.6", "threshold.W6"),
        "calibrated heuristic, correction factor",
        _D + "calibrate",
        "max(real, now x clamp(real / last, 1, 5)); a session leaves out the max where the request itself got smaller, "
        "sets apart what the reports hold beside our count, and believes none below half of it",
        "(it(750, real=1000, last=500), it(500, real=300, last=600), it(100, real=100000, last=50000), "
        "it(90009, real=140000, last=70000)) == (1500, 500, 100000, 180018)",
    ),
    Row(
        ("threshold.7", "threshold.8"),
        "default factor",
        _D + "with_default_factor",
        "2.0 for a count by characters, which is the guard's default; in settings `default_factor`. 2.5 where no usage "
        "is ever reported. The document's 1.5 is not followed: one of its own simulations overflows with it. With a "
        "model's own vocabulary it is what is known of the model's family",
        "__import__('tenfold.designs.threshold', fromlist=['x']).new().add('a', None, it(2.5))"
        ".strategies['a'].policy.estimator.factor == 2.5",
        (("threshold.7", "the document's other value, 1.5, is not followed: its own simulations overflow with it"),),
    ),
    Row(
        ("threshold.9", "threshold.10"),
        "threshold = window - buffer",
        _D + "compute_threshold",
        "a conversation of exactly that many tokens is compacted",
        "(it(200000), it(8000)) == (180000, 6400)",
    ),
    Row(
        ("threshold.10",),
        "buffer",
        "tenfold.compaction.trigger.limits.get_buffer",
        "20,000 from 200,000 on, a fifth below it",
        "[it(w) for w in (250000, 200000, 199999, 50000, 10000, 8000)] == [20000, 20000, 39999, 10000, 2000, 1600]",
    ),
    Row(
        ("threshold.11", "threshold.20"),
        "stored summary",
        "tenfold.core.view.fold.View",
        "the view: what a Block covers is shown as its summary, whatever the host resends; found by entry, "
        "not by count",
        differs=(("threshold.20", "what is covered is found by entry, not by count"),),
    ),
    Row(
        ("threshold.12", "threshold.W1", "threshold.D5"),
        "truncate for the summarizer",
        "tenfold.compaction.summarize.transcript.fit_messages",
        "what is sent fits four fifths of the summary model's window: long texts get shorter, just as much as is "
        "needed, then the oldest messages go, down to 2; what goes is listed in `Outcome.notes` and still yields "
        "facts. The window is that of the model's name in the registry, else `with_max_tokens`, else the "
        "conversation's",
        "it([], budget=10, count=lambda texts: [1] * len(texts)).text == ''",
    ),
    Row(
        ("threshold.13",),
        "maxOutputTokens",
        _D + "compute_max_output_tokens",
        "half the buffer; of a known model no more than four fifths of its largest answer and a fifth of its window",
        "(it(200000), it(8000)) == (10000, 800)",
    ),
    Row(
        ("threshold.13",),
        "word limit",
        _D + "compute_word_limit",
        "three quarters of that, in the system prompt (`summarize/prompts/briefing.md`)",
        "(it(200000), it(8000)) == (7500, 600)",
    ),
    Row(
        ("threshold.13",),
        "Current State; Key Information; Context & Decisions; Exact Next Steps",
        "tenfold.compaction.summarize.structure.STRUCTURES",
        "the structure `four`, checked in every answer",
        "it['four'] == ('## Current State', '## Key Information', '## Context & Decisions', '## Exact Next Steps')",
    ),
    Row(
        ("threshold.14",),
        "transcript lines",
        "tenfold.compaction.summarize.transcript.fit_messages",
        "`role: text`, `role: [called tool: NAME]` with an excerpt of the arguments, `role: [tool NAME returned a "
        "result]` with an excerpt of the result. Roles are a closed set here: `unknown` is a tool without a name",
        f"it([(0, {_MESSAGE}.Message('user', ({_MESSAGE}.Text('hello'),), 'human'))], budget=99, "
        "count=lambda texts: [1] * len(texts)).text == 'user: hello'",
    ),
    Row(
        ("threshold.14",),
        "state key todos, ## Todo List",
        _D + "render_host_todos",
        "of `Context.state['todos']`: maps or objects with `content` and `status`; the list in the log is sent as well",
        "'- [done] a' in it([{'content': 'a', 'status': 'done'}, {'content': ' '}]) and it([]) == ''",
    ),
    Row(
        ("threshold.15", "threshold.W7", "threshold.D8"),
        "mechanical fallback",
        "tenfold.compaction.summarize.briefing.write_fallback",
        "the earlier summary, `---`, then a line for each message with its first 200 characters. Where there is no "
        "room: 60 of what the user said, then of what the model said, then 200 of either, then tools; the newest "
        "first. A line counts the messages that have none (the document sets no bound)",
        "it('', [], budget=10, count=lambda texts: [0] * len(texts)) == ''",
    ),
    Row(
        ("threshold.16",),
        "[Previous conversation summary]",
        "tenfold.designs.threshold.policy.OPENING",
        "the first line in the summary's delimiter",
        "it == '[Previous conversation summary]'",
    ),
    Row(
        ("threshold.16",),
        "[End of summary - conversation continues below]",
        "tenfold.designs.threshold.policy.CLOSING",
        "the last line in the summary's delimiter",
        "it == '[End of summary - conversation continues below]'",
    ),
    Row(
        ("threshold.17", "threshold.W4"),
        "continuation instruction",
        "tenfold.compaction.plan.continuation.build_continuation",
        "a message of the Block that stays in view and quotes the current request",
        "'`do it`' in it('do it').parts[0].text and '`' not in it('').parts[0].text",
    ),
    Row(
        ("threshold.18", "threshold.22", "threshold.21"),
        "watermark, contents at compaction, last heuristic",
        _D + "get_state",
        "derived from the log: the Block, and the newest report with the estimate of its request",
        "callable(it)",
    ),
    Row(
        ("threshold.22",),
        "__context_guard_summary_, ..._summarized_at_, ..._contents_at_compaction_, ..._real_tokens_, "
        "..._last_heuristic_",
        _D + "export_state",
        "the keys with the agent's name behind each; the hooks write them into `Context.state`. One more of ours, "
        "`..._log_`, holds the rest of what a restart needs",
        "callable(it)",
    ),
    Row(
        ("threshold.22", "threshold.D6"),
        "state keys as floats",
        _D + "load_state",
        "reads such a dictionary; numbers that JSON made floats are whole again. A new session begins with the "
        "summary and the report in `Context.state`; a list that begins with a summary, ours or the original's, "
        "holds no words of the user there (law of trust)",
        "it({'__context_guard_real_tokens_a': 700.0}, 'a').real_tokens == 700",
        (("threshold.D6", "a summary whose words nobody can vouch for holds no words of the user (law of trust)"),),
    ),
    Row(
        ("threshold.23", "threshold.W2"),
        "keep recent = max(3, maxTurns*30/100)",
        _D + "compute_keep_recent",
        "the stage `KeepRecentStage`; the watermark is the last entry that the summary covers",
        "[it(n) for n in (20, 30, 5)] == [6, 9, 3]",
    ),
    Row(
        ("threshold.23", "threshold.W6"),
        "entries - watermark",
        "tenfold.compaction.plan.recent_tail.count_entries_since",
        "entries after the newest summary in view, so right on every branch and after a rewind",
        "callable(it)",
    ),
    Row(
        ("threshold.24",),
        "safeSplitIndex",
        "tenfold.compaction.plan.recent_tail.find_entry_split",
        "never parts a call from its result, also at the end",
        "it(['text', 'text', 'call', 'result', 'text', 'text'], 3) == 1 and "
        "it(['call', 'result', 'call', 'result'], 3) == 2",
    ),
    Row(
        ("threshold.25",),
        "findSplitIndex(contents, budget)",
        _D + "find_split_index",
        "the tail by a token budget, at a safe place; as in the original, no strategy uses it",
        "it([], 100) == 0",
    ),
    Row(
        ("threshold.26",),
        "ContextWindow(id), DefaultMaxTokens(id)",
        _D + "BuiltinRegistry",
        "a `Registry` has the two methods; the built-in one reads `meter.windows`, and 128,000 / 4,096 "
        "stand for the rest",
        "(it().context_window('no-such'), it().default_max_tokens('no-such')) == (128000, 4096)",
    ),
    Row(
        ("threshold.27", "threshold.W3", "threshold.D4"),
        "loop guard",
        "tenfold.compaction.trigger.guard.decide",
        "one estimator decides and accepts; after a Block nothing happens until the view has grown. What the "
        "reports hold beside our count is learned; where no summary can help, code writes it, and a floor over the "
        "window is `unsatisfiable`, said once. A model is asked again after three messages of the user or six answers "
        "for each time that it was asked for the newest text, and code writes what is due sooner",
        "callable(it)",
    ),
    Row(
        ("threshold.1", "threshold.D9", "threshold.W5"),
        "the bloated conversation is never passed through",
        "tenfold.compaction.engine.compact.find_limits",
        "a floor between threshold and window: compacted to the least that must stay, by code",
        "callable(it)",
    ),
    Row(
        ("threshold.D1",),
        "~140k tokens down to ~1-2k",
        _D + "get_state",
        "less than 2,000 beside the system prompt, with a summary of the published size",
        "callable(it)",
    ),
    Row(
        ("threshold.D2",),
        "len/4 underestimates by 2-3x on structured content",
        "tenfold.core.meter.counters.CharacterCounter",
        "measured: 1.5 to 2.2 x with OpenAI's vocabulary for compact JSON, about a quarter more for Claude",
    ),
    Row(
        ("threshold.D3",),
        "a single unusual turn does not distort all subsequent turns",
        "tenfold.core.meter.estimators.ModelCalibration.find_highest_line",
        "where one report contradicts the others, something hidden came and went: for twelve reports it is expected "
        "again, and no correction is computed from it",
        "callable(it)",
    ),
    Row(
        ("threshold.D10",),
        "the files, 25 multi-turn simulations",
        "tenfold.designs.threshold.context_guard",
        "`docs/designs/threshold.md` maps the files. All 27 rows of the simulations run in "
        "`tests/designs/threshold/test_simulations.py`, worse ones in `test_threshold_adversarial.py`",
        "it.__name__.endswith('context_guard')",
    ),
    Row(
        ("threshold.W8",),
        "exact strings",
        "tenfold.session.Session.expand",
        "the originals behind a summary stay in the log: `search` and `expand` find them",
        "callable(it)",
    ),
)
