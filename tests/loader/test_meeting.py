"""Where the ranks of a host meet, and who serves them there."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.loader import meeting
from ddlp.loader.meeting import Meeting, meeting_of

JOB = {"MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "one"}


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder with a short path: a socket's must be."""
    with tempfile.TemporaryDirectory(prefix="meet-") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def nobody_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "_met", type(meeting._met)())


def environment(base: Path, **other: str) -> dict[str, str]:
    return {**JOB, "XDG_RUNTIME_DIR": str(base), **other}


def test_the_ranks_of_a_job_meet_and_those_of_another_do_not(base: Path) -> None:
    one = [meeting_of("run", rank, environment(base)) for rank in range(2)]
    other = meeting_of("run", 2, environment(base, MASTER_PORT="29501"))
    assert one[0] == one[1] != other
    assert meeting_of("another run", 0, environment(base)) != one[0]


def test_the_second_run_with_equal_arguments_has_a_place_of_its_own(base: Path) -> None:
    first, second = ([meeting_of("run", r, environment(base)) for r in range(2)] for _ in range(2))
    assert first[0] == first[1]
    assert second[0] == second[1] != first[0]


def test_other_places_of_a_job_are_known_while_they_are_served_and_were_not_found(
    base: Path,
) -> None:
    mine = meeting_of("mine", 1, environment(base))
    theirs = meeting_of("theirs", 0, environment(base))
    stranger = meeting_of("theirs", 0, environment(base, MASTER_PORT="29501"))
    for place in (theirs, stranger):
        taken = place.take(patience_s=0)
        place.order.write_text(f"of {place.job}")
        assert mine.elsewhere() == ([f"of {mine.job}"] if place is theirs else [])
        taken.listener.close()
        assert mine.elsewhere() == []
        taken.leave()
    taken = theirs.take(patience_s=0)
    theirs.order.touch()
    assert mine.elsewhere() == [""]
    theirs.attached()
    assert mine.elsewhere() == []
    taken.leave()


def test_where_nobody_tells_jobs_apart_other_places_say_nothing(base: Path) -> None:
    alone = {"XDG_RUNTIME_DIR": str(base)}
    mine, other = (meeting_of(run, 0, alone) for run in ("mine", "other"))
    taken = other.take(patience_s=0)
    other.order.touch()
    assert mine.elsewhere() == []
    taken.leave()


def test_a_folder_with_too_long_a_path_for_a_socket_is_passed_over(base: Path) -> None:
    long = base / ("x" * 80)
    long.mkdir()
    found = meeting_of("run", 0, environment(base, XDG_RUNTIME_DIR=str(long)))
    assert len(os.fsencode(found.address)) <= 107
    assert long not in found.folder.parents


def test_one_process_serves_and_the_next_one_has_to_wait_until_it_ends(base: Path) -> None:
    place = Meeting(base / "place")
    taken = place.take(patience_s=0)
    with pytest.raises(Conflict, match="another run with the same arguments is served"):
        place.take(patience_s=0)
    taken.leave()
    assert list(base.iterdir()) == []
    place.take(patience_s=0).leave()


def test_what_a_dead_process_left_is_taken_over(base: Path) -> None:
    place = Meeting(base / "place")
    taken = place.take(patience_s=0)
    shutil.copytree(place.folder, base / "kept", ignore=shutil.ignore_patterns("socket"))
    taken.leave()
    (base / "kept").rename(place.folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(place.address))
    again = place.take(patience_s=0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as rank:
        rank.connect(str(place.address))
    again.leave()


@pytest.mark.parametrize("kind", ["open to others", "a link"])
def test_a_folder_that_somebody_else_could_have_prepared_is_refused(base: Path, kind: str) -> None:
    place = Meeting(base / "place")
    if kind == "a link":
        (base / "elsewhere").mkdir(mode=0o700)
        place.folder.symlink_to(base / "elsewhere")
    else:
        place.folder.mkdir()
        place.folder.chmod(0o755)
    with pytest.raises(InvalidInput, match="not a folder of this user alone"):
        place.take(patience_s=0)
