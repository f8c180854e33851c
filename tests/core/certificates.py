"""Certificates for tests: of a small run that went well, with whatever is to be wrong about it."""

import uuid
from typing import Any

from ddlp.core.certificate import FORMAT, Certificate, Entry, delivered, genesis, makers, seal
from ddlp.core.deals import Deals
from ddlp.core.plan import RunPlan, Segment
from ddlp.core.types import End, Prong, TailPolicy

SAMPLES, BATCH_SIZE, SEED, EPOCH = 46, 10, 7, 0
CHECKSUM = "00000000000000ff"


def plan(world_size: int = 2, tail: TailPolicy = TailPolicy.SHORT) -> RunPlan:
    """Six batches for two ranks, the last two of three samples."""
    return RunPlan(SAMPLES, BATCH_SIZE, 1, SEED, world_size, tail)


def entries(segment: Segment, order: str) -> list[Entry]:
    """The deliveries of a segment: from the head by the CPU, from the tail by the drive."""
    deals = Deals(order)
    found = []
    short = segment.first + segment.full
    for place, index in enumerate(deals.indices(segment.first, segment.last, short)):
        tail = deals[place] is End.TAIL
        prong = Prong.CSD if tail else Prong.CPU
        position = segment.position + place
        found.append(Entry(index, position, tail, prong, f"{prong}0", 1, CHECKSUM))
    return found


def body(order: str = "4h2t", **changes: Any) -> dict[str, Any]:
    """What the certificate of an epoch with one segment holds, before it is sealed."""
    tail = TailPolicy(changes.get("tail", TailPolicy.SHORT))
    segment = plan(changes.pop("world_size", 2), tail).whole
    return of_segments([(segment, order)], **changes)


def of_segments(parts: list[tuple[Segment, str]], **changes: Any) -> dict[str, Any]:
    """What the certificate of an epoch holds whose number of ranks changed on the way."""
    every = [entry for segment, order in parts for entry in entries(segment, order)]
    found = {
        "format": FORMAT,
        "run": str(uuid.UUID(int=1)),
        "epoch": EPOCH,
        "state": "complete",
        "dataset_version": "d" * 64,
        "pipeline_hash": "e" * 64,
        "seed": SEED,
        "samples": SAMPLES,
        "batch_size": BATCH_SIZE,
        "tail": "short",
        "reshuffle": True,
        "on_bad": "fail",
        "storage": "folder",
        "strategy": "wrr",
        "segments": [
            delivered(segment, entries(segment, order)).model_dump(mode="json")
            for segment, order in parts
        ],
        "makers": [maker.model_dump(mode="json") for maker in makers(every)],
        "checksums": "".join(entry.checksum for entry in every),
        "bad": [],
        "isolated": [],
        **changes,
    }
    return {"previous": genesis(found), **found}


def certificate(order: str = "4h2t", **changes: Any) -> Certificate:
    """The sealed certificate of an epoch."""
    return seal(body(order, **changes))
