"""A check of certificates in words: proven, broken, not known yet, and what was excepted."""

from typing import Any

from ddlp.core.messages.proof import ProofInfo
from ddlp.web.proof_views import proof_view


def proof(**changes: Any) -> ProofInfo:
    values: dict[str, Any] = {
        "run": "r50",
        "epochs": 2,
        "first": 0,
        "checked": 2,
        "next": None,
        "samples": 1000,
        "exactly_once": True,
        "unbroken": True,
        "problems": {},
        "bad": {},
        "bad_samples": 0,
        "repeated": 0,
        "dropped": 0,
        "checked_at": 1.0,
    }
    return ProofInfo(**values | changes)


def test_what_is_proven_is_said_in_one_sentence() -> None:
    view = proof_view(proof())
    assert view.words == (
        "2 epochs of 1,000 samples checked: every sample exactly once, in one unbroken line of "
        "training sessions."
    )
    assert (view.kind, view.details) == ("good", [])


def test_a_lost_session_is_no_good_news() -> None:
    lost = {"epoch 1": ["rank 0: a session was lost between step 1 and step 2"]}
    view = proof_view(proof(unbroken=False, lost=lost))
    assert view.words.endswith("every sample delivered once, but a training session was lost.")
    assert view.kind == "bad"
    assert view.details == ["epoch 1: rank 0: a session was lost between step 1 and step 2"]


def test_what_lies_before_and_is_not_here_is_not_claimed() -> None:
    view = proof_view(proof(missing=["the certificates of run 7 are not here"]))
    assert view.words.endswith("exactly once; what lies before cannot be proved.")
    assert view.details == ["the certificates of run 7 are not here"]


def test_what_is_wrong_is_named() -> None:
    view = proof_view(proof(exactly_once=False, problems={"epoch 1": ["sample 7 is missing"]}))
    assert (view.kind, view.details) == ("bad", ["epoch 1: sample 7 is missing"])
    assert "not proven" in view.words


def test_what_was_not_checked_is_not_claimed() -> None:
    view = proof_view(proof(exactly_once=None, epochs=2000, checked=1000, next=1000))
    assert view.kind == ""
    assert "1,000 more" in view.words


def test_exceptions_are_counted_and_their_list_is_bounded() -> None:
    bad = {"epoch 0": [f"sample {number}" for number in range(40)]}
    view = proof_view(proof(bad=bad, bad_samples=40, dropped=3))
    assert "40 bad samples were skipped or replaced; 3 were left out by the tail" in view.words
    assert len(view.details) == 13
    assert view.details[-1] == "and 28 more: ddlp verify r50"
