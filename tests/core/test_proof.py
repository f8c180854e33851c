"""A run is proved from its certificates alone: each of them, and that they form a chain."""

import json
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.certificate import OF_THE_RUN, Certificate, seal, segments_of, verify
from ddlp.core.proof import Proof, check
from ddlp.core.sessions import SessionPart, Start
from ddlp.core.takeover import Origin
from tests.core.certificates import body, of_segments, plan
from tests.core.test_certificate_exceptions import bad, held


def run_of(epochs: int = 3, **changes: Any) -> dict[str, Any]:
    """A run of which each epoch went well, as it is given out."""
    return run_from([body(**changes) for _ in range(epochs)])


def run_from(bodies: list[dict[str, Any]], first: int = 0, **changes: Any) -> dict[str, Any]:
    """A run of epochs from one on, sealed and chained."""
    certificates: list[dict[str, Any]] = []
    said = bodies[0]
    for number, each in enumerate(bodies, first):
        previous = certificates[-1]["digest"] if certificates else said["previous"]
        sealed = seal({**each, "epoch": number, "previous": previous})
        certificates.append(sealed.model_dump(mode="json"))
    facts = {name: said[name] for name in OF_THE_RUN}
    begun = list(range(first, first + len(bodies)))
    known = {"id": said["run"], "name": "fruit-1", "epochs": first + len(bodies), **facts}
    run = {**known, "begun": begun, **changes}
    return {"format": "ddlp-certificates-2", "run": run, "certificates": certificates}


def test_a_run_whose_epochs_are_good_and_chained_is_proved() -> None:
    assert check(run_of()) == {
        "run": "fruit-1",
        "verdict": "every sample exactly once, in one unbroken line of training sessions",
        "epochs": 3,
        "samples": 46,
        "exactly_once": True,
        "unbroken": True,
        "problems": {},
        "lost": {},
        "taken_over": [],
        "missing": [],
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
    assert check(found)["problems"] == {"run": ["only 2 of 3 epochs were begun"]}


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
    assert problems == {"epoch 0": ["not delivered (1): batch 5"]}


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
    proof = Proof(found["run"], range(4), first=2, previous=given[1]["digest"])
    for raw in given[2:]:
        proof.add(raw)
    proof.end()
    assert (proof.checked, proof.problems) == (2, {})
    unchained = Proof(found["run"], range(4), first=2, previous="0" * 64)
    unchained.add(given[2])
    assert unchained.problems == {"epoch 2": ["it is not chained to the one before it"]}


def test_no_more_bad_samples_are_named_than_asked_for_and_all_are_counted() -> None:
    found = run_of(1, on_bad="skip", bad=[bad(held(place)) for place in range(3)])
    proof = Proof(found["run"], [0], names_at_most=2)
    for raw in found["certificates"]:
        proof.add(raw)
    assert proof.problems == {}
    assert len(proof.bad["epoch 0"]) == 2
    assert proof.bad_samples == 3


# Epochs that were begun


def test_an_open_ended_run_is_proved_by_what_it_began() -> None:
    found = run_of(2)
    found["run"]["epochs"] = None
    assert check(found)["exactly_once"]


def test_an_epoch_that_was_skipped_is_missed() -> None:
    found = run_of(3)
    found["run"]["begun"] = [0, 2, 3]
    assert check(found)["problems"]["run"] == ["epoch 1 was not delivered"]


def test_certificates_that_do_not_say_which_epochs_they_are_of_are_taken_from_the_first() -> None:
    found = run_of(2)
    for begun in (None, [0], "01"):
        found["run"]["begun"] = begun
        assert check(found)["exactly_once"]


# Sessions


def sessions(*parts: tuple[str, Start, int, int, Any]) -> list[dict[str, Any]]:
    """Parts of two ranks: name, start, first and last place, checkpoint."""
    return [
        SessionPart(f"{name}-{rank}", rank, 2, start, first, last, last, last, mark).as_json()
        for name, start, first, last, mark in parts
        for rank in range(2)
    ]


WHOLE = ("one", Start.BEGINNING, 0, 6, None)


def test_an_unbroken_line_of_sessions_is_told() -> None:
    parts = [("one", Start.BEGINNING, 0, 4, None), ("two", Start.STATE, 4, 6, (0, 4))]
    found = check(run_from([body(sessions=sessions(*parts))]))
    assert (found["exactly_once"], found["unbroken"], found["lost"]) == (True, True, {})


def test_a_session_that_was_lost_is_told_beside_what_was_delivered() -> None:
    parts = [("one", Start.BEGINNING, 0, 4, None), ("two", Start.CONTINUE, 4, 6, (0, 2))]
    found = check(run_from([body(sessions=sessions(*parts)), body(sessions=sessions(WHOLE))]))
    assert (found["exactly_once"], found["unbroken"], found["problems"]) == (True, False, {})
    first, second = found["lost"].pop("epoch 0")
    assert first.startswith("rank 0: a session was lost between step 1 of epoch 0 and step 2")
    assert second.startswith("rank 1: ")
    assert found["lost"] == {}


@pytest.mark.parametrize(("first", "last", "gap"), [(0, 4, (4, 6)), (2, 6, (0, 2)), (0, 2, (2, 6))])
def test_what_no_session_received_is_a_problem(first: int, last: int, gap: tuple[int, int]) -> None:
    parts = sessions(("one", Start.BEGINNING, first, last, None))
    found = check(run_from([body(sessions=parts)]))
    assert not found["exactly_once"]
    words = "no session is named for what lies between places {} and {}"
    assert found["problems"]["epoch 0"] == [
        f"rank {rank}: {words.format(*gap)}" for rank in range(2)
    ]


def test_each_segment_has_the_sessions_of_its_own_ranks() -> None:
    first = plan(2).whole
    rest = first.rest(3, 1, 3)
    parts = [
        SessionPart(f"a{rank}", rank, 2, Start.BEGINNING, 0, 4, 6).as_json() for rank in range(2)
    ]
    parts += [
        SessionPart(f"b{rank}", rank, 3, Start.STATE, 4, 4 + rest.batches).as_json()
        for rank in range(3)
    ]
    done = [(first, "3h1t"), (rest, f"{rest.batches}h")]
    assert check(run_from([of_segments(done, sessions=parts)]))["exactly_once"]
    problems = check(run_from([of_segments(done, sessions=parts[:-1])]))["problems"]
    assert problems["epoch 0"][0].startswith("rank 2: no session is named")


def test_a_certificate_that_hides_a_lost_session_is_not_believed() -> None:
    parts = sessions(("one", Start.BEGINNING, 0, 4, None), ("two", Start.CONTINUE, 4, 6, (0, 2)))
    sealed = seal(body(sessions=parts))
    assert len(sealed.lost) == 2
    assert "it says otherwise of itself" in verify(sealed.model_copy(update={"lost": []}))


# Runs that went on from another one


LEFT = "3h1t2h"
"""How the earlier run went on with the epoch in which it was left after four batches."""


def taken_over(position: int = 4, heads: int = 3, **older: Any) -> dict[str, Any]:
    """One run delivers an epoch and part of the next one, and another one all the rest of three."""
    before = older.pop("before", run_from([body(), body(LEFT)]))
    whole = plan().whole
    origin = Origin(before["run"]["id"], 1, position, heads, (whole,))
    rest = origin.rest(plan())
    first = of_segments([(rest, f"{rest.batches}h")], run=str(UUID(int=2)), origin=origin.as_json())
    bodies = [first, body(run=str(UUID(int=2)))]
    found = run_from(bodies, 1, name="fruit-2")
    return {**found, "origin": {name: before[name] for name in ("run", "certificates")}}


def test_a_run_that_took_over_is_proved_together_with_the_one_before_it() -> None:
    found = check(taken_over())
    assert found["problems"] == {}
    assert (found["exactly_once"], found["unbroken"], found["missing"]) == (True, True, [])
    assert found["taken_over"] == ["went on from a state of run fruit-1 after 4 batches of epoch 1"]


def test_what_the_earlier_run_did_beyond_that_place_does_not_matter() -> None:
    after = run_from([body(), body("3h1t")])
    assert check(taken_over(before=after))["exactly_once"]
    longer = run_from([body(), body(LEFT), body()])
    assert check(taken_over(before=longer))["exactly_once"]


def test_what_the_earlier_run_missed_before_that_place_is_missed_by_both() -> None:
    found = check(taken_over(before=run_from([body("3h1t"), body(LEFT)])))
    assert found["problems"] == {"run fruit-1, epoch 0": ["not delivered (2): batch 4, 5"]}
    assert not found["exactly_once"]


@pytest.mark.parametrize(
    ("position", "heads", "order", "problem"),
    [
        (4, 2, "4h2t", "had taken 4 batches from the head before place 4 of epoch 1"),
        (4, 3, "2h1t", "had not come to place 4 of epoch 1"),
    ],
)
def test_a_place_that_the_earlier_run_never_was_at_is_found(
    position: int, heads: int, order: str, problem: str
) -> None:
    before = run_from([body(), body(order)])
    problems = check(taken_over(position, heads, before=before))["problems"]
    assert problems["run fruit-1, takeover"] == [f"run {UUID(int=1)} {problem}"]


def test_an_epoch_that_the_earlier_run_never_began_is_found() -> None:
    problems = check(taken_over(before=run_from([body()])))["problems"]
    assert problems == {"run fruit-1, takeover": ["epoch 1 was not begun"]}


def test_a_session_that_was_lost_in_the_earlier_run_before_that_place_counts() -> None:
    def before(place: int) -> dict[str, Any]:
        parts = [("one", Start.BEGINNING, 0, place, None), ("two", Start.CONTINUE, place, 6, None)]
        return run_from([body(sessions=sessions(WHOLE)), body(LEFT, sessions=sessions(*parts))])

    assert list(check(taken_over(before=before(2)))["lost"]) == ["run fruit-1, epoch 1"]
    assert check(taken_over(before=before(5)))["unbroken"], "that was after the state was taken"


def test_without_the_earlier_certificates_it_is_said_what_cannot_be_proved() -> None:
    alone = {**taken_over(), "origin": None}
    found = check(alone)
    assert found["missing"] == [
        f"the certificates of run {UUID(int=1)}, up to 4 batches of epoch 1, are not here"
    ]
    assert found["problems"] == {}


def test_a_chain_of_three_runs_is_followed_to_its_beginning() -> None:
    middle = taken_over()
    cut = segments_of(Certificate.model_validate(middle["certificates"][0]))[0]
    origin = Origin(middle["run"]["id"], 1, 5, 1, (cut,))
    rest = origin.rest(plan(3))
    parts = [(rest, f"{rest.batches}h")]
    last = of_segments(parts, run=str(UUID(int=3)), origin=origin.as_json())
    found = run_from([last], 1, name="fruit-3")
    every = check({**found, "origin": middle})
    assert every["problems"] == {}
    assert every["taken_over"] == [
        "went on from a state of run fruit-2 after 5 batches of epoch 1",
        "went on from a state of run fruit-1 after 4 batches of epoch 1",
    ]
    del middle["origin"]
    assert check({**found, "origin": middle})["missing"] != []


def test_a_whole_epoch_may_be_all_that_was_taken_over() -> None:
    origin = Origin(str(UUID(int=1)), 1, 6, 4, (plan().whole,))
    first = body(run=str(UUID(int=2)), origin=origin.as_json())
    found = run_from([first], 2, name="fruit-2")
    assert check({**found, "origin": run_of(2)})["problems"] == {}
    unfinished = run_from([body(), body("3h1t")])
    problems = check({**found, "origin": unfinished})["problems"]
    assert problems["run fruit-1, takeover"] == [
        f"run {UUID(int=1)} had not come to place 6 of epoch 1"
    ]


def test_the_epochs_before_a_takeover_are_not_missed() -> None:
    found = taken_over()
    proof = Proof(found["run"], [1, 2])
    for raw in found["certificates"]:
        proof.add(raw)
    proof.end()
    assert proof.problems == {}
    later = Proof(found["run"], [1, 2], 1, found["certificates"][0]["digest"])
    later.origin = Origin.from_json(found["certificates"][0]["origin"])
    later.add(found["certificates"][1])
    later.end()
    assert later.problems == {}


# Records that somebody has tampered with


def paths(value: object, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be changed."""
    items = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[arg-type]
    found = []
    for key, inner in items:
        found.append((*at, key))
        if isinstance(inner, dict | list):
            found += paths(inner, (*at, key))
    return found


SOUND = json.dumps(taken_over())
PLACES = paths(json.loads(SOUND)["certificates"])
OTHER = st.sampled_from([None, "", "x", "9h9t", -1, 0, 1, 7, 46, 1.5, True, [], {}, [[]], [0, 1]])


@settings(max_examples=400, deadline=None)
@given(place=st.sampled_from(PLACES), value=OTHER)
def test_no_change_of_a_certificate_goes_unnoticed_and_none_breaks_the_check(
    place: tuple[Any, ...], value: object
) -> None:
    found = json.loads(SOUND)
    target = found["certificates"]
    for key in place[:-1]:
        target = target[key]
    old = target[place[-1]]
    same = old == value and isinstance(old, bool) is isinstance(value, bool)
    target[place[-1]] = deepcopy(value)
    assert check(found)["exactly_once"] is same
