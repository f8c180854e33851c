"""What is seen in a store: whole files, half ones, and those that are consumed meanwhile."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from ddlp.cli.conformance import watcher as module
from ddlp.cli.conformance.findings import Outcome
from ddlp.cli.conformance.watcher import Watcher
from ddlp.core.batchfile import BatchId, TensorSpec
from ddlp.core.errors import DamagedBatch
from ddlp.core.store import FolderStore, path_of

RUN = uuid.uuid4()


def write(root: Path, index: int) -> Path:
    """A whole batch."""

    def fill(arrays: dict[str, Any]) -> int:
        arrays["images"][:] = index
        return 2

    batch = BatchId(RUN, 0, index, 7, 2, "ab" * 32, "engine", "device")
    stored = FolderStore(root).write(batch, [TensorSpec("images", "|u1", (2, 4))], fill)
    return path_of(stored.location)


def test_whole_files_pass_and_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 0)
    seen = Watcher(tmp_path, RUN)
    seen.look()
    write(tmp_path, 1)
    seen.look()
    assert seen.sees
    monkeypatch.setattr(module, "unseal", None)
    seen.look()
    assert seen.finding().outcome is Outcome.PASSED
    assert "2 files" in seen.finding().found


def test_a_file_that_is_not_whole_fails(tmp_path: Path) -> None:
    path = write(tmp_path, 0)
    path.write_bytes(path.read_bytes()[:-1])
    seen = Watcher(tmp_path, RUN)
    seen.look()
    finding = seen.finding()
    assert finding.outcome is Outcome.FAILED
    assert path.name in finding.found


def test_what_is_being_written_or_lies_free_is_nobodys_business(tmp_path: Path) -> None:
    path = write(tmp_path, 0)
    (path.parent / "making" / "7-x").write_bytes(b"half")
    (path.parent / "free" / "00000-00000009-7").write_bytes(b"half")
    seen = Watcher(tmp_path, RUN)
    seen.look()
    assert seen.finding().outcome is Outcome.PASSED


def test_a_file_that_is_used_again_while_it_is_read_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, 0)

    def consumed(_: memoryview) -> None:
        path.unlink()
        raise DamagedBatch("the payload's checksum is wrong")

    monkeypatch.setattr(module, "unseal", consumed)
    seen = Watcher(tmp_path, RUN)
    seen.look()
    assert seen.finding().outcome is Outcome.NOT_CHECKED


@pytest.mark.parametrize("root", [None, Path("/nowhere")])
def test_a_store_that_cannot_be_seen_is_not_checked(root: Path | None) -> None:
    seen = Watcher(root, RUN)
    seen.look()
    assert not seen.sees
    assert seen.finding().outcome is Outcome.NOT_CHECKED
