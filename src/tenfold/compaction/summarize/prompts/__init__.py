"""The prompt texts of the summarizer, as Markdown files in this folder. They are data, loaded by `prompt_files`."""
