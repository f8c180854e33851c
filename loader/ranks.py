"""Decides which rank of a training job this process is, and of how many."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import torch.distributed

from ddlp.core.errors import InvalidInput


@dataclass(frozen=True)
class Ranks:
    """The place of a process in its training job."""

    rank: int = 0
    world_size: int = 1
    local_rank: int | None = None
    """The place among the ranks of this host; None where nobody has said so."""
    local_world_size: int | None = None
    """How many ranks run on this host; None where nobody has said so."""


def find_ranks(
    rank: int | None = None,
    world_size: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ranks:
    """Return the place of this process in its training job.

    The first of these that says something decides: the arguments, `torch.distributed` if it is
    initialised, the variables RANK and WORLD_SIZE that torchrun sets. Without any of them there is
    one rank.
    """
    environment = os.environ if environment is None else environment
    given = _pair("rank", rank, "world_size", world_size, "argument") or _distributed()
    if given is None:
        return _launched(environment)
    with suppress(InvalidInput):  # whatever else the variables say, it is not asked for
        launched = _launched(environment)
        if given == (launched.rank, launched.world_size):
            return launched
    return Ranks(*given)


def place_of(device: str, ranks: Ranks) -> str:
    """The device of a rank: "cuda" alone is the one that belongs to its place on the host."""
    if device == "cuda" and ranks.local_rank is not None:
        return f"cuda:{ranks.local_rank}"
    return device


def _distributed() -> tuple[int, int] | None:
    """Rank and world size of the process group, if there is one."""
    found = torch.distributed
    if not (found.is_available() and found.is_initialized()):
        return None
    return found.get_rank(), found.get_world_size()


def _launched(environment: Mapping[str, str]) -> Ranks:
    """The place that a launcher such as torchrun gave this process."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    rank, world_size, local_rank, local_world_size = (_number(environment, n) for n in names)
    pair = _pair("RANK", rank, "WORLD_SIZE", world_size, "environment variable")
    if pair is None:
        return Ranks()
    if local_world_size is not None:
        if not 1 <= local_world_size <= pair[1]:
            raise InvalidInput(
                f"LOCAL_WORLD_SIZE={local_world_size} is not from 1 to WORLD_SIZE={pair[1]}; "
                "start the ranks with torchrun, which sets both"
            )
        if local_rank is not None and local_rank >= local_world_size:
            raise InvalidInput(
                f"LOCAL_RANK={local_rank} is not below LOCAL_WORLD_SIZE={local_world_size}; "
                "start the ranks with torchrun, which sets both"
            )
    return Ranks(*pair, local_rank, local_world_size)


def _pair(
    name: str, rank: int | None, size_name: str, world_size: int | None, kind: str
) -> tuple[int, int] | None:
    """Rank and world size if both are given; one without the other is refused."""
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        known, missing = (size_name, name) if rank is None else (name, size_name)
        value = world_size if rank is None else rank
        raise InvalidInput(
            f"the {kind} {known}={value} is given without {missing}; give both, or neither"
        )
    if world_size < 1:
        raise InvalidInput(f"the {kind} {size_name}={world_size} is too small; use 1 or more")
    if not 0 <= rank < world_size:
        raise InvalidInput(
            f"the {kind} {name}={rank} is not from 0 to {world_size - 1}, "
            f"as {size_name}={world_size} requires"
        )
    return rank, world_size


def _number(environment: Mapping[str, str], name: str) -> int | None:
    """The whole number in a variable; None where it is empty or not set."""
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidInput(f"the environment variable {name}={text!r} is not a whole number")
    return int(text)
