"""The reading test: can a model that sees nothing but a view answer questions about the past behind it?

It may import everything that `evals` may. `test_run.py` runs it, `sheets.py` hands it to readers outside a provider,
and `tenfold eval reading` is its command.
"""
