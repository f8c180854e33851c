"""What a simulated run is like: its plan, devices, ranks and faults, all drawn from one seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from ddlp.core.deals import Deals
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import Limits, Replay, strategy
from ddlp.core.schedule.strategies import Strategy
from ddlp.core.types import BadPolicy, Prong, TailPolicy

WINDOWS = {"bounded-0": 0, "bounded-3": 3, "bounded-inf": 10**9}
NAMES = ("mte", "wrr", "bounded", *WINDOWS, "cpu", "csd", "replay")


@dataclass(frozen=True)
class Faults:
    """How likely each fault is whenever it can happen."""

    message_lost: float = 0.1
    message_doubled: float = 0.1
    message_reordered: float = 0.2
    message_late: float = 0.1
    process_killed: float = 0.1
    device_killed: float = 0.05
    device_wiped: float = 0.05
    """It is killed, and what it stored is gone."""
    device_silent: float = 0.05
    device_lost: float = 0.02
    """It is killed, and never comes back."""
    device_slow: float = 0.05
    device_stalled: float = 0.05
    device_fails: float = 0.05
    """For a while, every attempt on it ends with an error."""
    report_doubled: float = 0.1
    report_late: float = 0.1
    """A report is repeated long after."""
    store_full: float = 0.05
    server_crashed: float = 0.02
    """Before anything of what was asked is written."""
    answer_lost: float = 0.02
    """The server crashes after writing, before it answers."""
    rank_crashed: float = 0.05
    rewound: float = 0.03
    resized: float = 0.03
    batch_damaged: float = 0.05
    switched: float = 0.01
    limited: float = 0.02
    """Somebody changes how much may lie in the stores."""

    @classmethod
    def drawn(cls, chance: random.Random, level: float) -> "Faults":
        """Some of them, up to a level."""
        return cls(
            **{
                f.name: level * chance.uniform(0.2, 1.0) * float(str(f.default))
                if chance.random() < 0.6
                else 0.0
                for f in fields(cls)
            }
        )


@dataclass(frozen=True)
class DeviceSpec:
    """A device that takes part."""

    name: str
    prong: Prong
    slots: int
    batch_s: float


@dataclass(frozen=True)
class Scenario:
    """Everything that decides a simulated run."""

    seed: int
    name: str
    level: float
    plan: RunPlan
    limits: Limits
    devices: tuple[DeviceSpec, ...]
    faults: Faults
    prefetch: int = 2
    train_s: float = 0.1
    synchronous: bool = True
    poison: int | None = None
    """A place of the epoch's order whose batch kills every process that makes it."""
    spoilt: int | None = None
    """A place of the epoch's order whose batch nobody can make: all attempts end in errors."""
    orders: Mapping[int, Deals] = field(default_factory=dict)
    """What a replay follows."""

    @property
    def strategy(self) -> Strategy:
        """The strategy that the run begins with."""
        if self.name == Replay.name:
            return Replay(self.orders)
        return strategy(self.name.partition("-")[0], WINDOWS.get(self.name))

    @property
    def command(self) -> str:
        """What replays it."""
        options = f"--seed {self.seed} --strategy {self.name} --level {self.level:g}"
        return f"python -m tests.core.schedule.simulation {options}"


def draw(seed: int, name: str, level: float) -> Scenario:
    """The scenario of a seed."""
    chance = random.Random(f"{seed} {name} {level}")
    plan = _plan(chance, seed)
    poisoned = level > 0 and plan.samples > 0 and chance.random() < 0.1
    spoilt = level > 0 and plan.samples > 0 and not poisoned and chance.random() < 0.1
    replayed = range(plan.epochs if name == Replay.name else 0)
    return Scenario(
        seed=seed,
        name=name,
        level=level,
        plan=plan,
        limits=_limits(chance),
        devices=tuple(_devices(chance, name)),
        faults=Faults.drawn(chance, level),
        prefetch=chance.randint(1, 4),
        train_s=chance.choice([0.0, 0.02, 0.3]),
        synchronous=chance.random() < 0.7,
        poison=chance.randrange(plan.samples) if poisoned else None,
        spoilt=chance.randrange(plan.samples) if spoilt else None,
        orders={epoch: _order(chance, plan.batches) for epoch in replayed},
    )


def _plan(chance: random.Random, seed: int) -> RunPlan:
    batches = chance.choice([1, 2, 3, 5, 8, 13, 24])
    size = chance.choice([1, 3, 4])
    return RunPlan(
        samples=batches * size - chance.randrange(size + 1),
        batch_size=size,
        epochs=chance.choice([1, 2, 3]),
        seed=seed,
        world_size=chance.choice([1, 1, 2, 3]),
        tail=chance.choice(list(TailPolicy)),
    )


def _limits(chance: random.Random) -> Limits:
    """Windows of all sizes, and so many attempts that no slow device ends a run."""
    return Limits(
        stored={Prong.CPU: chance.randint(1, 8), Prong.CSD: chance.randint(1, 30)},
        message_leases=chance.choice([1, 4, 32]),
        message_s=chance.choice([0.2, 2.0]),
        calibration_batches=chance.choice([1, 3, 10]),
        failing_s=chance.choice([0.0, 10.0]),
        all_failing_s=chance.choice([15.0, 60.0]),
        losses=10**6,
        on_bad=chance.choice([BadPolicy.FAIL, BadPolicy.SKIP]),
        bad_share=1.0,
    )


def _devices(chance: random.Random, name: str) -> list[DeviceSpec]:
    prongs = {"cpu": [Prong.CPU], "csd": [Prong.CSD]}.get(name, list(Prong))
    ratio, base_s = chance.choice([(0.2, 1.0), (1.0, 0.3), (3.0, 0.3), (10.0, 0.3), (100.0, 0.05)])
    return [
        DeviceSpec(
            name=f"{prong.value}-{number}",
            prong=prong,
            slots=chance.randint(1, 3),
            batch_s=base_s * chance.uniform(0.7, 1.5) * (ratio if prong is Prong.CSD else 1.0),
        )
        for prong in prongs
        for number in range(chance.randint(1, 2))
    ]


def _order(chance: random.Random, batches: int) -> Deals:
    """Any order can have been recorded."""
    return Deals("".join(chance.choice(["1h", "1t"]) for _ in range(batches)))
