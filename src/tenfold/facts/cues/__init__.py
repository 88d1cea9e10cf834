"""Words by which code recognises what a message does, as data: one module for each purpose, by language.

Imports nothing. To add a language, add its words; nothing else has to change.
"""
