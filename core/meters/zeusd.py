"""The Zeus daemon: reads RAPL as root and tells others, over HTTP on a Unix socket.

Two forms of its interface are known (github.com/ml-energy/zeus, `zeusd/src/routes/cpu.rs`):

- now, `GET /cpu/get_cumulative_energy?cpu_ids=0&cpu=true&dram=true` answers
  `{"0": {"cpu_energy_uj": 1, "dram_energy_uj": 2}}`;
- before, `POST /cpu/0/get_index_energy` with `{"cpu": true, "dram": true}` answered the inner part.

Figures are microjoules that the daemon has added up over wraps; what is not there is null. A daemon
that asks for a token is not supported. It numbers the top zones of RAPL, `psys` among them, without
their names: these are taken from the powercap tree, where everybody may read them.
"""

import http.client
import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from ddlp.core.energy import EnergyReading
from ddlp.core.errors import Unavailable
from ddlp.core.meters.base import Clock, Meter, reading, unavailable
from ddlp.core.meters.rapl import zone_names
from ddlp.core.meters.tally import CounterTally
from ddlp.core.types import Domain

_MICRO = 1e-6
_TIMEOUT_S = 1.0
_MOST_CPUS = 64

Energies = dict[str, int | None]
"""`cpu_energy_uj` and `dram_energy_uj` of one CPU."""


class Zeusd:
    """One daemon; every question is a connection of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._old = False

    def cpus(self) -> dict[int, Energies]:
        """All CPUs that it knows."""
        status, body = self._ask("GET", "/cpu/get_cumulative_energy?cpu=true&dram=true")
        if status == 200:
            return self._by_number(body)
        if status != 404:
            raise self._refusal(status)
        self._old = True
        return self._one_by_one()

    def cpu(self, number: int) -> Energies:
        """One CPU."""
        if not self._old:
            query = f"cpu_ids={number}&cpu=true&dram=true"
            status, body = self._ask("GET", f"/cpu/get_cumulative_energy?{query}")
            if status == 200 and number in (found := self._by_number(body)):
                return found[number]
            raise self._refusal(status)
        status, body = self._ask(
            "POST", f"/cpu/{number}/get_index_energy", {"cpu": True, "dram": True}
        )
        if status != 200:
            raise self._refusal(status)
        return self._energies(body)

    def _one_by_one(self) -> dict[int, Energies]:
        """The old form does not say how many there are: they are tried until one is missing."""
        found: dict[int, Energies] = {}
        for number in range(_MOST_CPUS):
            try:
                found[number] = self.cpu(number)
            except Unavailable:
                if not found:
                    raise
                break
        return found

    def _by_number(self, body: object) -> dict[int, Energies]:
        if not isinstance(body, dict) or not all(str(key).isdecimal() for key in body):
            raise Unavailable(f"zeusd at {self.path} answers what is not known here")
        return {int(key): self._energies(part) for key, part in body.items()}

    def _energies(self, body: object) -> Energies:
        if not isinstance(body, dict):
            raise Unavailable(f"zeusd at {self.path} answers what is not known here")
        found = {key: body.get(key) for key in ("cpu_energy_uj", "dram_energy_uj")}
        return {key: value if isinstance(value, int) else None for key, value in found.items()}

    def _refusal(self, status: int) -> Unavailable:
        return Unavailable(
            f"zeusd at {self.path} answers {status}; enable its cpu-read without auth"
        )

    def _ask(self, method: str, path: str, body: object = None) -> tuple[int, object]:
        connection = _UnixConnection(self.path)
        text = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable(f"zeusd at {self.path} does not answer: {error}") from error
        finally:
            connection.close()


@dataclass(frozen=True)
class Counter:
    """One of the two counters of one CPU."""

    daemon: Zeusd
    number: int
    key: str

    def read_uj(self) -> int:
        """What it shows; Unavailable where it shows nothing."""
        value_uj = self.daemon.cpu(self.number)[self.key]
        if value_uj is None:
            raise Unavailable(f"zeusd at {self.daemon.path} gives no {self.key}")
        return value_uj


class ZeusdMeter:
    """A counter that the daemon reads, added up; a daemon that began anew may show less."""

    def __init__(
        self, name: str, domain: Domain, counter: Counter, clock: Clock = time.monotonic
    ) -> None:
        self.name = name
        self.domain = domain
        self._counter = counter
        self._clock = clock
        self._tally = CounterTally(_MICRO)
        self.read()

    def read(self) -> EnergyReading:
        """Joules since it was made; a daemon that is away is asked again the next time."""
        try:
            value_uj = self._counter.read_uj()
        except Unavailable as error:
            self._tally.lose()
            return unavailable(str(error), self._tally.covered_s)
        self._tally.take(self._clock(), value_uj)
        method = f"RAPL through zeusd at {self._counter.daemon.path}{self._tally.mishaps}"
        return reading(self._tally.joules, method, self._tally.covered_s)


def find(path: Path, powercap: Path, clock: Clock = time.monotonic) -> list[Meter]:
    """A meter for each counter that the daemon reads; Unavailable where it gives none."""
    daemon, names = Zeusd(path), zone_names(powercap)
    found: list[Meter] = []
    for number, energies in sorted(daemon.cpus().items()):
        name = names.get(number) or f"package-{number}"
        domain = Domain.PSYS if name.startswith("psys") else Domain.PACKAGE
        places = [
            ("cpu_energy_uj", name, domain),
            ("dram_energy_uj", f"dram-{name.removeprefix('package-')}", Domain.DRAM),
        ]
        found += [
            ZeusdMeter(called, kind, Counter(daemon, number, key), clock)
            for key, called, kind in places
            if energies[key] is not None
        ]
    if not found:
        raise Unavailable(f"zeusd at {path} reads no CPU")
    return found


class _UnixConnection(http.client.HTTPConnection):
    """HTTP to a Unix socket; the name of the host means nothing."""

    def __init__(self, path: Path) -> None:
        super().__init__("zeusd", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket's file."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
