"""What tool calls do to files and commands: knowledge of tools, as tables, shared by stages and facts."""
