"""What a worker process does with a message about packing: claim a shard, write it, report."""

import os
import signal
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.dataset import scan
from ddlp.core.energy import PowerModel
from ddlp.core.errors import BadSample, Conflict, NoRoom, NotFound, Unavailable
from ddlp.core.messages import PACK_MARK, PackChoice, PackSpec, ShardClaim, ShardNews, ShardReport
from ddlp.core.records import PackProgress, ShardSummary
from ddlp.core.store import StoreAddress
from ddlp.core.types import DeviceKind, Prong
from ddlp.workers import packing
from ddlp.workers.device import WorkerDevice
from ddlp.workers.packing import Ending, PackBench
from tests.conftest import make_images

PACKING, TOKEN = uuid.uuid4(), uuid.uuid4()
DEVICE = WorkerDevice(
    name="cpu0",
    prong=Prong.CPU,
    kind=DeviceKind.HOST,
    slots=1,
    store=StoreAddress.given("/nowhere"),
    power=PowerModel(active_w=1, source="test"),
)


class Server:
    """Tells what is to be packed, and keeps what it is told."""

    def __init__(self, spec: PackSpec) -> None:
        self.spec = spec
        self.asked = 0
        self.claims: list[int] = []
        self.holder: int | None = None
        """A process that has it already."""
        self.news: list[int] = []
        self.reports: list[ShardReport] = []
        self.wanted = True
        self.error: Exception | None = None

    def __call__(self, _: str, **__: Any) -> "Server":
        return self

    def get(self, path: str) -> Any:
        assert path == f"/packings/{PACKING}"
        self.asked += 1
        return self.spec.model_dump(mode="json")

    def post(self, path: str, body: ShardClaim | ShardNews | ShardReport) -> Any:
        assert path.startswith(f"/packings/{PACKING}/")
        if isinstance(body, ShardReport):
            self.reports.append(body)
            return None
        if self.error is not None:
            raise self.error
        if isinstance(body, ShardNews):
            self.news.append(body.samples)
            return {"wanted": self.wanted}
        self.claims.append(body.shard)
        if self.holder not in (None, body.dead):
            return {"silence_s": 60.0, "token": None, "holder": self.holder}
        return {"silence_s": 60.0, "token": TOKEN}


class Packer:
    """Stands for what writes a shard."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.during: Callable[[Callable[[PackProgress], None]], None] = lambda _: None

    def __call__(self, *given: Any) -> ShardSummary:
        *rest, report, stop = given
        self.calls.append(tuple(rest))
        self.during(report)
        if stop():
            raise Conflict("it was stopped")
        return ShardSummary(rest[2], 3, 2, 1, 30, 40, False)


@pytest.fixture
def spec(tmp_path: Path) -> PackSpec:
    index = tmp_path / "index"
    made = scan(make_images(tmp_path / "fruit", 6, side=16), index)
    into = tmp_path / "shards"
    into.mkdir()
    (into / PACK_MARK).write_text(str(PACKING))
    return PackSpec(
        packing=PACKING,
        index_path=index,
        dataset_version=made.version,
        into=into,
        per_shard=3,
        options=PackChoice(max_side=9),
    )


@pytest.fixture
def server(spec: PackSpec, monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server(spec)
    monkeypatch.setattr(packing, "Client", found)
    monkeypatch.setattr(packing, "_NEWS_EVERY_S", 0)
    return found


@pytest.fixture
def packer(monkeypatch: pytest.MonkeyPatch) -> Packer:
    found = Packer()
    monkeypatch.setattr(packing, "pack_shard", found)
    return found


def message(shard: int) -> dict[str, Any]:
    return {"packing": str(PACKING), "shard": shard}


def test_a_shard_is_claimed_packed_and_reported(
    server: Server, packer: Packer, spec: PackSpec
) -> None:
    bench = PackBench(DEVICE, "http://server", Ending())
    for shard in (1, 0):
        bench.handle(message(shard))
    assert server.claims == [1, 0]
    assert packer.calls[0][0] is packer.calls[1][0], "the index is opened once"
    index, plan, number, options, into = packer.calls[0]
    assert (index.version, plan, number) == (spec.dataset_version, [range(3), range(3, 6)], 1)
    assert (options.max_side, into) == (9, spec.into)
    [report, _] = server.reports
    assert (report.shard, report.samples, report.records, report.skipped) == (1, 3, 2, 1)
    assert (report.bytes, report.problem, report.token) == (40, None, TOKEN)


def test_signs_of_life_are_given_and_put_off_the_end(server: Server, packer: Packer) -> None:
    left: list[float] = []

    def during(report: Callable[[PackProgress], None]) -> None:
        signal.setitimer(signal.ITIMER_REAL, 5)
        report(PackProgress(samples=2))
        left.append(signal.getitimer(signal.ITIMER_REAL)[0])

    packer.during = during
    PackBench(DEVICE, "http://server", Ending()).handle(message(0))
    assert server.news == [2]
    assert left[0] > 60
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_what_is_not_wanted_any_more_is_stopped(server: Server, packer: Packer) -> None:
    server.wanted = False
    packer.during = lambda report: report(PackProgress(samples=1))
    PackBench(DEVICE, "http://server", Ending()).handle(message(0))
    assert (server.news, server.reports) == ([1], [])


def test_a_message_that_came_twice_is_left_to_the_process_that_has_it(
    server: Server, packer: Packer
) -> None:
    server.holder = os.getppid()
    PackBench(DEVICE, "http://server", Ending()).handle(message(0))
    assert (server.claims, packer.calls, server.reports) == ([0], [], [])


def test_what_a_process_had_that_died_is_taken_over(server: Server, packer: Packer) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    server.holder = gone.pid
    PackBench(DEVICE, "http://server", Ending()).handle(message(0))
    assert (server.claims, server.reports[0].samples) == ([0, 0], 3)


def test_one_that_is_begun_again_with_another_choice_is_packed_so(
    server: Server, packer: Packer, spec: PackSpec
) -> None:
    bench = PackBench(DEVICE, "http://server", Ending())
    bench.handle(message(0))
    choice = spec.options.model_copy(update={"on_bad": "skip"})
    server.spec = spec.model_copy(update={"options": choice})
    bench.handle(message(0))
    assert [call[3].on_bad for call in packer.calls] == ["fail", "skip"]


def test_a_worker_that_ends_leaves_its_shard_to_others(server: Server, packer: Packer) -> None:
    ending = Ending()
    packer.during = lambda _: ending.begin()
    PackBench(DEVICE, "http://server", ending).handle(message(0))
    assert (server.claims, server.reports) == ([0], [])


def test_a_server_that_is_away_meanwhile_does_not_stop_it(server: Server, packer: Packer) -> None:
    def during(report: Callable[[PackProgress], None]) -> None:
        server.error = Unavailable("away")
        report(PackProgress(samples=1))

    packer.during = during
    PackBench(DEVICE, "http://server", Ending()).handle(message(0))
    assert server.reports[0].samples == 3


@pytest.mark.parametrize("error", [Unavailable("away"), Conflict("it is there"), NotFound("gone")])
def test_a_shard_that_is_not_granted_is_left_alone(
    server: Server, packer: Packer, error: Exception
) -> None:
    server.error = error
    PackBench(DEVICE, "http://server", Ending()).handle(message(0))
    assert (packer.calls, server.reports) == ([], [])


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (BadSample("a.jpg is gone"), True),
        (NoRoom("it is full"), True),
        (Conflict("odd"), False),
        (ZeroDivisionError("odder"), False),
    ],
)
def test_what_goes_wrong_is_said(
    server: Server, packer: Packer, error: Exception, permanent: bool
) -> None:
    def during(_: object) -> None:
        raise error

    packer.during = during
    PackBench(DEVICE, "http://server", Ending()).handle(message(0))
    [report] = server.reports
    assert str(error) in (report.problem or "")
    assert report.permanent == permanent


def test_a_folder_of_the_same_name_is_not_taken_for_the_servers(
    server: Server, packer: Packer, spec: PackSpec
) -> None:
    for mark in (str(uuid.uuid4()), None):
        if mark is None:
            (spec.into / PACK_MARK).unlink()
        else:
            (spec.into / PACK_MARK).write_text(mark)
        PackBench(DEVICE, "http://server", Ending()).handle(message(0))
    assert (packer.calls, server.claims) == ([], [])
    for report in server.reports:
        assert "does not see the server's folder" in (report.problem or "")
        assert not report.permanent, "another device may see it"


def test_it_is_written_where_the_folder_lies_here(
    server: Server, packer: Packer, spec: PackSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = replace(DEVICE, dataset_map={Path("/srv"): tmp_path})
    server.spec = spec.model_copy(update={"into": Path("/srv/shards")})
    bench = PackBench(device, "http://server", Ending())
    monkeypatch.setattr(bench._indexes, "find", lambda *_: spec.index_path)
    bench.handle(message(0))
    assert packer.calls[0][4] == spec.into


def test_an_emulated_device_is_as_slow_as_it_says(
    server: Server, packer: Packer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, slept = [100.0], [0.0]

    def sleep(seconds: float) -> None:
        left_s, _ = signal.getitimer(signal.ITIMER_REAL)
        assert seconds < 5 < 60 < left_s, "it would be taken for one that hangs"
        now[0] += seconds
        slept[-1] += seconds

    def during(report: Callable[[PackProgress], None]) -> None:
        report(PackProgress(samples=1))
        slept.append(0)

    monkeypatch.setattr(packing.time, "process_time", iter([0.0, 300.0, 500.0]).__next__)
    monkeypatch.setattr(packing.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(packing.time, "sleep", sleep)
    packer.during = during
    PackBench(replace(DEVICE, speed=0.5), "http://server", Ending()).handle(message(0))
    assert slept == pytest.approx([600, 400])
    assert len(server.news) > 100


def test_an_emulated_device_does_not_sleep_over_what_is_not_wanted_any_more(
    server: Server, packer: Packer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(packing.time, "process_time", iter([0.0, 300.0]).__next__)
    monkeypatch.setattr(packing.time, "sleep", slept.append)
    server.wanted = False
    packer.during = lambda report: report(PackProgress(samples=1))
    PackBench(replace(DEVICE, speed=0.5), "http://server", Ending()).handle(message(0))
    assert slept == []


@pytest.mark.parametrize("body", [None, 3, "x", {}, [], {"packing": "no", "shard": 1}])
def test_nonsense_is_dropped(server: Server, packer: Packer, body: object) -> None:
    PackBench(DEVICE, "http://server", Ending()).handle(body)
    assert (server.asked, packer.calls) == (0, [])
