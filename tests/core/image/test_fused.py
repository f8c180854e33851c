"""The kernel's edges: threads, arguments that make no sense, and how it is chosen."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlp.core.image import ARITHMETIC, Backend, same_arithmetic
from tests.core.image.corpus import KINDS, Encoder, picture

PIXELS = picture(20, 10)
SLOT = np.zeros((4, 5, 3), dtype=np.uint8)
ACROSS = (0.0, 20.0, 0, 20, 5)
DOWN = (0.0, 10.0, 0, 10, 4)


def test_threads_do_not_disturb_each_other(fused: Backend, encoder: Encoder) -> None:
    from ddlp.core.image import Span

    files = [encoder.encode(way, 160, 121) for way in KINDS]

    def shown(data: bytes) -> bytes:
        slot = np.zeros((40, 50, 3), dtype=np.uint8)
        fused.render_jpeg(
            data, (160, 121), Span(3, 150, 3, 153, 50), Span(2, 99, 2, 101, 40), slot, None
        )
        return slot.tobytes()

    alone = [shown(data) for data in files]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            assert list(pool.map(shown, files)) == alone


@pytest.mark.parametrize(
    ("across", "down", "slot"),
    [
        ((0.0, 0.0, 0, 20, 5), DOWN, SLOT),
        ((0.0, float("nan"), 0, 20, 5), DOWN, SLOT),
        ((float("inf"), 20.0, 0, 20, 5), DOWN, SLOT),
        ((0.0, 20.0, -1, 20, 5), DOWN, SLOT),
        ((0.0, 20.0, 5, 5, 5), DOWN, SLOT),
        ((0.0, 20.0, 0, 21, 5), DOWN, SLOT),
        ((0.0, 20.0, 0, 20, 0), DOWN, SLOT),
        ((0.0, 20.0, 0, 20, 6), DOWN, SLOT),
        ((0.0, 1e300, 0, 20, 5), DOWN, SLOT),
        (ACROSS, DOWN, np.zeros((4, 5, 4), dtype=np.uint8)),
        (ACROSS, DOWN, np.zeros((4, 5, 3), dtype=np.float32)),
        (ACROSS, DOWN, np.zeros((4, 5, 3), dtype=np.int8)),
        (ACROSS, DOWN, np.zeros((4, 15), dtype=np.uint8)),
        (ACROSS, DOWN, np.zeros((4, 5, 6), dtype=np.uint8)[:, :, ::2]),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    fused: Backend, across: Any, down: Any, slot: Any
) -> None:
    from ddlp.core.image import _fused

    _fused.pixels(PIXELS, ACROSS, DOWN, SLOT, None)
    with pytest.raises(TypeError, match=r"span|slot"):
        _fused.pixels(PIXELS, across, down, slot, None)


def test_a_slot_that_cannot_be_written_is_refused(fused: Backend) -> None:
    from ddlp.core.image import _fused

    frozen = SLOT.copy()
    frozen.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        _fused.pixels(PIXELS, ACROSS, DOWN, frozen, None)


@pytest.mark.parametrize("sample", [-1, 2, 2**62])
def test_cuts_outside_the_array_are_refused(fused: Backend, sample: int) -> None:
    from ddlp.core.image import _fused

    images = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    slots = np.zeros((1, 4, 4, 3), dtype=np.uint8)
    zero, flat = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    _fused.cut(images, zero, zero, zero, flat, slots, None)
    with pytest.raises(TypeError, match="outside"):
        _fused.cut(images, zero + sample, zero, zero, flat, slots, None)
    with pytest.raises(TypeError, match="outside"):
        _fused.cut(images, np.zeros(2, dtype=np.int64), zero, zero, flat, slots, None)


def test_numbers_that_do_not_divide_evenly_are_refused(fused: Backend) -> None:
    from ddlp.core.image import _fused

    with pytest.raises(TypeError, match="as many numbers"):
        _fused.uniforms(1, 2, 3, np.zeros(2, dtype=np.int64), np.zeros(3))


def test_places_outside_an_order_are_refused(fused: Backend) -> None:
    from ddlp.core.image import _fused

    keys = np.zeros(10, dtype=np.uint64)
    for places, bits, below in (([5], 6, 5), ([0], 64, 5), ([0], 2, 5)):
        with pytest.raises(TypeError, match="outside"):
            _fused.permute(np.asarray(places, dtype=np.uint64), keys, bits, below)


def chosen(**environment: str) -> tuple[str, str]:
    """The engine that a fresh process chooses, and why; what it says where it refuses."""
    code = "from ddlp.core.image import *; print(engine_name()); print(engine_reason())"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "", **environment},
        capture_output=True,
        text=True,
    )
    lines = ran.stdout.splitlines() if ran.returncode == 0 else ["", ran.stderr]
    return lines[0], lines[1]


def test_the_reference_engine_can_be_asked_for() -> None:
    name, reason = chosen(DDLP_ENGINE="reference")
    assert name == f"reference-{ARITHMETIC}"
    assert "asks for it" in reason


def test_the_kernel_is_taken_where_it_was_built(fused: Backend) -> None:
    assert chosen() == (f"fused-{ARITHMETIC}", "None")


def test_an_unknown_engine_is_refused() -> None:
    assert "auto, fused or reference" in chosen(DDLP_ENGINE="quick")[1]


def test_without_a_kernel_the_reference_serves_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['ddlp.core.image._fused'] = None\n"
    )
    name, reason = chosen(PYTHONPATH=str(tmp_path))
    assert name == f"reference-{ARITHMETIC}"
    assert "_fused" in reason


def test_engines_of_one_arithmetic_are_interchangeable() -> None:
    assert same_arithmetic("fused-2", "reference-2")
    assert not same_arithmetic("fused-2", "fused-3")
