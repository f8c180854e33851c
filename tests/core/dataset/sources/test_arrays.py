"""Arrays of pixels are used where they lie if they lie well, and are copied once otherwise."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ddlp.core.dataset import DatasetIndex, delete_index
from ddlp.core.errors import InvalidInput
from ddlp.core.image import Kind
from tests.core.dataset.making import index_of, labels, names, rejected

Pixels = npt.NDArray[np.uint8]


def pictures(count: int = 6, height: int = 4, width: int = 5) -> Pixels:
    drawn = np.random.default_rng(1).integers(0, 256, (count, height, width, 3))
    return drawn.astype(np.uint8)


LABELS = [2, 0, 1, 1, 0, 2]


def beside(index_path: Path) -> Path:
    return index_path.with_name(f"{index_path.name}.pixels")


@pytest.mark.parametrize(
    ("save", "copied"), [(np.savez, False), (np.savez_compressed, True)], ids=["stored", "deflated"]
)
def test_an_npz_gives_its_pixels(tmp_path: Path, save: Callable[..., None], copied: bool) -> None:
    save(tmp_path / "a.npz", x=pictures(), y=LABELS)
    index = index_of(tmp_path / "a.npz", tmp_path / "i.idx", allowed=())
    assert (index.kind, index.pixels_shape, index.classes) == ("array", (4, 5), ("0", "1", "2"))
    assert np.array_equal(index.pixels(), pictures())
    assert not index.pixels().flags.writeable
    assert labels(index) == LABELS
    assert names(index)[3] == "a.npz[3]"
    assert index.read(3) == pictures()[3].tobytes()
    assert index.total_bytes == pictures().nbytes
    heads = index.heads(np.arange(6))
    assert set(zip(heads.kind, heads.width, heads.height, heads.orientation, strict=True)) == {
        (Kind.PIXELS, 5, 4, 1)
    }
    assert beside(tmp_path / "i.idx").exists() is copied


def test_a_npy_file_has_its_labels_beside_it(tmp_path: Path) -> None:
    for separator in "-.":
        np.save(tmp_path / f"a{separator}x.npy", pictures())
        np.save(tmp_path / f"a{separator}x{separator}labels.npy", np.asarray(LABELS)[:, None])
        index = index_of(tmp_path / f"a{separator}x.npy", tmp_path / "i.idx", allowed=())
        assert np.array_equal(index.pixels(), pictures())
        assert labels(index) == LABELS
        assert not beside(tmp_path / "i.idx").exists()
    np.save(tmp_path / "lonely.npy", pictures())
    with pytest.raises(InvalidInput, match=r"needs its labels in lonely-labels\.npy"):
        index_of(tmp_path / "lonely.npy")


def grey(pixels: Pixels) -> Pixels:
    return np.repeat(pixels[..., :1], 3, axis=-1)


LAYOUTS: list[tuple[str, Callable[[Pixels], Pixels], Callable[[Pixels], Pixels]]] = [
    ("planes", lambda p: np.ascontiguousarray(p.transpose(0, 3, 1, 2)), lambda p: p),
    ("columns first", np.asfortranarray, lambda p: p),
    ("grey", lambda p: p[..., 0], grey),
    ("one channel", lambda p: p[..., :1], grey),
    ("one plane", lambda p: p[..., 0][:, None], grey),
]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    ("stored", "wanted"), [layout[1:] for layout in LAYOUTS], ids=[name for name, *_ in LAYOUTS]
)
def test_other_layouts_are_turned_into_a_copy(
    tmp_path: Path,
    save: Callable[..., None],
    stored: Callable[[Pixels], Pixels],
    wanted: Callable[[Pixels], Pixels],
) -> None:
    save(tmp_path / "a.npz", images=stored(pictures()), labels=LABELS)
    index = index_of(tmp_path / "a.npz", tmp_path / "i.idx")
    assert np.array_equal(index.pixels(), wanted(pictures()))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"a.npz", "i.idx", "i.idx.pixels"}
    delete_index(tmp_path / "i.idx")
    assert {path.name for path in tmp_path.iterdir()} == {"a.npz"}


def test_a_copy_that_is_no_longer_needed_goes_away(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=pictures(), y=LABELS)
    index_of(tmp_path / "a.npz", tmp_path / "i.idx")
    np.savez(tmp_path / "a.npz", x=pictures(), y=LABELS)
    index_of(tmp_path / "a.npz", tmp_path / "i.idx")
    assert not beside(tmp_path / "i.idx").exists()


def test_the_version_does_not_depend_on_the_place(tmp_path: Path) -> None:
    versions = set()
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        np.savez_compressed(tmp_path / place / "a.npz", x=pictures(), y=LABELS)
        os.utime(tmp_path / place / "a.npz", ns=(7, 7))
        versions.add(index_of(tmp_path / place / "a.npz").version)
    assert len(versions) == 1


@pytest.mark.parametrize(
    "keys",
    [("X", "Y"), ("data", "labels"), ("x_train", "y_train"), ("arr_0", "arr_1")],
)
def test_the_usual_names_are_known(tmp_path: Path, keys: tuple[str, str]) -> None:
    arrays = {keys[0]: pictures(), keys[1]: LABELS, "x_test": pictures(2), "y_test": [0, 1]}
    np.savez(tmp_path / "a.npz", **arrays)
    assert index_of(tmp_path / "a.npz").samples == 6


@pytest.mark.parametrize("kind", ["U", "S"])
def test_labels_may_be_names(tmp_path: Path, kind: str) -> None:
    given = np.asarray(["dog", "cat", "eel", "eel", "cat", "dog"]).astype(kind)
    np.savez(tmp_path / "a.npz", x=pictures(), y=given)
    index = index_of(tmp_path / "a.npz")
    assert index.classes == ("cat", "dog", "eel")
    assert labels(index) == [1, 0, 2, 2, 0, 1]


def test_names_of_classes_may_lie_beside_the_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=pictures(), y=LABELS, classes=["z", "y", "x"])
    assert index_of(tmp_path / "a.npz").classes == ("z", "y", "x")
    np.savez(tmp_path / "a.npz", x=pictures(), y=LABELS, classes=["z"])
    with pytest.raises(InvalidInput, match="labels from 0 to 2, but 1 names"):
        index_of(tmp_path / "a.npz")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("/tmp/ddlp-was-unpickled",))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"x": pictures()}, "holds the arrays x; expected images and labels"),
    ({"x": pictures().astype(float), "y": LABELS}, "pixels of type float64; convert"),
    ({"x": pictures(), "y": LABELS[:5]}, "has 6 images, but labels for"),
    ({"x": pictures(), "y": [-1, 0, 0, 0, 0, 0]}, "below 0"),
    ({"x": pictures(), "y": np.eye(6)}, "labels of type float64"),
    ({"x": pictures()[0, 0], "y": LABELS[:5]}, "holds an array of 5 × 3"),
    ({"x": pictures()[:0], "y": []}, "holds an array of 0"),
    ({"x": np.asarray([Evil()] * 6, dtype=object), "y": LABELS}, "Python objects"),
    ({"x": pictures(), "y": np.asarray([Evil()] * 6, dtype=object)}, "Python objects"),
]


@pytest.mark.parametrize(("arrays", "message"), BAD)
def test_arrays_that_cannot_be_used_are_named(
    tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InvalidInput, match=message):
        index_of(tmp_path / "a.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
    assert not Path("/tmp/ddlp-was-unpickled").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 no archive",
        pickle.dumps(Evil()),
        b"\x93NUMPY\x01\x00\xff\xff{",
        b"\x93NUMPY\x01\x00\x05\x00[[[[[",
        b"\x93NUMPY\x01\x00\x08\x00{'a': 1}",
    ],
)
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_files_that_are_no_arrays_are_named(tmp_path: Path, data: bytes, ending: str) -> None:
    (tmp_path / f"a.{ending}").write_bytes(data)
    with pytest.raises(InvalidInput, match=rf"a\.{ending} cannot be read as arrays"):
        index_of(tmp_path / f"a.{ending}")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_or_cut_archive_is_an_error_and_never_a_crash(
    tmp_path: Path, save: Callable[..., None]
) -> None:
    save(tmp_path / "whole.npz", x=pictures(), y=LABELS)
    whole = (tmp_path / "whole.npz").read_bytes()
    for at in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        (tmp_path / "a.npz").write_bytes(damaged)
        try:
            index_of(tmp_path / "a.npz").pixels().sum()
        except InvalidInput as error:
            assert str(tmp_path) in str(error)  # noqa: PT017 - most damage to pixels is not seen


def test_a_short_npy_file_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", pictures())
    np.save(tmp_path / "a-labels.npy", LABELS)
    os.truncate(tmp_path / "a.npy", 200)
    with pytest.raises(InvalidInput, match="it is cut short"):
        index_of(tmp_path / "a.npy")


def test_links_out_of_what_is_allowed_are_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    np.save(tmp_path / "secret.npy", pictures())
    np.save(tmp_path / "l.npy", LABELS)
    (tmp_path / "d" / "a.npy").symlink_to(tmp_path / "secret.npy")
    with pytest.raises(InvalidInput, match="outside the allowed folders"):
        index_of(tmp_path / "d" / "a.npy", allowed=())
    np.save(tmp_path / "d" / "b.npy", pictures())
    (tmp_path / "d" / "b-labels.npy").symlink_to(tmp_path / "l.npy")
    with pytest.raises(InvalidInput, match="outside the allowed folders"):
        index_of(tmp_path / "d" / "b.npy", allowed=())


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_pixels_that_were_changed_are_noticed(tmp_path: Path, save: Callable[..., None]) -> None:
    save(tmp_path / "a.npz", x=pictures(), y=LABELS)
    index = index_of(tmp_path / "a.npz", tmp_path / "i.idx")
    index.pixels()
    path = tmp_path / "a.npz" if save is np.savez else beside(tmp_path / "i.idx")
    time_ns = path.stat().st_mtime_ns + 1
    os.utime(path, ns=(time_ns, time_ns))
    for opened in (index, DatasetIndex(tmp_path / "i.idx")):
        with pytest.raises(ValueError, match="changed after it was indexed"):
            opened.pixels()
        with pytest.raises(ValueError, match="changed after it was indexed"):
            opened.read(0)


def test_names_of_classes_are_not_read_through_a_link_out_of_what_is_allowed(
    tmp_path: Path,
) -> None:
    root = tmp_path / "cifar"
    root.mkdir()
    (root / "data_batch_1.bin").write_bytes(cifar(2, 1)[0])
    (tmp_path / "secret.txt").write_text("secret\n" * 10)
    (root / "batches.meta.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(InvalidInput, match="outside the allowed folders"):
        index_of(root, allowed=())


def cifar(count: int, label_bytes: int, seed: int = 0) -> tuple[bytes, Pixels, list[int]]:
    """Records, and what they mean."""
    drawn = np.random.default_rng(seed).integers(0, 256, (count, 3, 32, 32)).astype(np.uint8)
    of = [(7 * n + seed) % 10 for n in range(count)]
    begin = [bytes([99, label])[-label_bytes:] for label in of]
    data = b"".join(start + planes.tobytes() for start, planes in zip(begin, drawn, strict=True))
    return data, drawn.transpose(0, 2, 3, 1), of


def test_cifar_10_is_read_from_its_binary_files(tmp_path: Path) -> None:
    root = tmp_path / "cifar"
    root.mkdir()
    parts = [cifar(3, 1, seed) for seed in (1, 2)]
    for number, (data, _, _) in enumerate(parts, start=1):
        (root / f"data_batch_{number}.bin").write_bytes(data)
    (root / "test_batch.bin").write_bytes(cifar(2, 1)[0])
    (root / "batches.meta.txt").write_text("\n".join(f"class {n}" for n in range(10)) + "\n\n")
    index = index_of(root, allowed=())
    assert np.array_equal(index.pixels(), np.concatenate([part[1] for part in parts]))
    assert labels(index) == parts[0][2] + parts[1][2]
    assert index.classes[9] == "class 9"
    assert names(index)[4] == "data_batch_2.bin[1]"
    assert index_of(root / "test_batch.bin", allowed=()).samples == 2


def test_cifar_100_takes_the_fine_labels(tmp_path: Path) -> None:
    root = tmp_path / "cifar"
    root.mkdir()
    data, pixels, of = cifar(5, 2)
    (root / "train.bin").write_bytes(data)
    (root / "test.bin").write_bytes(cifar(2, 2)[0])
    index = index_of(root)
    assert np.array_equal(index.pixels(), pixels)
    assert labels(index) == of
    (root / "fine_label_names.txt").write_text("only\none\n")
    with pytest.raises(InvalidInput, match="has label 8, but 2 class names"):
        index_of(root)


def test_a_cifar_file_that_was_cut_short_is_listed_and_stops_nothing(tmp_path: Path) -> None:
    root = tmp_path / "cifar"
    root.mkdir()
    data, pixels, _ = cifar(3, 1)
    (root / "data_batch_1.bin").write_bytes(data[:-1])
    (root / "data_batch_2.bin").write_bytes(data)
    index = index_of(root)
    assert np.array_equal(index.pixels(), pixels)
    assert "3073-byte records" in rejected(index)["data_batch_1.bin"]
