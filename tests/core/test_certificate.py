"""A certificate names every kind of fault in a record of deliveries, and shows tampering."""

import hashlib
import json
from typing import Any

import pytest
from pydantic import ValidationError

from ddlp.core.certificate import (
    FORMAT,
    OF_THE_RUN,
    Certificate,
    Entry,
    delivered,
    genesis,
    makers,
    order_of,
    problems_of,
    seal,
    segments_of,
    verify,
)
from ddlp.core.plan import RunPlan, Segment
from ddlp.core.types import Prong, TailPolicy
from tests.core.certificates import CHECKSUM, SAMPLES, body, certificate, of_segments, plan


@pytest.mark.parametrize("order", ["6h", "6t", "4h2t", "1h1t1h1t1h1t", "2t1h3t"])
def test_every_order_that_takes_each_batch_once_from_the_ends_is_good(order: str) -> None:
    good = certificate(order)
    assert verify(good) == good.problems == []
    assert good.exactly_once


def test_a_certificate_is_verified_also_after_a_trip_as_json() -> None:
    assert verify(Certificate.model_validate_json(certificate().model_dump_json())) == []


@pytest.mark.parametrize(
    ("tail", "world_size", "order", "repeated", "dropped"),
    [("short", 2, "6h", 0, 0), ("drop", 2, "4h", 0, 6), ("pad", 2, "3h3t", 14, 0)],
)
def test_what_the_tail_policy_repeats_or_drops_is_said(
    tail: str, world_size: int, order: str, repeated: int, dropped: int
) -> None:
    found = certificate(order, tail=tail, world_size=world_size)
    assert verify(found) == []
    assert (found.repeated, found.dropped) == (repeated, dropped)


def test_the_storage_form_is_sealed_but_decides_nothing() -> None:
    plain, packed = certificate(), certificate(storage="packed")
    said, other = (c.model_dump(mode="json") for c in (plain, packed))
    assert {name for name in said if said[name] != other[name]} == {"storage", "digest"}
    swapped = Certificate.model_validate({**said, "storage": "packed"})
    assert verify(swapped) == ["its digest does not fit its content"]


@pytest.mark.parametrize("format_", [1, 3])
def test_a_certificate_of_another_format_is_not_judged_by_the_rules_of_this_one(
    format_: int,
) -> None:
    [problem] = verify(certificate(format=format_))
    assert problem.startswith(f"it is of format {format_}, not {FORMAT}: another version of DDLP")


def test_the_digest_is_one_that_anybody_can_compute() -> None:
    said = certificate().model_dump(mode="json")
    rest = {name: value for name, value in said.items() if name != "digest"}
    assert said["digest"] == hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


# Faults


def with_segment(order: str | list[int], **changes: Any) -> dict[str, Any]:
    """A record whose only segment is changed."""
    found = body()
    found["segments"][0] |= {"order": order, **changes}
    return found


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": (body("3h1t"), "not delivered (2): batch 4, 5"),
    "one from the middle": (body("2h1t"), "not delivered (3): batch 2, 4, 5"),
    "empty": (body(""), "not delivered (6): batch 0, 1, 2, 3, 4 …"),
    "beyond the plan": (body("7h"), "there is no batch 6"),
    "beyond it from the tail": (body("7t"), "there is no batch 6"),
    "twice": (with_segment([0, 1, 2, 3, 4, 5, 5]), "batch 5 was delivered 2 times"),
    "one instead of another": (with_segment([0, 1, 2, 3, 4, 4]), "not delivered (1): batch 5"),
    "from the middle": (
        with_segment([2, 0, 1, 3, 4, 5]),
        "the batches were not taken from the ends in turn",
    ),
    "no order": (with_segment("six h"), "not delivered (6)"),
    "not from the beginning": (with_segment("4h2t", start=1), "does not cover the whole epoch"),
    "not to the end": (with_segment("4h2t", stop=45), "does not cover the whole epoch"),
    "other indices": (with_segment("4h2t", first=1), "does not cover the whole epoch"),
    "other places": (with_segment("4h2t", position=1), "does not cover the whole epoch"),
    "a maker missing": (body(makers=body()["makers"][:1]), "are not named once for each"),
    "a maker twice": (body(makers=body()["makers"] * 2), "are not named once for each"),
    "a checksum missing": (body(checksums=CHECKSUM * 5), "not one checksum for each batch"),
    "a checksum cut": (body(checksums=(CHECKSUM * 6)[1:]), "not one checksum for each batch"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_named_and_admitted(fault: str) -> None:
    spoiled, words = FAULTS[fault]
    found = seal(spoiled)
    assert any(words in problem for problem in found.problems), found.problems
    assert not found.exactly_once
    assert verify(found) == found.problems


@pytest.mark.parametrize("fault", FAULTS)
def test_a_certificate_that_claims_otherwise_is_not_believed(fault: str) -> None:
    spoiled, words = FAULTS[fault]
    lie = seal(spoiled).model_copy(update={"exactly_once": True, "problems": []})
    found = verify(lie)
    assert any(words in problem for problem in found)
    assert "it says otherwise of itself" in found


# Another number of ranks on the way


def cut() -> list[tuple[Segment, str]]:
    """Two ranks take a round from the head and a batch from the tail; three take the rest."""
    first = plan(2).whole
    return [(first, "3h1t"), (first.rest(3, 1, 3), "2h1t")]


def test_an_epoch_that_other_ranks_finished_is_good() -> None:
    found = seal(of_segments(cut()))
    assert found.problems == []
    assert [segment.world_size for segment in found.segments] == [2, 3]
    assert verify(found) == []


@pytest.mark.parametrize(
    ("field", "value"), [("start", 29), ("stop", 44), ("first", 5), ("position", 3)]
)
def test_a_segment_that_is_not_what_was_left_is_found(field: str, value: int) -> None:
    spoiled = of_segments(cut())
    spoiled["segments"][1][field] = value
    assert "segment 1 is not what the one before it left" in seal(spoiled).problems


def test_a_batch_that_the_first_ranks_did_not_report_is_missing_from_the_rest() -> None:
    first, second = cut()
    spoiled = of_segments([(first[0], "2h1t"), second])
    assert "segment 1 is not what the one before it left" in seal(spoiled).problems


def test_the_last_segment_must_be_finished_and_those_before_need_not() -> None:
    first, (rest, _) = cut()
    unfinished = seal(of_segments([first, (rest, "2h")]))
    assert [p for p in unfinished.problems if "not delivered" in p] == [
        "not delivered (1): batch 8"
    ]


# Tampering


TAMPERINGS: list[dict[str, Any]] = [
    {"run": "00000000-0000-0000-0000-000000000002"},
    {"dataset_version": "f" * 64},
    {"pipeline_hash": "f" * 64},
    {"strategy": "mte"},
    {"seed": 8},
    {"epoch": 4},
    {"state": "abandoned"},
    {"checksums": "00000000000000fe" * 6},
    {"previous": "0" * 64},
    {"repeated": 1},
    {"dropped": 1},
]


@pytest.mark.parametrize("change", TAMPERINGS, ids=lambda change: next(iter(change)))
def test_a_certificate_that_was_changed_does_not_fit_its_digest(change: dict[str, Any]) -> None:
    changed = {**certificate().model_dump(mode="json"), **change}
    tampered = Certificate.model_validate(changed)
    assert verify(tampered) == ["its digest does not fit its content"]


@pytest.mark.parametrize("change", [{"prong": "csd"}, {"device": "other"}, {"attempt": 2}])
def test_a_maker_that_was_changed_does_not_fit_the_digest(change: dict[str, Any]) -> None:
    said = certificate().model_dump(mode="json")
    said["makers"][0] |= change
    assert verify(Certificate.model_validate(said)) == ["its digest does not fit its content"]


def test_an_order_that_was_changed_to_another_good_one_does_not_fit_the_digest() -> None:
    said = certificate("4h2t").model_dump(mode="json")
    said["segments"][0]["order"] = "2t4h"
    assert verify(Certificate.model_validate(said)) == ["its digest does not fit its content"]


def test_a_digest_of_other_content_is_found() -> None:
    other = certificate().model_copy(update={"digest": certificate("6h").digest})
    assert verify(other) == ["its digest does not fit its content"]


@pytest.mark.parametrize("change", [{"batch_size": 0}, {"batch_size": -1}, {"samples": -1}])
def test_a_certificate_of_an_impossible_plan_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(change))):
        seal(body(**change))


def test_the_beginning_of_the_chain_depends_on_all_that_decides_the_run() -> None:
    said = body()
    for name in OF_THE_RUN:
        assert genesis(said) != genesis({**said, name: "other"}), name
    assert genesis(said) != genesis({**said, "run": "other"})
    assert genesis(said) == genesis({**said, "strategy": "other"})


# Size


def test_a_certificate_does_not_grow_with_its_samples_nor_much_with_its_batches() -> None:
    small, large = (
        seal(of_segments([(plan_.whole, f"{plan_.batches}h")], **fields(plan_)))
        for plan_ in (RunPlan(10**3, 100, 1, 0), RunPlan(10**6, 100, 1, 0))
    )
    grown = len(large.model_dump_json()) - len(small.model_dump_json())
    assert verify(large) == []
    assert grown <= 16 * (10**4 - 10) + 20, "a checksum a batch, and nothing else"


def fields(plan_: RunPlan) -> dict[str, Any]:
    return {"samples": plan_.samples, "batch_size": plan_.batch_size, "seed": plan_.seed}


def entry(index: int, device: str = "a", attempt: int = 1) -> Entry:
    return Entry(index, index, False, Prong.CPU, device, attempt, CHECKSUM)


def test_who_made_what_is_kept_as_stretches() -> None:
    found = makers([entry(5), entry(0), entry(1), entry(2, "b"), entry(3, "b"), entry(4, "b", 2)])
    assert [(m.first, m.last, m.device, m.attempt) for m in found] == [
        (0, 1, "a", 1),
        (2, 3, "b", 1),
        (4, 4, "b", 2),
        (5, 5, "a", 1),
    ]


def test_an_order_that_is_not_from_the_ends_is_written_batch_by_batch() -> None:
    segment = plan().whole
    said = delivered(segment, [entry(index) for index in (1, 0, 2)])
    assert said.order == [1, 0, 2]
    assert order_of(said, segment) == [1, 0, 2]


def test_the_segments_are_those_of_the_plan() -> None:
    found = certificate(tail=TailPolicy.PAD.value)
    assert segments_of(found) == [plan(2, TailPolicy.PAD).whole]
    assert segments_of(found)[0].samples == SAMPLES
    assert problems_of(found) == []
