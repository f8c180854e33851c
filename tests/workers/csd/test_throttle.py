"""How a device is held to its share: on made-up trees of files, and really where one may."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddlp.core.errors import InvalidInput
from ddlp.workers.csd import throttle
from ddlp.workers.csd.throttle import (
    Cgroup,
    CgroupV1,
    CgroupV2,
    DutyCycle,
    Share,
    hold,
    sweep,
    would_hold,
)

PID = 4_000_001
"""No process has this number: the kernel's largest is below."""
SLOW = Share(cores=1, speed=0.3, slots=1)


@pytest.fixture(autouse=True)
def _files_go_with_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "_remove", shutil.rmtree)
    monkeypatch.setattr(throttle, "_REMOVE_S", 0.1)


class FakeKernel:
    """What /proc says of a process, and the hierarchies that it names."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.proc.mkdir()
        (self.proc / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
        (self.proc / "cgroup").write_text("3:memory:/somewhere\n")
        self._top = folder / "cgroup"

    def add_v1(self, own: str = "/") -> Path:
        mount = self._add("cgroup", "rw,cpu,cpuacct", "cpu")
        self._say("cgroup", f"2:cpu,cpuacct:{own}\n")
        return self._group(mount, own)

    def add_v2(self, own: str = "/", controllers: str = "cpu memory", root: str = "/") -> Path:
        mount = self._add("cgroup2", "rw", "unified", root)
        self._say("cgroup", f"0::{own}\n")
        group = self._group(mount, own)
        (group / "cgroup.subtree_control").write_text(controllers)
        return group

    def _add(self, kind: str, options: str, name: str, root: str = "/") -> Path:
        mount = self._top / name
        mount.mkdir(parents=True)
        line = f"30 22 0:26 {root} {mount} rw,relatime - {kind} cgroup {options}\n"
        self._say("mountinfo", line)
        return mount

    def _say(self, name: str, line: str) -> None:
        with (self.proc / name).open("a") as file:
            file.write(line)

    def _group(self, mount: Path, own: str) -> Path:
        group = mount / own.lstrip("/")
        group.mkdir(parents=True, exist_ok=True)
        return group


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    return FakeKernel(tmp_path)


def test_version_1_is_told_its_quota_and_which_process_it_holds(kernel: FakeKernel) -> None:
    own = kernel.add_v1("/machine")
    held = hold(SLOW, kernel.proc, PID)
    group = own / f"ddlp-csd-{PID}"
    assert isinstance(held, CgroupV1)
    assert (group / "cpu.cfs_quota_us").read_text() == "30000"
    assert (group / "cpu.cfs_period_us").read_text() == "100000"
    assert (group / "cgroup.procs").read_text() == str(PID)
    assert held.in_words() == "held to 0.3 host cores by a cgroup v1 quota"
    assert held.speed == 1.0, "the kernel holds it: no process sleeps"
    assert held.broken() is None
    held.release()
    assert not group.exists()
    assert (own / "cgroup.procs").read_text() == str(PID), "it went back to where it came from"


def test_version_2_comes_first_where_there_are_both(kernel: FakeKernel) -> None:
    kernel.add_v1()
    own = kernel.add_v2()
    held = hold(Share(cores=4, speed=0.2, slots=4), kernel.proc, PID)
    assert isinstance(held, CgroupV2)
    assert (own / f"ddlp-csd-{PID}" / "cpu.max").read_text() == "80000 100000"
    assert held.speed == 0.2, "a process alone must not use what belongs to four cores"
    held.release()


def test_version_2_without_the_cpu_controller_is_passed_over(kernel: FakeKernel) -> None:
    kernel.add_v1()
    kernel.add_v2(controllers="memory pids")
    held = hold(SLOW, kernel.proc, PID)
    assert isinstance(held, CgroupV1)
    held.release()


@pytest.mark.parametrize(("own", "held_by_kernel"), [("/a/b.scope", True), ("/a/b.service", False)])
def test_a_login_is_left_for_its_surroundings_and_a_service_is_not(
    kernel: FakeKernel, own: str, held_by_kernel: bool
) -> None:
    group = kernel.add_v2(own, controllers="")
    (group.parent / "cgroup.subtree_control").write_text("cpu")
    held = hold(SLOW, kernel.proc, PID)
    assert isinstance(held, Cgroup) is held_by_kernel
    if isinstance(held, Cgroup):
        assert held.group.parent == group.parent
        held.release()
        assert (group / "cgroup.procs").read_text() == str(PID)


def test_a_hierarchy_that_shows_only_a_part_is_understood(kernel: FakeKernel) -> None:
    mount = kernel.add_v2("/", root="/pods/7")
    (kernel.proc / "cgroup").write_text("0::/pods/7\n")
    held = hold(SLOW, kernel.proc, PID)
    assert isinstance(held, CgroupV2)
    assert held.group.parent == mount
    held.release()


def test_without_any_cgroup_processes_sleep_by_themselves(kernel: FakeKernel) -> None:
    held = hold(SLOW, kernel.proc, PID)
    assert isinstance(held, DutyCycle)
    assert held.speed == 0.3
    assert "no cgroup with a CPU quota is mounted" in held.in_words()
    assert held.broken() is None
    held.release()


def test_without_proc_processes_sleep_by_themselves(tmp_path: Path) -> None:
    assert isinstance(hold(SLOW, tmp_path / "nowhere", PID), DutyCycle)


def test_a_group_that_cannot_be_made_is_no_error_but_said(kernel: FakeKernel) -> None:
    own = kernel.add_v1()
    (own / f"ddlp-csd-{PID}").write_text("no folder")
    held = hold(SLOW, kernel.proc, PID)
    assert isinstance(held, DutyCycle)
    assert "cgroup v1 cannot be used" in held.in_words()


def test_a_quota_that_is_not_taken_is_noticed(
    kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = kernel.add_v1()
    monkeypatch.setattr(CgroupV1, "_is_set", lambda _: False)
    held = hold(SLOW, kernel.proc, PID)
    assert isinstance(held, DutyCycle)
    assert "did not take its quota" in held.in_words()
    assert not (own / f"ddlp-csd-{PID}").exists(), "nothing is left behind"


def test_a_share_too_small_for_a_quota_is_duty_cycled(kernel: FakeKernel) -> None:
    kernel.add_v1()
    assert isinstance(hold(Share(1, 0.003, 1), kernel.proc, PID), DutyCycle)


@pytest.mark.parametrize(
    ("cores", "slots", "speed"), [(1, 1, 0.4), (1, 2, 0.2), (4, 1, 0.4), (4, 4, 0.4), (2, 4, 0.2)]
)
def test_processes_that_sleep_share_the_cores_there_are(
    cores: int, slots: int, speed: float
) -> None:
    assert DutyCycle(Share(cores, 0.4, slots)).speed == pytest.approx(speed)


@pytest.mark.parametrize("wrong", [(0, 0.5, 1), (1, 0.0, 1), (1, 1.5, 1), (1, 0.5, 0)])
def test_an_impossible_share_is_refused(wrong: tuple[int, float, int]) -> None:
    with pytest.raises(InvalidInput, match="are no share"):
        Share(*wrong)


def test_a_quota_that_someone_else_changes_is_noticed(kernel: FakeKernel) -> None:
    own = kernel.add_v1()
    held = hold(SLOW, kernel.proc, PID)
    quota = own / f"ddlp-csd-{PID}" / "cpu.cfs_quota_us"
    quota.write_text("-1")
    assert "was changed by someone else" in str(held.broken())
    quota.unlink()
    assert "cannot be read" in str(held.broken())


def test_a_quota_that_cannot_be_looked_at_for_a_moment_is_not_broken(
    kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.add_v1()
    held = hold(SLOW, kernel.proc, PID)

    def fail(*_: object, **__: object) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", fail)
        assert held.broken() is None
    held.release()


def test_groups_of_dead_workers_are_swept_and_others_are_not(kernel: FakeKernel) -> None:
    own = kernel.add_v1()
    names = [f"ddlp-csd-{PID}", f"ddlp-csd-{os.getpid()}", "ddlp-csd-mine", "other-4000001"]
    for name in names:
        (own / name).mkdir()
    sweep(own)
    assert sorted(path.name for path in own.iterdir()) == sorted(names[1:])


def test_a_worker_that_was_started_anew_takes_its_group_over(kernel: FakeKernel) -> None:
    own = kernel.add_v1()
    first = hold(SLOW, kernel.proc, os.getpid())
    (kernel.proc / "cgroup").write_text(f"2:cpu:/ddlp-csd-{os.getpid()}\n")
    again = hold(SLOW, kernel.proc, os.getpid())
    assert isinstance(again, CgroupV1)
    assert again == first
    again.release()
    assert [path.name for path in own.iterdir()] == ["cgroup.procs"]


def test_trying_leaves_nothing_behind(kernel: FakeKernel) -> None:
    own = kernel.add_v1()
    assert would_hold(SLOW, kernel.proc) == "held to 0.3 host cores by a cgroup v1 quota"
    assert list(own.iterdir()) == []


BUSY_CHILD = """
import os, time
from ddlp.workers.csd.throttle import Cgroup, Share, hold
held = hold(Share(cores=1, speed=0.25, slots=1))
child = os.fork()
if not child:
    began, used = time.monotonic(), time.process_time()
    while time.monotonic() - began < 2: pass
    print((time.process_time() - used) / (time.monotonic() - began), flush=True)
    os._exit(0)
os.waitpid(child, 0)
held.release()
print(isinstance(held, Cgroup) and not held.group.exists())
"""


def test_the_kernel_holds_a_busy_child_to_its_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    if "quota" not in would_hold(Share(1, 0.25, 1)).split("(")[0]:
        pytest.skip("no cgroup can be written here")
    command = [sys.executable, "-c", BUSY_CHILD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    used, cleared = done.stdout.split()
    assert float(used) < 0.3, "it had more than it may"
    assert float(used) > 0.2 or _busy(), "it had less, though nobody else wanted the host"
    assert cleared == "True"


def _busy() -> bool:
    """Whether others leave no core free: then a child cannot get its part."""
    return os.getloadavg()[0] > (os.cpu_count() or 1)
