"""A forecast packs a few samples in memory: what it says comes true, and nothing is written."""

import os
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.errors import BadSample, InvalidInput
from ddlp.core.records import PackOptions, forecast
from tests.core.records.making import (
    NEEDS_KERNEL,
    RECORDS,
    dataset,
    encoded,
    pack,
    packed,
    undecodable,
)

pytestmark = NEEDS_KERNEL


@pytest.mark.parametrize(
    "options", [PackOptions(), PackOptions(keep_heads=True), PackOptions(max_side=50)]
)
def test_it_says_what_packing_comes_to(tmp_path: Path, options: PackOptions) -> None:
    index = dataset(tmp_path)
    found = forecast(index, options)
    made = pack(index, tmp_path / "p", max_side=options.max_side, keep_heads=options.keep_heads)
    assert (found.samples, found.looked_at) == (index.samples, index.samples)
    assert found.record_share == sum(shard.records for shard in made) / index.samples
    assert found.origin_bytes == index.total_bytes
    heads = 1100 * len(made)
    assert 0 <= sum(shard.bytes for shard in made) - found.bytes < heads
    assert found.ratio == pytest.approx(found.bytes / index.total_bytes, rel=1e-3)
    assert found.pack_s > 0
    assert found.decode_us > 0
    assert found.gain == found.decode_us / found.packed_decode_us


def test_a_few_samples_from_all_over_are_looked_at(tmp_path: Path) -> None:
    index = dataset(tmp_path, {f"{n:03}.jpg": encoded(side=20 + n) for n in range(40)})
    found = forecast(index, samples=10)
    assert (found.looked_at, found.samples, found.record_share) == (10, 40, 1.0)


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    os.unlink(index.name(0))
    assert forecast(index).looked_at == index.samples - 1
    for sample in range(1, index.samples):
        os.unlink(index.name(sample))
    with pytest.raises(BadSample, match="none of 64 samples of"):
        forecast(index)


def test_damaged_samples_do_not_end_it(tmp_path: Path) -> None:
    found = forecast(dataset(tmp_path, {"a.jpg": encoded(), "b.jpg": undecodable()}))
    assert found.record_share == 0.5


def test_what_cannot_be_packed_is_refused(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    with pytest.raises(InvalidInput, match="samples=0"):
        forecast(index, samples=0)
    with pytest.raises(InvalidInput, match="is packed already"):
        forecast(packed(index, tmp_path / "p"))
    assert forecast(DatasetIndex(tmp_path / "p.idx"), PackOptions(quality=50)).samples
    np.savez(tmp_path / "d.npz", x=np.zeros((3, 8, 8, 3), np.uint8), y=np.zeros(3, np.int64))
    scan(tmp_path / "d.npz", tmp_path / "d.idx")
    with pytest.raises(InvalidInput, match="raw pixels"):
        forecast(DatasetIndex(tmp_path / "d.idx"))


def test_most_pictures_of_the_mixed_set_become_records(tmp_path: Path) -> None:
    assert forecast(dataset(tmp_path)).record_share == RECORDS / 20
