"""Training processes, as the dispatcher meets them; each keeps account of what it received."""

import uuid
from typing import Any

from ddlp.core.messages import Attach, FedBatch, FeedRequest, Taken, Where
from ddlp.core.messages.proof import ProofInfo
from ddlp.core.sessions import Start
from ddlp.server import proofs, sessions
from ddlp.server.models import Run
from ddlp.server.notary import Notary
from tests.server.conftest import Plane
from tests.server.driving import ask, attach, begin, pass_time, work_off


class Trainer:
    """One process of a training job: what it received, counted by itself."""

    def __init__(self, plane: Plane, run: uuid.UUID, rank: int = 0, ranks: int = 1) -> None:
        self.plane, self.run = plane, run
        self.who = Attach(session=uuid.uuid4(), rank=rank, world_size=ranks)
        self.epoch, self.step, self.turn = 0, 0, 0
        self.received: list[int] = []

    def attach(self) -> tuple[Where, bool] | Taken:
        return attach(self.plane, self.run, self.who)

    def join(self, start: Start = Start.BEGINNING, **fields: Any) -> Where:
        found = self.attach()
        assert not isinstance(found, Taken), found
        return self.begin(start, **fields)

    def begin(self, start: Start, **fields: Any) -> Where:
        where = begin(self.plane, self.run, self.who, start, **fields)
        self.turn = where.turn
        self.epoch, self.step = where.epoch, where.step
        return where

    def feed(self, want: int = 1) -> list[FedBatch]:
        request = FeedRequest(
            rank=self.who.rank,
            session=self.who.session,
            turn=self.turn,
            epoch=self.epoch,
            received=self.step,
            consumed=self.step,
            want=want,
        )
        return self.plane.dispatcher.feed(self.run, request).result(10).batches

    def take(self, steps: int) -> list[int]:
        """Receive and use up so many batches."""
        found: list[int] = []
        for _ in range(100):
            if len(found) == steps:
                break
            batches = self.feed()
            if not batches:
                work_off(self.plane)
                continue
            found.append(batches[0].index)
            self.step += 1
        assert len(found) == steps
        self.feed(want=0)
        self.received += found
        return found

    def leave(self) -> None:
        ask(
            self.plane,
            lambda board, session, now: sessions.leave(
                board, session, board.run(self.run), self.who.rank, self.who.session, now
            ),
        )


def fall_silent(plane: Plane) -> None:
    """As long as it takes until a trainer counts as gone."""
    pass_time(plane, plane.settings.trainer_timeout_s + 1)


def proof_of(plane: Plane, run: uuid.UUID) -> ProofInfo:
    """What `ddlp verify` makes of a run's certificates."""
    notary = Notary(plane.database)
    while notary.seal_one():
        pass
    with plane.database.session() as session:
        return proofs.prove(session, session.get_one(Run, run))
