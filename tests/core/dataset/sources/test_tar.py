"""Tar shards are read in place: members by key, labels from beside the image, bytes by offset."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.errors import InvalidInput
from tests.core.dataset.making import index_of, labels, names, picture, put, rejected

Members = dict[str, bytes]


def write_tar(path: Path, members: Members, form: int = tarfile.PAX_FORMAT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=form) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_members_with_one_key_make_up_a_sample(tmp_path: Path) -> None:
    members = {
        "b.jpg": picture(width=9),
        "b.cls": b"1\n",
        "a.cls": b"0",
        "a.txt": b"a caption",
        "a.png": picture("PNG"),
    }
    index = index_of(write_tar(tmp_path / "s.tar", members), allowed=())
    assert (index.kind, index.root, index.classes) == ("tar", tmp_path, ("0", "1"))
    assert names(index) == ["s.tar:b.jpg", "s.tar:a.png"]
    assert labels(index) == [1, 0]
    assert [index.read(0), index.read(1)] == [picture(width=9), picture("PNG")]
    assert index.heads(np.arange(2)).width.tolist() == [9, 5]
    assert index.total_bytes == len(picture(width=9)) + len(picture("PNG"))


def test_shards_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for shard in ("s-1", "s-0", "s-10"):
        image = picture(width=3 + len(shard))
        write_tar(tmp_path / "d" / f"{shard}.tar", {f"{shard}.jpg": image, f"{shard}.cls": b"dog"})
    put(tmp_path / "d", "README.md", ".hidden.tar", data=b"text")
    index = index_of(tmp_path / "d", allowed=())
    assert names(index) == ["s-0.tar:s-0.jpg", "s-1.tar:s-1.jpg", "s-10.tar:s-10.jpg"]
    assert index.classes == ("dog",)
    assert index.read(2) == picture(width=7)


@pytest.mark.parametrize(
    ("beside", "label"),
    [
        ({"a.cls": b"cat"}, "cat"),
        ({"a.cls": b" 2\n"}, "2"),
        ({"a.json": b'{"label": "cat"}'}, "cat"),
        ({"a.json": b'{"cls": 2}'}, "2"),
        ({"a.json": b'{"cls": 2, "label": "cat"}'}, "cat"),
        ({"a.json": b'{"label": "dog"}', "a.cls": b"cat"}, "cat"),
    ],
)
def test_a_label_lies_beside_the_image(tmp_path: Path, beside: Members, label: str) -> None:
    index = index_of(write_tar(tmp_path / "s.tar", {"a.jpg": picture(), **beside}))
    assert index.classes[labels(index)[0]] == label


@pytest.mark.parametrize("start", ["", "./"])
def test_without_a_label_the_folder_is_the_class(tmp_path: Path, start: str) -> None:
    members = {f"{start}{name}": picture() for name in ("dog/1.jpg", "cat/1.jpg", "cat/2.jpg")}
    index = index_of(write_tar(tmp_path / "s.tar", members | {"cat/2.json": b'{"x": 1}'}))
    assert index.classes == ("cat", "dog")
    assert labels(index) == [1, 0, 0]


def test_the_image_itself_is_taken_and_not_its_mask(tmp_path: Path) -> None:
    members = {"d/a.b.seg.png": picture("PNG"), "d/a.JPG": picture(), "d/._a.jpg": b"resource fork"}
    index = index_of(write_tar(tmp_path / "s.tar", members))
    assert names(index) == ["s.tar:d/a.JPG"]
    assert index.rejected == 0


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_and_odd_names_are_found_in_every_form_of_tar(tmp_path: Path, form: int) -> None:
    name = f"{'long/' * 25}ü{'x' * 80}.jpg"
    index = index_of(write_tar(tmp_path / "s.tar", {name: picture()}, form))
    assert names(index) == [f"s.tar:{name}"]
    assert index.read(0) == picture()


def test_what_cannot_be_used_is_listed_and_stops_nothing(tmp_path: Path) -> None:
    members = {
        "a.jpg": picture(),
        "a.cls": b"0",
        "unlabelled.jpg": picture(),
        "noimage.cls": b"1",
        "bad.jpg": b"text",
        "bad.cls": b"0",
        "empty.jpg": b"",
        "empty.cls": b"0",
        "x.json": b"{",
        "x.jpg": picture(),
        "y.jpg": picture(),
        "y.cls": b"",
        "notes.txt": b"nothing to do with it",
    }
    index = index_of(write_tar(tmp_path / "s.tar", members))
    assert names(index) == ["s.tar:a.jpg"]
    reasons = rejected(index)
    assert "it has no label: no .cls" in reasons["s.tar:unlabelled.jpg"]
    assert reasons["s.tar:noimage"] == "it has a label but no image"
    assert reasons["s.tar:empty.jpg"] == "it is empty"
    assert reasons["s.tar:x.jpg"] == "its .json is not JSON"
    assert reasons["s.tar:y.jpg"] == "it has no label"
    assert reasons["s.tar:bad.jpg"]
    assert index.rejected == 6


def test_links_and_devices_inside_are_passed_over(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "s.tar", {"c/1.jpg": picture()})
    with tarfile.open(path, "a") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo("c/2.jpg")
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
    index = index_of(path)
    assert (names(index), index.rejected) == (["s.tar:c/1.jpg"], 0)


@pytest.mark.parametrize("cut", [-500, -1, 0, 1, 500])
def test_a_shard_that_was_cut_short_gives_what_is_whole(tmp_path: Path, cut: int) -> None:
    members = {f"c/{n}.jpg": picture(width=100 + n) for n in range(3)}
    path = write_tar(tmp_path / "d" / "s.tar", members)
    write_tar(tmp_path / "d" / "t.tar", {"c/9.jpg": picture()})
    with tarfile.open(path) as tar:
        os.truncate(path, tar.getmember("c/2.jpg").offset_data + cut)
    index = index_of(tmp_path / "d")
    assert names(index) == ["s.tar:c/0.jpg", "s.tar:c/1.jpg", "t.tar:c/9.jpg"]
    assert "the rest was left out" in rejected(index)["s.tar"]
    assert index.rejected == 1


def test_a_damaged_header_is_listed_and_what_came_before_is_kept(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "s.tar", {f"c/{n}.jpg": picture() for n in range(3)})
    with tarfile.open(path) as tar:
        at = tar.getmember("c/1.jpg").offset
    data = bytearray(path.read_bytes())
    data[at + 5] ^= 1
    path.write_bytes(data)
    index = index_of(path)
    assert names(index) == ["s.tar:c/0.jpg"]
    assert f"header at byte {at} is damaged" in rejected(index)["s.tar"]


@pytest.mark.parametrize("name", ["s.tar", "s.tar.gz", "s.tgz"])
def test_a_compressed_tar_file_is_refused(tmp_path: Path, name: str) -> None:
    plain = write_tar(tmp_path / "plain", {"c/1.jpg": picture()})
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / name).write_bytes(gzip.compress(plain.read_bytes()))
    for place in (tmp_path / "d" / name, tmp_path / "d"):
        with pytest.raises(InvalidInput, match=rf"{name} is compressed.*decompress it first"):
            index_of(place)


@pytest.mark.parametrize("how", ["gnu", "pax"])
def test_a_sparse_member_is_refused(tmp_path: Path, how: str) -> None:
    info = tarfile.TarInfo("c/1.jpg")
    info.size = len(picture())
    if how == "gnu":
        info.type = tarfile.GNUTYPE_SPARSE
    else:
        info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        tar.addfile(info, io.BytesIO(picture()))
    with pytest.raises(InvalidInput, match=r"c/1\.jpg as a sparse file.*without --sparse"):
        index_of(tmp_path / "s.tar")


@pytest.mark.parametrize("folder", [True, False])
def test_a_shard_that_is_a_link_out_of_what_is_allowed_is_refused(
    tmp_path: Path, folder: bool
) -> None:
    write_tar(tmp_path / "secret" / "s.tar", {"c/1.jpg": picture()})
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "s.tar").symlink_to(tmp_path / "secret" / "s.tar")
    place = tmp_path / "d" if folder else tmp_path / "d" / "s.tar"
    with pytest.raises(InvalidInput, match="outside the allowed folders"):
        index_of(place, allowed=())
    assert index_of(place, allowed=(tmp_path / "secret",)).samples == 1


def test_a_shard_that_was_changed_is_noticed(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "s.tar", {"c/1.jpg": picture(), "c/2.jpg": picture()})
    index = index_of(path)
    before = path.stat()
    write_tar(path, {"c/1.jpg": picture(), "c/2.jpg": picture()})
    os.utime(path, ns=(before.st_mtime_ns + 1, before.st_mtime_ns + 1))
    with pytest.raises(ValueError, match="changed after it was indexed"):
        index.read(1)
    assert index_of(path, tmp_path / "again.idx").version != index.version


def test_a_tar_file_without_samples_says_what_was_expected(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "s.tar", {"README.txt": b"nothing"})
    with pytest.raises(InvalidInput, match=r"holds no samples; expected members such as 0001\.jpg"):
        index_of(path)


def test_a_file_that_is_no_tar_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.tar").write_bytes(b"no tar file at all" * 100)
    with pytest.raises(InvalidInput, match=r"s\.tar: its header at byte 0 is damaged"):
        index_of(tmp_path / "s.tar")
