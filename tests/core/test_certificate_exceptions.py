"""What a certificate excepts: bad samples and isolated batches, as the policy has it."""

from typing import Any

import pytest

from ddlp.core.certificate import Certificate, seal, verify
from ddlp.core.types import BadPolicy
from tests.core.certificates import EPOCH, SAMPLES, body, plan


def held(place: int, batch: int = 1) -> int:
    """A sample of a batch."""
    return int(plan().batch_samples(EPOCH, batch)[place])


def bad(sample: int, substitute: int | None = None, batch: int = 1) -> dict[str, Any]:
    return {
        "batch": batch,
        "sample": sample,
        "name": f"/data/{sample}.jpg",
        "reason": "truncated",
        "substitute": substitute,
    }


def problems(policy: BadPolicy, *entries: dict[str, Any], isolated: tuple[int, ...] = ()) -> Any:
    found = seal(body(on_bad=policy.value, bad=list(entries), isolated=list(isolated)))
    assert verify(found) == found.problems
    return found.problems


DONE = {
    BadPolicy.SKIP: bad(held(0)),
    BadPolicy.REPLACE: bad(held(3), substitute=held(0, 4)),
}


@pytest.mark.parametrize("policy", BadPolicy)
@pytest.mark.parametrize("done", DONE)
def test_what_the_policy_allows_is_good_and_what_it_forbids_is_found(
    policy: BadPolicy, done: BadPolicy
) -> None:
    forbidden = [f"the policy {policy} forbids what was done in batch 1"]
    assert problems(policy, DONE[done]) == ([] if policy is done else forbidden)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([bad(held(0, 2))], "is named as bad in batch 1, which does not hold it"),
        ([bad(held(0))] * 2, "is named as bad 2 times in batch 1"),
        ([bad(held(0), SAMPLES)], f"was replaced by {SAMPLES}, which cannot be"),
        ([bad(held(0), held(0))], "which cannot be"),
        ([bad(held(place)) for place in range(10)], "nothing is left of batch 1"),
        ([bad(0, batch=17)], "bad samples are named of batch 17, which was not delivered"),
    ],
)
def test_bad_samples_that_cannot_be_are_found(entries: list[dict[str, Any]], problem: str) -> None:
    policy = BadPolicy.SKIP if entries[0]["substitute"] is None else BadPolicy.REPLACE
    [found] = problems(policy, *entries)
    assert problem in found


def test_a_batch_whose_samples_were_all_replaced_is_whole() -> None:
    entries = [bad(held(place), held(place, 3)) for place in range(10)]
    assert problems(BadPolicy.REPLACE, *entries) == []


def test_a_reason_that_was_changed_does_not_fit_the_digest() -> None:
    said = seal(body(on_bad="skip", bad=[bad(held(0))])).model_dump(mode="json")
    said["bad"][0]["reason"] = "a whim"
    assert verify(Certificate.model_validate(said)) == ["its digest does not fit its content"]


# Isolated batches


def all_of(batch: int) -> list[dict[str, Any]]:
    return [bad(int(sample), batch=batch) for sample in plan().batch_samples(EPOCH, batch)]


@pytest.mark.parametrize("policy", [BadPolicy.SKIP, BadPolicy.REPLACE])
def test_an_isolated_batch_is_good_when_all_of_its_samples_are_named(policy: BadPolicy) -> None:
    assert problems(policy, *all_of(2), isolated=(2,)) == []


def test_no_batch_may_be_left_out_where_the_policy_is_to_fail() -> None:
    assert problems(BadPolicy.FAIL, *all_of(2), isolated=(2,)) == [
        "the policy fail forbids leaving out batch 2"
    ]


def test_an_isolated_batch_whose_samples_are_not_all_named_is_found() -> None:
    words = ["batch 2 was left out, but not all of its samples are named"]
    assert problems(BadPolicy.SKIP, *all_of(2)[1:], isolated=(2,)) == words
    assert problems(BadPolicy.SKIP, isolated=(2,)) == words


def test_a_batch_that_was_never_due_cannot_be_left_out() -> None:
    assert "batch 9 is left out but was never due" in problems(BadPolicy.SKIP, isolated=(9,))
