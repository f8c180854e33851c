"""Takes the coefficients out of a JPEG by libjpeg, and makes a `Record` of them."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.image.record import Coefficients, Colour, Record

SOURCE = Path(__file__).with_name("coefficients.c")
_COLOURS = {1: Colour.GREY, 2: Colour.RGB, 3: Colour.YCBCR}


class CoefficientReader:
    """Compiled once; reads what libjpeg's own reader finds in a file."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("there is no C compiler to build the test's reader with")
        self._program = folder / "coefficients"
        built = subprocess.run(
            [compiler, "-O1", "-o", self._program, SOURCE, "-ljpeg"], capture_output=True, text=True
        )
        if built.returncode:
            pytest.skip(f"the test's reader cannot be built: {built.stderr[-200:]}")

    def read(self, jpeg: bytes, head: bytes = b"") -> Record:
        """The record that a JPEG becomes; it must be one without a warning of libjpeg."""
        ran = subprocess.run([self._program], input=jpeg, capture_output=True, check=True)
        return _record(ran.stdout, head)


def _record(told: bytes, head: bytes) -> Record:
    at = 0

    def take(count: int, kind: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        nonlocal at
        found = np.frombuffer(told, kind, count, at)
        at += found.nbytes
        return found

    width, height, components, colour = take(4, "=i4").tolist()
    shapes, tables = [], []
    for _ in range(components):
        shapes.append(take(4, "=i4").tolist())
        tables.append(tuple(take(64, "=u2").tolist()))
    coefficients: list[Coefficients] = []
    for _, _, columns, rows in shapes:
        values = take(rows * columns * 64, "=i2").astype(np.int16)
        coefficients.append(values.reshape(rows, columns, 64))
    assert at == len(told)
    different = list(dict.fromkeys(tables))
    return Record(
        width,
        height,
        _COLOURS[colour],
        (shapes[0][0], shapes[0][1]),
        np.array(different, dtype=np.uint16),
        tuple(map(different.index, tables)),
        head,
        tuple(coefficients),
    )
