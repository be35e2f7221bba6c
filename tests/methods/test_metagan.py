"""MetaGAN: the (N+1)-way reading, the two players, and a generator that follows the task."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from sala.episodes.task import Episode
from sala.errors import SalaError
from sala.functional import class_means
from sala.methods import build_method
from sala.methods.metagan import Generator, MetaGAN, log_p_fake, log_p_real, map_sizes, noise_of
from sala.nn.backbones import build_backbone
from sala.training.loop import TrainConfig, TrainState, gradients
from tests.helpers import reference
from tests.helpers.tasks import as_tensor, descend, images_task, on_features, random_task


def on_images(**options: object) -> MetaGAN:
    torch.manual_seed(0)
    return build_method("metagan", build_backbone("conv4", (28, 28, 1)), options)


def test_scores_are_an_offset_minus_a_scaled_distance() -> None:
    task, method = random_task(shots=(1, 2, 3)), on_features("metagan", scale=0.3)
    with torch.no_grad():
        method.offset.fill_(1.7)
    distances = -on_features("protonet").logits(task)
    assert_close(method.logits(task), 1.7 - 0.3 * distances, rtol=1e-6, atol=1e-6)


def test_real_and_fake_are_the_two_sides_of_an_n_plus_1_way_softmax() -> None:
    """With the fake class's logit at 0: p_fake = 1 / (1 + sum_k e^l_k)."""
    scores = as_tensor([[0.3, -1.0, 2.0], [-3.0, -2.0, -4.0]])
    with_fake = torch.cat([scores, torch.zeros(2, 1, dtype=torch.float64)], -1).softmax(-1)
    assert_close(log_p_fake(scores).exp(), with_fake[:, -1])
    assert_close(log_p_real(scores).exp(), 1 - with_fake[:, -1])
    by_hand = [reference.log_sigmoid(reference.log_sum_exp(row)) for row in scores.tolist()]
    assert_close(log_p_real(scores), as_tensor([by_hand])[0])


@pytest.mark.parametrize("discriminator", ["prototypes", "relation"])
def test_the_discriminators_loss_is_the_sum_of_its_three_terms(discriminator: str) -> None:
    method = on_images(discriminator=discriminator).train()
    task, labels = images_task()
    method.prepare(task)
    loss = method.loss(task, labels, "discriminator")
    embedded = method.embed(task)
    c = class_means(embedded.support, embedded.labels, 3)
    fakes = method.embed_images(method.made_up(task, "discriminator"))
    rows = {name: method.class_scores(x, c).tolist() for name, x in [("q", embedded.query), ("u", embedded.unlabeled)]}
    on_labels = [reference.log_sum_exp(row) - row[y] for row, y in zip(rows["q"], labels.tolist(), strict=True)]
    on_real = [-reference.log_sigmoid(reference.log_sum_exp(row)) for row in rows["u"]]
    on_fake = [-reference.log_sigmoid(-reference.log_sum_exp(row)) for row in method.class_scores(fakes, c).tolist()]
    expected = sum(sum(part) / len(part) for part in (on_labels, on_real, on_fake))
    assert loss.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("discriminator", ["prototypes", "relation"])
def test_the_generators_loss_is_how_real_its_fakes_seem(discriminator: str) -> None:
    method = on_images(discriminator=discriminator).train()
    task, labels = images_task()
    embedded = method.embed(task)
    c = class_means(embedded.support, embedded.labels, 3)
    rows = method.class_scores(method.embed_images(method.made_up(task, "generator")), c).tolist()
    expected = sum(-reference.log_sigmoid(reference.log_sum_exp(row)) for row in rows) / len(rows)
    assert method.loss(task, labels, "generator").item() == pytest.approx(expected, rel=1e-4)


def test_feature_matching_compares_the_means() -> None:
    method = on_images(generator_loss="matching").train()
    task, labels = images_task()
    real = method.embed(task).unlabeled.mean(0)
    fake = method.embed_images(method.made_up(task, "generator")).mean(0)
    assert_close(method.loss(task, labels, "generator"), (real - fake).square().sum())


def test_without_its_offset_nothing_could_be_called_real() -> None:
    """Real means LSE_k l_k > 0, and without b it is at most log N - a min_k D_k: embeddings further than log(N) / a from every
    prototype are fake, however the embedding is trained to separate the classes."""
    task, method = random_task(n_query=20), on_features("metagan", scale=1.0)
    far = (-on_features("protonet").logits(task)).amin(-1) > torch.tensor(3.0).log()
    assert far.any()
    assert (log_p_real(method.logits(task))[far] < torch.tensor(0.5).log()).all()
    with torch.no_grad():
        method.offset.fill_(-method.logits(task).mean())
    assert (log_p_real(method.logits(task))[far] > torch.tensor(0.5).log()).any()


def test_scores_between_0_and_1_could_call_nothing_fake() -> None:
    """Relations after their sigmoid: p_real is above N / (N + 1), and below it before."""
    relations = torch.linspace(-9, 9, 20, dtype=torch.float64)[:, None].expand(-1, 4)
    assert (log_p_real(relations.sigmoid()).exp() > 4 / 5).all()
    assert log_p_real(relations).exp()[0] < 0.01


def test_the_gradient_of_the_discriminator_passes_embeddings_and_prototypes() -> None:
    """In all three terms."""
    method = on_images().train()
    task, labels = images_task()
    method.prepare(task)
    fakes = method.made_up(task, "discriminator").detach()
    embedded = method.embed(task)
    c = class_means(embedded.support, embedded.labels, 3)
    on_labels = torch.nn.functional.cross_entropy(method.class_scores(embedded.query, c), labels)
    by_hand = on_labels - log_p_real(method.class_scores(embedded.unlabeled, c)).mean()
    by_hand = by_hand - log_p_fake(method.class_scores(method.embed_images(fakes), c)).mean()
    weights = [block.conv.weight for block in method.backbone.blocks]
    expected = torch.autograd.grad(by_hand, weights)
    found = torch.autograd.grad(method.loss(task, labels, "discriminator"), weights)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, rtol=1e-2, atol=1e-4)


def test_the_offset_starts_at_the_mean_distance_of_the_first_episode() -> None:
    method = on_images().train()
    task, _ = images_task()
    before = {name: buffer.clone() for name, buffer in method.named_buffers()}
    method.prepare(task)
    assert all(torch.equal(buffer, before[name]) for name, buffer in method.named_buffers())
    assert abs(method.logits(method.embed(task)).mean().item()) < 1e-4
    assert method.offset.item() > 1


def test_each_player_moves_its_own_parameters_and_no_others() -> None:
    method = on_images()
    names = {id(p): name for name, p in method.named_parameters()}
    generator = {names[id(p)] for p in method.parameters_of("generator")}
    discriminator = {names[id(p)] for p in method.parameters_of("discriminator")}
    assert generator == {name for name in names.values() if name.startswith("generator.")}
    assert discriminator == set(names.values()) - generator


def test_the_discriminators_loss_gives_the_generator_no_gradient() -> None:
    method = on_images().train()
    task, labels = images_task()
    method.loss(task, labels, "discriminator").backward()
    assert all(p.grad is None for p in method.parameters_of("generator"))
    method.loss(task, labels, "generator").backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in method.parameters_of("generator"))


@pytest.mark.parametrize("player", ["discriminator", "generator"])
def test_the_player_that_moves_gets_its_whole_gradient_and_the_other_none(player: str) -> None:
    method, (task, labels) = on_images().train(), images_task()
    method.loss(task, labels, player).backward()
    mine = method.parameters_of(player)
    expected = [p.grad.clone() for p in mine if p.grad is not None]
    assert len(expected) > 5
    gradients(method, player, [(0, Episode(task, labels, torch.zeros(0)))], 1.0, TrainConfig())
    assert all(
        torch.equal(p.grad, grad) for p, grad in zip([p for p in mine if p.grad is not None], expected, strict=True)
    )
    others = [p for p in method.parameters() if not any(p is q for q in mine)]
    assert others and all(p.grad is None for p in others)


def test_fakes_leave_no_trace_in_the_running_statistics() -> None:
    task, labels = images_task()
    with_fakes, without = on_images().train(), on_images(adversary=False).train()
    for player in with_fakes.players:
        with_fakes.loss(task, labels, player)
    without.loss(task, labels, "discriminator")
    for name, buffer in without.backbone.named_buffers():
        assert torch.equal(buffer, dict(with_fakes.backbone.named_buffers())[name]), name


def test_without_its_adversary_it_is_a_prototypical_network_with_a_scale() -> None:
    method, task = on_images(adversary=False).train(), images_task()[0]
    assert method.players == ("discriminator",)
    assert method.samples(task) is None
    logits = method.logits(method.embed(task))  # not prepared: b is 0
    torch.manual_seed(0)
    plain = build_method("protonet", build_backbone("conv4", (28, 28, 1))).train()
    assert_close(logits, plain.logits(plain.embed(task)) / 8, rtol=1e-4, atol=1e-4)  # 1 / sqrt(64)


def test_a_task_without_unlabeled_images_takes_its_queries_as_real() -> None:
    method = on_images().train()
    task, labels = images_task()
    alone = task.without_unlabeled()
    assert len(method.samples(alone)) == len(task.query)
    assert torch.isfinite(method.loss(alone, labels, "discriminator"))


def test_noise_is_a_function_of_the_tasks_images() -> None:
    first, second = images_task(seed=0)[0], images_task(seed=1)[0]
    assert torch.equal(noise_of(first, 4, 3), noise_of(first, 4, 3))
    assert not torch.equal(noise_of(first, 4, 3), noise_of(second, 4, 3))
    assert not torch.equal(noise_of(first, 4, 3), noise_of(first, 4, 3, salt=1))
    shuffled = replace(first, support=first.support.flip(0), query=first.query.flip(0))
    assert torch.equal(noise_of(first, 4, 3), noise_of(shuffled, 4, 3))


def test_the_generator_is_conditioned_on_the_support_in_whatever_order() -> None:
    torch.manual_seed(0)
    generator = Generator((28, 28, 1), noise=5, width=4)
    z, support = torch.randn(3, 5), torch.rand(4, 1, 28, 28)
    images = generator(support, z)
    assert_close(generator(support.flip(0), z), images)
    assert not torch.allclose(generator(support / 2, z), images)
    assert not torch.allclose(images[0], images[1])


@pytest.mark.parametrize(("size", "sizes"), [(28, [7, 14, 28]), (32, [8, 16, 32]), (84, [6, 11, 21, 42, 84]), (8, [8])])
def test_the_generator_fits_images_of_any_size(size: int, sizes: list[int]) -> None:
    assert map_sizes(size) == sizes
    images = Generator((size, size, 3), noise=5, width=2)(torch.rand(2, 3, size, size), torch.randn(4, 5))
    assert images.shape == (4, 3, size, size)
    assert images.min() > 0
    assert images.max() < 1  # the range of real images


def test_the_two_accuracies_are_noted() -> None:
    method = on_images().train()
    method.loss(*images_task(), "discriminator")
    assert set(method.notes) == {"real_accuracy", "fake_accuracy"}
    assert all(0 <= share <= 1 for share in method.notes.values())


def test_the_generator_learns_to_fool_a_discriminator_that_stands_still() -> None:
    method = on_images().train()
    task, labels = images_task(n_unlabeled=8)
    method.prepare(task)
    optimizer = TrainState.fresh(method, TrainConfig()).optimizers["generator"]
    first = method.loss(task, labels, "generator").item()
    for _ in range(25):
        descend(method, optimizer, method.loss(task, labels, "generator"), 1e-3)
    assert method.loss(task, labels, "generator").item() < 0.7 * first


def test_on_features_there_is_nothing_to_imitate() -> None:
    method = on_features("metagan")
    assert method.generator is None
    with pytest.raises(SalaError, match="discriminator; got 'generator'"):
        method.loss(random_task(), torch.tensor([0, 1, 2, 0]), "generator")


@pytest.mark.parametrize("name", ["width", "noise"])
def test_a_generator_has_a_size(name: str) -> None:
    with pytest.raises(SalaError, match=f"{name}, .* must be at least 1; got 0"):
        on_features("metagan", **{name: 0})


def test_a_scale_is_positive() -> None:
    with pytest.raises(SalaError, match="scale"):
        on_features("metagan", scale=0.0)


def test_with_a_relation_network_the_scores_are_its_relations_before_the_sigmoid() -> None:
    method = on_images(discriminator="relation", adversary=False).eval()
    torch.manual_seed(0)
    plain = build_method("relationnet", build_backbone("conv4", (28, 28, 1))).eval()
    assert plain.state_dict().keys() == method.state_dict().keys()
    plain.load_state_dict(method.state_dict())
    assert_close(method.classify(images_task()[0]), plain.classify(images_task()[0]))


@pytest.mark.parametrize("player", ["discriminator", "generator"])
def test_a_relation_network_plays_against_the_generator(player: str) -> None:
    """Each player has a gradient of its own, and fakes leave no trace in the relation module's statistics."""
    method, (task, labels) = on_images(discriminator="relation").train(), images_task()
    method.prepare(task)
    before = [buffer.clone() for buffer in method.relation.buffers()]
    method.scores_of_fakes(method.embed_fakes(method.samples(task)), method.embed(task).support)
    assert all(torch.equal(a, b) for a, b in zip(before, method.relation.buffers(), strict=True))
    method.loss(task, labels, player).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in method.parameters_of(player))
