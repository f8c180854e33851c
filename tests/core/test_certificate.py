"""A certificate names every kind of fault in a record of deliveries, and shows tampering."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from ddlp.core.certificate import Certificate, CertificateBatch, problems_of, seal, verify
from ddlp.core.mishap import Mishap
from ddlp.core.plan import RunPlan
from ddlp.core.types import BadPolicy, Prong

PLAN = RunPlan(samples=45, batch_size=10, epochs=1, seed=7, world_size=2)
EPOCH = 3
Record = list[CertificateBatch]


def delivery(index: int, rank: int, step: int) -> CertificateBatch:
    return CertificateBatch(
        index=index,
        prong=Prong.CPU,
        device="host",
        attempt=1,
        checksum="00ff",
        rank=rank,
        step=step,
        samples=PLAN.batch_length(index) if index < PLAN.batches else 0,
    )


def good_record() -> Record:
    """Five batches for two ranks that take turns."""
    return [delivery(index, rank=index % 2, step=index // 2) for index in range(5)]


def body(**changes: Any) -> dict[str, Any]:
    return {
        "run": str(uuid.UUID(int=1)),
        "epoch": EPOCH,
        "dataset_version": "d" * 64,
        "pipeline_hash": "e" * 64,
        "seed": PLAN.seed,
        "samples": PLAN.samples,
        "batch_size": PLAN.batch_size,
        "batches": PLAN.batches,
        "on_bad": "fail",
        "delivered": [entry.model_dump(mode="json") for entry in good_record()],
        "exactly_once": True,
        "problems": [],
        **changes,
    }


def test_a_record_of_every_batch_once_has_no_problem() -> None:
    assert problems_of(PLAN, EPOCH, BadPolicy.FAIL, good_record()) == []


def test_the_order_of_the_record_does_not_matter() -> None:
    assert problems_of(PLAN, EPOCH, BadPolicy.FAIL, good_record()[::-1]) == []


FAULTS: dict[str, tuple[Callable[[Record], Record], str]] = {
    "missing": (lambda record: record[:-1], "not delivered (1): batch 4"),
    "empty": (lambda record: [], "not delivered (5): batch 0, 1, 2, 3, 4"),
    "twice to one rank": (lambda record: [*record, delivery(4, 0, 3)], "batch 4 was delivered 2"),
    "twice to two ranks": (lambda record: [*record, delivery(4, 1, 2)], "batch 4 was delivered 2"),
    "beyond the plan": (lambda record: [*record, delivery(5, 1, 2)], "there is no batch 5"),
    "below zero": (lambda record: [*record, delivery(-1, 1, 2)], "there is no batch -1"),
    "one instead of another": (
        lambda record: [*record[:-1], delivery(3, 0, 2)],
        "batch 3 was delivered 2",
    ),
    "a step left out": (
        lambda record: [*record[:-1], delivery(4, 0, 3)],
        "the steps of rank 0 have gaps or repeats",
    ),
    "a step twice": (
        lambda record: [*record[:-1], delivery(4, 0, 1)],
        "the steps of rank 0 have gaps or repeats",
    ),
    "not from the first step": (
        lambda record: [delivery(e.index, e.rank, e.step + e.rank) for e in record],
        "the steps of rank 1 have gaps or repeats",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_named(fault: str) -> None:
    spoil, words = FAULTS[fault]
    problems = problems_of(PLAN, EPOCH, BadPolicy.FAIL, spoil(good_record()))
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize("fault", FAULTS)
def test_a_certificate_that_claims_otherwise_is_not_believed(fault: str) -> None:
    spoil, words = FAULTS[fault]
    delivered = [entry.model_dump(mode="json") for entry in spoil(good_record())]
    certificate = seal(body(delivered=delivered, exactly_once=True, problems=[]))
    assert any(words in problem for problem in verify(certificate))


def test_an_honest_certificate_is_verified_also_after_a_trip_as_json() -> None:
    certificate = seal(body())
    assert verify(certificate) == []
    assert verify(Certificate.model_validate_json(certificate.model_dump_json())) == []


def test_a_certificate_of_fewer_batches_than_the_plan_has_is_found() -> None:
    certificate = seal(body(batches=4))
    assert verify(certificate) == ["it speaks of 4 batches; the plan has 5"]


TAMPERINGS: list[dict[str, Any]] = [
    {"run": uuid.UUID(int=2)},
    {"epoch": 4},
    {"dataset_version": "f" * 64},
    {"pipeline_hash": "f" * 64},
    {"seed": 8},
    {"delivered": good_record()[::-1]},
    {"digest": "0" * 64},
]


@pytest.mark.parametrize("change", TAMPERINGS, ids=lambda change: next(iter(change)))
def test_a_certificate_that_was_changed_does_not_fit_its_digest(change: dict[str, Any]) -> None:
    tampered = seal(body()).model_copy(update=change)
    assert verify(tampered) == ["its digest does not fit its content"]


@pytest.mark.parametrize("change", [{"exactly_once": False}, {"problems": ["batch 3 twice"]}])
def test_a_certificate_that_contradicts_its_own_record_has_a_problem(
    change: dict[str, Any],
) -> None:
    assert verify(seal(body(**change))) == ["it says otherwise of itself"]
    tampered = seal(body()).model_copy(update=change)
    assert verify(tampered)[1:] == ["its digest does not fit its content"]


def test_a_certificate_that_admits_its_faults_has_these_and_no_others() -> None:
    record = good_record()[:-1]
    found = problems_of(PLAN, EPOCH, BadPolicy.FAIL, record)
    delivered = [entry.model_dump(mode="json") for entry in record]
    admitted = seal(body(delivered=delivered, exactly_once=False, problems=found))
    assert verify(admitted) == found == ["not delivered (1): batch 4"]


@pytest.mark.parametrize("change", [{"batch_size": 0}, {"batch_size": -1}, {"samples": -1}])
def test_a_certificate_of_an_impossible_plan_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(change))):
        seal(body(**change))


def test_of_many_missing_batches_the_first_few_are_named() -> None:
    plan = RunPlan(samples=100, batch_size=10, epochs=1, seed=0)
    assert problems_of(plan, 0, BadPolicy.FAIL, []) == ["not delivered (10): batch 0, 1, 2, 3, 4 …"]


@pytest.mark.parametrize(
    "change", [{"prong": Prong.CSD}, {"device": "other"}, {"attempt": 2}, {"checksum": "ff00"}]
)
def test_a_delivery_that_was_changed_does_not_fit_the_digest(change: dict[str, Any]) -> None:
    certificate = seal(body())
    first, *others = certificate.delivered
    tampered = certificate.model_copy(
        update={"delivered": [first.model_copy(update=change), *others]}
    )
    assert verify(tampered) == ["its digest does not fit its content"]


# Bad samples


def record_with(*bad: Mishap, index: int = 1) -> Record:
    """A good record in which one batch names bad samples, and is shorter by those left out."""
    left_out = sum(mishap.substitute is None for mishap in bad)
    named = {"bad": list(bad), "samples": PLAN.batch_length(index) - left_out}
    return [e.model_copy(update=named) if e.index == index else e for e in good_record()]


def held(place: int, index: int = 1) -> int:
    """A sample of a batch."""
    return int(PLAN.batch_samples(EPOCH, index)[place])


BAD = {
    BadPolicy.SKIP: Mishap(held(0), "/data/a.jpg", "truncated"),
    BadPolicy.REPLACE: Mishap(held(3), "/data/b.jpg", "crash", held(0, 4)),
}


@pytest.mark.parametrize("policy", BAD)
def test_samples_that_were_skipped_or_replaced_are_named_and_no_problem(policy: BadPolicy) -> None:
    record = record_with(BAD[policy])
    assert problems_of(PLAN, EPOCH, policy, record) == []
    delivered = [entry.model_dump(mode="json") for entry in record]
    certificate = seal(body(delivered=delivered, on_bad=policy.value))
    assert verify(certificate) == []
    again = Certificate.model_validate_json(certificate.model_dump_json())
    assert verify(again) == []
    assert again.bad() == [BAD[policy]]


@pytest.mark.parametrize("policy", BadPolicy)
@pytest.mark.parametrize("done", BAD)
def test_what_the_policy_forbids_is_found(policy: BadPolicy, done: BadPolicy) -> None:
    found = problems_of(PLAN, EPOCH, policy, record_with(BAD[done]))
    forbidden = [f"the policy {policy} forbids what was done in batch 1"]
    assert found == ([] if policy is done else forbidden)


@pytest.mark.parametrize("samples", [0, 9, 11])
def test_a_batch_that_lost_samples_without_naming_them_is_found(samples: int) -> None:
    first, second, *others = good_record()
    record = [first, second.model_copy(update={"samples": samples}), *others]
    assert problems_of(PLAN, EPOCH, BadPolicy.SKIP, record) == [
        f"batch 1 held {samples} samples, which does not add up"
    ]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ([Mishap(held(0, 2), "x", "y")], "is named as bad in batch 1, which does not hold it"),
        ([Mishap(held(0), "x", "y")] * 2, "is named as bad 2 times in batch 1"),
        ([Mishap(held(0), "x", "y", 45)], "was replaced by 45, which cannot be"),
        ([Mishap(held(0), "x", "y", held(0))], "which cannot be"),
        ([Mishap(held(place), "x", "y") for place in range(10)], "nothing is left of batch 1"),
    ],
)
def test_bad_samples_that_cannot_be_are_found(bad: list[Mishap], problem: str) -> None:
    policy = BadPolicy.SKIP if bad[0].substitute is None else BadPolicy.REPLACE
    [found] = problems_of(PLAN, EPOCH, policy, record_with(*bad))
    assert problem in found


def test_a_reason_that_was_changed_does_not_fit_the_digest() -> None:
    record = record_with(Mishap(held(0), "/data/a.jpg", "truncated"))
    delivered = [entry.model_dump(mode="json") for entry in record]
    certificate = seal(body(delivered=delivered, on_bad="skip"))
    other = record_with(Mishap(held(0), "/data/a.jpg", "a whim"))
    tampered = certificate.model_copy(update={"delivered": other})
    assert verify(tampered) == ["its digest does not fit its content"]
