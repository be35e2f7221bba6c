"""Masked Soft k-Means (Ren et al., ICLR 2018, arXiv:1803.00676): each class masks the images far from it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sala.episodes.task import Task
from sala.errors import at_least
from sala.functional import PseudoLabels, class_means, refine, refine_steps, squared_distances
from sala.methods.base import Method
from sala.nn.backbones import Backbone


class MaskedSoftKMeans(Method):
    """Soft k-Means with a soft mask: each class learns a threshold on the distance from statistics of the distances.

    Ren et al., ICLR 2018, arXiv:1803.00676, sec. 3.1.3.

    1. d_jc = D_jc / mean_j D_jc                                                  (normalized distances)
    2. (beta_c, gamma_c) = exp MLP(min, max, var, skew, kurtosis of d_jc over j)  (threshold and slope)
    3. m_jc = sigmoid(gamma_c (beta_c - d_jc))                                    (near images pass)
    4. w_jc = softmax_c(-D_jc) m_jc

    Deviations: the mask enters once, as printed; the released code multiplies it in twice, `squared_mask=True`
    (test_the_released_mask_is_the_square). The MLP's second output, in the released code a change of the threshold from one
    refinement to the next, is not used, with `n_refinement_steps` above 1 neither: statistics, threshold and mask of each
    step come from the distances of that step alone. It is kept so that the network is 5-20-3.

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; `sala.Identity` for ready-made features.
    squared_mask : bool, default False
        Whether the mask enters twice, as in the released code.
    n_refinement_steps : int, default 1
        Steps, each with assignments and mask from the prototypes before it. The paper takes one.
    swap : bool, default False
        Whether the loss is the mean of two, the second with support and queries exchanged (no paper does so).

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[4.0]], unlabeled=[[1.0], [9.0]])
    >>> method = sala.build_method("masked-soft-kmeans", sala.Identity(1)).eval()
    >>> method.classify(task).argmax(-1)
    tensor([0])
    """

    paper = "Ren et al., ICLR 2018"
    batched = True

    def __init__(
        self, backbone: Backbone, *, squared_mask: bool = False, n_refinement_steps: int = 1, swap: bool = False
    ):
        super().__init__(backbone)
        at_least(1, n_refinement_steps, "the number of refinement steps n_refinement_steps")
        self.squared_mask, self.n_refinement_steps, self.swap = squared_mask, n_refinement_steps, swap
        self.border = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), nn.Linear(20, 3))
        for name, parameter in self.border.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.trunc_normal_(parameter, std=0.01, a=-0.02, b=0.02)

    def logits(self, task: Task) -> Tensor:
        return -squared_distances(task.query, refine(task, self._weights(*self.assignments(task))))

    def assignments(self, task: Task) -> tuple[Tensor, Tensor]:  # -> [..., M, n_way] twice
        """z and the mask of the unlabeled images, of the last refinement step."""

        def assigned(prototypes: Tensor) -> tuple[Tensor, Tensor]:
            distances = squared_distances(task.unlabeled, prototypes)
            return (-distances).softmax(-1), self.mask(distances)

        prototypes = class_means(task.support, task.labels, task.n_way)
        n_before = self.n_refinement_steps - 1
        return assigned(refine_steps(task, prototypes, lambda p: self._weights(*assigned(p)), n_before))

    def _weights(self, z: Tensor, mask: Tensor) -> Tensor:
        return z * (mask.square() if self.squared_mask else mask)

    def mask(self, distances: Tensor) -> Tensor:  # [..., M, k] -> [..., M, k]
        """m_jc = sigmoid(gamma_c (beta_c - d_jc)), steps 1 to 3."""
        if distances.shape[-2] == 0:
            return distances
        mean = distances.mean(-2, keepdim=True)
        normalized = distances / mean.where(mean > 0, 1)
        # detached: the statistics describe the task, they do not train the embedding
        o1, _, o3 = self.border(distance_statistics(normalized.detach())).unbind(-1)
        threshold, slope = o1.exp()[..., None, :], o3.exp()[..., None, :]
        return torch.sigmoid(slope * (threshold - normalized))

    def pseudo_labels(self, task: Task) -> PseudoLabels:
        """Selected: inside the border of its own class, where the mask is above 1/2."""
        z, mask = self.assignments(task)
        own = mask.gather(-1, z.argmax(-1, keepdim=True))[..., 0]
        return PseudoLabels(z, own > 0.5)


def distance_statistics(distances: Tensor) -> Tensor:  # [..., M, k] -> [..., k, 5]
    """min, max, variance, skewness and excess kurtosis over the images; a variance of 0 counts as 1."""
    centered = distances - distances.mean(-2, keepdim=True)
    second, third, fourth = (centered.pow(n).mean(-2) for n in (2, 3, 4))
    variance = second.where(second > 1e-10, 1)  # of distances around 1: less is rounding
    skewness, kurtosis = third / variance.pow(1.5), fourth / variance.square() - 3
    return torch.stack([distances.amin(-2), distances.amax(-2), variance, skewness, kurtosis], -1)
