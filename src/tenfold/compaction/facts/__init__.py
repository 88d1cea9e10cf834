"""Facts that code learns from messages, without a model: tool calls and results, instructions, errors, to-dos, names.

May import: `record`, `wire`, `view`, `text`. `extractor` finds facts, `merge` combines them, `section` renders them,
and `parse` reads them back from text that Tenfold wrote. `cues` holds words by language.
"""
