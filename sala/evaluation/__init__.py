"""Measurement. A method and a sampler come in; a `Result` with its 95 % interval goes out.

Every image is embedded once, then episodes run in batches on the embeddings. Training, reproduction and the command line
may call.
"""
