"""Runs. A `RunConfig` comes in; a run folder that can be stopped, resumed, tested and loaded goes out.

`loop` is the training loop and `step` one of its steps; `run` starts and resumes, `keeper` saves beside it, `checkpoint` is
what lies on disk, `loading` opens finished runs, `saving` keeps a method without a run. Reproduction
and the command line may call.
"""
