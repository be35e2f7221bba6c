"""The SALA paper's tables and figures. Published numbers and runs of ours come in; records, tables, plots and a page go out.

`published` has the paper's numbers, `plan` says which runs a table needs, `runner` trains them, `records` keeps what they
found. `tables` compares records over episodes and seeds, `formats` writes them down, `verdicts` and `findings` say what
they show, `coverage` what is missing. Only the command line and the documentation call it.
"""
