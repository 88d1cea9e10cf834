"""The yardstick measures, on real sessions, how much of what an agent needs later survives a compaction.

Users run it on their own files (`tenfold eval`), and CI runs it on the recorded sessions. Nothing here uses the
network, and everything random has a fixed seed. Every method, ours or another project's, gets the same OpenAI Chat
messages and the same token budget.
"""
