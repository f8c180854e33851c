"""The certificate of an epoch, and the check that it is one: every sample once, no step missing.

It holds no row a sample, nor one a batch where a stretch will do: which samples a batch holds
follows from the plan, and which rank got it at which step from its place in the order of delivery.
Samples that could not be used are the exception that it allows: each is named, with its reason.
Certificates of a run form a chain: each carries the digest of the one before. Where a run took over
from another one, the certificate of that epoch says at which place; where training sessions ended
and others went on, it says which received what.
"""

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from ddlp.core.deals import Deals
from ddlp.core.errors import InvalidInput
from ddlp.core.messages import Message
from ddlp.core.mishap import Mishap
from ddlp.core.plan import Places, RunPlan, Segment
from ddlp.core.sessions import SessionPart, uncovered
from ddlp.core.takeover import Origin
from ddlp.core.types import BadPolicy, End, EpochState, Prong, TailPolicy

_ACTIONS: dict[BadPolicy, set[str]] = {
    BadPolicy.FAIL: set(),
    BadPolicy.SKIP: {"skipped"},
    BadPolicy.REPLACE: {"replaced"},
}
_HEX = 16
_NAMED = 5
FORMAT = 2
"""Since 2, short batches are delivered last and sessions are named."""


class Delivered(Message):
    """What one segment delivered: place p of it went to rank p mod W as its step p div W."""

    start: int = Field(ge=0, description="First place of the epoch's order that it covers.")
    stop: int = Field(ge=0)
    world_size: int = Field(ge=1)
    spare: Places = Field((), description="Further stretches that it covers, after that one.")
    first: int = Field(ge=0, description="Index of its first batch.")
    position: int = Field(ge=0, description="Batches delivered before it.")
    order: str | list[int] = Field(
        description="From which end each batch was taken, such as 12h3t; or their indices, one by "
        "one, should they not come from the ends."
    )


class Makers(Message):
    """Who made batches first..last, the last one included."""

    first: int
    last: int
    prong: Prong
    device: str
    attempt: int


class BadEntry(Message):
    """A sample that was skipped or replaced, or a whole batch that was left out."""

    batch: int
    sample: int = Field(ge=0)
    name: str
    reason: str
    substitute: int | None = Field(None, ge=0)

    @property
    def mishap(self) -> Mishap:
        """As a worker reported it."""
        return Mishap(self.sample, self.name, self.reason, self.substitute)


class Certificate(Message):
    """The record that proves that every sample of an epoch was delivered exactly once."""

    format: int = Field(1, description="The version of this record's rules.")
    run: uuid.UUID
    epoch: int = Field(ge=0)
    state: EpochState
    dataset_version: str
    pipeline_hash: str
    seed: int
    samples: int = Field(ge=0)
    batch_size: int = Field(ge=1)
    tail: TailPolicy
    reshuffle: bool = Field(True, description="Whether each epoch has an order of its own.")
    on_bad: BadPolicy
    storage: str | None = Field(
        None, description="In which form the samples were read; batches do not depend on it."
    )
    strategy: str
    origin: Origin | None = Field(
        None, description="Where this run took over from another one, in this epoch."
    )
    segments: list[Delivered] = Field(min_length=1)
    sessions: list[SessionPart] = Field([], description="Which session received what.")
    makers: list[Makers]
    checksums: str = Field(description="Of each batch's payload, in the order of delivery.")
    bad: list[BadEntry]
    isolated: list[int] = Field(description="Batches that were left out: they killed workers.")
    repeated: int = Field(description="Samples that padding delivered a second time.")
    dropped: int = Field(description="Samples that the tail policy left out.")
    exactly_once: bool = Field(description="Each sample once, apart from what is named above.")
    problems: list[str]
    lost: list[str] = Field([], description="Training that was lost with a session, in words.")
    previous: str = Field(description="Digest of the epoch's certificate before, or of the run.")
    digest: str = Field(description="sha256 over everything above.")


@dataclass(frozen=True)
class Entry:
    """One delivered batch, as a ledger has it."""

    index: int
    position: int
    from_tail: bool
    prong: Prong
    device: str
    attempt: int
    checksum: str


def genesis(run: dict[str, Any]) -> str:
    """What the first certificate of a run is chained to: whatever decides the run."""
    return _digest({name: run[name] for name in OF_THE_RUN} | {"run": str(run["run"])})


OF_THE_RUN = (
    "dataset_version",
    "pipeline_hash",
    "seed",
    "samples",
    "batch_size",
    "tail",
    "reshuffle",
    "on_bad",
)
"""What a certificate must share with the run that it is said to be of."""


def delivered(segment: Segment, entries: Sequence[Entry]) -> Delivered:
    """What one segment delivered, from its entries in the order of delivery."""
    order: str | list[int] = Deals.of(
        End.TAIL if entry.from_tail else End.HEAD for entry in entries
    ).text
    indices = [entry.index for entry in entries]
    if _indices(Deals(str(order)), segment) != indices:
        order = indices
    return Delivered(
        start=segment.start,
        stop=segment.stop,
        spare=segment.spare,
        world_size=segment.world_size,
        first=segment.first,
        position=segment.position,
        order=order,
    )


def makers(entries: Iterable[Entry]) -> list[Makers]:
    """Who made what, as stretches of batches."""
    found: list[dict[str, Any]] = []
    for entry in sorted(entries, key=lambda entry: entry.index):
        made = {"prong": entry.prong, "device": entry.device, "attempt": entry.attempt}
        last = found[-1] if found else None
        if last and last["last"] == entry.index - 1 and made.items() <= last.items():
            last["last"] = entry.index
        else:
            found.append({"first": entry.index, "last": entry.index, **made})
    return [Makers(**stretch) for stretch in found]


def seal(body: dict[str, Any]) -> Certificate:
    """A certificate with its verdict and its digest."""
    draft = Certificate.model_validate(
        {**body, "repeated": 0, "dropped": 0, "exactly_once": False, "problems": [], "digest": ""}
    )
    cuts = segments_of(draft)
    problems = problems_of(draft)
    dropped = cuts[-1].dropped()
    delivered_ones = sum(
        cut.length(index)
        for said, cut in zip(draft.segments, cuts, strict=True)
        for index in order_of(said, cut)
    )
    verdict = {
        "repeated": max(0, delivered_ones - (cuts[0].samples - dropped)),
        "dropped": dropped,
        "exactly_once": not problems,
        "problems": problems,
        "lost": lost_of(draft),
    }
    whole = {**_sealed_part(draft), **verdict}
    return Certificate.model_validate({**whole, "digest": _digest(whole)})


def lost_of(certificate: Certificate) -> list[str]:
    """Training that was lost because a session ended and nobody went on from its state."""
    found = (part.lost(certificate.epoch) for part in certificate.sessions if not part.empty)
    return [words for words in found if words is not None]


def verify(certificate: Certificate) -> list[str]:
    """Check a certificate without trusting whoever made it."""
    if certificate.format != FORMAT:
        return [
            f"it is of format {certificate.format}, not {FORMAT}: another version of DDLP made it; "
            "check it with that one"
        ]
    problems = problems_of(certificate)
    said = certificate.exactly_once, certificate.problems, certificate.lost
    if said != (not problems, problems, lost_of(certificate)):
        problems.append("it says otherwise of itself")
    if _digest(_sealed_part(certificate)) != certificate.digest:
        problems.append("its digest does not fit its content")
    return problems


def _sealed_part(certificate: Certificate) -> dict[str, Any]:
    """What the digest covers."""
    return certificate.model_dump(mode="json", exclude={"digest"})


def problems_of(certificate: Certificate) -> list[str]:
    """What is wrong with a record, in words; nothing when each sample was delivered once."""
    problems: list[str] = []
    places: dict[int, Segment] = {}
    cuts = segments_of(certificate)
    for number, (said, cut) in enumerate(zip(certificate.segments, cuts, strict=True)):
        indices = order_of(said, cut)
        is_last = number == len(cuts) - 1
        problems += _problems_of_segment(said, cut, indices, is_last)
        problems += _problems_of_cut(certificate, number, cuts)
        problems += _problems_of_sessions(certificate, cuts, number)
        places |= dict.fromkeys(indices, cut)
    problems += _problems_of_makers(certificate, sorted(places))
    problems += _problems_of_bad(certificate, places)
    return problems


def segments_of(certificate: Certificate) -> list[Segment]:
    """The segments that a certificate speaks of."""
    return [
        Segment(
            said.start,
            said.stop,
            certificate.batch_size,
            said.world_size,
            certificate.tail,
            said.first,
            said.position,
            said.spare,
        )
        for said in certificate.segments
    ]


def order_of(said: Delivered, cut: Segment) -> list[int]:
    """The batches of a segment in the order of their delivery."""
    if isinstance(said.order, list):
        return said.order
    deals = _deals(said.order)
    return [] if _is_absurd(deals, cut) else _indices(deals, cut)


def _indices(deals: Deals, cut: Segment) -> list[int]:
    return deals.indices(cut.first, cut.last, cut.first + cut.full)


def _is_absurd(deals: Deals, cut: Segment) -> bool:
    """Whether an order is so long that it would only cost memory to write it out."""
    return len(deals) > 2 * cut.batches + 1000


def _deals(order: str) -> Deals:
    """An order as it was written down; of one that is none, nothing was delivered."""
    try:
        return Deals(order)
    except InvalidInput:
        return Deals()


def _problems_of_segment(
    said: Delivered, cut: Segment, indices: list[int], is_last: bool
) -> list[str]:
    counts = Counter(indices)
    problems = [f"batch {index} was delivered {n} times" for index, n in counts.items() if n > 1]
    problems += [f"there is no batch {i}" for i in counts if not cut.first <= i < cut.last]
    if isinstance(said.order, list):
        problems.append("the batches were not taken from the ends in turn")
    elif _is_absurd(_deals(said.order), cut):
        problems.append(f"its order is longer than its {cut.batches} batches")
    missing = [index for index in range(cut.first, cut.last) if index not in counts]
    if is_last and missing:
        shown = ", ".join(map(str, missing[:_NAMED]))
        more = " …" if len(missing) > _NAMED else ""
        problems.append(f"not delivered ({len(missing)}): batch {shown}{more}")
    return problems


def _problems_of_cut(certificate: Certificate, number: int, cuts: list[Segment]) -> list[str]:
    """A segment begins with the whole epoch, or with just what the one before it left."""
    cut = cuts[number]
    if number == 0:
        return _problems_of_beginning(certificate, cut)
    before = certificate.segments[number - 1]
    if isinstance(before.order, list):
        return []
    done = _deals(before.order)
    left = cuts[number - 1].rest(done.count(End.HEAD), done.count(End.TAIL), cut.world_size)
    return [] if cut == left else [f"segment {number} is not what the one before it left"]


def _problems_of_beginning(certificate: Certificate, cut: Segment) -> list[str]:
    """The first segment covers the whole epoch, or what another run left of it."""
    plan = RunPlan(
        samples=certificate.samples,
        batch_size=certificate.batch_size,
        epochs=None,
        seed=certificate.seed,
        world_size=cut.world_size,
        tail=certificate.tail,
    )
    origin = certificate.origin
    if origin is None or origin.epoch != certificate.epoch:
        return [] if cut == plan.whole else ["it does not cover the whole epoch"]
    try:
        origin.check(plan)
    except InvalidInput as error:
        return [f"what it says it took over cannot be: {error}"]
    return [] if cut == origin.rest(plan) else ["it does not cover what it took over"]


def _problems_of_sessions(certificate: Certificate, cuts: list[Segment], number: int) -> list[str]:
    """The sessions of each rank follow each other without a gap, where sessions are named."""
    if not certificate.sessions:
        return []
    cut = cuts[number]
    over: int | None = cut.position + cut.batches
    if number + 1 < len(cuts):
        over = cuts[number + 1].position
    elif certificate.state is not EpochState.COMPLETE:
        over = None
    mine = [
        part
        for part in certificate.sessions
        if part.first >= cut.position and (over is None or part.first < over)
    ]
    found = (uncovered(mine, rank, cut.position, over) for rank in range(cut.world_size))
    return [problem for problem in found if problem is not None]


def check_origin(origin: Origin, earlier: Certificate) -> list[str]:
    """Check that another run's certificate of the epoch holds just what was taken over.

    The state may be younger than its run's last word: what was handed to a session by then was
    received, since a state says so.
    """
    if not origin.position:
        return []
    place = f"place {origin.position} of epoch {origin.epoch}"
    cuts = segments_of(earlier)[: len(origin.segments)]
    if tuple(cuts) != origin.segments:
        return [f"run {origin.run} was not cut like that before {place}"]
    last = earlier.segments[len(cuts) - 1]
    done = origin.position - last.position
    deals = _deals(last.order) if isinstance(last.order, str) else Deals()
    known = min(done, len(deals))
    if known < done and not was_handed(earlier, last, origin.position):
        return [f"run {origin.run} had not come to {place}"]
    heads = sum(deals[number] is End.HEAD for number in range(known))
    if not heads <= origin.heads <= heads + done - known:
        return [f"run {origin.run} had taken {heads} batches from the head before {place}"]
    return []


def was_handed(certificate: Certificate, last: Delivered, place: int) -> bool:
    """Whether every rank was handed all of a segment's batches before a place."""
    handed: Counter[int] = Counter()
    for part in certificate.sessions:
        if part.first >= last.position:
            handed[part.rank] = max(handed[part.rank], part.handed or 0)
    return all(handed[rank] >= place for rank in range(last.world_size))


def _problems_of_makers(certificate: Certificate, indices: list[int]) -> list[str]:
    count = sum(entry.last + 1 - entry.first for entry in certificate.makers)
    problems = []
    if count != len(indices) or indices != [
        index for entry in certificate.makers for index in range(entry.first, entry.last + 1)
    ]:
        problems.append("those who made the batches are not named once for each")
    if len(certificate.checksums) != _HEX * sum(_count(s) for s in certificate.segments):
        problems.append("there is not one checksum for each batch")
    return problems


def _count(said: Delivered) -> int:
    return len(said.order) if isinstance(said.order, list) else len(_deals(said.order))


def _problems_of_bad(certificate: Certificate, places: dict[int, Segment]) -> list[str]:
    """A bad sample must be one of its batch's, named once, and treated as the policy says."""
    problems = [
        f"batch {i} is left out but was never due" for i in certificate.isolated if i not in places
    ]
    by_batch: dict[int, list[BadEntry]] = {index: [] for index in certificate.isolated}
    for entry in certificate.bad:
        by_batch.setdefault(entry.batch, []).append(entry)
    for batch, bad in by_batch.items():
        if batch not in places:
            problems.append(f"bad samples are named of batch {batch}, which was not delivered")
            continue
        where = places[batch].places(batch)
        mine = Counter(_plan(certificate).samples_at(certificate.epoch, where).tolist())
        problems += _problems_of_batch(certificate, batch, bad, set(mine))
    return problems


def _problems_of_batch(
    certificate: Certificate, batch: int, bad: list[BadEntry], mine: set[int]
) -> list[str]:
    named = Counter(entry.sample for entry in bad)
    problems = [
        f"sample {sample} is named as bad in batch {batch}, which does not hold it"
        for sample in named
        if sample not in mine
    ]
    problems += [
        f"sample {sample} is named as bad {n} times in batch {batch}"
        for sample, n in named.items()
        if n > 1
    ]
    problems += [
        f"sample {entry.sample} was replaced by {entry.substitute}, which cannot be"
        for entry in bad
        if entry.substitute is not None and not _can_replace(certificate, entry)
    ]
    if batch in certificate.isolated:
        if certificate.on_bad is BadPolicy.FAIL:
            problems.append(f"the policy fail forbids leaving out batch {batch}")
        if set(named) != mine:
            problems.append(f"batch {batch} was left out, but not all of its samples are named")
        return problems
    if not {entry.mishap.action for entry in bad} <= _ACTIONS[certificate.on_bad]:
        policy = certificate.on_bad.value
        problems.append(f"the policy {policy} forbids what was done in batch {batch}")
    if all(entry.substitute is None for entry in bad) and len(named) >= len(mine):
        problems.append(f"nothing is left of batch {batch}")
    return problems


def _can_replace(certificate: Certificate, entry: BadEntry) -> bool:
    assert entry.substitute is not None
    return entry.substitute < certificate.samples and entry.substitute != entry.sample


def _plan(certificate: Certificate) -> RunPlan:
    return RunPlan(
        certificate.samples,
        certificate.batch_size,
        None,
        certificate.seed,
        reshuffle=certificate.reshuffle,
    )


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
