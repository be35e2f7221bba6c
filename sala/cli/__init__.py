"""The command line: one file for each command. Arguments come in; results go to stdout, progress and warnings to stderr.

A command parses, calls the library and prints. Nothing imports this room but `python -m sala`.
"""
