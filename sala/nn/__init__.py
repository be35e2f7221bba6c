"""Networks and how they run on this machine. Images `[n, C, H, W]` come in, embeddings `[n, d]` go out.

Backbones, the fused CPU kernels behind them (numba where it is installed, PyTorch otherwise), and the processes of a
distributed training. Methods, evaluation and training may call.
"""
