"""Facts that code reads from tool calls and tool results: files touched, commands run, and how they ended."""
