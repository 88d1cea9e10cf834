"""What tool calls do to files and commands, and what came of them: knowledge of tools, shared by stages and facts."""
