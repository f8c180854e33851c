"""Simulated ranks: they fetch ahead, train in step or not, crash, go back, and change in number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ddlp.core.errors import Refused, Unavailable
from ddlp.core.schedule import Batch
from tests.core.schedule.checks import Delivery
from tests.core.schedule.service import Where

if TYPE_CHECKING:
    from tests.core.schedule.simulation import Simulation

_RETRY_S = 0.6
_POLL_S = (0.05, 2.0)


class Rank:
    """One training process."""

    def __init__(self, world: Simulation, job: Job, number: int) -> None:
        self._world, self._job, self.number = world, job, number
        self.alive = True
        self.epoch = 0
        self.trained = 0
        """Steps of the segment under way that it has trained."""
        self.told = 0
        """Steps of which the server has confirmed to know that."""
        self.position = 0
        """Batches delivered before that segment."""
        self._buffer: list[tuple[Batch, Delivery]] = []
        self._done = False
        self._poll_s = _POLL_S[0]

    @property
    def at(self) -> tuple[int, int]:
        """Where it stands."""
        return self.epoch, self.trained

    def go_on(self, where: Where) -> None:
        """Begin at a place."""
        self.epoch, self.trained, self.position = where.epoch, where.step, where.position
        self.told = where.step
        self._turn()

    def _turn(self) -> None:
        if not self.alive or self.epoch >= self._world.plan.epochs:
            return
        if self._job.suffers(self):
            return
        try:
            self._feed()
        except Refused:
            return
        except Unavailable:
            self._again(_RETRY_S)
            return
        if self._buffer and self._job.may_train(self):
            self._train()
            self._again(self._world.scenario.train_s)
        elif self._done and not self._buffer and self.told == self.trained:
            self.epoch, self.trained, self.told, self.position = self.epoch + 1, 0, 0, 0
            self._done = False
            self._again(0.0)
        else:
            self._again(self._poll_s)
            self._poll_s = min(2 * self._poll_s, _POLL_S[1])

    def _feed(self) -> None:
        world, trained = self._world, self.trained
        want = max(0, world.scenario.prefetch - len(self._buffer))
        request = self.number, self.epoch, trained, trained + len(self._buffer), want
        fed = world.call(lambda: world.service.feed(*request))
        self.told = trained
        for batch in fed.batches:
            if not self._read(batch):
                return
        self._done = fed.done

    def _read(self, batch: Batch) -> bool:
        """Read a batch into memory; whether that worked."""
        world = self._world
        delivery = Delivery(self.number, batch.index, None)
        if not batch.isolated:
            held = world.store.read(batch.epoch, batch.index, batch.token)
            if held is None or world.fault("batch_damaged"):
                world.call(lambda: world.service.damaged(batch, held is None, world.now))
                return False
            delivery = Delivery(self.number, batch.index, held)
        self._buffer.append((batch, delivery))
        self._poll_s = _POLL_S[0]
        return True

    def _train(self) -> None:
        batch, delivery = self._buffer.pop(0)
        place = self.position + self.trained * self._job.size + self.number
        self._world.log(f"rank {self.number} trains {batch.epoch}/{batch.index} at {place}")
        assert batch.position == place, f"{batch} came at place {place}"
        self._world.checks.train(self.epoch, place, delivery)
        self._world.store.release(batch.epoch, batch.index, batch.token)
        self.trained += 1
        self._job.note_step()

    def _again(self, seconds: float) -> None:
        self._world.after(seconds, self._turn)


class Job:
    """All ranks of a training job."""

    def __init__(self, world: Simulation, size: int) -> None:
        self._world, self.size = world, size
        self._checkpoints: list[tuple[int, int]] = [(0, 0)]
        self.ranks = [Rank(world, self, number) for number in range(size)]
        self._moving = False
        self._back: dict[Rank, Where] = {}
        """Ranks that have gone back and wait for the others."""

    def start(self) -> None:
        """Every rank attaches, at its own time."""
        for rank in self.ranks:
            self._world.after(self._world.chance.uniform(0.0, 2.0), self._attach(rank))

    @property
    def done(self) -> bool:
        """Whether every rank has seen every epoch."""
        return all(rank.epoch >= self._world.plan.epochs for rank in self.ranks)

    def may_train(self, rank: Rank) -> bool:
        """Whether a rank may take its step: in step, nobody is ahead."""
        return not self._world.scenario.synchronous or rank.at == min(r.at for r in self.ranks)

    def note_step(self) -> None:
        """Remember where all ranks have come to."""
        slowest = min(self.ranks, key=lambda rank: rank.at)
        place = slowest.epoch, slowest.position + slowest.trained * self.size
        if place > self._checkpoints[-1]:
            self._checkpoints.append(place)

    def suffers(self, rank: Rank) -> bool:
        """What can happen to ranks; whether this one is gone."""
        world = self._world
        if self._moving or world.service.over:
            return not rank.alive
        if world.fault("rewound"):
            self._move(self.size)
        elif world.fault("resized"):
            self._move(world.chance.choice([n for n in (1, 2, 3, 4) if n != self.size]))
        elif world.fault("rank_crashed"):
            rank.alive = False
            reborn = Rank(world, self, rank.number)
            reborn.epoch, reborn.trained, reborn.told = rank.epoch, rank.trained, rank.told
            reborn.position = rank.position
            self.ranks[rank.number] = reborn
            world.after(1.0, self._attach(reborn))
        return not rank.alive

    def _attach(self, rank: Rank) -> Callable[[], None]:
        def attach() -> None:
            if not rank.alive:
                return
            world = self._world
            try:
                where = world.call(lambda: world.service.attach(rank.number))
            except Unavailable:
                world.after(_RETRY_S, attach)
                return
            except Refused:
                return
            sent = where.epoch, where.step
            right = (rank.epoch, rank.told) <= sent and (sent <= rank.at or not where.step)
            assert right, f"rank {rank.number} at {rank.at}, {rank.told} known, is sent to {where}"
            place = where.position + where.step * self.size + rank.number
            world.checks.go_back(rank.number, where.epoch, place)
            rank.go_on(where)

        return attach

    def _move(self, size: int) -> None:
        """All ranks end, and so many begin at a checkpoint."""
        world = self._world
        cut = world.chance.randrange(len(self._checkpoints))
        self._checkpoints = self._checkpoints[: cut + 1]
        epoch, position = self._checkpoints[-1]
        world.log(f"{size} ranks go to place {position} of epoch {epoch}")
        for rank in self.ranks:
            rank.alive = False
        self.size = size
        self.ranks = [Rank(world, self, number) for number in range(size)]
        self._moving, self._back = True, {}
        world.checks.return_to(epoch, position)
        for number, rank in enumerate(world.chance.sample(self.ranks, size)):
            rank.epoch, rank.position = epoch, position
            world.after(1.0 + 0.5 * number, self._rewind(rank, epoch, position))

    def _rewind(self, rank: Rank, epoch: int, position: int) -> Callable[[], None]:
        def rewind() -> None:
            if not rank.alive:
                return
            world = self._world
            request = rank.number, epoch, position, self.size
            try:
                where = world.call(lambda: world.service.rewind(*request))
            except Unavailable:
                world.after(_RETRY_S, rewind)
                return
            except Refused:
                return
            self._back[rank] = where
            if len(self._back) == self.size:
                self._moving = False
                for each, its in self._back.items():
                    each.go_on(its)

        return rewind
