"""Trains the demo's small model through both prongs: `python -m ddlp.loader.demo_trainer`."""

import argparse
import os
import signal
import sys
from collections.abc import Callable

import torch
from torch import nn

from ddlp.core.demo import SEED
from ddlp.core.demo_images import CLASSES
from ddlp.core.errors import DdlpError
from ddlp.core.process import die_with_parent
from ddlp.core.units import epoch_of
from ddlp.loader import DualLoader

_LEARNING_RATE = 3e-3


def make_model() -> nn.Module:
    """A convolutional network that tells the shapes apart after a few hundred steps."""

    def block(before: int, after: int) -> list[nn.Module]:
        return [
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]

    return nn.Sequential(
        *block(3, 16),
        *block(16, 32),
        *block(32, 64),
        *block(64, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, len(CLASSES)),
    )


def train(
    url: str, run: str, say: Callable[[str], None], at_step: Callable[[], None] | None = None
) -> float:
    """Train all epochs of a run that are left; returns the last one's accuracy."""
    torch.manual_seed(SEED)
    model = make_model()
    optimiser = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE)
    accuracy = 0.0
    with DualLoader(run=run, url=url) as loader:
        for epoch in range(loader.epoch, loader.epochs or 1):
            right, seen = 0, 0
            for images, labels in loader:
                right += _step(model, optimiser, images, labels)
                seen += len(labels)
                if at_step is not None:
                    at_step()
            accuracy = right / max(1, seen)
            say(f"epoch {epoch_of(epoch, loader.epochs)}: accuracy {accuracy:.1%}")
    return accuracy


def _step(
    model: nn.Module, optimiser: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor
) -> int:
    """Learn from one batch; how many of it were told right before."""
    scores = model(images)
    loss = nn.functional.cross_entropy(scores, labels)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return int((scores.argmax(1) == labels).sum())


def main() -> None:
    """Train one run to its end, and end with the process that started this one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="the server's address")
    parser.add_argument("--run", required=True, help="the run to train")
    parser.add_argument("--parent", type=int, help="the process to end with")
    given = parser.parse_args()
    if given.parent is not None:
        die_with_parent(given.parent, signal.SIGTERM)
        # Beside the workers and the server of the same machine, one core is enough.
        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
    try:
        train(given.url, given.run, _say)
    except DdlpError as error:
        sys.exit(f"ddlp: {error}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
