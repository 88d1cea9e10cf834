"""The yardstick: how much of what an agent goes on to need survives a compaction, measured on real sessions.

Users run it on their own files (`tenfold eval`), CI on the recorded ones. Nothing here calls a network, and nothing
is random without a seed. Every method, ours or another's, gets the same OpenAI Chat messages and the same budget.
"""
