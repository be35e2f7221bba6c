"""MAML: outer gradients against second derivatives by hand, the first-order form, and whose statistics normalize."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from sala.data import ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.errors import SalaError
from sala.evaluation.evaluate import evaluate
from sala.functional import inner_loop
from sala.methods import build_method
from sala.methods.base import cross_entropy
from sala.methods.maml import MAML
from sala.nn.backbones import Backbone, Conv4, build_backbone
from sala.nn.statistics import own_statistics, statistics_of_first
from tests.helpers import beyond_reference as reference
from tests.helpers.tasks import config, images_task, learns_glyphs, lists, on_features, random_task

LABELS = torch.tensor([0, 1, 2, 0])


class Tiny(Backbone):
    """Two layers on ready-made features: few enough weights for a whole matrix of second derivatives."""

    def __init__(self) -> None:
        super().__init__()
        self.out_dim, self.out_map = 3, (3, 1, 1)
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3))

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.layers(features)
        return out


def tiny(**options: object) -> MAML:
    torch.manual_seed(0)
    return build_method(MAML, Tiny(), {"n_way": 3, **options}).double().train()


def on_images(**options: object) -> MAML:
    torch.manual_seed(0)
    return build_method("maml", build_backbone("conv4", (28, 28, 1)), options)


def outer_gradient(method: MAML) -> Tensor:
    """Of the loss of the queries, by all parameters in one row."""
    task = random_task(d=4)
    loss = cross_entropy(method.adapted_logits(task), LABELS)
    return flat(torch.autograd.grad(loss, list(method.parameters())))


def flat(tensors: tuple[Tensor, ...] | list[Tensor]) -> Tensor:
    return torch.cat([t.reshape(-1) for t in tensors])


def loss_at(method: MAML, x: Tensor, labels: Tensor, theta: Tensor) -> Tensor:
    """The cross-entropy of the tiny network, from one row of weights: backbone, then last layer."""
    sizes = [p.numel() for p in method.parameters()]
    w1, b1, w2, b2, w3, b3 = (
        part.reshape(p.shape) for part, p in zip(theta.split(sizes), method.parameters(), strict=True)
    )
    h = torch.tanh(x @ w1.T + b1) @ w2.T + b2
    return cross_entropy(h @ w3.T + b3, labels)


@pytest.mark.parametrize("n_steps", [1, 2])
def test_the_outer_gradient_has_the_second_derivatives_of_the_inner_loss(n_steps: int) -> None:
    """dL_Q(theta')/dtheta = (I - alpha H(theta_0)) ... (I - alpha H(theta_n-1)) L_Q'(theta_n), H of the support's loss."""
    method, task, alpha = tiny(n_steps=n_steps, step_size=0.3), random_task(d=4), 0.3
    theta, factors = flat(list(method.parameters())).detach(), []
    for _ in range(n_steps):

        def inner(row: Tensor) -> Tensor:
            return loss_at(method, task.support, task.labels, row)

        H = torch.autograd.functional.hessian(inner, theta)
        factors.append(torch.eye(len(theta), dtype=torch.float64) - alpha * H)
        theta = theta - alpha * torch.autograd.functional.jacobian(inner, theta)
    expected = torch.autograd.functional.jacobian(lambda row: loss_at(method, task.query, LABELS, row), theta)
    for factor in reversed(factors):
        expected = factor @ expected
    assert_close(outer_gradient(method), expected)


def test_the_first_order_gradient_is_that_at_the_adapted_weights() -> None:
    method, task, alpha = tiny(n_steps=2, step_size=0.3, first_order=True), random_task(d=4), 0.3
    theta = flat(list(method.parameters())).detach()
    for _ in range(2):
        inner = torch.autograd.functional.jacobian(lambda row: loss_at(method, task.support, task.labels, row), theta)
        theta = theta - alpha * inner
    expected = torch.autograd.functional.jacobian(lambda row: loss_at(method, task.query, LABELS, row), theta)
    assert_close(outer_gradient(method), expected)
    assert not torch.allclose(outer_gradient(tiny(n_steps=2, step_size=0.3)), expected)


def test_both_orders_classify_alike() -> None:
    task = random_task(d=4)
    assert_close(tiny(first_order=True).adapted_logits(task), tiny().adapted_logits(task))


def test_inner_steps_on_features_are_softmax_regression_by_loops() -> None:
    """Only the last layer is trained: dL/dw_c = mean_i (p_ic - 1[y_i = c]) x_i."""
    task, method = random_task(shots=(1, 2, 3)), on_features("maml", n_way=3, n_test_steps=4, step_size=0.2)
    support, labels, _, query = lists(task)
    W, b = method.head.weight.tolist(), method.head.bias.tolist()
    W, b = reference.softmax_regression(support, labels, W, b, n_steps=4, step_size=0.2)
    expected = [[reference.dot(w, q) + shift for w, shift in zip(W, b, strict=True)] for q in query]
    assert_close(method.logits(task), torch.tensor(expected, dtype=torch.float64))


def test_gradient_descent_on_a_parabola_is_a_power() -> None:
    w = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    for is_second_order, slope in ((True, 0.8**4), (False, 1.0)):
        after = inner_loop(
            {"w": w}, lambda weights: weights["w"] ** 2 / 2, n_steps=4, step_size=0.2, is_second_order=is_second_order
        )["w"]
        assert after.item() == pytest.approx(3 * 0.8**4)
        assert torch.autograd.grad(after, w)[0].item() == pytest.approx(slope)


def test_without_inner_steps_the_initial_weights_classify() -> None:
    task, method = random_task(), on_features("maml", n_way=3, n_test_steps=0)
    assert_close(method.logits(task), method.head(task.query))
    method, (task, labels) = on_images(n_way=3, n_steps=0).train(), images_task()
    images = torch.cat([task.support, task.query]).float() / 255
    with statistics_of_first(method.backbone, 3):
        expected = method.head(method.backbone(images)[3:])
    assert_close(method.loss(task, labels), torch.nn.functional.cross_entropy(expected, labels))


def test_training_and_test_have_their_own_numbers_of_steps() -> None:
    task = random_task()
    method = on_features("maml", n_way=3, n_steps=1, n_test_steps=2)
    two = on_features("maml", n_way=3, n_steps=2)
    assert_close(method.logits(task), two.train().logits(task).detach())


def test_one_row_for_all_classes_is_a_row_for_each_that_begins_alike() -> None:
    task = random_task()
    shared, rows = on_features("maml"), on_features("maml", n_way=3)
    with torch.no_grad():
        rows.head.weight.copy_(shared.head.weight.expand(3, -1))
        rows.head.bias.copy_(shared.head.bias.expand(3))
    assert_close(shared.logits(task), rows.logits(task))


def test_another_number_of_classes_is_refused() -> None:
    with pytest.raises(SalaError, match=r"each of 5 classes; got 3; .*n_way=none"):
        on_features("maml", n_way=5).logits(random_task())


def test_a_run_has_a_row_for_each_class_of_its_episodes() -> None:
    asked = config("maml")
    assert asked.build_method((28, 28, 1)).n_way == 5
    assert replace(asked, options={"n_way": "none"}).build_method((28, 28, 1)).n_way is None


def test_a_query_is_normalized_by_the_support() -> None:
    """Queries do not see each other; with `transductive` they do."""
    task, _ = images_task()
    alone = replace(task, query=task.query[:1])
    assert_close(on_images().eval().classify(task)[:1], on_images().eval().classify(alone), rtol=1e-4, atol=1e-4)
    seen = (on_images(transductive=True).eval().classify(t)[:1] for t in (task, alone))
    assert not torch.allclose(*seen, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", [True, False])
def test_statistics_of_the_first_images_by_hand(mode: bool) -> None:
    torch.manual_seed(0)
    network = Conv4(1, 28, width=4).double().train(mode)
    torch.nn.init.normal_(network.blocks[0].norm.weight)
    images = torch.rand(6, 1, 28, 28, dtype=torch.float64)
    x, before = images, [b.clone() for b in network.buffers()]
    for block in network.blocks:
        y = block.conv(x)
        mean, variance = y[:2].mean((0, 2, 3), keepdim=True), y[:2].var((0, 2, 3), correction=0, keepdim=True)
        y = (y - mean) / (variance + 1e-5).sqrt()
        x = torch.max_pool2d((y * block.norm.weight[:, None, None] + block.norm.bias[:, None, None]).relu(), 2)
    with statistics_of_first(network, 2):
        assert_close(network(images), x.flatten(1))
    with statistics_of_first(network, 6):
        all_of_them = network(images)
    with own_statistics(network):
        assert_close(network(images), all_of_them)
    assert network.training == mode
    assert all(torch.equal(a, b) for a, b in zip(before, network.buffers(), strict=True))


def test_scale_and_shift_of_batch_norm_stay_in_the_inner_steps() -> None:
    moved = on_images(n_way=3).initial(3)
    assert not any("norm" in name for name in moved)
    assert {"backbone.blocks.0.conv.weight", "backbone.blocks.3.conv.bias", "head.weight", "head.bias"} <= set(moved)
    assert len(moved) == 10


def test_the_outer_gradient_of_a_network_with_batch_norm_matches_finite_differences() -> None:
    torch.manual_seed(0)
    network = Conv4(1, 16, width=2)
    network.image_shape = (16, 16, 1)
    method = build_method(MAML, network, {"n_way": 2}).double().train()
    generator = torch.Generator().manual_seed(0)
    support, query = (torch.rand(2, 256, generator=generator, dtype=torch.float64) for _ in range(2))
    task = replace(random_task(n_way=2, shots=1), support=support, query=query, unlabeled=support[:0])
    weight, labels = method.head.weight, torch.tensor([0, 1])
    loss = cross_entropy(method.adapted_logits(task), labels)
    kernel = method.backbone.blocks[1].conv.weight
    for parameter, gradient in zip((weight, kernel), torch.autograd.grad(loss, (weight, kernel)), strict=True):
        direction, step = torch.randn(parameter.shape, generator=generator, dtype=torch.float64), 1e-6
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * step * direction)
            values.append(cross_entropy(method.adapted_logits(task), labels).item())
            with torch.no_grad():
                parameter.sub_(sign * step * direction)
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(float((gradient * direction).sum()), rel=1e-3)


@pytest.mark.parametrize("first_order", [False, True])
def test_the_outer_gradient_is_the_same_with_compiled_kernels(first_order: bool) -> None:
    """In single precision, with the kernels of this machine, and in double precision, which they do not take."""
    task, labels = images_task()
    gradients = []
    for dtype in (torch.float32, torch.float64):
        method = on_images(n_way=3, step_size=0.1, first_order=first_order).to(dtype).train()
        images = {name: getattr(task, name).to(dtype) / 255 for name in ("support", "unlabeled", "query")}
        kernels = [block.conv.weight for block in method.backbone.blocks]
        loss = method.loss(replace(task, **images), labels)
        gradients.append([g.double() for g in torch.autograd.grad(loss, kernels)])
    for single, double in zip(*gradients, strict=True):
        assert_close(single, double, rtol=0, atol=0.02 * double.abs().max().item())


def test_evaluation_adapts_where_no_gradient_is_kept(glyphs: ImageStore) -> None:
    method = on_images(n_way=5).eval()
    sampler = EpisodeSampler(glyphs, EpisodeShape(n_query=2, n_unlabeled=1), split="val", seed=1)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    result = evaluate(method, sampler, 3)
    by_hand = []
    for episode in map(sampler.episode, range(3)):
        right = method.classify(episode.task).argmax(-1) == episode.query_labels
        by_hand.append(float(right.double().mean()))
    assert result.accuracies == pytest.approx(by_hand)
    assert all(torch.equal(before[name], tensor) for name, tensor in method.state_dict().items())


@pytest.mark.parametrize(
    "options", [{"n_steps": -1}, {"n_test_steps": -1}, {"step_size": 0.0}, {"n_way": 0}, {"step_size": math.nan}]
)
def test_options_that_make_no_inner_loop_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(SalaError, match=next(iter(options))):
        on_features("maml", **options)


@pytest.mark.slow
def test_it_learns_letters(glyphs: ImageStore) -> None:
    learns_glyphs("maml", glyphs, n_way=5)
