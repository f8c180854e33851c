"""A training script as torchrun starts it: one process a rank, gradients averaged at every step."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddlp.loader import DualLoader


def main(run: str, url: str, out: Path) -> None:
    """Train all epochs of a run, and write down what this rank saw."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with DualLoader(run, url, rank=rank, world_size=world_size) as loader:
        epochs = [train(model, optimizer, loader) for _ in range(loader.epochs)]
    weights = [parameter.tolist() for parameter in model.parameters()]
    dist.destroy_process_group()
    account = {"length": len(loader), "epochs": epochs, "weights": weights}
    (out / f"{rank}.json").write_text(json.dumps(account))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DualLoader) -> dict[str, Any]:
    """One epoch: the samples of each of this rank's steps, and how many all ranks had in it."""
    steps, sums = [], []
    for batch in loader.batches():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch.images), batch.labels).backward()
        optimizer.step()
        count = torch.tensor(len(batch.labels))
        dist.all_reduce(count)
        steps.append(batch.samples.tolist())
        sums.append(int(count))
    return {"steps": steps, "sums": sums}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
