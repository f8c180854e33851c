"""Bad samples: named with the reason, left out, or replaced by others of their class."""

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import BadSample, DdlpError, SystemFault
from ddlp.core.mishap import Mishap
from ddlp.core.patience import Patience
from ddlp.core.pipeline import kept
from ddlp.core.types import BadPolicy
from tests.core.pipeline.making import (
    MIDDLE,
    dataset,
    encoded,
    engine,
    fill,
    replace_unseen,
    smooth,
)

JPEG = encoded(smooth(256, 256), "JPEG")
PNG = encoded(smooth(64, 64))
BAD: dict[str, tuple[bytes, bytes, str]] = {
    "a JPEG that was cut short": (JPEG, JPEG[: len(JPEG) // 2], "ends in the middle of the image"),
    "a PNG that was cut short": (PNG, PNG[:500], ""),
    "a header alone": (JPEG, JPEG[:100], "ends in the middle of the image"),
    "text": (JPEG, b"<html>404 not found</html>", "does not begin as a JPEG does"),
    "an image of another size": (
        PNG,
        encoded(smooth(30, 20)),
        "30 × 20 pixels, not 64 × 64 as when it was indexed",
    ),
    "a JPEG that is smaller": (
        JPEG,
        encoded(smooth(16, 16), "JPEG"),
        "16 × 16 pixels, not 256 × 256 as when it was indexed",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_sample_is_named_with_the_reason(tmp_path: Path, kind: str) -> None:
    before, after, reason = BAD[kind]
    index = dataset(tmp_path, encoded(smooth(20, 20)), before, ending="jpg")
    replace_unseen(Path(index.name(1)), after)
    with pytest.raises(BadSample, match=rf"{index.name(1)} cannot be used: .*{reason}"):
        fill(engine(index, MIDDLE), 0, 1)


def test_a_sample_that_changed_since_it_was_indexed_is_named(tmp_path: Path) -> None:
    index = dataset(tmp_path, encoded(smooth(20, 20)))
    Path(index.name(0)).write_bytes(encoded(smooth(21, 20)))
    with pytest.raises(BadSample, match=r"000\.png cannot be used: .*changed after it was indexed"):
        fill(engine(index, MIDDLE), 0)


def test_a_sample_that_is_gone_is_named(tmp_path: Path) -> None:
    index = dataset(tmp_path, encoded(smooth(20, 20)))
    Path(index.name(0)).unlink()
    with pytest.raises(BadSample, match=r"000\.png cannot be used: it is gone"):
        fill(engine(index, MIDDLE), 0)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_pixels": 399}, "20 × 20 pixels, more than 399"),
        ({"max_bytes": 100}, "bytes, more than 100"),
    ],
)
def test_a_sample_over_a_limit_is_bad(tmp_path: Path, limits: dict[str, int], reason: str) -> None:
    index = dataset(tmp_path, encoded(smooth(20, 20)))
    with pytest.raises(BadSample, match=reason):
        fill(engine(index, {"name": "decode", **limits}, MIDDLE), 0)


def test_a_sample_that_takes_too_long_is_bad(tmp_path: Path) -> None:
    index = dataset(tmp_path, encoded(smooth(300, 300)))
    hasty = {"name": "decode", "max_seconds": 1e-6}
    with pytest.raises(BadSample, match="took longer than 1e-06 s"):
        fill(engine(index, hasty, MIDDLE), 0)


def test_a_dataset_that_is_not_mounted_is_no_bad_sample(tmp_path: Path) -> None:
    index = dataset(tmp_path, encoded(smooth(20, 20)))
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    with pytest.raises(DdlpError, match="is it mounted") as caught:
        fill(engine(index, MIDDLE, on_bad=BadPolicy.SKIP), 0)
    assert not isinstance(caught.value, BadSample)


def test_a_side_that_no_engine_takes_is_bad(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("1", (1 << 21, 1)).save(buffer, "PNG")
    with pytest.raises(BadSample, match="2097152 × 1 pixels; a side has"):
        fill(engine(dataset(tmp_path, buffer.getvalue()), MIDDLE), 0)


def test_a_name_or_reason_of_any_length_can_be_told(tmp_path: Path) -> None:
    index = dataset(tmp_path, encoded(smooth(20, 20), "JPEG"))
    replace_unseen(Path(index.name(0)), b"nothing")
    skipping = engine(index, MIDDLE, on_bad=BadPolicy.SKIP)
    skipping._index = LongNames(tmp_path / "images.idx")
    [mishap] = skipping.fill(0, np.asarray([0]), np.zeros((1, 16, 16, 3), np.uint8))
    assert len(mishap.name) == 4096
    assert "\0" not in mishap.name


class LongNames(DatasetIndex):
    """Names as a tar file may hold them."""

    def name(self, sample: int) -> str:
        return "\0name" * 2000


Opening = Callable[[Callable[[str], bool], int], None]


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Opening:
    """Have the opening of samples fail, for those that are chosen."""
    real = os.open

    def refuse(chosen: Callable[[str], bool], number: int) -> None:
        def fail(path: Any, *arguments: Any, **options: Any) -> int:
            if os.fsdecode(path).endswith(".png") and chosen(os.fsdecode(path)):
                raise OSError(number, os.strerror(number))
            return real(path, *arguments, **options)

        monkeypatch.setattr(os, "open", fail)

    return refuse


@pytest.fixture
def four(tmp_path: Path) -> DatasetIndex:
    return dataset(tmp_path, *(encoded(smooth(40 + n, 40)) for n in range(4)))


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOMEM, errno.ESTALE])
def test_an_error_that_passes_makes_no_bad_sample(
    four: DatasetIndex, refusing: Opening, number: int
) -> None:
    before = fill(engine(four, MIDDLE), 0, 1, 2, 3)
    left = [number] * 5
    refusing(lambda _: bool(left and left.pop()), number)
    np.testing.assert_array_equal(fill(engine(four, MIDDLE), 0, 1, 2, 3), before)
    assert not left


def test_a_sample_that_its_drive_has_lost_is_bad_by_name(
    impatient: None, four: DatasetIndex, refusing: Opening
) -> None:
    refusing(lambda path: path.endswith("001.png"), errno.EIO)
    out = np.zeros((4, 16, 16, 3), np.uint8)
    careful = engine(DatasetIndex(four.path), MIDDLE, on_bad=BadPolicy.SKIP)
    (mishap,) = careful.fill(0, np.arange(4), out)
    assert four.name(mishap.sample).endswith("001.png")
    assert f"read of {mishap.name} failed with EIO (Input/output error)" in mishap.reason


@pytest.mark.parametrize("seconds", [4.0, 6.0, 8.0, 9.0])
def test_a_drive_that_was_away_for_seconds_makes_no_bad_sample(
    four: DatasetIndex, refusing: Opening, seconds: float
) -> None:
    now = [0.0]

    def sleep(pause_s: float) -> None:
        now[0] += pause_s

    before = fill(engine(four, MIDDLE), 0, 1, 2, 3)
    refusing(lambda _: now[0] < seconds, errno.EIO)
    index = DatasetIndex(four.path)
    index.patience = Patience(clock=lambda: now[0], sleep=sleep)
    np.testing.assert_array_equal(fill(engine(index, MIDDLE), 0, 1, 2, 3), before)
    assert now[0] >= seconds


def test_a_lost_sample_is_named_in_a_batch_of_its_own_and_so_is_an_only_one(
    impatient: None, tmp_path: Path, refusing: Opening
) -> None:
    indexes = [dataset(tmp_path / str(n), *[encoded(smooth(40, 40))] * n) for n in (1, 2)]
    refusing(lambda path: path.endswith("000.png"), errno.EIO)
    for made in indexes:
        careful = engine(DatasetIndex(made.path), MIDDLE, on_bad=BadPolicy.SKIP)
        for _ in range(made.samples):
            out = np.zeros((1, 16, 16, 3), np.uint8)
            (mishap,) = careful.fill(0, np.asarray([0]), out)
            assert "failed with EIO" in mishap.reason


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_a_machine_in_trouble_makes_no_bad_samples(
    impatient: None, four: DatasetIndex, refusing: Opening, number: int
) -> None:
    refusing(lambda _: True, number)
    name = errno.errorcode[number]
    with pytest.raises(SystemFault, match=rf"read of /.*\.png failed with {name} \("):
        fill(engine(DatasetIndex(four.path), MIDDLE, on_bad=BadPolicy.SKIP), 0, 1, 2, 3)


@pytest.fixture
def spoilt(tmp_path: Path) -> DatasetIndex:
    """Eight images in two classes; the third and the sixth, one of each class, are damaged."""
    index = dataset(tmp_path, *(encoded(smooth(30 + n, 40), "JPEG") for n in range(8)))
    for sample in (2, 5):
        replace_unseen(Path(index.name(sample)), b"nothing")
    return index


def test_bad_samples_can_be_left_out(spoilt: DatasetIndex) -> None:
    samples = np.asarray([0, 2, 4, 5, 7])
    out = np.zeros((5, 16, 16, 3), dtype=np.uint8)
    mishaps = engine(spoilt, MIDDLE, on_bad=BadPolicy.SKIP).fill(0, samples, out)
    assert [(m.sample, m.substitute, m.name) for m in mishaps] == [
        (2, None, spoilt.name(2)),
        (5, None, spoilt.name(5)),
    ]
    assert all("JPEG" in mishap.reason for mishap in mishaps)
    assert kept(samples, mishaps).tolist() == [0, 4, 7]
    np.testing.assert_array_equal(out[:3], fill(engine(spoilt, MIDDLE), 0, 4, 7))


def test_bad_samples_can_be_replaced_by_others_of_their_class(spoilt: DatasetIndex) -> None:
    samples = np.arange(8)
    labels = spoilt.labels(samples)
    replacing = engine(spoilt, MIDDLE, on_bad=BadPolicy.REPLACE)
    chosen = set()
    for epoch in range(12):
        out = np.zeros((8, 16, 16, 3), dtype=np.uint8)
        mishaps = replacing.fill(epoch, samples, out)
        shown = kept(samples, mishaps)
        np.testing.assert_array_equal(spoilt.labels(shown), labels)
        assert not {2, 5} & set(shown.tolist())
        np.testing.assert_array_equal(out, fill(replacing, *shown.tolist(), epoch=epoch))
        chosen.add(tuple(shown.tolist()))
    assert len(chosen) > 1, "another epoch may show another substitute"


def test_the_substitute_is_the_same_in_any_company(spoilt: DatasetIndex) -> None:
    replacing = engine(spoilt, MIDDLE, on_bad=BadPolicy.REPLACE)
    alone = np.zeros((1, 16, 16, 3), dtype=np.uint8)
    together = np.zeros((8, 16, 16, 3), dtype=np.uint8)
    first = replacing.fill(3, np.asarray([5]), alone)
    second = replacing.fill(3, np.arange(8), together)
    assert first == second[1:]
    np.testing.assert_array_equal(alone[0], together[5])


def test_a_class_of_which_nothing_is_left_is_told(tmp_path: Path) -> None:
    index = dataset(tmp_path, *(encoded(smooth(30, 40), "JPEG") for _ in range(3)))
    replace_unseen(Path(index.name(2)), b"nothing")
    assert index.labels(np.arange(3)).tolist() == [0, 0, 1]
    with pytest.raises(BadSample, match="none of 16 samples drawn"):
        fill(engine(index, MIDDLE, on_bad=BadPolicy.REPLACE), 2)


def test_what_is_kept_follows_from_what_happened() -> None:
    mishaps = [Mishap(7, "seven", "why", None), Mishap(3, "three", "why", 9)]
    assert kept(np.asarray([3, 5, 7]), mishaps).tolist() == [9, 5]
