"""MetaGAN: a generator that imitates the task teaches the classifier where the classes end."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sala.episodes.task import Task
from sala.errors import SalaError, at_least
from sala.functional import class_means, squared_distances
from sala.methods.base import Method, cross_entropy, generator_of, in_unit_range
from sala.nn.backbones import Backbone
from sala.nn.relation import RelationModule
from sala.nn.statistics import unrecorded

PLAYERS = ("discriminator", "generator")


class MetaGAN(Method):
    """A classifier with one class more, "fake", trained against a generator that is conditioned on the task.

    Zhang et al., NeurIPS 2018.

    1. l_k(x) = b - a ||g(x) - c_k||^2 for the N classes, and 0 for the fake one     (a > 0 and b learned)
       or, with `discriminator="relation"`, the relation score of x and class k before the sigmoid
    2. p_real(x) = sigmoid(LSE_k l_k(x)),  p(k | x, real) = softmax_k l_k(x)
    3. h_T = mean over the support of an encoder's features;  x' = G(z, h_T), z normal
    4. discriminator: L_D = - E_Q log p(y | x, real) - E_U log p_real(x) - E_G log(1 - p_real(x'))
    5. generator:     L_G = - E_G log p_real(x')
       or, with `generator_loss="matching"`, ||E_U g(x) - E_G g(x')||^2

    Unlabeled images are real ones without a label, and enter in training alone; at test this is a Prototypical Network, or a
    Relation Network. In a task without them the queries take their part. `adversary=False` removes the generator and L_D's
    last two terms; unlabeled images are then in the batch-norm batch only.

    Deviations: no code was released, and the paper's own classifiers are MAML and a Relation Network; the default is the
    prototype head on the common backbone, `discriminator="relation"` the paper's second, by its scores before the sigmoid: in
    (0, 1) they would make p_real at least N / (N + 1) (test_scores_between_0_and_1_could_call_nothing_fake). With prototypes
    the offset b is needed: without it LSE_k l_k <= log N, whatever x is
    (test_without_its_offset_nothing_could_be_called_real); it starts at the mean distance of the first episode, and a at
    1 / sqrt(d), so that p_real of real images starts not far from 1/2 (about 0.9 on 28 x 28 letters). The generator
    is small (a step must be affordable on a CPU), normalizes each pixel's channels and ends in the range of real images; its
    Adam has moments (0.5, 0.9), the discriminator's is the common one. Fakes pass batch norm as a batch of their own and
    leave no trace in its running statistics. Distractors count as real: nothing here could reject them. Noise is a function
    of the task's images, so that a training can be repeated bit for bit.

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; on `sala.Identity` there is no generator.
    discriminator : {"prototypes", "relation"}, default "prototypes"
        What scores the classes: distances to prototypes, or the relation module of `relationnet`.
    adversary : bool, default True
        Whether there is a generator.
    generator_loss : {"non-saturating", "matching"}, default "non-saturating"
        What the generator minimizes.
    scale : float, optional
        a at the beginning, with prototypes; 1 / sqrt(d) by default.
    noise : int, default 100
        Dimensions of z.
    width : int, default 16
        Channels of the generator at full size.

    Examples
    --------
    >>> import sala
    >>> method = sala.build_method("metagan", sala.build_backbone("conv4", (28, 28, 1)))
    >>> method.players
    ('discriminator', 'generator')
    """

    paper = "Zhang et al., NeurIPS 2018"
    batched = True
    tests_on_unlabeled = False

    def __init__(
        self,
        backbone: Backbone,
        *,
        discriminator: Literal["prototypes", "relation"] = "prototypes",
        adversary: bool = True,
        generator_loss: Literal["non-saturating", "matching"] = "non-saturating",
        scale: float | None = None,  # a at the beginning; None: 1 / sqrt(d)
        noise: int = 100,  # dimensions of z
        width: int = 16,  # channels of the generator at full size
    ):
        super().__init__(backbone.unpooled() if discriminator == "relation" else backbone)
        self.relation = RelationModule(self.backbone.out_map) if discriminator == "relation" else None
        self.generator_loss = generator_loss
        first = backbone.out_dim**-0.5 if scale is None else scale
        if not first > 0:
            raise SalaError(f"scale must be above 0; got {first:g}")
        at_least(1, noise, "noise, the number of its dimensions,")
        at_least(1, width, "width, the generator's number of channels,")
        if self.relation is None:
            self.log_scale = nn.Parameter(torch.tensor(math.log(first)))  # log a
            self.offset = nn.Parameter(torch.zeros(()))  # b
        self.generator = None
        if adversary and backbone.image_shape is not None:  # ready-made features have no image to imitate
            self.generator = Generator(backbone.image_shape, noise=noise, width=width)
        self.players = PLAYERS if self.generator is not None else PLAYERS[:1]

    def logits(self, task: Task) -> Tensor:
        return self.class_scores(task.query, class_means(task.support, task.labels, task.n_way))

    def class_scores(self, embeddings: Tensor, prototypes: Tensor) -> Tensor:  # [..., n, d], [..., k, d] -> [..., n, k]
        """l_k; that of the fake class is 0"""
        if self.relation is not None:
            scores: Tensor = self.relation(embeddings, prototypes)
            return scores
        return self.offset - self.log_scale.exp() * squared_distances(embeddings, prototypes)

    def parameters_of(self, player: str) -> list[nn.Parameter]:
        made = [] if self.generator is None else list(self.generator.parameters())
        if player == "generator":
            return made
        return [p for p in self.parameters() if not any(p is other for other in made)]

    @torch.no_grad()
    def prepare(self, task: Task) -> None:
        """b at the mean of the first episode's distances."""
        if self.relation is not None:
            return
        with unrecorded(self.backbone):
            embedded = self.embed(task)
        prototypes = class_means(embedded.support, embedded.labels, task.n_way)
        self.offset.copy_(self.log_scale.exp() * squared_distances(embedded.query, prototypes).mean())

    def adam_betas(self, player: str) -> tuple[float, float]:
        """The generator has less inertia, as is usual for one whose target moves."""
        return (0.5, 0.9) if player == "generator" else super().adam_betas(player)

    def loss(self, task: Task, query_labels: Tensor, player: str = "discriminator") -> Tensor:
        if player not in self.players:
            raise SalaError(f"MetaGAN's players are {', '.join(self.players)}; got {player!r}")
        if player == "generator":
            return self.loss_of_generator(task)
        embedded = self.embed(task)
        prototypes = class_means(embedded.support, embedded.labels, task.n_way)
        on_labels = cross_entropy(self.class_scores(embedded.query, prototypes), query_labels)
        if self.generator is None:
            return on_labels
        real = self.class_scores(_real(embedded), prototypes)
        with torch.no_grad():
            fakes = self.made_up(task, player)
        fake = self.scores_of_fakes(self.embed_fakes(fakes), prototypes)
        self.notes["real_accuracy"] = float((real.logsumexp(-1) > 0).float().mean())
        self.notes["fake_accuracy"] = float((fake.logsumexp(-1) < 0).float().mean())
        return on_labels - log_p_real(real).mean() - log_p_fake(fake).mean()

    def loss_of_generator(self, task: Task) -> Tensor:
        """Step 5: what the generator minimizes, with the discriminator fixed."""
        with torch.no_grad(), unrecorded(self.backbone):  # the discriminator stands still
            embedded = self.embed(task)
            prototypes = class_means(embedded.support, embedded.labels, task.n_way)
        fakes = self.embed_fakes(self.made_up(task, "generator"))
        if self.generator_loss == "matching":
            return (_real(embedded).mean(-2) - fakes.mean(-2)).square().sum(-1).mean()
        return -log_p_real(self.scores_of_fakes(fakes, prototypes)).mean()

    def embed_fakes(self, fakes: Tensor) -> Tensor:
        """Embeddings of fakes, which leave no trace in the running statistics."""
        with unrecorded(self.backbone):
            return self.embed_images(fakes)

    def scores_of_fakes(self, embeddings: Tensor, prototypes: Tensor) -> Tensor:
        """l_k of fakes, which leave no trace in the relation module either."""
        with unrecorded(self):
            return self.class_scores(embeddings, prototypes)

    def made_up(self, task: Task, player: str) -> Tensor:  # -> [n, C, H, W]
        """As many fakes as there are real images in the unsupervised part of the loss."""
        assert self.generator is not None
        z = noise_of(task, len(_real(task)), self.generator.noise, salt=PLAYERS.index(player))
        fakes: Tensor = self.generator(in_unit_range(task.support), z)
        return fakes

    def samples(self, task: Task) -> Tensor | None:
        return None if self.generator is None else self.made_up(task, "generator")


def _real(task: Task) -> Tensor:
    """Q^u: the unlabeled images, or the queries of a purely supervised task."""
    return task.unlabeled if task.unlabeled.shape[task.labels.ndim - 1] else task.query


def log_p_real(scores: Tensor) -> Tensor:  # [..., n, k] -> [..., n]
    """log sigmoid(LSE_k l_k)"""
    return F.logsigmoid(scores.logsumexp(-1))


def log_p_fake(scores: Tensor) -> Tensor:  # [..., n, k] -> [..., n]
    """log(1 - sigmoid(LSE_k l_k))"""
    return F.logsigmoid(-scores.logsumexp(-1))


def noise_of(task: Task, n: int, dim: int, salt: int = 0) -> Tensor:  # -> [n, dim]
    """Normal noise, the same for the same images in whatever order."""
    return torch.randn(n, dim, generator=generator_of(task, salt)).to(task.support.device)


class Generator(nn.Module):
    """G(z, h_T): the noise and the task's code become a small map, which is doubled and convolved up to the image's size."""

    def __init__(self, image_shape: tuple[int, int, int], *, noise: int, width: int, code: int = 64):
        super().__init__()
        size, _, channels = image_shape
        self.noise, self.sizes = noise, map_sizes(size)
        widths = [min(128, width * 2**i) for i in reversed(range(len(self.sizes)))]  # smallest map first
        self.encoder = DatasetEncoder(channels, code)
        self.first = nn.Linear(noise + code, widths[0] * self.sizes[0] ** 2)
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(widths))
        self.last = nn.Conv2d(widths[-1], channels, 3, padding=1)

    def forward(self, support: Tensor, z: Tensor) -> Tensor:  # [S, C, H, W], [n, noise] -> [n, C, H, W] in (0, 1)
        h = self.encoder(support).expand(len(z), -1)
        x = self.first(torch.cat([z, h], -1)).reshape(len(z), -1, self.sizes[0], self.sizes[0])
        x = pixel_norm(F.leaky_relu(x.to(memory_format=torch.channels_last), 0.2))
        for size, convolution in zip(self.sizes[1:], self.convolutions, strict=True):
            x = pixel_norm(F.leaky_relu(convolution(F.interpolate(x, size=(size, size))), 0.2))
        image: Tensor = self.last(x).sigmoid()
        return image


def pixel_norm(x: Tensor) -> Tensor:  # [n, C, H, W]
    """Each pixel's channels scaled to a mean square of 1: nothing can run away, and neither z nor h_T is averaged out."""
    return x * (x.square().mean(1, keepdim=True) + 1e-8).rsqrt()


def map_sizes(image_size: int) -> list[int]:
    """Sides of the generator's maps, each about twice the one before: 7, 14, 28; 6, 11, 21, 42, 84."""
    sizes = [image_size]
    while sizes[0] > 8:
        sizes.insert(0, (sizes[0] + 1) // 2)
    return sizes


class DatasetEncoder(nn.Module):
    """h_T: an instance encoder on each image of the support, then the mean, so that no order or number matters."""

    def __init__(self, channels: int, code: int):
        super().__init__()
        widths = (channels, 32, 64, 64)
        layers: list[nn.Module] = []
        for a, b in pairwise(widths):
            layers += [nn.Conv2d(a, b, 3, stride=2, padding=1), nn.LeakyReLU(0.2)]
        self.instances = nn.Sequential(*layers)
        self.project = nn.Linear(widths[-1], code)

    def forward(self, support: Tensor) -> Tensor:  # [S, C, H, W] -> [code]
        features = self.instances(support).mean((-2, -1))
        h: Tensor = self.project(features).mean(0)
        return h
