"""What a stack writes is closed to other users."""

import os
import stat
from pathlib import Path

from ddlp.core.client import Client
from tests.conftest import UpProcess
from tests.end_to_end.trainer import new_run, train


def open_to_others(folder: Path) -> list[Path]:
    """What another user could read below a folder."""
    if not folder.stat().st_mode & stat.S_IXOTH:
        return []
    return [path for path in folder.rglob("*") if path.stat().st_mode & stat.S_IROTH]


def test_home_and_stores_are_closed_to_others(up: UpProcess, api: Client) -> None:
    run = new_run(api, batch_size=8)
    train(up, run)
    stores = {Path(device["store"].removeprefix("file://")) for device in api.get("/devices")}
    for place in (up.home, *stores):
        assert not open_to_others(place)
    assert stat.S_IMODE(up.home.stat().st_mode) == 0o700
    private = [up.home / "ddlp.db", up.home / "ddlp.db-wal", *(up.home / "logs").glob("*.log")]
    assert {stat.S_IMODE(file.stat().st_mode) for file in private} == {0o600}
    assert all(store.stat().st_uid == os.getuid() for store in stores)
