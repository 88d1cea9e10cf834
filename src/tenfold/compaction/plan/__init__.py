"""Plans what becomes of each range of whole units. A Plan is a value that prints itself before it runs.

May import: `record`, `wire`, `view`, `meter`, `text`, `facts`, `trigger`. `draft.Draft` is what stages change,
`pipeline.Plan` is the result, and `stages` holds one class for each way of making a view smaller. `recent_tail` finds
where a recent tail begins, `budgets` says how large it may be, and `stubs` builds what stands for an elided message.
"""
