"""Formats of exported labels, by name: the command's help lists them without importing what writes them."""

FORMATS = ("csv", "label-studio", "coco")
