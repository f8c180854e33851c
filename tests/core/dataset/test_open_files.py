"""Files that hold many samples are opened once a batch, and noticed when they change."""

import os
from pathlib import Path

import pytest

from ddlp.core.dataset import open_files
from ddlp.core.dataset.open_files import OpenFiles


def opened() -> int:
    return len(os.listdir("/proc/self/fd"))


class Folder:
    """Files as they were when they were indexed."""

    def __init__(self, root: Path, count: int) -> None:
        self.paths = [root / str(number) for number in range(count)]
        for number, path in enumerate(self.paths):
            path.write_bytes(b"%03d" % number * 100)
        self.states = [path.stat() for path in self.paths]
        self.asked: list[int] = []

    def find(self, number: int) -> tuple[bytes, int, int]:
        self.asked.append(number)
        state = self.states[number]
        return os.fsencode(self.paths[number]), state.st_size, state.st_mtime_ns


def test_a_file_is_opened_once_until_all_are_closed(tmp_path: Path) -> None:
    folder, before = Folder(tmp_path, 3), opened()
    files = OpenFiles()
    assert bytes(files.part(folder.find, 1, 3, 4)) == b"0010"
    files.expect(folder.find, 1, 0, 100)
    files.expect(folder.find, 2, 0, 100)
    assert bytes(files.part(folder.find, 1, 296, 4)) == b"1001"
    assert folder.asked == [1, 2]
    assert opened() == before + 2
    files.close()
    assert opened() == before
    assert bytes(files.part(folder.find, 2, 0, 3)) == b"002"
    del files
    assert opened() == before


def test_few_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "_MOST", 4)
    folder, before = Folder(tmp_path, 20), opened()
    files = OpenFiles()
    for _ in range(2):
        assert [bytes(files.part(folder.find, number, 0, 3)) for number in range(20)] == [
            b"%03d" % number for number in range(20)
        ]
        assert opened() == before + 4


def test_a_change_is_noticed_at_the_next_opening(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 2)
    files = OpenFiles()
    os.utime(folder.paths[0], ns=(5, 5))
    for _ in range(2):
        files.expect(folder.find, 0, 0, 3)
        with pytest.raises(ValueError, match="changed after it was indexed"):
            bytes(files.part(folder.find, 0, 0, 3))
    folder.paths[1].unlink()
    files.expect(folder.find, 1, 0, 3)
    with pytest.raises(FileNotFoundError):
        bytes(files.part(folder.find, 1, 0, 3))


def test_a_part_beyond_the_end_is_an_error(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 1)
    with pytest.raises(ValueError, match="changed after it was indexed"):
        OpenFiles().part(folder.find, 0, 299, 2)


def test_a_file_cut_short_meanwhile_is_an_error_and_no_crash(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 1)
    files = OpenFiles()
    part = files.part(folder.find, 0, 5, 100)
    os.truncate(folder.paths[0], 10)
    with pytest.raises(ValueError, match="it ends too soon"):
        bytes(part)
