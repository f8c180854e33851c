"""The first start: draws images, scans them, makes a run, and starts a trainer for it.

One at a time, in a thread of its own. The images are drawn, and the model is trained, by children
that end with the server. How far it is lies in memory: after a restart it can be asked for again,
and finds its images and its dataset where they were.
"""

import contextvars
import importlib.util
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from sqlalchemy import select

from ddlp.core.demo import BATCH_SIZE, CPU_WINDOW, CSD_STORE_BYTES, PIPELINE, SEED
from ddlp.core.demo_images import CLASSES
from ddlp.core.errors import Conflict, DdlpError, InvalidInput, Unavailable
from ddlp.core.messages import DatasetCreate, PipelineCreate, RunCreate
from ddlp.core.messages.demo import DemoCreate, DemoInfo, DemoState
from ddlp.core.settings import LOOPBACK, Settings
from ddlp.core.types import DatasetState
from ddlp.server import datasets, devices, pipelines, roots, run_names, runs
from ddlp.server.database import Database
from ddlp.server.dispatcher import Dispatcher
from ddlp.server.ledger import audit
from ddlp.server.models import Dataset
from ddlp.server.scanner import Scanner
from ddlp.server.versions import is_current

_DATASET = "shapes"
_RUN = "demo"
_DRAWN, _SCANNED = 80, 95
"""Percent of the way when the images are drawn, and when they are scanned."""
_GLANCE_S = 0.1
_STOP_S = 3.0
_ANYWHERE = ("0.0.0.0", "::")
_IDLE = DemoInfo(state=DemoState.IDLE, words="Nothing has been started.", percent=0)

log = logging.getLogger(__name__)


class Demo:
    """Owns the thread and its children; `info` says how far they are."""

    def __init__(
        self, database: Database, settings: Settings, dispatcher: Dispatcher, scanner: Scanner
    ) -> None:
        self._database = database
        self._settings = settings
        self._dispatcher = dispatcher
        self._scanner = scanner
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._info = _IDLE

    def info(self) -> DemoInfo:
        """How it stands."""
        return self._info

    def begin(self, body: DemoCreate, url: str) -> DemoInfo:
        """Start it, unless it is under way; `url` is where its trainer reaches this server."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return self._info
            self._scanner.check_room()
            with self._database.session() as session:
                audit(session, "demo.start", _RUN, time.time(), **body.model_dump())
            self._say(DemoState.DRAWING, f"Drawing {body.images:,} images", 0)
            # The thread acts for whoever asked, so that the ledger names the same actor.
            work = contextvars.copy_context().run
            self._thread = threading.Thread(
                target=work, args=(self._work, body, url), name="demo", daemon=True
            )
            self._thread.start()
            return self._info

    def stop(self) -> None:
        """End it with the server."""
        self._stopping.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _say(
        self, state: DemoState, words: str, percent: int, run: str | None = None, note: str = ""
    ) -> None:
        self._info = DemoInfo(state=state, words=words, percent=percent, run=run, note=note or None)

    def _work(self, body: DemoCreate, url: str) -> None:
        try:
            folder = self._draw(body.images)
            dataset = self._scan(folder)
            self._say(DemoState.STARTING, "Making the run", _SCANNED)
            run = self._make_run(dataset, body.epochs)
            self._train(run, url)
        except DdlpError as error:
            self._fail(str(error))
        except Exception as error:  # the border of the thread: whoever asked must learn of it
            log.exception("the demo failed")
            self._fail(f"{type(error).__name__}: {error}")

    def _fail(self, why: str) -> None:
        self._say(DemoState.FAILED, why, self._info.percent, self._info.run)

    # Images

    def _draw(self, images: int) -> Path:
        """The folder of images, drawn where they are not there yet."""
        folder = roots.drawn_images(self._settings) / f"{_DATASET}-{images}"
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"{folder.parent} cannot be made: {error.strerror}") from error
        arguments = [str(os.getpid()), str(folder), str(images)]
        with self._child("ddlp.core.demo_images", arguments, subprocess.PIPE) as child:
            assert child.stdout is not None
            for line in child.stdout:
                self._drawn(int(line), images)
                self._check_stopping()
            said = child.stderr.read().decode(errors="replace").strip() if child.stderr else ""
            if child.wait():
                last = said.splitlines()[-1] if said else f"status {child.returncode}"
                raise Unavailable(f"the images could not be drawn: {last}")
        return folder

    def _drawn(self, done: int, images: int) -> None:
        words = f"Drawing {images:,} images of {len(CLASSES)} shapes: {done:,} are there"
        self._say(DemoState.DRAWING, words, _DRAWN * done // images)

    def _scan(self, folder: Path) -> str:
        """The name of the folder's dataset, once it is ready."""
        row = self._register(folder)
        while row.state == DatasetState.SCANNING.value:
            done = self._scanner.progress(row.id)
            share = done.done / done.found if done and done.found else 0.0
            percent = _DRAWN + int((_SCANNED - _DRAWN) * share)
            self._say(DemoState.SCANNING, f"Scanning dataset {row.name}", percent)
            self._check_stopping(_GLANCE_S)
            with self._database.session() as session:
                row = datasets.find(session, row.name)
        if row.state != DatasetState.READY.value:
            raise InvalidInput(f"dataset {row.name} could not be scanned: {row.reason}")
        return row.name

    def _register(self, folder: Path) -> Dataset:
        """The folder's dataset: known already, or to be scanned now."""
        usable = [DatasetState.READY.value, DatasetState.SCANNING.value]
        here = (Dataset.uri == str(folder.resolve()), Dataset.state.in_(usable))
        with self._database.session() as session:
            for known in session.scalars(select(Dataset).where(*here)):
                if is_current(known.name):
                    return known
            taken = session.scalar(select(Dataset.id).where(Dataset.name == _DATASET)) is not None
            body = DatasetCreate(uri=str(folder), name=folder.name if taken else _DATASET)
            row = datasets.add(session, self._settings, body)
        self._scanner.begin(row)
        return row

    # The run

    def _make_run(self, dataset: str, epochs: int) -> str:
        with self._database.session() as session:
            pipelines.add(session, PipelineCreate.model_validate(PIPELINE))
            taken = run_names.is_taken(session, _RUN)
            body = RunCreate(
                name=run_names.numbered(session, _RUN) if taken else _RUN,
                dataset=dataset,
                pipeline=PIPELINE["name"],
                batch_size=BATCH_SIZE,
                epochs=epochs,
                seed=SEED,
                cpu_window=CPU_WINDOW,
                csd_store_bytes=CSD_STORE_BYTES,
            )
            row = runs.create(session, body)
            now = self._dispatcher.now()
            runs.check_room(row, devices.list_all(session, self._settings, now))
            name = row.name
        self._dispatcher.call(lambda board, session, _: board.add_run(session, row)).result()
        return name

    def _train(self, run: str, url: str) -> None:
        """Have a child train the run, and stay until it ends."""
        lacking = self._lacking()
        if lacking is not None:
            command = f"python -m ddlp.loader.demo_trainer --url {url} --run {run}"
            note = f"{lacking}, so the run waits for a trainer. Start one with: {command}"
            self._say(DemoState.RUNNING, f"Run {run} waits for a trainer", 100, run, note)
            return
        place = self._settings.home / "logs" / "demo-trainer.log"
        place.parent.mkdir(parents=True, exist_ok=True)
        arguments = ["--url", url, "--run", run, "--parent", str(os.getpid())]
        with (
            place.open("wb") as file,
            self._child("ddlp.loader.demo_trainer", arguments, file) as child,
        ):
            self._say(DemoState.RUNNING, f"Run {run} is being trained", 100, run)
            while child.poll() is None:
                self._check_stopping(_GLANCE_S)
        if child.returncode:
            last = (place.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[
                -1
            ]
            said = last.removeprefix("ddlp: ")
            raise Unavailable(f"the trainer of run {run} ended early: {said} (log: {place})")
        self._say(DemoState.DONE, f"Run {run} was trained to its end", 100, run)

    def _lacking(self) -> str | None:
        """What the server would need to train here itself."""
        if importlib.util.find_spec("torch") is None:
            return "PyTorch is not installed where the server runs"
        if self._settings.keys == "required" and self._settings.key is None:
            return "The server has no key (DDLP_KEY) to give to a trainer"
        return None

    @contextmanager
    def _child(
        self, module: str, arguments: list[str], output: int | IO[bytes]
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """A process of our own; it has ended afterwards, one way or the other."""
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE if output == subprocess.PIPE else subprocess.STDOUT,
            env=dict(os.environ) | self._settings.as_environment(),
            start_new_session=True,
        )
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            for pipe in (child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()

    def _check_stopping(self, wait_s: float = 0.0) -> None:
        if self._stopping.wait(wait_s) if wait_s else self._stopping.is_set():
            raise Conflict("the server was stopped meanwhile; start the demo again")


def own_url(settings: Settings, port: int) -> str:
    """Where a process on this machine reaches the server, which was asked on this port."""
    if settings.host in LOOPBACK or settings.host in _ANYWHERE:
        return f"http://127.0.0.1:{port}"
    return settings.model_copy(update={"url": None, "port": port}).server_url
