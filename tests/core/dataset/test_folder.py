"""A scan finds the images of a folder in one order, and says what is wrong with a bad one."""

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlp.core.dataset import scan_folder
from ddlp.core.dataset.folder import IMAGE_SUFFIXES
from ddlp.core.errors import InvalidInput


def put(root: Path, *names: str, size: int = 3) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)


def test_a_scan_gives_paths_sizes_and_labels_side_by_side(tmp_path: Path) -> None:
    put(tmp_path, "dog/1.jpg", size=5)
    put(tmp_path, "cat/2.jpg", "cat/1.jpg", size=7)
    os.utime(tmp_path / "cat" / "2.jpg", ns=(1, 1_700_000_000_123_456_789))
    scan = scan_folder(tmp_path)
    assert scan.root == tmp_path
    assert scan.classes == ("cat", "dog")
    assert scan.paths == ("cat/1.jpg", "cat/2.jpg", "dog/1.jpg")
    assert scan.sizes == (7, 7, 5)
    assert scan.times_ns == tuple((tmp_path / path).stat().st_mtime_ns for path in scan.paths)
    assert scan.times_ns[1] == 1_700_000_000_123_456_789
    assert scan.labels == (0, 0, 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_does_not_depend_on_when_files_were_made(tmp_path: Path, seed: int) -> None:
    names = [
        f"{label}/{part}{number}.png"
        for label in "abc"
        for part in ("", "n/")
        for number in range(9)
    ]
    shuffled = random.Random(seed).sample(names, len(names))
    put(tmp_path, *shuffled)
    assert scan_folder(tmp_path).paths == tuple(sorted(names))


def test_images_in_subfolders_belong_to_the_class_at_the_top(tmp_path: Path) -> None:
    put(tmp_path, "cat/1.jpg", "cat/deep/er/2.jpg", "dog/far/3.jpg")
    scan = scan_folder(tmp_path)
    assert scan.classes == ("cat", "dog")
    assert scan.paths == ("cat/1.jpg", "cat/deep/er/2.jpg", "dog/far/3.jpg")
    assert scan.labels == (0, 0, 1)


def test_odd_names_are_kept_as_they_are(tmp_path: Path) -> None:
    names = {
        "Bäume und Sträucher/a b.jpg",
        "Bäume und Sträucher/ leading.jpg",
        "猫/写真 1.png",
        'quote\'s/"x".jpg',
        "new\nline/a\tb.jpg",
        "-dash/--help.jpg",
        "percent%20/100%.jpg",
    }
    put(tmp_path, *names)
    scan = scan_folder(tmp_path)
    assert set(scan.paths) == names
    assert list(scan.classes) == sorted(scan.classes)
    assert all((tmp_path / path).read_bytes() == b"xxx" for path in scan.paths)


def test_a_name_that_is_not_utf8_is_kept_as_it_is(tmp_path: Path) -> None:
    put(tmp_path, os.fsdecode(b"cat/\xff.jpg"))
    (path,) = scan_folder(tmp_path).paths
    assert os.fsencode(path) == b"cat/\xff.jpg"


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, ".making/1.jpg", "cat/.2.jpg", "cat/.thumbnails/3.jpg", "cat/4.jpg")
    scan = scan_folder(tmp_path)
    assert scan.classes == ("cat",)
    assert scan.paths == ("cat/4.jpg",)


def test_every_usual_ending_is_taken_in_any_case_and_nothing_else(tmp_path: Path) -> None:
    put(tmp_path, *(f"c/{n}{ending}" for n, ending in enumerate(sorted(IMAGE_SUFFIXES))))
    put(tmp_path, "c/upper.JPG", "c/mixed.JpEg")
    put(tmp_path, "c/readme.txt", "c/labels.csv", "c/jpg", "c/x.jpg.part", "top.jpg")
    assert len(scan_folder(tmp_path).paths) == len(IMAGE_SUFFIXES) + 2


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=f"{tmp_path}/none does not exist; give a folder"):
        scan_folder(tmp_path / "none")


def test_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    put(tmp_path, "data.zip")
    with pytest.raises(InvalidInput, match=r"data\.zip is not a folder"):
        scan_folder(tmp_path / "data.zip")


@pytest.mark.parametrize("names", [(), ("a.jpg", "b.jpg"), ("notes/readme.txt",), ("empty/x/y",)])
def test_a_folder_without_images_says_what_was_expected(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    put(tmp_path, *names)
    with pytest.raises(InvalidInput, match=r"holds no images; expected .*/CLASS/IMAGE.*\.jpg"):
        scan_folder(tmp_path)


def test_a_link_to_nothing_is_named(tmp_path: Path) -> None:
    put(tmp_path, "cat/1.jpg")
    (tmp_path / "cat" / "2.jpg").symlink_to("gone.jpg")
    with pytest.raises(InvalidInput, match=r"cat/2\.jpg cannot be read"):
        scan_folder(tmp_path)


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
    with pytest.raises(InvalidInput, match=rf"{name} links to .*{target}, outside.*--allow"):
        scan_folder(root, allowed=[])


@OUTWARD
def test_a_link_to_a_place_that_is_allowed_is_followed(
    tmp_path: Path, target: str, name: str
) -> None:
    root = link_to(tmp_path, target, name)
    beside = [tmp_path / "secret", tmp_path / "data-secret"]
    assert len(scan_folder(root, allowed=beside).paths) == 2
    assert len(scan_folder(root).paths) == 2, "without limits every link is followed"


def test_a_link_back_to_a_folder_above_is_not_followed_round_and_round(tmp_path: Path) -> None:
    put(tmp_path, "cat/deep/1.jpg")
    (tmp_path / "cat" / "deep" / "again").symlink_to(tmp_path / "cat")
    assert scan_folder(tmp_path).paths == ("cat/deep/1.jpg",)


def test_a_pipe_with_the_name_of_an_image_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    put(tmp_path, "cat/1.jpg")
    os.mkfifo(tmp_path / "cat" / "2.jpg")
    with pytest.raises(InvalidInput, match=r"cat/2\.jpg is not a regular file; remove it"):
        scan_folder(tmp_path)


def test_a_link_within_the_folder_is_an_image_like_any_other(tmp_path: Path) -> None:
    put(tmp_path, "cat/1.jpg", size=11)
    (tmp_path / "dog").mkdir()
    (tmp_path / "dog" / "2.jpg").symlink_to("../cat/1.jpg")
    scan = scan_folder(tmp_path)
    assert scan.paths == ("cat/1.jpg", "dog/2.jpg")
    assert scan.sizes == (11, 11)


def test_the_folder_itself_may_be_reached_by_a_link(tmp_path: Path) -> None:
    put(tmp_path, "real/cat/1.jpg")
    (tmp_path / "real" / "cat" / "2.jpg").symlink_to("1.jpg")
    (tmp_path / "link").symlink_to("real")
    assert scan_folder(tmp_path / "link").paths == ("cat/1.jpg", "cat/2.jpg")


SCAN_WITHOUT_RIGHTS = """
import os, sys
from pathlib import Path
from ddlp.core.dataset import scan_folder
from ddlp.core.errors import InvalidInput

if os.geteuid() == 0:
    os.setuid(65534)
try:
    scan_folder(Path(sys.argv[1]))
except InvalidInput as error:
    print(error)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everyone may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("closed", ["dog", "dog/deep", "dog/deep/1.jpg"])
def test_what_may_not_be_read_is_named(open_folder: Path, closed: str) -> None:
    put(open_folder, "cat/1.jpg", "dog/deep/1.jpg")
    (open_folder / closed).chmod(0)
    command = [sys.executable, "-c", SCAN_WITHOUT_RIGHTS, str(open_folder)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (open_folder / closed).chmod(0o755)
    assert f"{open_folder / closed} cannot be read" in said
