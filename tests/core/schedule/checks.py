"""What must hold in a simulated run, at every step and at its end."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from ddlp.core.certificate import verify
from ddlp.core.deals import Deals
from ddlp.core.plan import Places, Segment
from ddlp.core.schedule import Batch, Changes, Grant, RunSchedule
from ddlp.core.schedule.failures import rest_s
from ddlp.core.schedule.strategies.bounded import Bounded
from ddlp.core.types import BadPolicy, BatchState, End, EpochState, Prong
from tests.core.schedule.records import EpochRow, Records
from tests.core.schedule.scenario import Scenario

_MADE = (BatchState.READY, BatchState.HANDED)
_LEAST_REST_S = 0.5
_ROUNDING_S = 1e-6
_GIVEN_UP = re.compile(r"batch (\d+) of epoch (\d+) failed")
Key = tuple[int, int]


@dataclass(frozen=True)
class Failure:
    """One attempt at a batch that failed."""

    at: float
    device: str


@dataclass(frozen=True)
class Delivery:
    """One batch that a rank trained on: what was in it, and what it was said to be."""

    rank: int
    index: int
    places: Places | None
    """None where it was left out."""


class Checks:
    """The promises, watched from outside the schedule."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._void: set[tuple[int, int, int]] = set()
        self._won: dict[Key, int] = {}
        self._winning: dict[Key, int] = {}
        """Commits that are not written down yet."""
        self._granted: set[int] = set()
        self._stored: dict[Prong, int] = {}
        self._doom: str | None = None
        self.crashes: Counter[Key] = Counter()
        """How often a batch has crashed a process."""
        self._failed: dict[Key, list[Failure]] = {}
        """Attempts at each batch that failed."""
        self._tries: dict[Key, list[Failure]] = {}
        """The same since it was made last, as far as the server remembers."""
        self._claimed: set[int] = set()
        self._in_a_row: Counter[str] = Counter()
        self._quiet_until: dict[str, float] = {}
        """Until when a device must not be given new work."""
        self.unsteady: set[int] = set()
        """Epochs whose order no single rule dictates: they were cut anew, or switched over."""
        self.trained: dict[int, dict[int, Delivery]] = {}
        """By epoch and place, what ranks have trained on for good."""
        self._once: dict[int, dict[int, Delivery]] = {}
        """What they had trained on when they went back."""

    # While it runs

    def before_top_up(self, schedule: RunSchedule) -> None:
        """Remember how much was stored."""
        self._stored = {prong: _stored(schedule, prong) for prong in Prong}

    def after_top_up(self, schedule: RunSchedule, grants: list[Grant]) -> None:
        """Windows hold, apart from what ranks wait for and what is raced."""
        limits = schedule.limits
        for prong in Prong:
            mine = [grant for grant in grants if grant.prong is prong]
            exempt = sum(_is_exempt(schedule, grant) for grant in mine)
            if len(mine) > exempt:
                stored = _stored(schedule, prong) - exempt
                assert stored <= limits.stored[prong], f"{prong} stores {stored} batches"
            slots = schedule.fleet.slots(prong)
            most = limits.queue_per_slot * slots * limits.message_leases
            in_flight = sum(e.in_flight(prong) for e in schedule.epochs.values())
            within = len(mine) == exempt or in_flight - exempt <= most
            assert within, f"{in_flight} leases for {slots} slots of {prong}"

    def committed(self, grant: Grant, before: Batch | None, news: bool) -> None:
        """A report that was taken had a token that was valid, and was the only one."""
        key = grant.epoch, grant.index
        assert before is not None, f"batch {key} was not under way and was taken"
        if not news:
            assert before.token == grant.token, f"token {grant.token} of batch {key} is not its own"
            return
        assert before.state.in_flight, f"batch {key} was {before.state} and was taken"
        assert grant.token in before.tokens, f"token {grant.token} of batch {key} was stale"
        assert (*key, grant.token) not in self._void, f"token {grant.token} of {key} was void"
        assert self._won.get(key) != grant.token, f"token {grant.token} of {key} counted twice"
        self._winning[key] = grant.token

    # Failures

    def failed(self, grant: Grant, device: str, known: bool, now: float) -> None:
        """An attempt failed: a device that is known and fails twice in a row rests."""
        key = grant.epoch, grant.index
        self._failed.setdefault(key, []).append(Failure(now, device))
        self._tries.setdefault(key, []).append(Failure(now, device))
        if known and now >= self._quiet_until.get(device, 0.0):
            self._in_a_row[device] += 1
            self._quiet_until[device] = now + rest_s(self._in_a_row[device])

    def damaged(self, batch: Batch, now: float) -> None:
        """A batch was made, and cannot be read."""
        found = Failure(now, batch.device or "")
        self._failed.setdefault((batch.epoch, batch.index), []).append(found)

    def made(self, grant: Grant, device: str, now: float) -> None:
        """An attempt succeeded; one that was begun before a rest does not end it."""
        if now >= self._quiet_until.get(device, 0.0):
            self._in_a_row[device] = 0
        self._tries.pop((grant.epoch, grant.index), None)

    def claimed(self, grant: Grant, device: str, now: float) -> None:
        """Who rests gets nothing, and not at once again what it failed at twice."""
        if grant.token in self._claimed:
            return
        self._claimed.add(grant.token)
        late = now - self._quiet_until.get(device, 0.0)
        assert late >= -_ROUNDING_S, f"{device} was given {grant} while it rests"
        tries = self._tries.get((grant.epoch, grant.index), [])
        if len(tries) > 1 and device in {failure.device for failure in tries}:
            pause_s = now - tries[-1].at
            assert pause_s >= _LEAST_REST_S - _ROUNDING_S, f"{device} failed at {grant} just now"

    def forget_rests(self, device: str | None = None) -> None:
        """A device was started anew, or the server."""
        if device is None:
            self._tries.clear()
        for name in [device] if device is not None else list(self._in_a_row):
            self._in_a_row.pop(name, None)
            self._quiet_until.pop(name, None)

    def saved(self, changes: Changes, grants: list[Grant]) -> None:
        """What was taken is taken, attempts that are void stay so, and tokens are new."""
        for grant in grants:
            assert grant.token not in self._granted, f"token {grant.token} was given out twice"
            self._granted.add(grant.token)
        self._won |= self._winning
        self._winning = {}
        self._void |= {(void.epoch, void.index, void.token) for void in changes.void}

    def crashed(self) -> None:
        """What was not written down never was."""
        self._winning = {}

    def counts(self, schedule: RunSchedule) -> None:
        """What is counted is what is there, and a run that is lost stays so."""
        assert self._doom is None or schedule.doom is not None, f"undone: {self._doom}"
        self._doom = schedule.doom
        for epoch in schedule.epochs.values():
            made = len(epoch.under_way.in_state(*_MADE)) + epoch.consumed
            assert sum(epoch.made_by.values()) == made, f"{epoch.made_by} for {made} made"
            assert sum(epoch.consumed_of.values()) == epoch.consumed
            rivals = Counter(b.rival.prong for b in epoch.under_way if b.rival is not None)
            assert +epoch.rivals == rivals, f"{epoch.rivals} for {rivals}"
            lost = epoch.under_way.in_state(BatchState.LOST)
            again = {batch.index for batch in lost if not schedule.is_doomed(batch)}
            assert again == epoch.frontier.returned, f"lost {again} != {epoch.frontier.returned}"

    def train(self, epoch: int, place: int, delivery: Delivery) -> None:
        """A rank trained on a batch: never twice, unless it went back, and then on the same."""
        done = self.trained.setdefault(epoch, {})
        assert place not in done, f"step at place {place} of epoch {epoch} was trained twice"
        done[place] = delivery
        before = self._once.get(epoch, {}).pop(place, delivery)
        same = before.index == delivery.index and before.rank == delivery.rank
        assert same, f"place {place} of epoch {epoch} was {before} and is {delivery}"
        if None not in (before.places, delivery.places):
            assert before.places == delivery.places, f"{before} holds {delivery.places} now"

    def go_back(self, rank: int, epoch: int, place: int) -> None:
        """A rank will train again on what it was dealt from a place on."""
        for number, done in self.trained.items():
            again = [p for p, d in done.items() if d.rank == rank and (number, p) >= (epoch, place)]
            for p in again:
                self._once.setdefault(number, {})[p] = done.pop(p)

    def return_to(self, epoch: int, place: int) -> None:
        """All ranks go to a checkpoint: what they had trained on before it counts, no more."""
        for rank in {d.rank for done in self.trained.values() for d in done.values()}:
            self.go_back(rank, epoch, place)
        for number, once in self._once.items():
            for p in [p for p in once if (number, p) < (epoch, place)]:
                self.trained.setdefault(number, {})[p] = once.pop(p)

    def cut(self, epoch: int, place: int) -> None:
        """From a place on, an epoch is dealt to other ranks."""
        replayed = self._scenario.name == "replay"
        self._tries.clear()
        self.unsteady |= set(range(epoch, self._scenario.plan.epochs if replayed else epoch + 1))
        for known in (self.trained, self._once):
            for number, places in known.items():
                known[number] = {p: d for p, d in places.items() if (number, p) < (epoch, place)}
        self._won = {key: token for key, token in self._won.items() if key[0] < epoch}

    # At the end

    def at_end(self, records: Records) -> None:
        """Each epoch is exact, as ranks saw it and as it is written down."""
        if records.failed is not None:
            self._check_failure(records)
            return
        plan = self._scenario.plan
        assert sorted(records.epochs) == list(range(plan.epochs))
        for number, row in records.epochs.items():
            assert row.state is EpochState.COMPLETE, f"epoch {number} is {row.state}"
            trained = self.trained.get(number, {})
            self._check_places(row, trained)
            self._check_coverage(number, row, trained, records)
            self._check_record(number, row, trained, records)
            if number not in self.unsteady:
                self._check_order(number, row, trained)

    def _check_failure(self, records: Records) -> None:
        limits = self._scenario.limits
        given_up = _GIVEN_UP.match(records.failed or "")
        if given_up is not None:
            index, epoch = map(int, given_up.groups())
            failed = self._failed[epoch, index]
            lasted_s = failed[-1].at - failed[0].at
            several = len({failure.device for failure in failed}) > 1
            least_s = limits.failing_s if several else limits.all_failing_s
            assert len(failed) >= limits.failures, f"{failed}: {records.failed}"
            assert lasted_s >= least_s - _ROUNDING_S, f"{failed}: {records.failed}"
            return
        blamed = [key for key, n in self.crashes.items() if n >= limits.kills]
        assert limits.on_bad is BadPolicy.FAIL, records.failed
        assert blamed, f"nothing crashed often enough: {records.failed}"

    def _check_places(self, row: EpochRow, trained: dict[int, Delivery]) -> None:
        ends = [*(segment.position for segment in row.segments[1:]), None]
        assert sorted(trained) == list(range(len(trained))), "a place was never trained"
        for segment, end in zip(row.segments, ends, strict=True):
            last = segment.position + segment.batches if end is None else end
            mine = range(segment.position, last)
            counts = Counter(trained[place].rank for place in mine if place in trained)
            each = len(mine) // segment.world_size
            assert counts == +Counter(dict.fromkeys(range(segment.world_size), each)), counts
            for place in mine:
                wanted = (place - segment.position) % segment.world_size
                assert trained[place].rank == wanted, f"place {place} is not of rank {wanted}"

    def _check_coverage(
        self, number: int, row: EpochRow, trained: dict[int, Delivery], records: Records
    ) -> None:
        """Each place of the epoch's order once, apart from what its tail policy allows."""
        seen: Counter[int] = Counter()
        for segment in row.segments:
            own = _own_places(segment)
            mine = [d for d in trained.values() if d.index in own]
            for delivery in mine:
                seen.update(own[delivery.index])
                if delivery.places is None:
                    self._check_left_out(number, delivery, records)
                else:
                    assert delivery.places == segment.places(delivery.index)
        assert seen.total() == len(seen), f"delivered twice in epoch {number}: {seen}"
        missing = set(range(self._scenario.plan.samples)) - set(seen)
        dropped = row.segments[-1].dropped()
        assert len(missing) == dropped, f"never delivered in epoch {number}: {missing}"

    def _check_left_out(self, number: int, delivery: Delivery, records: Records) -> None:
        batch = records.batches[number, delivery.index]
        assert batch.isolated, f"{batch} was left out"
        assert batch.samples == 0, f"{batch} holds samples"
        crashes = self.crashes[number, delivery.index]
        assert crashes >= self._scenario.limits.kills, f"{delivery} after {crashes} crashes"

    def _check_record(
        self, number: int, row: EpochRow, trained: dict[int, Delivery], records: Records
    ) -> None:
        """The record alone proves it, says what ranks saw, and can be replayed."""
        scenario = self._scenario
        consumed = records.consumed(number)
        told = [(b.position, b.index, b.isolated) for b in consumed]
        seen = [(p, d.index, d.places is None) for p, d in sorted(trained.items())]
        assert told == seen, f"recorded {told}, trained {seen}"
        certificate = records.certificate(scenario.plan, scenario.limits, scenario.name, number)
        assert not certificate.problems, certificate.problems
        assert not verify(certificate)
        once = total = 0
        for segment, part in zip(row.segments, certificate.segments, strict=True):
            assert isinstance(part.order, str)
            replayed = Deals(part.order).indices(
                segment.first, segment.last, segment.first + segment.full
            )
            places = range(segment.position, segment.position + len(replayed))
            assert replayed == [trained[place].index for place in places]
            own = _own_places(segment)
            once += sum(len(own[index]) for index in replayed)
            total += sum(segment.length(index) for index in replayed)
        assert certificate.dropped == scenario.plan.samples - once
        assert certificate.repeated == total - once

    def _check_order(self, number: int, row: EpochRow, trained: dict[int, Delivery]) -> None:
        indices = [trained[place].index for place in sorted(trained)]
        [segment] = row.segments
        full, short = list(range(segment.full)), list(range(segment.full, segment.last))
        name, settled = self._scenario.name, row.settled
        if name == "cpu":
            assert indices == full + short
        elif name == "csd":
            assert indices == full[::-1] + short
        elif name == "mte" and indices:
            split = int(settled.get("split", len(full)))
            assert indices == full[:split] + full[split:][::-1] + short
        elif name == "replay":
            assert indices == self._scenario.orders[number].indices(0, len(indices), segment.full)
        elif name.startswith("bounded"):
            strategy = self._scenario.strategy
            assert isinstance(strategy, Bounded)
            _check_window(indices[: segment.full], settled, strategy.window)


def _check_window(indices: list[int], settled: dict[str, float], window: float) -> None:
    """The order stays as near to the one on paper as the window says."""
    share, begun = settled.get("share", 0.0), {e: settled.get(f"{e}s", 0.0) for e in End}
    dealt: Counter[End] = Counter()
    for place, index in enumerate(indices[:-1]):  # the last one lies at both ends
        dealt[End.HEAD if index == dealt[End.HEAD] else End.TAIL] += 1
        if place + 1 <= sum(begun.values()):
            continue
        tails = dealt[End.TAIL] - begun[End.TAIL]
        paper = math.floor(share * (dealt.total() - sum(begun.values())) + 0.5)
        assert abs(tails - paper) <= window, f"{tails} from the tail at {place}, not {paper}"


def _is_exempt(schedule: RunSchedule, grant: Grant) -> bool:
    """Whether a lease may go beyond a window: a rank waits for it, or it is a second one."""
    batch = schedule.find(grant.epoch, grant.index)
    assert batch is not None
    epoch = schedule.epochs[grant.epoch]
    return (
        batch.token != grant.token
        or batch.position is not None
        or grant.index in {epoch.next(end) for end in End}
    )


def _stored(schedule: RunSchedule, prong: Prong) -> int:
    return sum(epoch.stored(prong) for epoch in schedule.epochs.values())


def _own_places(segment: Segment) -> dict[int, set[int]]:
    """The places of each batch of a segment, without those that an earlier one holds already."""
    found: dict[int, set[int]] = {}
    before: set[int] = set()
    for index in range(segment.first, segment.last):
        places = {p for first, stop in segment.places(index) for p in range(first, stop)}
        found[index] = places - before
        before |= places
    return found
