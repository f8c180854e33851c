"""Divides the energy of hosts and drives among the runs that they worked for.

Meters count for a whole host or drive. What is counted between two readings is divided: the idle
part, what runs used, by their busy seconds, and what other programs used. Where a meter is read,
runs are charged what was measured; where it is modelled, each batch was charged already.
"""

import uuid
from collections import defaultdict
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.energy import EnergyReading
from ddlp.core.messages import DomainReading, HostSample
from ddlp.core.sharing import LowestPower, Shares, divide, split
from ddlp.core.types import Domain, Provenance
from ddlp.server.models import HostEnergy
from ddlp.server.telemetry import Bucket

IDLE = "idle"
_FRESH_S = 15.0
"""A meter that was not heard of for longer does not count as read."""

_TAKE_OVER_S = 7.0
"""After so long another process of a host is believed to sample it."""

_MOST_NOTED = 4096

RunEpoch = tuple[uuid.UUID, int]
Worker = tuple[uuid.UUID, int, str]
"""A run, an epoch of it, and the device that worked for it."""
Work = dict[Worker, float]


@dataclass
class Metered:
    """A meter as it was read last."""

    reading: EnergyReading
    read_at: float
    lowest: LowestPower = field(default_factory=LowestPower)
    power_w: float | None = None
    """Over the time between the last two readings, where that can be told."""

    def is_fresh(self, now: float) -> bool:
        """Whether it was read lately."""
        return now - self.read_at <= _FRESH_S

    def is_measured(self, now: float) -> bool:
        """Whether runs are charged by what it counts."""
        return self.is_fresh(now) and self.reading.provenance is Provenance.MEASURED

    def passed(self, reading: EnergyReading, now: float) -> tuple[float, float] | None:
        """Joules and seconds since it was read last; None where that cannot be told."""
        found = self._passed(reading, now)
        self.power_w = found[0] / found[1] if found and found[1] > 0 else None
        return found

    def _passed(self, reading: EnergyReading, now: float) -> tuple[float, float] | None:
        before, before_at = self.reading, self.read_at
        self.reading, self.read_at = reading, now
        if before.joules is None or reading.joules is None or reading.joules < before.joules:
            return None
        measured = reading.provenance is Provenance.MEASURED
        silent = measured and now - before_at > _FRESH_S  # the model has charged batches meanwhile
        if before.provenance is not reading.provenance or silent:
            return None
        seconds = now - before_at
        if before.period_s is not None and reading.period_s is not None:
            seconds = reading.period_s - before.period_s
        # Less than none: it was started anew, and has counted more than before since then.
        return (reading.joules - before.joules, seconds) if seconds >= 0 else None


@dataclass
class HostState:
    """A host between two of its samples."""

    sampler: uuid.UUID | None = None
    heard_at: float = float("-inf")
    busy_s: float = 0.0
    meters: dict[str, Metered] = field(default_factory=dict)
    domains: dict[str, Domain] = field(default_factory=dict)
    lowest: dict[str, LowestPower] = field(default_factory=lambda: defaultdict(LowestPower))
    """The least watts by meter, whoever sampled it."""
    worked: Work = field(default_factory=lambda: defaultdict(float))
    """CPU seconds of the runs since its last sample."""
    trained: Work = field(default_factory=lambda: defaultdict(float))
    """Seconds of training of the runs since then."""

    def is_measured(self, domain: Domain, now: float) -> bool:
        """Whether all meters of a domain are read."""
        mine = [self.meters[name] for name, kind in self.domains.items() if kind is domain]
        return bool(mine) and all(meter.is_measured(now) for meter in mine)


@dataclass(frozen=True)
class Charge:
    """Joules for a run, to be added to its figures."""

    run: uuid.UUID
    epoch: int
    device: str
    """Whose they are: a device's, or all of a host's."""
    source: str
    bucket: Bucket


@dataclass(frozen=True)
class Drive:
    """What must be known of a drive to tell what it used while it waited."""

    name: str
    slots: int
    idle_w: float | None

    def idle_j(self, seconds: float, busy_s: float) -> float:
        """Joules of the time in which it did not work; 0 where its idle watts are not known."""
        return (self.idle_w or 0.0) * max(0.0, seconds - busy_s / self.slots)


class EnergyBook:
    """All meters, and who worked since they were read; of the dispatcher's thread."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostState] = defaultdict(HostState)
        self._drives: dict[str, Metered] = {}
        self._drive_work: dict[str, Work] = defaultdict(lambda: defaultdict(float))

    def host_worked(self, host: str, device: str, run: RunEpoch, cpu_s: float) -> None:
        """A device of a host has had CPU time for a run."""
        if host in self._hosts:  # before its first sample nothing is divided
            _add(self._hosts[host].worked, (*run, device), cpu_s)

    def host_trained(self, host: str, run: RunEpoch, seconds: float) -> None:
        """A run was trained with on a host."""
        if host in self._hosts:
            _add(self._hosts[host].trained, (*run, host), seconds)

    def drive_worked(self, drive: str, run: RunEpoch, busy_s: float) -> None:
        """A run has had a drive's time."""
        if drive in self._drives:
            _add(self._drive_work[drive], (*run, drive), busy_s)

    def is_host_measured(self, host: str, domain: Domain, now: float) -> bool:
        """Whether a host's energy of a domain is measured, so that batches are not charged."""
        state = self._hosts.get(host)
        return state is not None and state.is_measured(domain, now)

    def drive(self, name: str, now: float) -> Metered | None:
        """The meter of a drive, if it was read lately."""
        meter = self._drives.get(name)
        return meter if meter is not None and meter.is_fresh(now) else None

    def is_drive_measured(self, drive: str, now: float) -> bool:
        """The same of a drive."""
        meter = self._drives.get(drive)
        return meter is not None and meter.is_measured(now)

    def take_sample(self, session: Session, sample: HostSample, now: float) -> list[Charge]:
        """A host says what its meters have counted."""
        state = self._hosts[sample.host]
        anew = state.sampler != sample.sampler
        if anew and now - state.heard_at < _TAKE_OVER_S:
            return []  # two processes sample it: the first one counts
        state.heard_at = now
        busy_s = max(0.0, sample.busy_s - (0.0 if anew else state.busy_s))
        state.sampler, state.busy_s = sample.sampler, sample.busy_s
        if anew:
            state.meters = {}
        state.domains = {entry.name: entry.domain for entry in sample.domains}
        charges: list[Charge] = []
        for entry in sample.domains:
            meter = state.meters.get(entry.name)
            if meter is None:
                state.meters[entry.name] = Metered(entry.reading, now, state.lowest[entry.name])
            elif (passed := meter.passed(entry.reading, now)) is not None:
                shares = _divide(state, meter, entry, passed, busy_s)
                _note(session, sample.host, entry, passed, shares, now)
                charges += _charges(sample.host, state, entry, shares)
        state.worked.clear()
        state.trained.clear()
        return charges

    def take_drive(self, drive: Drive, reading: EnergyReading, now: float) -> list[Charge]:
        """A drive says what it has used."""
        work = dict(self._drive_work.pop(drive.name, {}))
        meter = self._drives.get(drive.name)
        if meter is None:
            self._drives[drive.name] = Metered(reading, now)
            return []
        passed = meter.passed(reading, now)
        if passed is None:
            return []
        joules, seconds = passed
        if reading.provenance is not Provenance.MEASURED:
            idle = split(drive.idle_j(seconds, sum(work.values())), work)
            return [Charge(*run, IDLE, Bucket(joules_modelled=j)) for run, j in idle.items()]
        shares = divide(joules, meter.lowest.idle_j(joules, seconds), work, sum(work.values()))
        idle = split(shares.idle_j, work)
        return [
            *(Charge(*run, IDLE, Bucket(joules_measured=j)) for run, j in idle.items()),
            *(Charge(*run, "csd", Bucket(joules_measured=j)) for run, j in shares.runs_j.items()),
        ]


def _add(work: Work, who: Worker, seconds: float) -> None:
    """Note work until the next reading; where nobody reads, the oldest is forgotten."""
    work[who] += seconds
    if len(work) > _MOST_NOTED:
        del work[next(iter(work))]


def _divide(
    state: HostState,
    meter: Metered,
    entry: DomainReading,
    passed: tuple[float, float],
    busy_s: float,
) -> Shares[Worker]:
    joules, seconds = passed
    if entry.idle_w is not None:
        idle_j = entry.idle_w * seconds
    else:
        idle_j = meter.lowest.idle_j(joules, seconds)
    if entry.domain is Domain.GPU:
        return divide(joules, idle_j, state.trained, sum(state.trained.values()))
    if entry.domain is Domain.PSYS:
        return divide(joules, idle_j, {}, 0.0)
    return divide(joules, idle_j, state.worked, busy_s)


_SOURCES = {Domain.PACKAGE: "cpu", Domain.DRAM: "dram", Domain.GPU: "gpu"}


def _charges(
    host: str, state: HostState, entry: DomainReading, shares: Shares[Worker]
) -> list[Charge]:
    """What runs are charged; of a modelled meter only the idle part, the rest they were."""
    source = _SOURCES.get(entry.domain)
    measured = entry.reading.provenance is Provenance.MEASURED
    if source is None or (entry.domain is Domain.DRAM and not measured):
        return []  # a run's own memory is charged with its batches
    work = state.trained if entry.domain is Domain.GPU else state.worked
    found = []
    for (run, epoch, _), joules in split(shares.idle_j, work).items():
        idle = Bucket(joules_measured=joules) if measured else Bucket(joules_modelled=joules)
        found.append(Charge(run, epoch, host, IDLE, idle))
    for (run, epoch, device), joules in shares.runs_j.items() if measured else ():
        whose = device if entry.domain is Domain.PACKAGE else host
        found.append(Charge(run, epoch, whose, source, Bucket(joules_measured=joules)))
    return found


def _note(
    session: Session,
    host: str,
    entry: DomainReading,
    passed: tuple[float, float],
    shares: Shares[Worker],
    now: float,
) -> None:
    """Add to what is known of a host."""
    row = session.get(HostEnergy, (host, entry.name))
    if row is None:
        sums = dict.fromkeys(("period_s", "joules", "idle_j", "runs_j", "other_j"), 0.0)
        row = HostEnergy(host=host, name=entry.name, **sums)
        session.add(row)
    joules, seconds = passed
    row.domain, row.provenance = entry.domain.value, entry.reading.provenance.value
    row.method = entry.reading.method
    row.period_s += seconds
    row.joules += joules
    row.idle_j += shares.idle_j
    row.runs_j += sum(shares.runs_j.values())
    row.other_j += shares.other_j
    row.updated_at = now


def hosts(session: Session) -> list[HostEnergy]:
    """All meters of all hosts."""
    return list(session.scalars(select(HostEnergy).order_by(HostEnergy.host, HostEnergy.name)))
