"""The index: what was scanned comes back from a mapped file, and its version names it."""

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
    labels=(0, 0, 1),
)


def as_scan(index: DatasetIndex) -> FolderScan:
    samples = range(index.samples)
    return FolderScan(
        root=index.root,
        classes=index.classes,
        paths=tuple(str(index.path(n).relative_to(index.root)) for n in samples),
        sizes=tuple(index.size_bytes(n) for n in samples),
        labels=tuple(index.label(n) for n in samples),
    )


def test_what_was_scanned_comes_back(tmp_path: Path) -> None:
    summary = write_index(SCAN, tmp_path / "pets.idx")
    index = DatasetIndex(tmp_path / "pets.idx")
    assert as_scan(index) == SCAN
    assert index.version == summary.version
    assert summary.samples == 3
    assert summary.classes == ("cat", "dog")
    assert summary.total_bytes == 10 + 2**40


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20)
ROWS = st.tuples(
    NAMES.filter(lambda name: name not in (".", "..")),
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
    tmp_path: Path, classes: list[str], rows: list[tuple[str, int, int]]
) -> None:
    names, sizes, labels = zip(*rows, strict=True)
    scan = FolderScan(Path("/r"), tuple(classes), names, sizes, labels)
    write_index(scan, tmp_path / "any.idx")
    assert as_scan(DatasetIndex(tmp_path / "any.idx")) == scan


def version(scan: FolderScan, folder: Path) -> str:
    return write_index(scan, folder / "version.idx").version


@pytest.mark.parametrize(
    "changed",
    [
        replace(SCAN, paths=("cat/1.jpg", "cat/2.jpg", "dog/猫.png")),
        replace(SCAN, sizes=(11, 2**40, 0)),
        replace(SCAN, labels=(0, 1, 1)),
        replace(SCAN, classes=("cat", "wolf")),
        replace(SCAN, paths=SCAN.paths[:2], sizes=SCAN.sizes[:2], labels=SCAN.labels[:2]),
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
    write_index(replace(SCAN, sizes=(1, 2, 3)), path)
    assert as_scan(before) == SCAN
    assert DatasetIndex(path).size_bytes(1) == 2


@pytest.mark.parametrize("start", [b"DDLPIDX0", b"DDLPIDX2", b"\x89PNG\r\n\x1a\n"])
def test_another_kind_of_file_is_refused(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "pets.idx"
    write_index(SCAN, path)
    path.write_bytes(start + path.read_bytes()[8:])
    with pytest.raises(InvalidInput, match=r"pets\.idx is not a dataset index.*register it again"):
        DatasetIndex(path)


def test_an_index_is_mapped_and_not_read(tmp_path: Path) -> None:
    count = 20_000
    scan = FolderScan(
        root=tmp_path,
        classes=("c",),
        paths=tuple(f"c/{n:06d}.jpg" for n in range(count)),
        sizes=tuple(range(count)),
        labels=(0,) * count,
    )
    write_index(scan, tmp_path / "large.idx")
    index = DatasetIndex(tmp_path / "large.idx")
    maps = Path("/proc/self/maps").read_text()
    assert any(line.endswith("large.idx") and " r--" in line for line in maps.splitlines())
    assert index.path(count - 1).name == f"{count - 1:06d}.jpg"
    assert index.size_bytes(count - 1) == count - 1


def test_samples_are_read_from_where_they_lie(tmp_path: Path) -> None:
    for number, name in enumerate(["b/2.jpg", "a/1.jpg"]):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"x" * (number + 1))
    write_index(scan_folder(tmp_path), tmp_path / "i.idx")
    index = DatasetIndex(tmp_path / "i.idx")
    assert [index.read(sample) for sample in range(2)] == [b"xx", b"x"]
    assert index.path(0) == tmp_path / "a" / "1.jpg"
