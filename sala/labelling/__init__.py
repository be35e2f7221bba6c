"""Folders in, labels out: what `sala label` and `sala predict` do, without the command line.

    labelling = label_folders(labelled, pool, open_encoder("lite0"))   # Labelling: labels, model, what was set aside
    rows = labelling.rows()                                            # Row: what is said of one pool image
    write_rows(rows, file, "csv", classes)                             # or "label-studio", "coco"; one row at a time
    write_report(path, labelling)                                      # one page with all pictures inside
    sort_copies(rows, folder)                                          # copies or links in class folders
    predict_files(model, encoder, paths)                               # rows for new images, in constant memory

File names are what strangers made them: they are escaped wherever they are written, and links that leave a folder are not
followed. No image is fatal.
"""

from sala.labelling.copies import sort_copies
from sala.labelling.exports import label_studio_config, write_rows, write_set_aside, written_whole
from sala.labelling.fit import Labelling, label_folders
from sala.labelling.folders import image_files
from sala.labelling.predict import encoder_of, predict_files
from sala.labelling.report import write_report
from sala.labelling.rows import DOUBTFUL, NONE_OF_THESE, SURE, Row
from sala.names import FORMATS

__all__ = [
    "DOUBTFUL",
    "FORMATS",
    "NONE_OF_THESE",
    "SURE",
    "Labelling",
    "Row",
    "encoder_of",
    "image_files",
    "label_folders",
    "label_studio_config",
    "predict_files",
    "sort_copies",
    "write_report",
    "write_rows",
    "write_set_aside",
    "written_whole",
]
