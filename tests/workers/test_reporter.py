"""Reports travel in groups, and files of what came too late are removed."""

import threading
import uuid
from pathlib import Path
from typing import Any, cast

import pytest

from ddlp.core.client import Client
from ddlp.core.errors import TooLarge, Unavailable
from ddlp.core.messages import Denied, Failure, Lease, Reported, Reports
from ddlp.core.schedule import Made
from ddlp.workers.reporter import Reporter

RUN = uuid.uuid4()


class Server:
    """Takes reports, and denies what it is told to; the first one waits until it may answer."""

    def __init__(self) -> None:
        self.reports: list[Reports] = []
        self.denied: set[int] = set()
        self.away = False
        self.most = 1000
        """Reports that it takes at once."""
        self.asked = threading.Event()
        self.may_answer = threading.Event()

    def post(self, path: str, body: Reports) -> Any:
        assert path == "/leases/report"
        self.reports.append(body)
        self.asked.set()
        assert self.may_answer.wait(10)
        if self.away:
            raise Unavailable("no answer")
        if len(body.made) + len(body.failed) > self.most:
            raise TooLarge("send less")
        late = [entry.lease for entry in body.made if entry.lease.index in self.denied]
        denied = [Denied(lease=lease, reason="too late") for lease in late]
        return Reported(denied=denied).model_dump(mode="json")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def reporter(server: Server, tmp_path: Path) -> Reporter:
    def forget(lease: Lease) -> None:
        (tmp_path / f"{lease.index}.batch").unlink()

    return Reporter(cast("Client", server), "cpu0", forget)


def made(folder: Path, index: int) -> tuple[Lease, Made]:
    file = folder / f"{index}.batch"
    file.write_bytes(b"pixels")
    lease = Lease(run=RUN, epoch=0, index=index, token=index + 1)
    return lease, Made("cpu0", str(file), 6, 7, 0.5, 0.25)


def test_reports_that_come_while_one_is_sent_travel_together(
    server: Server, reporter: Reporter, tmp_path: Path
) -> None:
    reporter.made(*made(tmp_path, 0))
    assert server.asked.wait(10)
    for index in range(1, 6):
        reporter.made(*made(tmp_path, index))
    failure = Failure(lease=made(tmp_path, 6)[0], reason="it broke")
    reporter.failed(failure)
    server.may_answer.set()
    reporter.settle(10)
    assert [[entry.lease.index for entry in sent.made] for sent in server.reports] == [
        [0],
        [1, 2, 3, 4, 5],
    ]
    assert server.reports[1].failed == [failure]
    first = server.reports[0].made[0]
    assert (first.nbytes, first.checksum, first.seconds, first.cpu_s) == (6, 7, 0.5, 0.25)
    assert {sent.device for sent in server.reports} == {"cpu0"}


def test_files_of_what_is_denied_are_removed_and_others_stay(
    server: Server, reporter: Reporter, tmp_path: Path
) -> None:
    server.denied = {1}
    server.may_answer.set()
    for index in range(3):
        reporter.made(*made(tmp_path, index))
    reporter.settle(10)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0.batch", "2.batch"]


def test_settling_waits_for_the_answer_but_not_for_ever(
    server: Server, reporter: Reporter, tmp_path: Path
) -> None:
    server.denied = {0}
    reporter.made(*made(tmp_path, 0))
    reporter.settle(0.05)
    assert (tmp_path / "0.batch").exists()
    server.may_answer.set()
    reporter.settle(10)
    assert not (tmp_path / "0.batch").exists()


def test_a_server_that_is_away_costs_the_reports_but_not_the_reporter(
    server: Server, reporter: Reporter, tmp_path: Path
) -> None:
    server.away = True
    server.may_answer.set()
    reporter.made(*made(tmp_path, 0))
    reporter.settle(10)
    server.away = False
    reporter.made(*made(tmp_path, 1))
    reporter.settle(10)
    assert [entry.lease.index for entry in server.reports[-1].made] == [1]
    assert (tmp_path / "0.batch").exists(), "the server may have taken it before it went"


def test_what_is_too_large_for_one_report_goes_in_several(
    server: Server, reporter: Reporter, tmp_path: Path
) -> None:
    server.most = 1
    server.may_answer.set()
    sent = [made(tmp_path, index) for index in range(5)]
    for lease, done in sent:
        reporter.made(lease, done)
    lost = Failure(lease=Lease(run=RUN, epoch=0, index=9, token=9), reason="no")
    reporter.failed(lost)
    reporter.settle(10)
    taken = [body for body in server.reports if len(body.made) + len(body.failed) == 1]
    assert {c.lease.index for body in taken for c in body.made} == {0, 1, 2, 3, 4}
    assert [f for body in taken for f in body.failed] == [lost]
    assert len(taken) == 6


def test_a_clock_that_cannot_be_told_costs_the_reports_but_not_the_reporter(
    server: Server, reporter: Reporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.may_answer.set()
    lease, _ = made(tmp_path, 0)
    with monkeypatch.context() as patched:
        patched.setattr("ddlp.workers.reporter.time.monotonic", lambda: -1.0)
        reporter.failed(Failure(lease=lease, reason="it broke"))
        reporter.settle(10)
    reporter.made(*made(tmp_path, 1))
    reporter.settle(10)
    assert [[entry.lease.index for entry in sent.made] for sent in server.reports] == [[1]]


def test_a_host_that_runs_for_years_can_report(
    server: Server, reporter: Reporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.may_answer.set()
    monkeypatch.setattr("ddlp.workers.reporter.time.monotonic", lambda: 2e8)
    reporter.made(*made(tmp_path, 1))
    reporter.settle(10)
    assert [sent.sent_s for sent in server.reports] == [2e8]
