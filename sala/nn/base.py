"""What a backbone is, for methods and for those who write one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

Film = Sequence[tuple[Tensor, Tensor]]  # for each layer (gamma, beta), [n, channels]: h <- (1 + gamma) h + beta


@dataclass(frozen=True)
class Recipe:
    """How `build_backbone` made a backbone, so that it can be made again."""

    name: str | type[nn.Module]
    shape: tuple[int, ...]
    distance_scale: float | None = None


class Backbone(nn.Module):
    """A network from images to embeddings, and what methods need to know of its shape.

    A subclass sets `out_dim`, the width d of its embeddings, and writes `forward`, from images `[n, C, H, W]` in [0, 1], or
    from features `[n, d']`, to embeddings `[n, d]`. `sala.build_method` takes it as it is.

    Examples
    --------
    >>> import sala, torch
    >>> class Projection(sala.Backbone):  # trained on ready-made features
    ...     def __init__(self, d, out_dim):
    ...         super().__init__()
    ...         self.out_dim, self.linear = out_dim, torch.nn.Linear(d, out_dim)
    ...     def forward(self, features):
    ...         return self.linear(features)
    >>> task = sala.make_task(support=[[0.0, 1.0], [1.0, 0.0]], labels=[0, 1], query=[[0.9, 0.0]])
    >>> sala.build_method("protonet", Projection(2, 3)).eval().classify(task).shape
    torch.Size([1, 2])
    """

    out_dim: int
    out_map: tuple[int, int, int]  # [C, h, w]: the map that was flattened to the embedding, d = C h w
    image_shape: tuple[int, int, int] | None = None  # [H, W, C] of the images it was built for
    film_widths: tuple[int, ...] = ()  # channels of each layer that takes a scale and a shift, see `Conv4.forward`
    recipe: Recipe | None = None  # how `build_backbone` made it

    def __init__(self) -> None:
        super().__init__()

    def unpooled(self) -> Backbone:
        """The same weights without the last pools, for methods that compare maps; `out_map` is larger where there are any."""
        return self
