"""A scan finds the images of a folder in one order, and lists what is wrong with a bad one."""

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.dataset.files import IMAGE_SUFFIXES
from ddlp.core.errors import InvalidInput
from tests.core.dataset.making import index_of, labels, names, picture, put, rejected


def test_a_scan_gives_names_sizes_and_labels(tmp_path: Path) -> None:
    put(tmp_path / "d", "dog/1.jpg", data=picture(width=9))
    put(tmp_path / "d", "cat/2.jpg", "cat/1.jpg")
    index = index_of(tmp_path / "d")
    assert (index.kind, index.root, index.classes) == ("folder", tmp_path / "d", ("cat", "dog"))
    assert names(index) == ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg"]
    assert labels(index) == [0, 0, 1]
    assert index.total_bytes == 2 * len(picture()) + len(picture(width=9))
    assert index.heads(np.arange(3)).width.tolist() == [5, 5, 9]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_does_not_depend_on_when_files_were_made(tmp_path: Path, seed: int) -> None:
    wanted = [
        f"{label}/{part}{number}.png"
        for label in "abc"
        for part in ("", "n/", "n-", "n./", "n0/")
        for number in range(4)
    ]
    put(tmp_path / "d", *random.Random(seed).sample(wanted, len(wanted)))
    assert names(index_of(tmp_path / "d")) == sorted(wanted)


def test_images_in_subfolders_belong_to_the_class_at_the_top(tmp_path: Path) -> None:
    put(tmp_path / "d", "cat/1.jpg", "cat/deep/er/2.jpg", "dog/far/3.jpg")
    index = index_of(tmp_path / "d")
    assert index.classes == ("cat", "dog")
    assert names(index) == ["cat/1.jpg", "cat/deep/er/2.jpg", "dog/far/3.jpg"]
    assert labels(index) == [0, 0, 1]


def test_odd_names_are_kept_as_they_are(tmp_path: Path) -> None:
    wanted = {
        "Bäume und Sträucher/a b.jpg",
        "Bäume und Sträucher/ leading.jpg",
        "猫/写真 1.png",
        'quote\'s/"x".jpg',
        "new\nline/a\tb.jpg",
        "-dash/--help.jpg",
        "percent%20/100%.jpg",
    }
    put(tmp_path / "d", *wanted)
    index = index_of(tmp_path / "d")
    assert set(names(index)) == wanted
    assert list(index.classes) == sorted(index.classes)
    assert all(index.read(sample) == picture() for sample in range(len(wanted)))


def test_a_name_that_is_not_utf8_is_read_and_can_be_shown(tmp_path: Path) -> None:
    put(tmp_path / "d", os.fsdecode(b"cat/\xff.jpg"))
    index = index_of(tmp_path / "d")
    assert names(index) == ["cat/\\xff.jpg"]
    assert index.read(0) == picture()


def test_a_class_whose_name_is_not_utf8_is_named(tmp_path: Path) -> None:
    put(tmp_path / "d", os.fsdecode(b"c\xff/1.jpg"))
    with pytest.raises(InvalidInput, match="cannot be a class name; rename it"):
        index_of(tmp_path / "d")


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    put(tmp_path / "d", ".making/1.jpg", "cat/.2.jpg", "cat/.thumbnails/3.jpg", "cat/4.jpg")
    index = index_of(tmp_path / "d")
    assert index.classes == ("cat",)
    assert names(index) == ["cat/4.jpg"]


def test_every_usual_ending_is_taken_in_any_case_and_nothing_else(tmp_path: Path) -> None:
    put(tmp_path / "d", *(f"c/{n}{ending}" for n, ending in enumerate(sorted(IMAGE_SUFFIXES))))
    put(tmp_path / "d", "c/upper.JPG", "c/mixed.JpEg")
    put(tmp_path / "d", "c/readme.txt", "c/labels.csv", "c/jpg", "c/x.jpg.part", "top.jpg")
    index = index_of(tmp_path / "d")
    assert (index.samples, index.rejected) == (len(IMAGE_SUFFIXES) + 2, 0)


@pytest.mark.parametrize("given", [(), ("notes/readme.txt",), ("empty/x/y",)])
def test_a_folder_without_images_says_what_was_expected(
    tmp_path: Path, given: tuple[str, ...]
) -> None:
    (tmp_path / "d").mkdir()
    put(tmp_path / "d", *given)
    with pytest.raises(InvalidInput, match=r"holds no images; expected .*/CLASS/IMAGE.*\.jpg"):
        index_of(tmp_path / "d")


def test_bad_files_are_listed_and_stop_nothing(tmp_path: Path) -> None:
    root = tmp_path / "d"
    put(root, "cat/good.jpg", "dog/good.png")
    put(root, "cat/empty.jpg", data=b"")
    put(root, "cat/text.jpg", data=b"this is no image")
    put(root, "cat/torn.jpg", data=picture(width=100, height=100)[:-200])
    (root / "cat" / "gone.jpg").symlink_to("nowhere.jpg")
    os.mkfifo(root / "cat" / "pipe.jpg")
    index = index_of(root)
    assert names(index) == ["cat/good.jpg", "dog/good.png"]
    assert labels(index) == [0, 1]
    reasons = rejected(index)
    assert index.rejected == len(reasons) == 5
    assert list(reasons) == sorted(reasons)
    assert reasons["cat/empty.jpg"] == "it is empty"
    assert "cannot be read (No such file" in reasons["cat/gone.jpg"]
    assert reasons["cat/pipe.jpg"] == "it is not a regular file"
    assert reasons["cat/text.jpg"]
    assert reasons["cat/torn.jpg"]


def test_a_folder_of_bad_files_only_says_how_many_and_why(tmp_path: Path) -> None:
    put(tmp_path / "d", "cat/1.jpg", "cat/2.jpg", data=b"")
    with pytest.raises(InvalidInput, match=r"2 were rejected, first .*cat/1\.jpg: it is empty"):
        index_of(tmp_path / "d")


def link_to(tmp_path: Path, target: str, name: str) -> Path:
    """A dataset with one link in it, beside other folders."""
    put(tmp_path, "secret/1.jpg", "data-secret/1.jpg", "data/cat/1.jpg")
    (tmp_path / "data" / name).symlink_to(tmp_path / target)
    return tmp_path / "data"


OUTWARD = pytest.mark.parametrize(
    ("target", "name"),
    [
        ("secret/1.jpg", "cat/2.jpg"),
        ("data-secret/1.jpg", "cat/2.jpg"),  # a similar name is another folder
        ("secret", "out"),
        ("secret", "cat/deeper"),
    ],
)


@OUTWARD
def test_a_link_that_leads_out_of_what_is_allowed_is_named(
    tmp_path: Path, target: str, name: str
) -> None:
    root = link_to(tmp_path, target, name)
    with pytest.raises(
        InvalidInput, match=rf"{name} leads to .*{target}, outside.*ddlp roots add FOLDER"
    ):
        index_of(root, allowed=())
    assert not list(tmp_path.glob("*.idx*"))


@OUTWARD
def test_a_link_to_a_place_that_is_allowed_is_followed(
    tmp_path: Path, target: str, name: str
) -> None:
    root = link_to(tmp_path, target, name)
    beside = (tmp_path / "secret", tmp_path / "data-secret")
    assert index_of(root, allowed=beside).samples == 2
    assert index_of(root).samples == 2, "without limits every link is followed"


def test_a_link_back_to_a_folder_above_is_not_followed_round_and_round(tmp_path: Path) -> None:
    put(tmp_path / "d", "cat/deep/1.jpg")
    (tmp_path / "d" / "cat" / "deep" / "again").symlink_to(tmp_path / "d" / "cat")
    assert names(index_of(tmp_path / "d")) == ["cat/deep/1.jpg"]


def test_a_link_within_the_folder_is_an_image_like_any_other(tmp_path: Path) -> None:
    put(tmp_path / "d", "cat/1.jpg", "dog/1.jpg")
    (tmp_path / "d" / "dog" / "2.jpg").symlink_to("../cat/1.jpg")
    index = index_of(tmp_path / "d", allowed=())
    assert names(index) == ["cat/1.jpg", "dog/1.jpg", "dog/2.jpg"]
    assert index.read(2) == picture()


def test_the_folder_itself_may_be_reached_by_a_link(tmp_path: Path) -> None:
    put(tmp_path, "real/cat/1.jpg")
    (tmp_path / "real" / "cat" / "2.jpg").symlink_to("1.jpg")
    (tmp_path / "link").symlink_to("real")
    assert names(index_of(tmp_path / "link", allowed=())) == ["cat/1.jpg", "cat/2.jpg"]


SCAN_WITHOUT_RIGHTS = """
import os, sys
from pathlib import Path
from ddlp.core.dataset import DatasetIndex, scan

if os.geteuid() == 0:
    os.setuid(65534)
into = Path(sys.argv[2])
scan(Path(sys.argv[1]), into)
for found in DatasetIndex(into).list_rejected():
    print(found.name, found.reason)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everyone may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("closed", ["dog", "dog/deep", "dog/deep/1.jpg"])
def test_what_may_not_be_read_is_listed(open_folder: Path, closed: str) -> None:
    put(open_folder, "d/cat/1.jpg", "d/dog/deep/1.jpg")
    (open_folder / "out").mkdir()
    (open_folder / "out").chmod(0o777)
    (open_folder / "d" / closed).chmod(0)
    where = [str(open_folder / "d"), str(open_folder / "out" / "i.idx")]
    command = [sys.executable, "-c", SCAN_WITHOUT_RIGHTS, *where]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (open_folder / "d" / closed).chmod(0o755)
    assert said == f"{open_folder / 'd' / closed} it cannot be read (Permission denied)\n"
