"""Faults and hostile inputs, tried on `sala` itself: `python -m stress --seed 0 --minutes 15`.

A kind of trial is a module with a function `trials(world, folder, quick=...)`: kills.py, faults.py, readers.py (altered
files), large.py (images), requests.py and commands.py. A trial is a name and a function that returns what is wrong, or None.
Each runs `sala` in a process of its own, forked from one that has PyTorch imported, with limits on time and memory.
"""
