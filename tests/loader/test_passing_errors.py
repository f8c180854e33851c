"""A trainer's own errors of the moment: they are waited out, and never called damage at once."""

import errno
import logging
import os
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ddlp.core import patience
from ddlp.core.errors import SystemFault
from ddlp.core.maps import Maps
from ddlp.core.messages import Damaged
from ddlp.loader import DualLoader
from ddlp.loader.readers import files
from tests.conftest import SMALL_PIPELINE, make_images

SAMPLES = 40
ONCE = Counter(range(SAMPLES))
Fail = Callable[[Callable[[Path], bool], int], list[Path]]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("data") / "few", SAMPLES)


@pytest.fixture
def loader(few: Path) -> Iterator[DualLoader]:
    options: dict[str, Any] = {"pipeline": SMALL_PIPELINE, "batch_size": 2, "workers": 1}
    with DualLoader.local(few, **options) as opened:
        yield opened


@pytest.fixture
def reported(loader: DualLoader, monkeypatch: pytest.MonkeyPatch) -> list[Damaged]:
    """What the loader reports as damaged."""
    found: list[Damaged] = []
    report = loader._feed.damaged

    def note(damaged: Damaged) -> None:
        found.append(damaged)
        report(damaged)

    monkeypatch.setattr(loader._feed, "damaged", note)
    return found


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, Callable[[Path], bool]], None]:
    """Have a call at batches' files fail, for those that are chosen."""

    def fail(call: str, number: int, chosen: Callable[[Path], bool]) -> None:
        real: Any = getattr(Path, call)

        def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
            if path.parent.name.startswith("ddlp-run-") and chosen(path):
                raise OSError(number, os.strerror(number), str(path))
            return real(path, *arguments, **options)

        monkeypatch.setattr(Path, call, refuse)

    return fail


def epoch(loader: DualLoader) -> Counter[int]:
    seen: Counter[int] = Counter()
    for batch in loader.batches():
        seen.update(batch.samples.tolist())
    return seen


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ESTALE, errno.ENOMEM])
@pytest.mark.parametrize("call", ["open", "stat"])
def test_an_error_that_passes_is_no_damage(
    loader: DualLoader, reported: list[Damaged], failing: Any, call: str, number: int
) -> None:
    left = [number] * 5
    failing(call, number, lambda _: bool(left and left.pop()))
    assert epoch(loader) == ONCE
    assert not left
    assert not reported


def test_memory_that_cannot_be_mapped_for_a_moment_is_no_damage(
    loader: DualLoader, reported: list[Damaged], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = Maps.map, [1] * 3

    def refuse(maps: Maps, *arguments: Any) -> memoryview:
        if left:
            raise OSError(left.pop() and errno.ENOMEM, os.strerror(errno.ENOMEM))
        return real(maps, *arguments)

    monkeypatch.setattr(Maps, "map", refuse)
    assert epoch(loader) == ONCE
    assert not left
    assert not reported


def test_a_file_that_its_drive_has_lost_is_made_again(
    impatient: None, loader: DualLoader, reported: list[Damaged], failing: Any
) -> None:
    lost: list[Path] = []

    def is_lost(path: Path) -> bool:
        if not lost and "-00000007-" in path.name:
            lost.append(path)
        return path in lost

    failing("open", errno.EIO, is_lost)
    assert epoch(loader) == ONCE
    (damaged,) = reported
    assert (damaged.index, damaged.gone) == (7, False)
    assert f"open of {lost[0]} failed with EIO (Input/output error)" in damaged.reason


def test_a_trainer_that_can_read_nothing_says_so_and_leaves_the_run_alone(
    impatient: None, loader: DualLoader, reported: list[Damaged], failing: Any
) -> None:
    failing("open", errno.EIO, lambda _: True)
    with pytest.raises(SystemFault, match=r"open of /.*/ddlp-run-.* failed with EIO .*dmesg"):
        epoch(loader)
    assert len(reported) == 1


class Widening(logging.Handler):
    """Lets this process open files again once it has said that it cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        resource.setrlimit(resource.RLIMIT_NOFILE, self.limits)


@pytest.fixture
def widening() -> Iterator[Widening]:
    handler = Widening()
    patience.log.addHandler(handler)
    yield handler
    patience.log.removeHandler(handler)
    resource.setrlimit(resource.RLIMIT_NOFILE, handler.limits)


def test_a_trainer_that_may_open_no_more_files_goes_on_when_it_may(
    loader: DualLoader, reported: list[Damaged], widening: Widening
) -> None:
    batches = loader.batches()
    seen = Counter(next(batches).samples.tolist())
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, widening.limits[1]))
    for batch in batches:
        seen.update(batch.samples.tolist())
    assert seen == ONCE
    assert "failed with EMFILE (Too many open files); trying again" in widening.said[0]
    assert not reported


def test_what_could_not_be_given_back_for_a_moment_is_given_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "ddlp-run-x"
    (folder / "free").mkdir(parents=True)
    first, second = folder / "first", folder / "second"
    for path in (first, second):
        path.touch()

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        files.give_back_file(first)
    assert f"rename of {first} failed with EIO" in caplog.text
    files.give_back_file(second)
    assert sorted(path.name for path in (folder / "free").iterdir()) == ["first", "second"]
