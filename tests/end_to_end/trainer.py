"""A stand-in for training code: takes an epoch and keeps account of what it got."""

import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ddlp.core.client import Client
from ddlp.loader import DualLoader
from tests.conftest import UpProcess


@dataclass
class Account:
    """What one epoch delivered."""

    samples: Counter[int] = field(default_factory=Counter)
    labels: dict[int, int] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    pixels: dict[int, bytes] = field(default_factory=dict)
    longest_wait_s: float = 0.0


def new_run(client: Client, **fields: Any) -> str:
    """A run over the shared dataset; its name."""
    body = {"dataset": "fruit", "pipeline": "small", "batch_size": 8, **fields}
    # Not digits alone: such a name would be counted on from when the run is cloned.
    name = f"t-{uuid.uuid4().hex[:8]}x"
    client.post("/runs", {"name": name, **body})
    return name


def train(
    up: UpProcess, run: str, at_step: Callable[[int], None] | None = None, **options: Any
) -> list[Account]:
    """Train all epochs of a run, doing something at each step."""
    accounts: list[Account] = []
    with DualLoader(run=run, url=up.url, normalize=False, **options) as loader:
        while loader.epoch < loader.epochs:
            account = Account()
            asked_at = time.monotonic()
            for batch in loader.batches():
                account.longest_wait_s = max(account.longest_wait_s, time.monotonic() - asked_at)
                take(account, batch)
                if at_step is not None:
                    at_step(len(account.order))
                asked_at = time.monotonic()
            accounts.append(account)
    return accounts


def take(account: Account, batch: Any) -> None:
    """Put one batch into the account."""
    samples = batch.samples.tolist()
    account.order.append(batch.index)
    account.samples.update(samples)
    account.labels.update(zip(samples, batch.labels.tolist(), strict=True))
    for place, sample in enumerate(samples):
        account.pixels[sample] = batch.images[place].contiguous().numpy().tobytes()
