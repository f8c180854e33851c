"""A dataset is packed by several processes; whatever ends them, it goes on where it was."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import Conflict, DdlpError, InvalidInput, Unavailable
from ddlp.core.process import is_alive
from ddlp.core.records import PackOptions, PackProgress, locally, pack_locally
from tests.conftest import wait_until
from tests.core.records.making import (
    NEEDS_KERNEL,
    RECORDS,
    contents,
    dataset,
    encoded,
    pack,
)

pytestmark = [
    NEEDS_KERNEL,
    pytest.mark.skipif(sys.platform != "linux", reason="a child is tied to us on Linux"),
]

STRANGE = """
import os
import signal
import time

from ddlp.core.records import pack_process, packing

pack_sample = packing.pack_sample


def strange_sample(index, sample, options):
    name = os.path.basename(index.name(sample))
    if name.startswith("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if name.startswith("broken"):
        raise KeyError("nobody thought of this")
    if name.startswith("slow"):
        time.sleep(0.05)
    os.write(1, b"a decoder prints something")
    return pack_sample(index, sample, options)


packing.pack_sample = strange_sample
pack_process.main()
"""


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children in which the names of samples say what becomes of them."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "strange_pack.py").write_text(STRANGE)
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setattr(locally, "_MODULE", "strange_pack")


def many(root: Path, *more: str, name: str = "slow", count: int = 60) -> DatasetIndex:
    names = [f"{name}{number:02}.jpg" for number in range(count)]
    return dataset(root, {n: encoded(side=20 + k) for k, n in enumerate([*names, *more])})


def test_the_shards_are_those_of_one_process(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    made = pack(index, tmp_path / "here")
    seen: list[PackProgress] = []
    done = pack_locally(index, PackOptions(), tmp_path / "p", 2, seen.append, per_shard=7)
    assert contents(tmp_path / "p") == contents(tmp_path / "here")
    assert (done.shards, done.found, done.samples) == (3, 0, index.samples)
    assert (done.records, done.skipped) == (RECORDS, 0)
    assert done.origin_bytes == index.total_bytes
    assert done.bytes == sum(shard.bytes for shard in made)
    last = seen[-1]
    assert (last.samples, last.records, last.shards) == (index.samples, RECORDS, 3)
    again = pack_locally(index, PackOptions(), tmp_path / "p", 5, per_shard=7)
    assert (again.found, again.bytes) == (3, done.bytes)


PACKING = """
import sys
from pathlib import Path
from ddlp.core.dataset import DatasetIndex
from ddlp.core.records import PackOptions, locally, pack_locally
locally._MODULE = "strange_pack"
pack_locally(DatasetIndex(Path(sys.argv[1])), PackOptions(), Path(sys.argv[2]), 2, per_shard=7)
"""


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.usefixtures("strange")
def test_killed_in_the_middle_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    index, into = many(tmp_path), tmp_path / "p"
    pack(index, tmp_path / "undisturbed")
    into.mkdir()
    command = [sys.executable, "-c", PACKING, str(index.path), str(into)]
    with subprocess.Popen(command) as packing:
        wait_until(lambda: any(name.startswith("pack-") for name in os.listdir(into)))
        wait_until(lambda: any(name.endswith(".unfinished") for name in os.listdir(into)))
        started = children(packing.pid)
        packing.kill()
    assert len(started) == 2
    wait_until(lambda: not any(is_alive(pid) for pid in started))
    left = sorted(os.listdir(into))
    whole = [name for name in left if name.startswith("pack-")]
    assert 0 < len(whole) < 9
    assert len(left) > len(whole)
    done = pack_locally(index, PackOptions(), into, 2, per_shard=7)
    assert done.found == len(whole)
    assert contents(into) == contents(tmp_path / "undisturbed")


@pytest.mark.usefixtures("strange")
def test_a_crash_is_told_with_its_signal_and_the_shard(tmp_path: Path) -> None:
    index = many(tmp_path, "crash.jpg", name="a")
    crashing = next(n for n in range(index.samples) if "/crash" in index.name(n))
    words = rf"packed shard {crashing // 7} was ended by SIGSEGV"
    with pytest.raises(DdlpError, match=words):
        pack_locally(index, PackOptions(), tmp_path / "p", 2, per_shard=7)
    assert not any(name.endswith(".unfinished") for name in os.listdir(tmp_path / "p"))


@pytest.mark.usefixtures("strange")
def test_what_nobody_thought_of_is_told_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DdlpError, match="KeyError: 'nobody thought of this'"):
        pack_locally(many(tmp_path, "broken.jpg", name="a"), PackOptions(), tmp_path / "p", 2)
    assert "Traceback" in capfd.readouterr().err


def test_an_error_keeps_its_words(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    os.unlink(index.name(3))
    with pytest.raises(InvalidInput, match=f"{index.name(3)} cannot be packed: it is gone"):
        pack_locally(index, PackOptions(), tmp_path / "p", 2, per_shard=7)
    done = pack_locally(index, PackOptions(on_bad="skip"), tmp_path / "p", 2, per_shard=7)
    assert (done.shards, done.skipped) == (3, 1)


@pytest.mark.usefixtures("strange")
def test_stopped_it_leaves_whole_shards_and_no_process(tmp_path: Path) -> None:
    index, into = many(tmp_path), tmp_path / "p"

    def stop() -> bool:
        return any(name.startswith("pack-") for name in os.listdir(into))

    with pytest.raises(Conflict, match="packing was stopped; whole shards are kept"):
        pack_locally(index, PackOptions(), into, 2, stop=stop, per_shard=7)
    assert os.listdir(into)
    assert all(name.startswith("pack-") for name in os.listdir(into))
    assert children(os.getpid()) == []


def test_another_packing_in_the_folder_is_not_mixed_with(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    pack(index, tmp_path / "p")
    before = contents(tmp_path / "p")
    with pytest.raises(InvalidInput, match="a shard of another packing"):
        pack_locally(index, PackOptions(), tmp_path / "p", 2, per_shard=6)
    with pytest.raises(InvalidInput, match="packed in another way"):
        pack_locally(index, PackOptions(quality=50), tmp_path / "p", 2, per_shard=7)
    assert contents(tmp_path / "p") == before


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a mount needs rights that are not there")
    try:
        with pytest.raises(Unavailable, match=r"no room for .*tmpfs on .*small"):
            pack_locally(dataset(tmp_path), PackOptions(), place, 2, per_shard=7)
        assert all(name.startswith("pack-") for name in os.listdir(place))
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_child_that_is_not_ours_ends_at_once() -> None:
    somebody_else = 1 if os.getpid() != 1 else 2
    command = [sys.executable, "-m", locally._MODULE, str(somebody_else)]
    done = subprocess.run(command, input=json.dumps({}).encode(), capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
