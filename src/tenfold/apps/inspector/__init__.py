"""A web page over a store: what each session holds, what the model sees of it, and what to do about it.

`application.Inspector` is the ASGI application, and `tenfold inspect` runs it. It needs the extra: pip install
'tenfold[inspect]'.
"""
