"""What lies behind a path: found by asking the system, and by trying."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ddlp.core.filesystem import (
    Filesystem,
    direct_read_refusal,
    direct_refusal,
    filesystem_at,
    free_bytes,
    nearest,
)

MOUNTS = """\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:5 / /dev rw,nosuid - devtmpfs devtmpfs rw
23 22 0:19 / /dev/shm rw,nosuid shared:2 master:1 - tmpfs tmpfs rw,size=1g
24 21 0:20 / /mnt/a\\040drive rw - xfs /dev/nvme0n1 rw
25 24 0:21 / /mnt/a\\040drive/inner rw - nfs4 host:/x rw
26 21 0:22 / /mnt/over rw - ext4 /dev/b rw
27 26 0:23 / /mnt/over rw - tmpfs tmpfs rw
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    file = tmp_path / "mountinfo"
    file.write_text(MOUNTS)
    return file


@pytest.mark.parametrize(
    ("path", "kind", "place"),
    [
        ("/", "ext4", "/"),
        ("/home/x", "ext4", "/"),
        ("/dev", "devtmpfs", "/dev"),
        ("/dev/shm/store", "tmpfs", "/dev/shm"),
        ("/dev/shmother", "devtmpfs", "/dev"),
        ("/mnt/a drive/store", "xfs", "/mnt/a drive"),
        ("/mnt/a drive/inner/store", "nfs4", "/mnt/a drive/inner"),
        ("/mnt/over/store", "tmpfs", "/mnt/over"),
    ],
)
def test_the_innermost_and_latest_mount_counts(
    mounts: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str, place: str
) -> None:
    monkeypatch.setattr("ddlp.core.filesystem.nearest", lambda path: path)
    assert filesystem_at(Path(path), mounts) == Filesystem(kind, Path(place))


def test_memory_is_known_as_memory() -> None:
    assert Filesystem("tmpfs", Path("/")).in_memory
    assert not Filesystem("ext4", Path("/")).in_memory
    assert not Filesystem("nfs4", Path("/")).in_memory


def test_where_the_system_does_not_say_nothing_is_guessed(tmp_path: Path) -> None:
    assert filesystem_at(tmp_path, tmp_path / "none").kind == "unknown"


def test_names_of_mounts_may_be_any_bytes(tmp_path: Path, mounts: Path) -> None:
    mounts.write_bytes(MOUNTS.encode() + b"30 21 0:9 / /mnt/\xff rw - xfs /dev/c rw\n")
    assert filesystem_at(tmp_path, mounts).kind == "ext4"


def test_a_real_mount_is_found(tmp_path: Path) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a mount needs rights that are not there")
    try:
        found = filesystem_at(place / "not" / "yet")
        assert found == Filesystem("tmpfs", place)
        assert free_bytes(place / "not" / "yet") == 1 << 20
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
    assert filesystem_at(place) != found


def test_a_link_leads_to_where_it_points(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/proc")
    assert filesystem_at(link).kind == "proc"


def test_what_is_not_there_yet_is_judged_by_what_is(tmp_path: Path) -> None:
    assert nearest(tmp_path / "not" / "yet") == tmp_path
    assert nearest(Path("/no-such/folder")) == Path("/")
    assert free_bytes(tmp_path / "not" / "yet") == pytest.approx(
        shutil.disk_usage(tmp_path).free, rel=0.2
    )


def test_a_refusal_of_direct_transfers_is_found_by_trying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: Path, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    refusal = direct_refusal(tmp_path)
    assert refusal is not None
    assert str(tmp_path) in refusal
    assert os.strerror(errno.EINVAL) in refusal
    file = tmp_path / "file"
    file.write_bytes(bytes(4096))
    assert "takes no O_DIRECT" in (direct_read_refusal(file) or "")


def test_one_that_opens_and_does_not_read_is_found_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "preadv", refuse)
    assert direct_refusal(tmp_path) is not None


def test_trying_leaves_nothing_behind(tmp_path: Path) -> None:
    direct_refusal(tmp_path)
    direct_refusal(tmp_path / "not" / "yet")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_gone_is_no_refusal(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        direct_read_refusal(tmp_path / "none")
