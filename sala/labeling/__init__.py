"""Folders in, labels out: the one pipeline behind `sala label`, `sala serve`, `sala predict` and `label_folder`.

    project = open_project(Places(pool, labeled=folder))    # Project: images, and the labels that came with some
    images = embed_project(project, encoder)                # ProjectFeatures: each content counts once
    result = classify(images, precision=0.9)                # LabelingResult: predictions, thresholds, model
    found = check(result)                                   # Check: suspect labels, near-duplicates
    export(result.rows(), "csv", result.model.classes)      # or "label-studio", "coco": a stream of text
    sort_copies(result.rows(), folder)                      # or zip_blocks: copies in class folders
    predict_files(model, encoder, files)                    # rows for new images, in constant memory

Images of users come in; one table of predictions, exports, a model and a report go out. The page and the command line may
call. File names are what strangers made them: they are escaped wherever they are written, links that leave a folder are not
followed, and no image is fatal.
"""
