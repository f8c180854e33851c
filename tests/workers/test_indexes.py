"""A worker opens the server's index where it sees it, and fetches a copy where it does not."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from ddlp.core.client import Client
from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import NoRoom, NotFound
from ddlp.core.messages import WorkSpec
from ddlp.workers import indexes as indexes_module
from ddlp.workers.indexes import Indexes
from tests.conftest import UpProcess
from tests.end_to_end.trainer import new_run


@pytest.fixture
def spec(api: Client) -> WorkSpec:
    return WorkSpec.model_validate(api.get(f"/runs/{new_run(api)}/work"))


def test_the_servers_own_file_is_used_where_it_is_seen(
    api: Client, spec: WorkSpec, tmp_path: Path
) -> None:
    assert Indexes(api, tmp_path / "cache", {}).local(spec) is spec
    assert not (tmp_path / "cache").exists()


def test_a_host_that_does_not_see_it_fetches_it_once(
    up: UpProcess, spec: WorkSpec, tmp_path: Path
) -> None:
    hidden = spec.model_copy(update={"index_path": Path("/not/here")})
    with up.client() as client:
        found = Indexes(client, tmp_path / "cache", {}).local(hidden)
        assert DatasetIndex(found.index_path).version == spec.dataset_version
        before = found.index_path.stat().st_ino
        assert Indexes(client, tmp_path / "cache", {}).local(hidden) == found
        assert found.index_path.stat().st_ino == before


def test_a_host_that_sees_the_data_elsewhere_looks_there(
    api: Client, images: Path, spec: WorkSpec, tmp_path: Path
) -> None:
    folders = {images.parent: tmp_path / "mnt"}
    found = Indexes(api, tmp_path / "cache", folders).local(spec)
    assert DatasetIndex(found.index_path).root == tmp_path / "mnt" / images.name
    other = Indexes(api, tmp_path / "cache", {images.parent: tmp_path / "other"}).local(spec)
    assert DatasetIndex(other.index_path).root == tmp_path / "other" / images.name


def test_a_packed_dataset_is_not_mistaken_for_its_origin_of_the_same_version(
    up: UpProcess, spec: WorkSpec, tmp_path: Path
) -> None:
    with up.client() as client:
        indexes = Indexes(client, tmp_path / "cache", {})
        found = {
            indexes.find(Path(place), spec.dataset_version, f"/runs/{spec.run}/index")
            for place in ("/not/here", "/nor/here", "/not/here")
        }
    assert len(found) == 2


def test_a_run_that_is_not_there_says_so(api: Client, spec: WorkSpec, tmp_path: Path) -> None:
    gone = json.loads(spec.model_dump_json())
    gone |= {"run": "00000000-0000-0000-0000-000000000000", "index_path": "/not/here"}
    with pytest.raises(NotFound, match="there is no run"):
        Indexes(api, tmp_path / "cache", {}).local(WorkSpec.model_validate(gone))
    assert not (tmp_path / "cache").exists()


class Server:
    """Has an index to give, for which there may be no room here."""

    def __init__(self, errors: list[int]) -> None:
        self.errors, self.asked = errors, 0

    @contextmanager
    def stream(self, route: str) -> Iterator[BinaryIO]:
        self.asked += 1
        yield BytesIO()

    def relocate(self, source: BinaryIO, copy: Path, *_: object) -> None:
        if self.errors:
            number = self.errors.pop()
            raise OSError(number, os.strerror(number))
        copy.parent.mkdir(parents=True)
        copy.touch()


def fetch(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(indexes_module, "relocate", server.relocate)
    return Indexes(cast("Client", server), cache, {}).find(Path("/not/here"), "v", "/index")


def test_a_copy_is_asked_for_again_once_an_error_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server([errno.EIO, errno.EMFILE])
    assert fetch(server, tmp_path / "cache", monkeypatch).exists()
    assert server.asked == 3


def test_a_copy_that_finds_no_room_is_no_fault_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoRoom, match=rf"write of {tmp_path}/cache/\w+ failed with ENOSPC"):
        fetch(Server([errno.ENOSPC]), tmp_path / "cache", monkeypatch)
