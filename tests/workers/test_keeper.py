"""A worker's store is served, looked into now and then, and cleared as the server says."""

import os
import socket
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import pytest

from ddlp.core.batchfile import BatchId, batch_tensors
from ddlp.core.errors import Unavailable
from ddlp.core.messages import Attempt, Heartbeat, Orders, RoomInfo
from ddlp.core.store import FolderStore, StoreAddress, StoredBatch, StoreOptions, open_store
from ddlp.core.store.served import access_token
from ddlp.workers.keeper import StoreKeeper
from tests.conftest import wait_until

RUN, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


def write(folder: Path, run: uuid.UUID, token: int) -> StoredBatch:
    store = open_store(StoreAddress.given(folder))
    batch = BatchId(run, 0, 0, token, 2, "00" * 32, "engine", "device")
    return store.write(batch, batch_tensors(2, (4, 4, 3), "uint8"), lambda arrays: 2)


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[StoreKeeper]:
    found = StoreKeeper(StoreAddress.given(tmp_path), StoreOptions(), "http://127.0.0.1:0")
    found.start()
    yield found
    found.stop()


def test_what_lies_there_is_told_once_each_time_it_was_looked_at(
    keeper: StoreKeeper, tmp_path: Path
) -> None:
    write(tmp_path, RUN, 1)
    wait_until(lambda: keeper.take_news()[0] is not None)
    assert keeper.take_news() == (None, {})
    keeper.obey(Orders(over=[OTHER]))  # after which it looks again
    wait_until(lambda: keeper._news is not None)
    room, stored = keeper.take_news()
    assert set(stored) == {RUN}
    assert stored[RUN] < 60
    assert room is not None
    assert room.used_bytes is not None
    assert room.used_bytes >= 4 * 4096
    assert keeper.room == room


@pytest.mark.parametrize("changed_s", [0, -(2**33)])
def test_a_store_without_dates_can_be_told(tmp_path: Path, changed_s: int) -> None:
    folder = Path(write(tmp_path, RUN, 1).location.removeprefix("file://")).parent
    for place in (*folder.iterdir(), folder):
        os.utime(place, (changed_s, changed_s))
    keeper = StoreKeeper(StoreAddress.given(tmp_path), StoreOptions())
    keeper._look()
    room, stored = keeper.take_news()
    body = Heartbeat(incarnation=uuid.uuid4(), room=room, stored=stored)
    assert body.stored[RUN] > 50 * 365 * 86400


def test_no_more_runs_are_told_at_once_than_a_message_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = StoreKeeper(StoreAddress.given(tmp_path), StoreOptions())
    ages = {uuid.UUID(int=number): float(number) for number in range(70_000)}
    monkeypatch.setattr(keeper._store, "runs", lambda: ages)
    keeper._look()
    _, stored = keeper.take_news()
    assert len(Heartbeat(incarnation=uuid.uuid4(), stored=stored).stored) == 65_536
    assert min(stored.values()) == 70_000 - 65_536, "the oldest first: they can be cleared away"


def test_what_is_of_no_use_is_cleared_away_and_nothing_else(
    keeper: StoreKeeper, tmp_path: Path
) -> None:
    for run, token in [(RUN, 1), (RUN, 2), (OTHER, 3)]:
        write(tmp_path, run, token)
    void = Attempt(run=RUN, epoch=0, index=0, token=1)
    keeper.obey(Orders(over=[OTHER], discard=[void]))
    # pathlib's own stumbles over folders that go meanwhile
    wait_until(lambda: [Path(p).name for p in glob(f"{tmp_path}/*/0*")] == ["00000-00000000-2"])


def test_a_batch_is_served_to_whoever_has_its_token(keeper: StoreKeeper, tmp_path: Path) -> None:
    name = write(tmp_path, RUN, 1).location.removeprefix(f"file://{tmp_path}/")
    assert keeper.key is not None
    good = {"Authorization": f"Bearer {access_token(keeper.key, name)}"}
    asked = urllib.request.Request(f"{keeper.serves}/{name}", headers=good)
    with urllib.request.urlopen(asked) as answer:
        assert answer.read() == (tmp_path / name).read_bytes()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{keeper.serves}/{name}")


def test_an_address_that_cannot_be_had_is_said_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable, match="cannot be served at"):
            StoreKeeper(StoreAddress.given(tmp_path), StoreOptions(), url)


def test_nothing_is_served_unless_it_is_asked_for(tmp_path: Path) -> None:
    keeper = StoreKeeper(StoreAddress.given(tmp_path), StoreOptions())
    keeper.start()
    assert (keeper.serves, keeper.key) == (None, None)
    keeper.stop()


def test_what_cannot_be_cleared_away_keeps_nothing_else_from_it(
    keeper: StoreKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = keeper._store.remove_run

    def broken(*_: object) -> None:
        raise OSError("the drive is gone")

    def only_other(run: uuid.UUID) -> None:
        if run == RUN:
            raise OSError("the drive is gone")
        remove(run)

    write(tmp_path, OTHER, 1)
    monkeypatch.setattr(keeper._store, "discard", broken)
    monkeypatch.setattr(keeper._store, "remove_run", only_other)
    void = Attempt(run=RUN, epoch=0, index=0, token=1)
    keeper.obey(Orders(over=[RUN, OTHER], discard=[void]))
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_a_store_that_cannot_be_looked_into_is_no_end_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError("the drive is gone")

    for name in ("room", "runs"):
        monkeypatch.setattr(FolderStore, name, broken)
    keeper = StoreKeeper(StoreAddress.given(tmp_path), StoreOptions())
    keeper.start()
    assert keeper.room == RoomInfo()
    assert keeper.take_news() == (None, {})
    keeper.stop()
