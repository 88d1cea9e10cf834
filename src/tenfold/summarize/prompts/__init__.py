"""The prompt texts of the summariser, as Markdown files beside this module. Data, loaded by `summarize.edge`."""
