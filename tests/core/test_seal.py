"""A message counts as it was signed: what is changed, foreign or damaged is dropped and counted."""

import copy
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.seal import Seal


def message(**headers: Any) -> dict[str, Any]:
    """As kombu makes one before it is signed."""
    named = {"task": "ddlp.produce", "id": "1", **headers}
    return {
        "body": "W10=",
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": named,
        "properties": {"body_encoding": "base64", "delivery_tag": "1"},
    }


def signed(seal: Seal) -> dict[str, Any]:
    found = message()
    seal.sign("cpu", found)
    return found


def test_what_was_signed_is_taken() -> None:
    seal = Seal("secret")
    opened = seal.opened("cpu", json.loads(json.dumps(signed(seal))))
    assert opened is not None
    assert (opened["body"], opened["headers"]["task"]) == ("W10=", "ddlp.produce")
    assert seal.opened("cpu", opened) is not None, "it may be delivered again"
    assert seal.dropped == 0


@pytest.mark.parametrize("where", ["body", "task", "id", "ddlp-signature"])
def test_a_changed_one_is_dropped(where: str) -> None:
    seal = Seal("secret")
    changed = signed(seal)
    place = changed if where == "body" else changed["headers"]
    place[where] = "other"
    assert seal.opened("cpu", changed) is None
    assert seal.dropped == 1


def test_one_for_another_queue_or_of_another_server_is_dropped() -> None:
    seal = Seal("secret")
    assert seal.opened("csd", signed(seal)) is None
    assert seal.opened("cpu", signed(Seal("another"))) is None
    assert seal.opened("cpu", message()) is None


def test_what_is_not_signed_is_not_believed() -> None:
    seal = Seal("secret")
    changed = signed(seal)
    changed["headers"] |= {"compression": "gzip", "timelimit": [0.001, 0.001], "eta": "2099"}
    changed["properties"] = {"delivery_tag": [], "body_encoding": "none"}
    changed["content-type"] = "application/x-python-serialize"
    opened = seal.opened("cpu", changed)
    assert opened is not None
    assert opened["content-type"] == "application/json"
    assert not {"compression", "timelimit", "eta"} & opened["headers"].keys()
    assert opened["properties"]["body_encoding"] == "base64"


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_nothing_that_json_can_say_gets_through_or_raises(found: object) -> None:
    seal = Seal("secret")
    assert seal.opened("cpu", found) is None
    part = copy.deepcopy(signed(seal))
    part["headers"]["ddlp-signature"] = found
    assert seal.opened("cpu", part) is None


def test_many_make_one_line_with_their_count(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    seal = Seal("secret", clock=lambda: now)
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            seal.drop()
        assert [line.split("(")[0] for line in caplog.messages] == ["dropped 1 message"]
        now = 61.0
        seal.drop()
    assert len(caplog.messages) == 2
    assert "dropped 1000 message(s)" in caplog.messages[1]
    assert "1001 since the start" in caplog.messages[1]
