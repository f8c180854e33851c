"""`ddlp up`: starts all parts as child processes, restarts what dies, and ends them together."""

import fcntl
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Self
from urllib.parse import urlsplit

from ddlp.cli.child import Child
from ddlp.cli.embedded_redis import redis_command
from ddlp.cli.own_key import first_key_command, known_admin, make_own_key
from ddlp.cli.serve import listen
from ddlp.core.client import Client
from ddlp.core.errors import Conflict, InvalidInput, Unavailable
from ddlp.core.home_lock import lock_text, read_lock
from ddlp.core.private import make_home
from ddlp.core.queue import check_broker
from ddlp.core.settings import Settings
from ddlp.server.roots import check_settings
from ddlp.server.security import check_listen
from ddlp.workers.csd import make_driver

_START_S = 60
_GLANCE_S = 0.2

_BROKER, _SERVER = _SERVICES = ("redis", "server")


class Stack:
    """All parts of DDLP on one machine."""

    def __init__(self, settings: Settings) -> None:
        check_listen(settings)
        check_settings(settings)
        _check_serving(settings)
        if settings.csd_devices:
            make_driver(settings)  # a wrong profile is said before anything is started
        self.settings = settings
        self._children: list[Child] = []
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where the page is."""
        return self.settings.server_url

    def worker_pids(self) -> list[int]:
        """The workers' main processes."""
        return [child.pid for child in self._workers()]

    def server_pid(self) -> int:
        """The server's process."""
        return next(child.pid for child in self._children if child.name == _SERVER)

    def watch(self) -> None:
        """Start again what has died."""
        for child in self._children:
            child.revive()

    def stop(self) -> None:
        """End all parts: workers together, then the server, then the broker."""
        services = [[child] for child in self._children if child.name in _SERVICES]
        for together in [self._workers(), *reversed(services)]:
            for child in together:
                child.terminate()
            for child in together:
                child.wait()
        self._children = []
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _workers(self) -> list[Child]:
        return [child for child in self._children if child.name not in _SERVICES]

    def _start(self) -> None:
        home = self.settings.home.absolute()
        prepare_home(home)
        self._lock = _take_lock(home)
        self._choose_port()
        self._start_broker(home)
        self._choose_key()
        self._write_lock()
        self._add(_SERVER, ["serve", "--checked"])
        self._wait_until_ready()
        self._add("cpu", ["worker", "--prong", "cpu"])
        for number in range(self.settings.csd_devices):
            self._add(f"csd{number}", ["worker", "--prong", "csd", "--name", f"csd{number}"])
        self._wait_for_devices()

    def _choose_port(self) -> None:
        with listen(self.settings.host, self.settings.port) as free:
            port = free.getsockname()[1]
        self.settings = self.settings.model_copy(
            update={"home": self.settings.home.absolute(), "port": port, "url": None}
        )

    def _choose_key(self) -> None:
        """A key of their own for the parts, where the server asks for one."""
        made = None if self.settings.keys == "off" else make_own_key(self.settings)
        self.settings = self.settings.model_copy(update={"key": made, "key_file": None})

    @property
    def key(self) -> str:
        """The key of the parts; empty where none is asked for."""
        return "" if self.settings.key is None else self.settings.key.get_secret_value()

    def _start_broker(self, home: Path) -> None:
        if self.settings.redis_url is None:
            folder = home / "redis"
            folder.mkdir(exist_ok=True)
            command, url = redis_command(folder)
            self._children.append(Child(_BROKER, command, home / "logs", dict(os.environ)))
            self.settings = self.settings.model_copy(update={"redis_url": url})
        assert self.settings.redis_url is not None
        deadline = time.monotonic() + (_START_S if self._children else 0)
        while True:
            try:
                return check_broker(self.settings.redis_url)
            except Unavailable:
                self._check_children()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _add(self, name: str, arguments: list[str]) -> None:
        # The user's own key may be one of another server.
        inherited = {k: v for k, v in os.environ.items() if k not in ("DDLP_KEY", "DDLP_KEY_FILE")}
        environment = inherited | _environment(self.settings)
        logs = self.settings.home / "logs"
        self._children.append(Child.of_ddlp(name, arguments, logs, environment))

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_S
        with Client(self.url, timeout_s=2, patience_s=0, key=self.key) as client:
            while True:
                self._check_children()
                try:
                    client.get("/runs?limit=1")
                    return
                except Unavailable:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(0.05)

    def _wait_for_devices(self) -> None:
        wanted = 1 + self.settings.csd_devices
        deadline = time.monotonic() + _START_S
        with Client(self.url, key=self.key) as client:
            while sum(device["live"] for device in client.get("/devices")) < wanted:
                self._check_children()
                if time.monotonic() > deadline:
                    raise Unavailable(f"the workers did not start; see {self.settings.home}/logs")
                time.sleep(0.05)

    def _check_children(self) -> None:
        for child in self._children:
            child.check_started()

    def _write_lock(self) -> None:
        assert self._lock is not None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, lock_text(self.url).encode(), 0)


def run_stack(settings: Settings) -> None:
    """Start, say where the page is, and stay until told to stop."""
    stop_on_term()
    with suppress(KeyboardInterrupt), Stack(settings) as stack:
        print(f"DDLP is up: {stack.url}  (home {stack.settings.home}, Ctrl-C ends it)", flush=True)
        if stack.settings.csd_devices:
            print(csd_words(stack.settings), flush=True)
        if stack.settings.keys == "required" and not known_admin(stack.settings):
            home = stack.settings.home
            print(f"Nobody can sign in yet: {first_key_command(home)}", flush=True)
        stay(stack)
    print("DDLP is down.", flush=True)


def csd_words(settings: Settings) -> str:
    """Which CSDs were started, and where their batches go: the drive fills with decoded pixels."""
    count, driver = settings.csd_devices, settings.csd_driver
    kind = "emulated CSD" if driver == "emulated" else f"CSD of driver {driver}"
    devices = f"1 {kind} writes" if count == 1 else f"{count} × {kind} write"
    return f"{devices} decoded batches to {settings.csd_store_address.url}"


def prepare_home(home: Path) -> None:
    """Make the home folder where there is none, and close it to other users."""
    try:
        make_home(home)
    except OSError as error:
        raise _unusable(home, error) from error


def stop_on_term() -> None:
    """Let SIGTERM do what Ctrl-C does, and Ctrl-C too where whoever started us ignores it."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, interrupt)


def stay(stack: Stack) -> None:
    """Keep all parts running until Ctrl-C or SIGTERM interrupts it."""
    while True:
        time.sleep(_GLANCE_S)
        stack.watch()


def _take_lock(home: Path) -> int:
    try:
        lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(home, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        known = read_lock(home)
        where = f" at {known.url} (process {known.pid})" if known else ""
        raise Conflict(
            f"DDLP is already running on {home}{where}; use it, end it with: ddlp down "
            f"--home {home}, or choose another --home"
        ) from error
    os.ftruncate(lock, 0)
    return lock


def _check_serving(settings: Settings) -> None:
    """Several workers cannot serve their stores at one address."""
    parts = urlsplit(settings.serve_store or "")
    if parts.port and settings.csd_devices:
        raise InvalidInput(
            f"DDLP_SERVE_STORE={settings.serve_store} names one port for several workers; write "
            f"http://{parts.hostname}:0, so that each takes a free one"
        )


def _unusable(home: Path, error: OSError) -> InvalidInput:
    return InvalidInput(
        f"{home} cannot be used as a home folder ({error.strerror}: {error.filename}); "
        "choose one that you may write to with --home or DDLP_HOME"
    )


def _environment(settings: Settings) -> dict[str, str]:
    """The settings as variables for the parts; what depends on the folder is fixed."""
    fixed = settings.model_copy(
        update={"url": settings.server_url, "dataset_roots": settings.roots}
    )
    return fixed.as_environment()
