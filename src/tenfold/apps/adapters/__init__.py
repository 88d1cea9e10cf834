"""Switches Tenfold on in the agents of other frameworks, in one line each. Each module is named by its framework.

Before each call of the model, an adapter gives the framework's list to a session and has the model see the view in its
place. `host_sessions` is what all of them stand on.
"""
