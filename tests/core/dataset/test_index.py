"""The index: what was scanned comes back from a mapped file, and its version names it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddlp.core.dataset import DatasetIndex, FolderScan, scan_folder, write_index
from ddlp.core.errors import InvalidInput

SCAN = FolderScan(
    root=Path("/data/pets"),
    classes=("cat", "dog"),
    paths=("cat/1.jpg", "cat/ä ö.jpg", "dog/猫.png"),
    sizes=(10, 2**40, 0),
    times_ns=(0, 1_700_000_000_123_456_789, 2**62),
    labels=(0, 0, 1),
)


def names_and_labels(source: DatasetIndex | FolderScan) -> tuple[list[str], list[int]]:
    if isinstance(source, FolderScan):
        return list(source.paths), list(source.labels)
    samples = range(source.samples)
    names = [str(source.path(sample).relative_to(source.root)) for sample in samples]
    return names, [source.label(sample) for sample in samples]


def test_what_was_scanned_comes_back(tmp_path: Path) -> None:
    summary = write_index(SCAN, tmp_path / "pets.idx")
    index = DatasetIndex(tmp_path / "pets.idx")
    assert (index.root, index.classes) == (SCAN.root, SCAN.classes)
    assert names_and_labels(index) == names_and_labels(SCAN)
    assert index.version == summary.version
    assert summary.samples == index.samples == 3
    assert summary.classes == ("cat", "dog")
    assert summary.total_bytes == 10 + 2**40


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20)
ROWS = st.tuples(
    NAMES.filter(lambda name: name not in (".", "..")),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    st.integers(0, 2**40),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    classes=st.lists(NAMES, min_size=1, max_size=5), rows=st.lists(ROWS, min_size=1, max_size=30)
)
def test_any_names_sizes_and_labels_come_back(
    tmp_path: Path, classes: list[str], rows: list[tuple[str, int, int, int]]
) -> None:
    names, sizes, times_ns, labels = zip(*rows, strict=True)
    scan = FolderScan(Path("/r"), tuple(classes), names, sizes, times_ns, labels)
    write_index(scan, tmp_path / "any.idx")
    index = DatasetIndex(tmp_path / "any.idx")
    assert index.classes == tuple(classes)
    assert names_and_labels(index) == names_and_labels(scan)


def test_a_name_that_is_not_utf8_comes_back_byte_for_byte(tmp_path: Path) -> None:
    odd = os.fsdecode(b"cat/\xff\xfe.jpg")
    write_index(replace(SCAN, paths=(odd, *SCAN.paths[1:])), tmp_path / "odd.idx")
    assert os.fsencode(DatasetIndex(tmp_path / "odd.idx").path(0)) == b"/data/pets/cat/\xff\xfe.jpg"


def version(scan: FolderScan, folder: Path) -> str:
    return write_index(scan, folder / "version.idx").version


@pytest.mark.parametrize(
    "changed",
    [
        replace(SCAN, paths=("cat/1.jpg", "cat/2.jpg", "dog/猫.png")),
        replace(SCAN, sizes=(11, 2**40, 0)),
        replace(SCAN, times_ns=(1, *SCAN.times_ns[1:])),
        replace(SCAN, labels=(0, 1, 1)),
        replace(SCAN, classes=("cat", "wolf")),
        FolderScan(SCAN.root, SCAN.classes, ("cat/1.jpg",), (10,), (0,), (0,)),
        replace(SCAN, paths=("cat/1.jpgc", "at/ä ö.jpg", "dog/猫.png")),
    ],
)
def test_the_version_changes_with_what_was_scanned(tmp_path: Path, changed: FolderScan) -> None:
    assert version(changed, tmp_path) != version(SCAN, tmp_path)


def test_the_version_does_not_change_with_the_place(tmp_path: Path) -> None:
    moved = replace(SCAN, root=Path("/mnt/copy"))
    assert version(moved, tmp_path) == version(SCAN, tmp_path)


def test_an_index_appears_whole_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_index(SCAN, tmp_path / "new" / "folder" / "pets.idx")
    write_index(SCAN, tmp_path / "new" / "folder" / "pets.idx")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["pets.idx"]


def test_an_open_index_does_not_change_when_it_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "pets.idx"
    write_index(SCAN, path)
    before = DatasetIndex(path)
    write_index(replace(SCAN, labels=(1, 1, 0)), path)
    assert names_and_labels(before) == names_and_labels(SCAN)
    assert DatasetIndex(path).label(0) == 1


@pytest.mark.parametrize("start", [b"DDLPIDX0", b"DDLPIDX2", b"\x89PNG\r\n\x1a\n"])
def test_another_kind_of_file_is_refused(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "pets.idx"
    write_index(SCAN, path)
    path.write_bytes(start + path.read_bytes()[8:])
    with pytest.raises(InvalidInput, match=r"pets\.idx is not a dataset index.*register it again"):
        DatasetIndex(path)


@pytest.mark.parametrize("kept", [0, 1, 8, 15, 16, 20, 100, -1])
def test_an_index_that_was_cut_short_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "pets.idx"
    write_index(SCAN, path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match=r"pets\.idx is not a dataset index.*register it again"):
        DatasetIndex(path)


def test_an_index_that_grew_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pets.idx"
    write_index(SCAN, path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(InvalidInput, match="it is cut short or has grown"):
        DatasetIndex(path)


def test_an_index_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.idx is not a dataset index.*No such file"):
        DatasetIndex(tmp_path / "none.idx")


def test_an_index_is_mapped_and_not_read(tmp_path: Path) -> None:
    count = 20_000
    scan = FolderScan(
        root=tmp_path,
        classes=("c",),
        paths=tuple(f"c/{n:06d}.jpg" for n in range(count)),
        sizes=tuple(range(count)),
        times_ns=tuple(range(count)),
        labels=tuple(range(count)),
    )
    write_index(scan, tmp_path / "large.idx")
    index = DatasetIndex(tmp_path / "large.idx")
    maps = Path("/proc/self/maps").read_text()
    assert any(line.endswith("large.idx") and " r--" in line for line in maps.splitlines())
    assert index.path(count - 1).name == f"{count - 1:06d}.jpg"
    assert index.label(count - 1) == count - 1


def test_samples_are_read_from_where_they_lie(tmp_path: Path) -> None:
    for number, name in enumerate(["b/2.jpg", "a/1.jpg"]):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"x" * (number + 1))
    write_index(scan_folder(tmp_path), tmp_path / "i.idx")
    index = DatasetIndex(tmp_path / "i.idx")
    assert [index.read(sample) for sample in range(2)] == [b"xx", b"x"]
    assert index.path(0) == tmp_path / "a" / "1.jpg"


@pytest.fixture
def one_image(tmp_path: Path) -> DatasetIndex:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.jpg").write_bytes(b"aaaa")
    write_index(scan_folder(tmp_path), tmp_path / "i.idx")
    return DatasetIndex(tmp_path / "i.idx")


def replace_file(path: Path, data: bytes, later_ns: int) -> None:
    """Put other bytes in a file's place, and say when that was."""
    changed_at = path.stat().st_mtime_ns + later_ns
    path.write_bytes(data)
    os.utime(path, ns=(changed_at, changed_at))


@pytest.mark.parametrize(
    ("data", "later_ns"), [(b"bbbb", 1), (b"bbbb", -1), (b"bbbbb", 0), (b"", 0)]
)
def test_a_file_that_was_changed_after_it_was_indexed_is_refused(
    one_image: DatasetIndex, data: bytes, later_ns: int
) -> None:
    replace_file(one_image.path(0), data, later_ns)
    with pytest.raises(ValueError, match="changed after it was indexed; register the dataset"):
        one_image.read(0)


def test_the_version_changes_when_a_file_is_replaced_by_one_of_the_same_size(
    one_image: DatasetIndex, tmp_path: Path
) -> None:
    replace_file(one_image.path(0), b"bbbb", later_ns=1)
    assert version(scan_folder(one_image.root), tmp_path / "later") != one_image.version
