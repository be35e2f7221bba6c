"""Which scale of squared distances a training on photographs should start from, judged on validation classes alone.

At d = 1600 a squared distance is a sum of 1,600 terms, and a short training spends itself on shrinking it. Each treatment
multiplies the distances of every method by one factor (the embeddings by its root), or learns that factor from 1 as TADAM
does, or changes the learning rate. ProtoNet and Soft k-Means alone are trained: no other method has a say in the choice.

    SALA_DATA=FILES python benchmarks/distance_scale.py --out results/scale --episodes 2500

Runs that are in the folder already are skipped, so the sweep can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

import sala
from sala.nn.backbones import Backbone

TREATMENTS: dict[str, tuple[float | None, float]] = {  # name -> (factor times d, or None: learned; learning rate)
    "64/d": (64.0, 1e-3),
    "as printed": (0.0, 1e-3),
    "1/d": (1.0, 1e-3),
    "learned": (None, 1e-3),
    "64/d, rate 3e-3": (64.0, 3e-3),
    "64/d, rate 3e-4": (64.0, 3e-4),
}
N_VALIDATION = 400


class Scaled(Backbone):
    """A network whose embeddings are multiplied by the root of a factor, so that squared distances are by the factor."""

    def __init__(self, network: Backbone, factor: float | None):
        super().__init__()
        self.network = network
        self.out_dim, self.out_map, self.image_shape = network.out_dim, network.out_map, network.image_shape
        self.log_root = nn.Parameter(torch.zeros(())) if factor is None else None
        self.root = 1.0 if factor is None else factor**0.5

    def forward(self, images: Tensor) -> Tensor:
        root = self.root if self.log_root is None else self.log_root.exp()
        return root * self.network(images)


def measure(store: sala.ImageStore, method_name: str, treatment: str, args: argparse.Namespace) -> dict[str, object]:
    """One training: its validation accuracies, losses and, in the end, the scale it had."""
    times_d, learning_rate = TREATMENTS[treatment]
    torch.manual_seed(args.seed)
    network = sala.build_backbone("conv4", store.image_shape)
    factor = 1.0 if times_d == 0.0 else times_d if times_d is None else times_d / network.out_dim
    backbone = Scaled(network, factor)
    method = sala.build_method(method_name, backbone)
    protocol = sala.PROTOCOLS[args.dataset]
    shape = replace(protocol.train, n_unlabeled=5)  # as every method is trained within the cpu budget
    episodes = sala.EpisodeSampler(
        store, shape, split="train", seed=args.seed, labeled_share=protocol.labeled_share, label_split_seed=args.seed
    )
    validation = sala.EpisodeSampler(store, protocol.validation, split="val", seed=1_000_001)
    config = sala.TrainConfig(args.episodes, validate_every=args.every, learning_rate=learning_rate)
    lines: list[dict[str, float]] = []
    start = time.monotonic()

    def note(state: object, record: object) -> None:
        result = record.validation  # type: ignore[attr-defined]
        line = {"episode": record.episode, "loss": record.loss, "val": result.accuracy, "ci95": result.interval.ci95}  # type: ignore[attr-defined]
        lines.append(line)
        print(f"{method_name}, {treatment}: {line}, {time.monotonic() - start:.0f} s", flush=True)

    def validate(trained: sala.Method) -> sala.Result:
        return sala.evaluate(trained, validation, N_VALIDATION)

    sala.train(method, episodes, config, validate=validate, on_record=note)
    learned = None if backbone.log_root is None else float((2 * backbone.log_root).exp().item())
    return {
        "dataset": args.dataset,
        "method": method_name,
        "treatment": treatment,
        "factor": factor,
        "learned_factor": learned,
        "learning_rate": learning_rate,
        "seed": args.seed,
        "episodes": args.episodes,
        "n_unlabeled": shape.n_unlabeled,
        "validation_episodes": N_VALIDATION,
        "curve": lines,
        "seconds": time.monotonic() - start,
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="miniimagenet")
    parser.add_argument("--episodes", type=int, default=2_500)
    parser.add_argument("--every", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--method", action="append", choices=["protonet", "soft-kmeans"])
    parser.add_argument("--treatment", action="append", choices=list(TREATMENTS))
    parser.add_argument("--out", type=Path, default=Path("results/scale"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    store = sala.load_dataset(args.dataset)
    args.out.mkdir(parents=True, exist_ok=True)
    for treatment in args.treatment or TREATMENTS:
        for method in args.method or ["protonet", "soft-kmeans"]:
            slug = treatment.replace("/", "-").replace(", ", "-").replace(" ", "-")
            path = args.out / f"{args.dataset}-{method}-{slug}-{args.episodes}-s{args.seed}.json"
            if not path.is_file():
                path.write_text(json.dumps(measure(store, method, treatment, args), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
