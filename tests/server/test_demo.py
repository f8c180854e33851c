"""The first start: drawn, scanned, made and told, once at a time."""

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from ddlp.core.errors import NotAllowed
from ddlp.core.messages import DatasetCreate
from ddlp.core.messages.demo import DemoCreate, DemoInfo, DemoState
from ddlp.core.settings import Settings
from ddlp.server import datasets
from ddlp.server.demo import Demo, own_url
from ddlp.server.models import AuditEvent, Dataset, Run
from ddlp.server.scanner import Scanner
from tests.conftest import wait_until
from tests.server.conftest import Plane

SMALL = DemoCreate(images=48, epochs=2)
URL = "http://127.0.0.1:1"


@pytest.fixture
def demo(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Demo]:
    """A demo where PyTorch is not installed: its run waits for a trainer."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    scanner = Scanner(plane.database, plane.settings)
    scanner.start()
    found = Demo(plane.database, plane.settings, plane.dispatcher, scanner)
    yield found
    found.stop()
    scanner.stop()


def ended(demo: Demo) -> DemoInfo:
    wait_until(lambda: not demo.info().state.under_way, 60)
    return demo.info()


def rows(plane: Plane, table: type[Dataset] | type[Run] | type[AuditEvent]) -> list[str]:
    column = {Dataset: Dataset.name, Run: Run.name, AuditEvent: AuditEvent.action}[table]
    with plane.database.session() as session:
        return list(session.scalars(select(column)))


def test_it_ends_in_a_run_over_a_dataset_of_its_own(demo: Demo, plane: Plane) -> None:
    assert demo.info().state is DemoState.IDLE
    first = demo.begin(SMALL, URL)
    assert (first.state, first.percent, first.run) == (DemoState.DRAWING, 0, None)
    found = ended(demo)
    assert (found.state, found.run, found.percent) == (DemoState.RUNNING, "demo", 100)
    with plane.database.session() as session:
        run = session.scalars(select(Run)).one()
        dataset = datasets.find_ready(session, "shapes")
        assert (run.dataset, run.samples, run.epochs) == ("shapes", 48, 2)
        assert (dataset.samples, len(dataset.classes)) == (48, 6)
    assert {"demo.start", "dataset.add", "run.create"} <= set(rows(plane, AuditEvent))


def test_without_pytorch_it_says_what_to_do(demo: Demo) -> None:
    demo.begin(SMALL, URL)
    note = ended(demo).note
    assert note is not None
    assert "PyTorch is not installed" in note
    assert f"python -m ddlp.loader.demo_trainer --url {URL} --run demo" in note


def test_without_a_key_to_give_it_says_so(plane: Plane) -> None:
    settings = plane.settings.model_copy(update={"keys": "required"})
    scanner = Scanner(plane.database, settings)
    scanner.start()
    demo = Demo(plane.database, settings, plane.dispatcher, scanner)
    demo.begin(SMALL, URL)
    note = ended(demo).note
    scanner.stop()
    assert note is not None
    assert "DDLP_KEY" in note


def test_asked_twice_at_once_it_is_started_once(demo: Demo, plane: Plane) -> None:
    demo.begin(SMALL, URL)
    demo.begin(SMALL, URL)
    ended(demo)
    assert rows(plane, Run) == ["demo"]
    assert rows(plane, AuditEvent).count("demo.start") == 1


def test_asked_again_later_it_finds_its_images_and_makes_another_run(
    demo: Demo, plane: Plane
) -> None:
    demo.begin(SMALL, URL)
    ended(demo)
    wait_until(lambda: demo.begin(SMALL, URL).state is DemoState.DRAWING)
    assert ended(demo).run == "demo-2"
    assert rows(plane, Dataset) == ["shapes"]


def test_a_folder_that_cannot_be_made_is_said(demo: Demo, plane: Plane) -> None:
    plane.settings.home.mkdir(exist_ok=True)
    (plane.settings.home / "demo-images").write_text("in the way")
    demo.begin(SMALL, URL)
    found = ended(demo)
    assert found.state is DemoState.FAILED
    assert "demo-images" in found.words
    assert rows(plane, Run) == []


def test_a_child_that_fails_is_said(
    demo: Demo, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    demo.begin(SMALL, URL)
    found = ended(demo)
    assert found.state is DemoState.FAILED
    assert "could not be drawn" in found.words


def test_the_server_s_end_ends_it(demo: Demo) -> None:
    demo.begin(DemoCreate(images=20_000), URL)
    wait_until(lambda: demo.info().percent > 0)
    demo.stop()
    assert "the server was stopped" in ended(demo).words


def test_only_its_own_folder_may_be_read_beside_the_allowed_ones(plane: Plane) -> None:
    home = plane.settings.home
    (home / "demo-images" / "shapes").mkdir(parents=True)
    (home / "private").mkdir()
    with plane.database.session() as session:
        body = DatasetCreate(uri=str(home / "demo-images" / "shapes"))
        assert datasets.add(session, plane.settings, body).name == "shapes"
        for place in (home, home / "private", home / "demo-images" / ".." / "private"):
            with pytest.raises(NotAllowed):
                datasets.add(session, plane.settings, DatasetCreate(uri=str(place), name="other"))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8123"),
        ("0.0.0.0", "http://127.0.0.1:8123"),
        ("10.1.2.3", "http://10.1.2.3:8123"),
    ],
)
def test_its_trainer_reaches_the_server_on_this_machine(host: str, url: str) -> None:
    assert own_url(Settings(host=host, port=0, url="http://outside:1"), 8123) == url
