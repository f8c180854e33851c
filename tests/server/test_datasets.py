"""Datasets: registered under a name, from a place that is allowed, and removed."""

from pathlib import Path

import pytest

from ddlp.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from ddlp.core.messages import DatasetCreate, RunCreate
from ddlp.core.types import RunState
from ddlp.server import datasets, places, roots, runs
from ddlp.server.models import Run
from tests.conftest import make_images
from tests.server.conftest import Plane


def test_a_name_is_given_once_and_a_place_must_be_there_and_allowed(
    plane: Plane, images: Path, tmp_path: Path
) -> None:
    plane.add_dataset(images, "fruit")
    with plane.database.session() as session:
        for uri, error in (
            (images, Conflict),
            (images / "nowhere", InvalidInput),
            (tmp_path, NotAllowed),
        ):
            with pytest.raises(error):
                datasets.add(session, plane.settings, DatasetCreate(uri=str(uri), name="fruit"))


@pytest.mark.parametrize(
    ("file", "name"), [("train.csv", "train"), ("a b.tar", "a-b"), ("photos.v2.npz", "photos")]
)
def test_a_file_gives_its_name_without_its_ending(plane: Plane, file: str, name: str) -> None:
    place = plane.scratch / file
    place.write_bytes(b"")
    with plane.database.session() as session:
        row = datasets.add(session, plane.settings, DatasetCreate(uri=str(place)))
    assert row.name == name


def test_a_dataset_outlives_no_run_that_needs_it_but_the_others(plane: Plane, images: Path) -> None:
    plane.add_dataset(images, "fruit")
    with plane.database.session() as session:
        row = runs.create(session, RunCreate(dataset="fruit", name="r"))
        with pytest.raises(Conflict, match="dataset fruit is used by r; cancel that first"):
            datasets.remove(session, plane.settings, "fruit")
        row.state = RunState.COMPLETED.value
    with plane.database.session() as session:
        datasets.remove(session, plane.settings, "fruit", keep_runs=True)
    with plane.database.session() as session:
        run = session.get_one(Run, row.id)
        assert run.dataset_id is None
        assert runs.info(session, run).dataset == "fruit"
        with pytest.raises(NotFound, match="dataset fruit of run r was removed"):
            runs.work_spec(session, run)


def test_rejected_files_are_listed_page_by_page(plane: Plane) -> None:
    place = make_images(plane.scratch / "half", 9)
    for path in sorted(place.glob("pear/*.jpg")):
        path.write_bytes(b"nothing")
    plane.add_dataset(place, "half")
    with plane.database.session() as session:
        row = datasets.find(session, "half")
    assert (row.samples, row.rejected) == (6, 3)
    names = [Path(entry.name).name for entry in datasets.rejected(row, 1, 5)]
    assert names == ["0004.jpg", "0007.jpg"]


def test_splits_are_not_registered_as_one_dataset(plane: Plane) -> None:
    root = plane.scratch / "photos"
    for split in ("train", "val"):
        make_images(root / split, 3)
    body = DatasetCreate(uri=str(root))
    with plane.database.session() as session:
        with pytest.raises(InvalidInput, match=r"ddlp dataset add \S+/val --name photos-val"):
            datasets.add(session, plane.settings, body)
        assert datasets.list_all(session) == []
        row = datasets.add(session, plane.settings, body.model_copy(update={"as_classes": True}))
        assert row.as_classes
        folders = roots.allowed(session, plane.settings)
    found = places.look(folders, str(root))
    assert found.kind is None
    assert "holds splits" in (found.problem or "")
    assert [(split.name, split.problem) for split in found.splits] == [
        ("photos-train", None),
        ("photos-val", None),
    ]


def test_what_was_left_out_is_told_with_the_dataset(plane: Plane) -> None:
    place = make_images(plane.scratch / "mixed", 6)
    (place / "top.jpg").write_bytes(b"")
    plane.add_dataset(place, "mixed")
    with plane.database.session() as session:
        [note] = datasets.info(datasets.find(session, "mixed")).notes
    assert note.endswith("for lack of a class folder: 1.")
