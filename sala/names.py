"""Names that a user gives to commands: their help shows these, without importing what they stand for."""

FORMATS = ("csv", "label-studio", "coco")  # of labels, written by labelling/exports.py
SECTIONS = ("steps", "methods", "evaluation", "storage", "growth", "processes")  # of `sala bench`, in bench_scale.py
