"""The kernel and the plain Python agree: the same bytes are written, the same records refused."""

from collections import Counter

import numpy as np
import pytest

from ddlp.core.errors import BadSample
from ddlp.core.image import Backend, Span
from ddlp.core.image.record import parse
from tests.core.image.coefficients import CoefficientReader
from tests.core.image.corpus import SIZES, Encoder, Kind
from tests.core.image.mutations import mutate
from tests.core.image.plain_packer import pack
from tests.core.image.test_equivalent import KINDS
from tests.core.image.test_record import FORMS, made

SIDE = 8
LARGE_ENOUGH = [size for size in SIZES if size[0] > 4][::2]
"""Chroma of one or two samples across is stretched in another way: the kernel leaves these."""


@pytest.fixture(scope="module")
def kernel() -> Backend:
    try:
        from ddlp.core.image.fused import Fused
    except ImportError as error:
        pytest.skip(f"the kernel was not built: {error}")
    return Fused()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Encoder, CoefficientReader]:
    folder = tmp_path_factory.mktemp("programs")
    return Encoder(folder), CoefficientReader(folder)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_kernel_packs_the_same_bytes(
    kernel: Backend, kind: Kind, programs: tuple[Encoder, CoefficientReader]
) -> None:
    encoder, reader = programs
    for size in LARGE_ENOUGH:
        original = encoder.encode(kind, *size)
        head = original[: original.index(b"\xff\xda")]
        assert kernel.pack_record(original, True) == pack(reader.read(original, head))
        assert kernel.pack_record(original, False) == pack(reader.read(original))


def is_read(data: bytes) -> bool:
    try:
        parse(data)
    except BadSample:
        return False
    return True


def is_shown(kernel: Backend, data: bytes) -> bool:
    """Whether the kernel shows all of a record, whatever size it claims to have."""
    width, height = (min(max(int(side), 1), 65535) for side in np.frombuffer(data, "<u4", 2, 8))
    across, down = Span(0, width, 0, width, SIDE), Span(0, height, 0, height, SIDE)
    slot = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    try:
        kernel.render_record(data, (width, height), across, down, slot, None)
    except BadSample:
        return False
    return True


def test_the_same_records_are_refused(kernel: Backend) -> None:
    sizes = [(1, 1), (17, 33), (140, 40)]
    good = [pack(made(form, size, density=0.05)) for form in FORMS for size in sizes]
    mutated = (mutate(good[seed % len(good)], seed) for seed in range(5000))
    became = Counter((is_read(data), is_shown(kernel, data)) for data in mutated if len(data) > 16)
    assert set(became) == {(True, True), (False, False)}
    assert min(became.values()) > 200
