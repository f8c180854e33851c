"""Loaded at the start of a worker that is to be wrong or slow: BROKEN says in which way."""

import os
import sys
import time
from typing import Any


def flip_a_byte() -> None:
    """Its engine makes one value of every batch wrong."""
    from ddlp.core.pipeline import Engine

    fill = Engine.fill

    def wrong(self: Any, epoch: int, samples: Any, out: Any) -> Any:
        mishaps = fill(self, epoch, samples, out)
        out[(0,) * out.ndim] ^= 1
        return mishaps

    Engine.fill = wrong  # type: ignore[method-assign]


def dawdle() -> None:
    """It needs a twentieth of a second more for every batch."""
    from ddlp.core.pipeline import Engine

    fill = Engine.fill

    def slow(self: Any, epoch: int, samples: Any, out: Any) -> Any:
        time.sleep(0.05)
        return fill(self, epoch, samples, out)

    Engine.fill = slow  # type: ignore[method-assign]


def dawdle_at_a_stage() -> None:
    """It is slow at the stage that the file SLOW_STAGE names: fetch, decode or write."""
    from ddlp.core.dataset import DatasetIndex
    from ddlp.core.pipeline import pictures
    from ddlp.core.store import folder

    def at(stage: str, seconds: float) -> None:
        with open(os.environ["SLOW_STAGE"]) as file:
            if file.read() == stage:
                time.sleep(seconds)

    encoded, render, seal = DatasetIndex.encoded, pictures.render, folder.seal

    def slow_encoded(self: Any, sample: int) -> Any:
        at("fetch", 0.005)
        return encoded(self, sample)

    def slow_render(*arguments: Any) -> None:
        at("decode", 0.005)
        render(*arguments)

    def slow_seal(*arguments: Any, **named: Any) -> Any:
        at("write", 0.04)
        return seal(*arguments, **named)

    DatasetIndex.encoded = slow_encoded  # type: ignore[method-assign]
    pictures.render = slow_render
    folder.seal = slow_seal


def show_halves() -> None:
    """Its batches are visible before they are whole."""
    from ddlp.core.store import FolderStore, batch_name

    write = FolderStore.write

    def wrong(self: Any, batch: Any, *rest: Any) -> Any:
        path = self.root / batch_name(batch.run, batch.epoch, batch.index, batch.token)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
        time.sleep(0.05)
        return write(self, batch, *rest)

    FolderStore.write = wrong  # type: ignore[method-assign]


def ignore_denials() -> None:
    """It works on leases whatever the server says."""
    from ddlp.core.messages import Granted
    from ddlp.workers.tasks import Bench

    claim = Bench._claim

    def wrong(self: Any, leases: Any, dead: int | None = None) -> Any:
        claim(self, leases, dead)
        return [Granted(lease=lease, lasts_s=60) for lease in leases]

    Bench._claim = wrong  # type: ignore[method-assign]


def say_nothing_of_power() -> None:
    """It does not know what it draws."""
    from ddlp.core.energy import EnergyReading, PowerModel
    from ddlp.core.types import Provenance
    from ddlp.workers.csd.driver import Description
    from ddlp.workers.csd.emulated import EmulatedCsd

    unknown = EnergyReading(joules=None, provenance=Provenance.UNAVAILABLE, method="unknown")
    EmulatedCsd.energy = lambda *_: unknown  # type: ignore[method-assign]
    Description.power_of_a_slot = (  # type: ignore[method-assign]
        lambda *_: PowerModel(active_w=None, source="unknown")
    )


if os.environ.get("BROKEN") and "worker" in sys.orig_argv:
    globals()[os.environ["BROKEN"]]()
