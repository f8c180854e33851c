"""The kernel under the address and undefined-behaviour sanitizers, over good and damaged input.

Every function that the module exports is called, and refusals are asked for that come late: once
memory was taken and something was written.
"""

import re
from collections import Counter

import pytest

from tests.core.image.corpus import KINDS, Encoder, with_head
from tests.core.image.fuzzing import FUZZED, functions
from tests.core.image.sanitized import Sanitized

LARGE_HEADS = (5_000, 70_000, 200_000)
"""More than what is written into begins with, in libjpeg and in the kernel."""
LATE = {
    "walk": r"middle of the image|second image|two frame headers",
    "jpeg": r"walked, ValueError",
    "record": r"tile # of row #|tile 0 of row #",
    "record_at": r"tile # of row #|tile 0 of row #|ends too soon|OSError",
    "pack": r"walked, NotImplementedError",
    "record_jpeg": r"large head, ValueError: tile",
    "pixels": r"TypeError: (the slot|a slot|a span)",
    "cut": r"TypeError: a cut lies outside",
    "floats": r"TypeError: there must be",
    "uniforms": r"TypeError: there must be",
    "permute": r"TypeError: a place lies outside",
    "variants": r"TypeError",
    "variant": r"ValueError|TypeError",
    "read_so_far": r"TypeError",
}
"""Refusals that come as late as each function has any."""
TAKE_MEMORY = {"jpeg", "record", "record_at", "pack", "record_jpeg", "pixels", "cut"}


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> Sanitized:
    sizes = [(1, 1), (17, 33), (97, 61)]
    jpegs = [encoder.encode(way, *size) for way in KINDS for size in sizes]
    jpegs += [with_head(encoder.encode(KINDS[2], 97, 61), size) for size in LARGE_HEADS]
    jpegs.append(encoder.encode(KINDS[0], 300, 200, quality=100))
    return Sanitized(tmp_path_factory.mktemp("sanitized"), jpegs)


def check(name: str, became: Counter[str], calls: int) -> None:
    """That a function took much, and refused much, some of it late and some for want of memory."""
    assert became.total() == calls, name
    done = sum(count for what, count in became.items() if re.search("done$", what))
    late = sum(count for what, count in became.items() if re.search(LATE[name], what))
    assert done > calls / 20, (name, became)
    assert late > calls / 100, (name, became)
    if name in TAKE_MEMORY and calls > 1000:
        assert sum(n for what, n in became.items() if what.endswith("MemoryError: ")) > 10


def test_every_function_of_the_kernel_is_fuzzed() -> None:
    fused = pytest.importorskip("ddlp.core.image._fused")
    assert functions(fused) == set(FUZZED) == set(LATE)


@pytest.mark.timeout(300)  # a compiler and a sanitizer take their time on a busy machine
def test_mutated_arguments(sanitized: Sanitized) -> None:
    found = sanitized.fuzz(list(FUZZED), range(300))
    for name, became in found.items():
        check(name, became, 300)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FUZZED)
def test_very_many_mutated_arguments(sanitized: Sanitized, name: str) -> None:
    calls = 0
    for start in range(1_000_000, 1_030_000, 10_000):
        seeds = range(start, start + 10_000)
        check(name, sanitized.fuzz([name], seeds)[name], len(seeds))
        calls += len(seeds)
    assert calls >= 20_000
