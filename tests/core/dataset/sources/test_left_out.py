"""What a scan leaves out or does not read is announced, and never taken for something else."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from ddlp.core.errors import InvalidInput
from tests.core.dataset.making import index_of, labels, names, picture, put, rejected


def test_images_directly_in_the_root_have_no_label(tmp_path: Path) -> None:
    put(tmp_path / "d", "1.jpg", "2.png", ".3.jpg")
    with pytest.raises(
        InvalidInput, match=r"has images \(2\) but no class folders, so they have no labels; sort"
    ):
        index_of(tmp_path / "d")


def test_images_beside_class_folders_are_counted_as_left_out(tmp_path: Path) -> None:
    put(tmp_path / "d", "1.jpg", "2.jpg", "cat/1.jpg", "cat/a.gif", "cat/b.GIF", "dog/none")
    index = index_of(tmp_path / "d")
    assert names(index) == ["cat/1.jpg"]
    assert index.notes == [
        f"Images directly in {tmp_path}/d that were left out for lack of a class folder: 2.",
        "Files that were left out for their endings: .gif (2), no ending (1).",
        "Class folders without images, which are classes without samples: dog (1 of 2).",
    ]


def test_a_usual_folder_has_nothing_to_announce(tmp_path: Path) -> None:
    put(tmp_path / "d", "cat/1.jpg", "dog/1.jpg", "readme.txt")
    assert index_of(tmp_path / "d").notes == []


# Links


@pytest.mark.parametrize(
    ("link", "target"), [("a/loop", ".."), ("a/self", "."), ("a/deep/up", "../..")]
)
def test_a_link_to_a_folder_above_is_reported_and_not_followed(
    tmp_path: Path, link: str, target: str
) -> None:
    root = tmp_path / "d"
    put(root, "a/1.jpg", "a/deep/2.jpg", "b/1.jpg")
    (root / link).symlink_to(target)
    index = index_of(root)
    assert names(index) == ["a/1.jpg", "a/deep/2.jpg", "b/1.jpg"]
    assert labels(index) == [0, 0, 1]
    assert "a folder that it lies in" in rejected(index)[link]


def test_a_folder_that_is_linked_twice_in_one_class_is_scanned_once(tmp_path: Path) -> None:
    root = tmp_path / "d"
    put(root, "a/x/1.jpg", "b/1.jpg")
    put(tmp_path, "out/sub/2.jpg")
    (root / "a" / "again").symlink_to("x")
    (root / "b" / "one").symlink_to(tmp_path / "out")
    (root / "b" / "two").symlink_to(tmp_path / "out" / "sub")
    index = index_of(root)
    assert names(index) == ["a/x/1.jpg", "b/1.jpg", "b/one/sub/2.jpg"]
    assert sorted(rejected(index)) == ["a/again", "b/two"]


@pytest.mark.parametrize("link", ["c", "b/more"])
@pytest.mark.parametrize("outside", [False, True])
def test_a_folder_in_two_classes_is_refused(tmp_path: Path, link: str, outside: bool) -> None:
    root = tmp_path / "d"
    put(root, "b/1.jpg")
    put(tmp_path, "out/2.jpg")
    if outside:
        (root / "a").symlink_to(tmp_path / "out")
    else:
        put(root, "a/2.jpg")
    (root / link).symlink_to(root / "a")
    with pytest.raises(InvalidInput, match=r"are the same folder .* in two classes; remove one"):
        index_of(root)


def test_a_class_folder_may_be_a_link(tmp_path: Path) -> None:
    put(tmp_path, "d/a/1.jpg", "out/b/2.jpg", "d/.store/3.jpg")
    (tmp_path / "d" / "b").symlink_to(tmp_path / "out" / "b")
    (tmp_path / "d" / "c").symlink_to(".store")
    index = index_of(tmp_path / "d", allowed=(tmp_path / "out",))
    assert (names(index), labels(index)) == (["a/1.jpg", "b/2.jpg", "c/3.jpg"], [0, 1, 2])
    assert index.rejected == 0


# Manifests, tar files and arrays


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    put(path.parent, "1.jpg", "2.jpg")
    if path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join(map(_quoted, row.values())) for row in rows)]
        path.write_text("\n".join(lines))
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def _quoted(value: object) -> str:
    return f'"{value}"'


ENDINGS = pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])


@ENDINGS
@pytest.mark.parametrize(
    ("label", "words"),
    [
        (0.5, "has the label 0.5, which is not a class"),
        ("a|b", "looks like several labels"),
        ("a;b", "looks like several labels"),
        ("[1, 2]", "looks like several labels"),
        ("1 0 1", "looks like several labels"),
    ],
)
def test_a_label_that_is_no_class_is_refused(
    tmp_path: Path, ending: str, label: object, words: str
) -> None:
    rows = [{"path": "1.jpg", "label": label}, {"path": "2.jpg", "label": label}]
    path = write(tmp_path / f"list{ending}", rows)
    with pytest.raises(InvalidInput, match=rf"list{ending}:\d has.*--as-classes") as found:
        index_of(path)
    assert words in str(found.value)
    assert index_of(path, as_classes=True).classes == (str(label),)


@pytest.mark.parametrize("label", [[1, 2], ["a"], {"a": 1}])
def test_a_list_is_no_label_whatever_is_said(tmp_path: Path, label: object) -> None:
    path = write(tmp_path / "list.jsonl", [{"path": "1.jpg", "label": label}])
    with pytest.raises(InvalidInput, match="looks like several labels"):
        index_of(path)
    with pytest.raises(InvalidInput, match="is not a label"):
        index_of(path, as_classes=True)


@ENDINGS
def test_whole_numbers_written_as_fractions_are_class_numbers(tmp_path: Path, ending: str) -> None:
    rows = [{"path": "1.jpg", "label": 2.0}, {"path": "2.jpg", "label": 10.0}]
    assert labels(index_of(write(tmp_path / f"list{ending}", rows))) == [2, 10]


def test_commas_and_versions_are_names(tmp_path: Path) -> None:
    rows = [{"path": "1.jpg", "label": "tench, Tinca"}, {"path": "2.jpg", "label": "v1.2.3"}]
    assert index_of(write(tmp_path / "list.jsonl", rows)).classes == ("tench, Tinca", "v1.2.3")


@ENDINGS
def test_columns_that_are_ignored_are_announced(tmp_path: Path, ending: str) -> None:
    row = {"path": "1.jpg", "label": "a", "BBox": "x", "split": "val", "author": "Ada"}
    boxes, split, rest = index_of(write(tmp_path / f"list{ending}", [row])).notes
    assert boxes.startswith("The column BBox is ignored: DDLP trains on one class per image")
    assert "Write a manifest for each split" in split
    assert rest == "Columns that are ignored: author."


def pack(path: Path, **members: bytes) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("__", "."))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_members_and_entries_of_a_tar_file_that_are_ignored_are_announced(tmp_path: Path) -> None:
    said = json.dumps({"label": 1, "boxes": [[0, 0, 1, 1]], "who": "Ada"}).encode()
    members = {"1__jpg": picture(), "1__json": said, "1__mask__png": picture("PNG")}
    index = index_of(pack(tmp_path / "d.tar", **members))
    assert index.notes == [
        "Members that are ignored, by their endings: .mask.png (1).",
        "Entries of .json members that are ignored: boxes, who.",
    ]


def test_labels_of_a_tar_file_are_classes_but_its_folders_may_have_any_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"d\.tar:1\.jpg has the label 0\.25"):
        index_of(pack(tmp_path / "d.tar", **{"1__jpg": picture(), "1__cls": b"0.25"}))
    index = index_of(pack(tmp_path / "e.tar", **{"a|b/1__jpg": picture(), "0.5/2__jpg": picture()}))
    assert index.classes == ("0.5", "a|b")


def test_arrays_that_are_ignored_are_announced(tmp_path: Path) -> None:
    pixels, numbers = np.zeros((2, 4, 4, 3), np.uint8), np.arange(2)
    arrays = {"x_train": pixels, "y_train": numbers, "x_test": pixels, "y_test": numbers}
    np.savez(tmp_path / "d.npz", **arrays)  # type: ignore[arg-type]
    assert index_of(tmp_path / "d.npz").notes == [
        "These arrays of d.npz are ignored: x_test, y_test."
    ]


@pytest.mark.parametrize("values", [[0.5, 1.5], [[1, 0], [0, 1]]])
def test_arrays_of_other_targets_are_refused(tmp_path: Path, values: list[Any]) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 4, 4, 3), np.uint8), y=np.asarray(values))
    with pytest.raises(InvalidInput, match="one class per sample"):
        index_of(tmp_path / "d.npz")


# Pixels


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def noise(dtype: str, *shape: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(1).integers(0, 250, shape).astype(dtype))


FRAMES: dict[str, Any] = {"save_all": True, "append_images": [noise("u1", 200, 200, 3)] * 2}


@pytest.mark.parametrize("check", ["quick", "full"])
@pytest.mark.parametrize(
    ("form", "dtype", "words"),
    [
        ("TIFF", "i4", "its pixels are 32 bits per channel"),
        ("TIFF", "f4", "its pixels are floating point"),
    ],
)
def test_more_than_16_bits_are_rejected(
    tmp_path: Path, check: str, form: str, dtype: str, words: str
) -> None:
    put(tmp_path / "d", "cat/good.jpg")
    put(tmp_path / "d", "cat/deep.png", data=encoded(noise(dtype, 300, 300), form))
    index = index_of(tmp_path / "d", check=check)
    assert names(index) == ["cat/good.jpg"]
    assert words in rejected(index)["cat/deep.png"]


@pytest.mark.parametrize("check", ["quick", "full"])
def test_16_bits_are_taken_and_announced(tmp_path: Path, check: str) -> None:
    put(tmp_path / "d", "cat/good.jpg")
    put(tmp_path / "d", "cat/deep.png", data=encoded(noise("u2", 300, 300), "PNG"))
    put(tmp_path / "d", "dog/deep.tif", data=encoded(noise("u2", 300, 300), "TIFF"))
    index = index_of(tmp_path / "d", check=check)
    assert names(index) == ["cat/deep.png", "cat/good.jpg", "dog/deep.tif"]
    assert rejected(index) == {}
    assert index.notes == ["Images of 16 bits per channel that are scaled to 8 bits: 2."]


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_several_pictures_in_a_file_are_rejected(tmp_path: Path, form: str) -> None:
    first = Image.linear_gradient("L").resize((200, 200)).convert("RGB")
    put(tmp_path / "d", "cat/good.jpg")
    put(tmp_path / "d", "cat/many.png", data=encoded(first, form, **FRAMES))
    put(tmp_path / "d", "cat/one.png", data=encoded(first, form))
    index = index_of(tmp_path / "d")
    assert names(index) == ["cat/good.jpg", "cat/one.png"]
    assert "DDLP takes single pictures" in rejected(index)["cat/many.png"]


@pytest.mark.parametrize(
    ("mode", "form"),
    [("CMYK", "JPEG"), ("RGBA", "PNG"), ("LA", "PNG"), ("P", "PNG"), ("1", "TIFF"), ("L", "TIFF")],
)
def test_other_modes_of_8_bits_are_taken(tmp_path: Path, mode: str, form: str) -> None:
    image = noise("u1", 30, 30, 3).convert(mode)
    put(tmp_path / "d", "cat/1.png", data=encoded(image, form))
    assert index_of(tmp_path / "d").rejected == 0
