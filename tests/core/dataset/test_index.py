"""The index: what was collected comes back from a mapped file, and its version names it."""

import contextlib
import errno
import json
import os
import random
import re
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddlp.core.dataset import DatasetIndex, IndexSummary, Rejected, delete_index
from ddlp.core.dataset.layout import ROW, SECTIONS, SampleRow, padding
from ddlp.core.dataset.writer import IndexHead, index_writer
from ddlp.core.errors import InvalidInput, SystemFault
from ddlp.core.maps import OUTLIVES_LOSS
from tests.core.dataset.making import index_of, labels, names, picture, put


@dataclass(frozen=True)
class Made:
    """A dataset of loose files as a scan would have found it."""

    root: Path = Path("/data/pets")
    classes: tuple[str, ...] = ("cat", "dog")
    names: tuple[str, ...] = ("cat/1.jpg", "cat/ä ö.jpg", "dog/猫.png")
    sizes: tuple[int, ...] = (10, 2**40, 0)
    times_ns: tuple[int, ...] = (0, 1_700_000_000_123_456_789, 2**62)
    labels: tuple[int, ...] = (0, 0, 1)
    widths: tuple[int, ...] = (5, 6, 7)
    orientations: tuple[int, ...] = (1, 8, 1)
    rejected: tuple[tuple[str, str], ...] = (("cat/bad.jpg", "it is empty"),)
    files: tuple[tuple[str, int, int], ...] = ()

    def write(self, path: Path) -> IndexSummary:
        with index_writer(path) as writer:
            for name, size, time_ns in self.files:
                writer.add_file(name.encode(), size, time_ns)
            for at, name in enumerate(self.names):
                row = SampleRow(self.sizes[at], self.times_ns[at], label=self.labels[at])
                row = row._replace(width=self.widths[at], height=4, kind=1)
                row = row._replace(orientation=self.orientations[at])
                writer.samples.append(os.fsencode(name), row)
            for name, reason in self.rejected:
                writer.reject(name, reason)
            kind = "tar" if self.files else "folder"
            return writer.finish(IndexHead(kind, self.root, self.classes), path)


def test_what_was_collected_comes_back(tmp_path: Path) -> None:
    summary = Made().write(tmp_path / "pets.idx")
    index = DatasetIndex(tmp_path / "pets.idx")
    assert (index.root, index.classes, index.kind) == (Made.root, Made.classes, "folder")
    assert [index.name(n) for n in range(3)] == [f"/data/pets/{name}" for name in Made.names]
    assert labels(index) == [0, 0, 1]
    assert index.labels(np.asarray([2, 0, 2])).tolist() == [1, 0, 1]
    heads = index.heads(np.asarray([2, 1]))
    assert heads.width.tolist() == [7, 6]
    assert heads.height.tolist() == [4, 4]
    assert heads.orientation.tolist() == [1, 8]
    assert heads.kind.tolist() == [1, 1]
    assert (heads.width.dtype, heads.kind.dtype) == (np.int64, np.uint8)
    assert (index.total_bytes, index.rejected, index.pixels_shape) == (10 + 2**40, 1, None)
    assert index.list_rejected() == [Rejected("cat/bad.jpg", "it is empty")]
    assert summary == IndexSummary(index.version, "folder", 3, Made.classes, 10 + 2**40, 1)


def test_a_single_sample_is_told_with_its_name_as_bytes(tmp_path: Path) -> None:
    Made().write(tmp_path / "pets.idx")
    index = DatasetIndex(tmp_path / "pets.idx")
    row, name = index.row(1)
    assert name == os.fsencode(Made.names[1])
    assert (row.size, row.time_ns, row.label, row.width) == (2**40, Made.times_ns[1], 0, 6)
    assert index.sizes(np.asarray([2, 1, 0])).tolist() == [0, 2**40, 10]


def test_a_version_can_be_given(tmp_path: Path) -> None:
    with index_writer(tmp_path / "i.idx") as writer:
        writer.samples.append(b"a", SampleRow(1, 1, width=1, height=1, kind=1, orientation=1))
        head = IndexHead("folder", tmp_path, ("cat",), version="cd" * 32)
        assert writer.finish(head, tmp_path / "i.idx").version == "cd" * 32
    assert DatasetIndex(tmp_path / "i.idx").version == "cd" * 32


def test_only_packed_samples_are_expected(tmp_path: Path) -> None:
    put(tmp_path / "d", "c/1.jpg")
    index = index_of(tmp_path / "d")
    index.expect(np.asarray([0]))
    (tmp_path / "d" / "c" / "1.jpg").write_bytes(b"other")
    with pytest.raises(ValueError, match="changed after it was indexed"):
        index.read(0)


def test_no_samples_are_no_trouble(tmp_path: Path) -> None:
    Made().write(tmp_path / "pets.idx")
    index = DatasetIndex(tmp_path / "pets.idx")
    none = np.empty(0, dtype=np.int64)
    assert len(index.labels(none)) == len(index.heads(none).width) == 0


@pytest.mark.parametrize("sample", [-1, 3, 2**40])
def test_a_sample_that_is_not_there_is_refused(tmp_path: Path, sample: int) -> None:
    Made().write(tmp_path / "pets.idx")
    index = DatasetIndex(tmp_path / "pets.idx")
    for ask in (index.labels, index.heads):
        with pytest.raises(InvalidInput, match="samples 0 to 2 only"):
            ask(np.asarray([0, sample]))
    for ask_one in (index.read, index.name):
        with pytest.raises(InvalidInput, match="there is no sample"):
            ask_one(sample)


def test_the_members_of_a_class_are_its_samples_in_order(tmp_path: Path) -> None:
    count = 1000
    drawn = random.Random(7).choices(range(5), k=count)
    numbered = tuple(str(n) for n in range(count))
    zeros = (0,) * count
    made = Made(
        classes=tuple("abcdef"),
        names=numbered,
        sizes=zeros,
        times_ns=zeros,
        labels=tuple(drawn),
        widths=(1,) * count,
        orientations=(1,) * count,
    )
    made.write(tmp_path / "many.idx")
    index = DatasetIndex(tmp_path / "many.idx")
    for label in range(6):
        wanted = [sample for sample, of in enumerate(drawn) if of == label]
        assert index.members(label).tolist() == wanted
    with pytest.raises(InvalidInput, match="there is no class 6"):
        index.members(6)


def test_rejected_files_are_listed_page_by_page(tmp_path: Path) -> None:
    found = tuple((f"{n}.jpg", f"reason {n}: ü") for n in range(25))
    replace(Made(), rejected=found).write(tmp_path / "pets.idx")
    index = DatasetIndex(tmp_path / "pets.idx")
    assert index.rejected == 25
    pages = [index.list_rejected(start, 10) for start in range(0, 40, 10)]
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert pages[2][-1] == Rejected("24.jpg", "reason 24: ü")


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20)
ROWS = st.tuples(
    NAMES.filter(lambda name: name not in (".", "..")),
    st.integers(0, 2**62),
    st.integers(-(2**62), 2**62),
    st.integers(0, 4),
    st.integers(1, 2**32 - 1),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    classes=st.lists(NAMES, min_size=5, max_size=5), rows=st.lists(ROWS, min_size=1, max_size=30)
)
def test_any_names_sizes_and_labels_come_back(
    tmp_path: Path, classes: list[str], rows: list[tuple[str, int, int, int, int]]
) -> None:
    given_names, sizes, times_ns, given_labels, widths = zip(*rows, strict=True)
    ones = (1,) * len(rows)
    made = Made(
        Path("/r"), tuple(classes), given_names, sizes, times_ns, given_labels, widths, ones
    )
    made.write(tmp_path / "any.idx")
    index = DatasetIndex(tmp_path / "any.idx")
    assert index.classes == tuple(classes)
    assert names(index) == list(given_names)
    assert labels(index) == list(given_labels)
    assert index.heads(np.arange(len(rows))).width.tolist() == list(widths)


def version(made: Made, folder: Path) -> str:
    return made.write(folder / "version.idx").version


@pytest.mark.parametrize(
    "changed",
    [
        replace(Made(), names=("cat/1.jpg", "cat/2.jpg", "dog/猫.png")),
        replace(Made(), sizes=(11, 2**40, 0)),
        replace(Made(), times_ns=(1, *Made.times_ns[1:])),
        replace(Made(), labels=(0, 1, 1)),
        replace(Made(), classes=("cat", "wolf")),
        replace(Made(), widths=(5, 6, 8)),
        replace(Made(), orientations=(1, 7, 1)),
        replace(Made(), names=("cat/1.jpg",)),
        replace(Made(), names=("cat/1.jpgc", "at/ä ö.jpg", "dog/猫.png")),
        replace(Made(), files=(("a.tar", 1, 2),)),
    ],
)
def test_the_version_changes_with_what_was_found(tmp_path: Path, changed: Made) -> None:
    assert version(changed, tmp_path) != version(Made(), tmp_path)


def test_the_version_changes_with_a_shard(tmp_path: Path) -> None:
    shards = replace(Made(), files=(("a.tar", 1, 2),))
    later = replace(Made(), files=(("a.tar", 1, 3),))
    assert version(later, tmp_path) != version(shards, tmp_path)


def test_the_version_does_not_change_with_the_place_or_what_was_rejected(tmp_path: Path) -> None:
    moved = replace(Made(), root=Path("/mnt/copy"), rejected=())
    assert version(moved, tmp_path) == version(Made(), tmp_path)


def test_an_index_appears_whole_and_leaves_nothing_else(tmp_path: Path) -> None:
    Made().write(tmp_path / "new" / "folder" / "pets.idx")
    Made().write(tmp_path / "new" / "folder" / "pets.idx")
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["pets.idx"]


def test_an_open_index_does_not_change_when_it_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "pets.idx"
    Made().write(path)
    before = DatasetIndex(path)
    replace(Made(), labels=(1, 1, 0)).write(path)
    assert labels(before) == [0, 0, 1]
    assert labels(DatasetIndex(path)) == [1, 1, 0]


def test_an_index_can_be_deleted_and_need_not_be_there(tmp_path: Path) -> None:
    Made().write(tmp_path / "pets.idx")
    (tmp_path / "pets.idx.pixels").write_bytes(b"x")
    (tmp_path / "pets.idx2").write_bytes(b"another's")
    for _ in range(2):
        delete_index(tmp_path / "pets.idx")
        assert [path.name for path in tmp_path.iterdir()] == ["pets.idx2"]


@pytest.mark.parametrize("start", [b"DDLPIDX0", b"DDLPIDX1", b"\x89PNG\r\n\x1a\n"])
def test_another_kind_of_file_is_refused(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "pets.idx"
    Made().write(path)
    path.write_bytes(start + path.read_bytes()[8:])
    with pytest.raises(InvalidInput, match=r"pets\.idx is not a dataset index.*rescan its dataset"):
        DatasetIndex(path)


@pytest.mark.parametrize("kept", [0, 1, 8, 15, 16, 20, 100, 600, -1])
def test_an_index_that_was_cut_short_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "pets.idx"
    Made().write(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match=r"pets\.idx is not a dataset index.*rescan its dataset"):
        DatasetIndex(path)


@pytest.mark.skipif(not OUTLIVES_LOSS, reason="the module in C was not built")
def test_an_index_that_is_cut_short_while_it_is_used_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pets.idx"
    count = 1000
    ones = (1,) * count
    numbers = tuple(f"{number:04}.jpg" for number in range(count))
    Made(
        names=numbers, sizes=ones, times_ns=ones, labels=ones, widths=ones, orientations=ones
    ).write(path)
    index = DatasetIndex(path)
    os.truncate(path, 0)
    with pytest.raises(InvalidInput, match=r"pets\.idx is damaged \(it was cut short\)"):
        index.labels(np.arange(count))


def test_an_index_that_grew_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pets.idx"
    Made().write(path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(InvalidInput, match="it is cut short or has grown"):
        DatasetIndex(path)


def test_an_index_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.idx is not a dataset index.*No such file"):
        DatasetIndex(tmp_path / "none.idx")


def refuse(monkeypatch: pytest.MonkeyPatch, number: int, times: int) -> None:
    """Have opening a file fail so often."""
    real, left = Path.open, [number] * times

    def fail(path: Path, *arguments: Any, **options: Any) -> Any:
        if left:
            raise OSError(left.pop(), os.strerror(number), str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", fail)


PASSING = [errno.EIO, errno.EMFILE, errno.ENOMEM, errno.ESTALE]


@pytest.mark.parametrize("number", PASSING)
def test_an_index_is_opened_once_an_error_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    Made().write(tmp_path / "pets.idx")
    refuse(monkeypatch, number, 5)
    assert DatasetIndex(tmp_path / "pets.idx").samples == 3


@pytest.mark.parametrize("number", PASSING)
def test_an_error_that_stays_is_not_taken_for_a_wrong_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, impatient: None, number: int
) -> None:
    path = tmp_path / "pets.idx"
    Made().write(path)
    refuse(monkeypatch, number, 9999)
    with pytest.raises(SystemFault) as caught:
        DatasetIndex(path)
    assert f"open of {path} failed with {errno.errorcode[number]} (" in str(caught.value)
    assert "rescan" not in str(caught.value)


def test_an_index_that_may_not_be_read_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pets.idx"
    refuse(monkeypatch, errno.EACCES, 1)
    with pytest.raises(InvalidInput, match=rf"open of {path} failed with EACCES .*the right to"):
        DatasetIndex(path)


@pytest.mark.parametrize("number", PASSING)
def test_a_row_is_read_once_an_error_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    Made().write(tmp_path / "pets.idx")
    index = DatasetIndex(tmp_path / "pets.idx")
    real, left = os.pread, [number] * 5

    def fail(*arguments: Any) -> bytes:
        if left:
            raise OSError(left.pop(), os.strerror(number))
        return real(*arguments)

    monkeypatch.setattr(os, "pread", fail)
    assert index.name(1) == "/data/pets/cat/ä ö.jpg"


def use(path: Path) -> None:
    """Everything that can be asked of an index."""
    index = DatasetIndex(path)
    every = np.arange(index.samples)
    index.labels(every)
    index.heads(every)
    for label in range(len(index.classes)):
        if (members := index.members(label)).size:
            index.labels(members)
    for sample in range(index.samples):
        index.name(sample)
    for sample in range(index.samples):
        index.read(sample)
    index.list_rejected()
    if index.pixels_shape:
        int(index.pixels().sum())


def damage(path: Path, seed: int) -> None:
    """Other bytes in a few places; a good part of them in the numbers of the body."""
    data, drawn = bytearray(path.read_bytes()), random.Random(seed)
    (length,) = struct.unpack_from("<Q", data, 8)
    for _ in range(drawn.randint(1, 4)):
        first = 8 if drawn.random() < 0.3 else 16 + length
        at = drawn.randrange(first, len(data))
        data[at : at + 1] = bytes([drawn.choice([0, 1, 0x7F, 0x80, 0xFF, drawn.randrange(256)])])
    path.write_bytes(data)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small index of each sort, of files that exist."""
    root = tmp_path_factory.mktemp("sound")
    put(root / "folder", "cat/1.jpg", "dog/2.jpg", "dog/3.png")
    put(root / "folder", "dog/4.jpg", data=b"")
    np.savez(root / "a.npz", x=np.ones((4, 3, 2, 3), np.uint8), y=[0, 1, 1, 2])
    index_of(root / "folder", root / "folder.idx")
    index_of(root / "a.npz", root / "array.idx")
    return {name: (root / f"{name}.idx").read_bytes() for name in ("folder", "array")}


@pytest.mark.parametrize("kind", ["folder", "array"])
@pytest.mark.parametrize("seed", range(150))
def test_a_damaged_index_is_an_error_and_never_a_crash(
    tmp_path: Path, sound: dict[str, bytes], kind: str, seed: int
) -> None:
    path = tmp_path / "d.idx"
    path.write_bytes(sound[kind])
    use(path)
    damage(path, seed)
    # A name that leads to another file, or to none, shows when that is opened.
    with contextlib.suppress(InvalidInput, ValueError, OSError):
        use(path)


def rewrite_head(path: Path, **changes: object) -> None:
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data, 8)
    body = data[16 + length + padding(16 + length) :]
    head = json.dumps(json.loads(data[16 : 16 + length]) | changes).encode()
    start = data[:8] + struct.pack("<Q", len(head)) + head
    path.write_bytes(start + b"\0" * padding(len(start)) + body)


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": 4},
        {"samples": -1},
        {"samples": "3"},
        {"samples": True},
        {"classes": ["one"]},
        {"classes": 7},
        {"classes": ["cat", 7]},
        {"version": 7},
        {"kind": "zoo"},
        {"root": None},
        {"rejected": 2**70},
        {"sections": {}},
        {"sections": {"rows": [0, 168], "names": [192, 2**63]}},
        {"sections": None},
        {"pixels": {"height": 0, "width": 4, "offset": 0, "beside": False}},
        {"pixels": [1]},
    ],
)
def test_a_head_that_cannot_be_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    Made().write(tmp_path / "pets.idx")
    rewrite_head(tmp_path / "pets.idx", **changes)
    with pytest.raises(InvalidInput, match=r"pets\.idx is not a dataset index"):
        DatasetIndex(tmp_path / "pets.idx")


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("label", 2, "label"),
        ("width", 0, "size or kind"),
        ("kind", 9, "size or kind"),
        ("orientation", 0, "size or kind"),
        ("orientation", 9, "size or kind"),
        ("name_end", 2**60, "names"),
    ],
)
def test_values_that_cannot_be_are_refused(
    tmp_path: Path, field: str, value: int, what: str
) -> None:
    path = tmp_path / "pets.idx"
    Made().write(path)
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack_from("<Q", data, 8)
    rows = np.frombuffer(data, ROW, 3, 16 + length + padding(16 + length))
    rows[field][1] = value
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=rf"is damaged \(.*{what}.*rescan its dataset"):
        use(path)


def test_pixels_that_would_lie_outside_their_file_are_refused(
    tmp_path: Path, sound: dict[str, bytes]
) -> None:
    path = tmp_path / "d.idx"
    path.write_bytes(sound["array"])
    place = {"height": 3, "width": 2, "offset": 10**6, "beside": False}
    rewrite_head(path, pixels=place)
    with pytest.raises(InvalidInput, match="is damaged"):
        DatasetIndex(path).pixels()


@pytest.fixture
def one_image(tmp_path: Path) -> DatasetIndex:
    put(tmp_path / "d", "cat/1.jpg")
    return index_of(tmp_path / "d")


def replace_file(path: Path, data: bytes, later_ns: int) -> None:
    """Put other bytes in a file's place, and say when that was."""
    time_ns = path.stat().st_mtime_ns + later_ns
    path.write_bytes(data)
    os.utime(path, ns=(time_ns, time_ns))


@pytest.mark.parametrize(
    ("data", "later_ns"), [(picture(), 1), (picture()[:-1], 0), (picture() + b"x", 0)]
)
def test_a_file_that_was_changed_after_it_was_indexed_is_refused(
    one_image: DatasetIndex, data: bytes, later_ns: int
) -> None:
    assert one_image.read(0) == picture()
    replace_file(one_image.root / "cat" / "1.jpg", data, later_ns)
    with pytest.raises(ValueError, match="changed after it was indexed"):
        one_image.read(0)


def test_a_file_that_is_gone_is_the_callers_to_report(one_image: DatasetIndex) -> None:
    (one_image.root / "cat" / "1.jpg").unlink()
    with pytest.raises(FileNotFoundError):
        one_image.read(0)


def test_the_version_changes_when_a_file_is_replaced_by_one_of_the_same_size(
    one_image: DatasetIndex, tmp_path: Path
) -> None:
    again = index_of(one_image.root, tmp_path / "again.idx")
    assert again.version == one_image.version
    replace_file(one_image.root / "cat" / "1.jpg", picture(), later_ns=1)
    assert index_of(one_image.root, tmp_path / "later.idx").version != one_image.version


def test_the_reader_in_the_documents_reads_an_index(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "dataset-index.md").read_text()
    [source] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    read: dict[str, Any] = {}
    exec(source, read)
    Made().write(tmp_path / "pets.idx")
    with pytest.warns(ResourceWarning):
        head, samples = read["read"](tmp_path / "pets.idx")
    assert (head["kind"], tuple(head["classes"]), head["samples"]) == ("folder", Made.classes, 3)
    assert samples[1] == ("cat/ä ö.jpg".encode(), 0, 6, 4)
    assert all(f"`{name}`" in text for name in SECTIONS)
    assert [name.decode() for name, *_ in samples] == list(Made.names)
