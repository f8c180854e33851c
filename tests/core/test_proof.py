"""A run is proved from its certificates alone: each of them, and that they form a chain."""

from typing import Any

import pytest

from ddlp.core.certificate import OF_THE_RUN, seal
from ddlp.core.proof import Proof, check
from tests.core.certificates import body
from tests.core.test_certificate_exceptions import bad, held


def run_of(epochs: int = 3, **changes: Any) -> dict[str, Any]:
    """A run of which each epoch went well, as it is given out."""
    certificates: list[dict[str, Any]] = []
    said = body(**changes)
    for number in range(epochs):
        previous = certificates[-1]["digest"] if certificates else said["previous"]
        sealed = seal({**body(**changes), "epoch": number, "previous": previous})
        certificates.append(sealed.model_dump(mode="json"))
    facts = {name: said[name] for name in OF_THE_RUN}
    run = {"id": said["run"], "name": "fruit-1", "epochs": epochs, **facts}
    return {"format": "ddlp-certificates-1", "run": run, "certificates": certificates}


def test_a_run_whose_epochs_are_good_and_chained_is_proved() -> None:
    assert check(run_of()) == {
        "run": "fruit-1",
        "epochs": 3,
        "samples": 46,
        "exactly_once": True,
        "problems": {},
        "bad": {},
        "repeated": 0,
        "dropped": 0,
    }


def test_the_storage_form_must_be_the_runs_where_both_are_known() -> None:
    found = run_of()
    for storage, problems in ((None, 0), ("folder", 0), ("packed", 3)):
        found["run"]["storage"] = storage
        assert len(check(found)["problems"]) == problems
    assert check(found)["problems"]["epoch 0"] == ["it is of storage folder, not packed"]


def test_what_the_tail_policy_did_is_added_up() -> None:
    assert check(run_of(2, order="4h", tail="drop"))["dropped"] == 12
    assert check(run_of(2, order="6h", tail="pad"))["repeated"] == 28


def test_an_epoch_that_was_not_begun_is_missed() -> None:
    found = run_of()
    found["certificates"].pop()
    assert check(found)["problems"] == {"run": ["2 of 3 epochs were begun"]}


def test_an_epoch_in_the_place_of_another_breaks_the_chain() -> None:
    found = run_of()
    first, second, third = found["certificates"]
    found["certificates"] = [first, third, second]
    problems = check(found)["problems"]
    assert problems["epoch 1"] == [
        "it is of epoch 2, not 1",
        "it is not chained to the one before it",
    ]
    assert "it is of epoch 1, not 2" in problems["epoch 2"]


def test_an_epoch_of_another_record_of_the_same_run_breaks_the_chain() -> None:
    found, other = run_of(), run_of(order="6h")
    found["certificates"][1] = other["certificates"][1]
    problems = check(found)["problems"]
    assert problems == {
        "epoch 1": ["it is not chained to the one before it"],
        "epoch 2": ["it is not chained to the one before it"],
    }


@pytest.mark.parametrize("name", [*OF_THE_RUN, "id"])
def test_certificates_of_another_run_are_found(name: str) -> None:
    found = run_of()
    other = {"tail": "pad", "on_bad": "skip", "id": "00000000-0000-0000-0000-000000000009"}
    found["run"][name] = other.get(name, 5 if isinstance(found["run"][name], int) else "f" * 64)
    problems = check(found)["problems"]
    shown = "run" if name == "id" else name
    assert all(f"it is of {shown} " in problems[f"epoch {n}"][0] for n in range(3))
    assert "it is not chained to the one before it" in problems["epoch 0"]


def test_a_changed_certificate_is_found_and_the_others_stay_good() -> None:
    found = run_of()
    found["certificates"][1]["strategy"] = "mte"
    assert check(found)["problems"] == {"epoch 1": ["its digest does not fit its content"]}


def test_an_epoch_that_is_not_exact_is_found() -> None:
    problems = check(run_of(1, order="4h1t"))["problems"]
    assert problems == {"epoch 0": ["not delivered (1): batch 4"]}


def test_what_is_no_certificate_is_said_to_be_none() -> None:
    found = run_of(1)
    del found["certificates"][0]["segments"]
    assert check(found)["problems"] == {"epoch 0": ["it is not a certificate: Field required"]}


def test_samples_that_were_skipped_are_named() -> None:
    found = check(run_of(1, on_bad="skip", bad=[bad(held(0))]))
    assert found["exactly_once"]
    [words] = found["bad"]["epoch 0"]
    assert words == f"sample {held(0)} (/data/{held(0)}.jpg) was skipped: truncated"


def test_certificates_are_checked_from_a_later_epoch_on() -> None:
    found = run_of(4)
    given = found["certificates"]
    proof = Proof(found["run"], first=2, previous=given[1]["digest"])
    for raw in given[2:]:
        proof.add(raw)
    proof.end(4)
    assert (proof.checked, proof.problems) == (2, {})
    unchained = Proof(found["run"], first=2, previous="0" * 64)
    unchained.add(given[2])
    assert unchained.problems == {"epoch 2": ["it is not chained to the one before it"]}


def test_no_more_bad_samples_are_named_than_asked_for_and_all_are_counted() -> None:
    found = run_of(1, on_bad="skip", bad=[bad(held(place)) for place in range(3)])
    proof = Proof(found["run"], names_at_most=2)
    for raw in found["certificates"]:
        proof.add(raw)
    assert proof.problems == {}
    assert len(proof.bad["epoch 0"]) == 2
    assert proof.bad_samples == 3
