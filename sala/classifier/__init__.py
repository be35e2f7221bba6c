"""Features in, predictions out: a few labeled images and a pool of unlabeled ones, on ready-made features of any encoder.

`fit.fit_pool` is the door. Its steps have one file each: normalize, mixture, linear, whitening, neighbors, cross_validation,
calibration, suggestions; `pipeline` runs the middle ones, `rejection` chooses the threshold above which an image is rejected.
`model` is what is saved, `estimator` is scikit-learn's door. The labeling room and the page may call; no file is read here but
a model's own.
"""
