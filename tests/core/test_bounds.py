"""Numbers of messages lie within their bounds, and are numbers."""

import uuid
from typing import Any

import pytest
from pydantic import ValidationError

from ddlp.core.bounds import BEYOND
from ddlp.core.local_worker import Report
from ddlp.core.messages import Commit, HostSample, Lease, RunExtend
from ddlp.core.messages.run_list import RunListQuery

LEASE = Lease(run=uuid.uuid4(), epoch=0, index=0, token=1)


@pytest.mark.parametrize("value", ["5", True, 5.5, None, float("nan"), 10**30])
def test_what_is_no_whole_number_is_not_taken_for_one(value: object) -> None:
    with pytest.raises(ValidationError, match="epochs"):
        RunExtend.model_validate({"epochs": value})


def test_a_number_without_a_fraction_is_whole_however_it_is_written() -> None:
    assert RunExtend.model_validate_json('{"epochs": 5.0}').epochs == 5


@pytest.mark.parametrize(
    "change",
    [
        {"lease": {**LEASE.model_dump(), "index": BEYOND}},
        {"times": {"fetched_bytes": BEYOND}},
        {"bad": [{"sample": BEYOND, "name": "n", "reason": "r"}]},
        {"bad": [{"sample": False, "name": "n", "reason": "r"}]},
        {"seconds": "1"},
        {"seconds": 1e300},
    ],
)
def test_what_a_message_holds_has_the_same_bounds(change: dict[str, Any]) -> None:
    body = {"lease": LEASE, "nbytes": 1, "checksum": 1, "seconds": 1, "cpu_s": 1}
    Commit.model_validate(body)
    with pytest.raises(ValidationError):
        Commit.model_validate(body | change)


def test_a_reading_within_a_message_has_them_too() -> None:
    reading = {"joules": "1", "provenance": "measured", "method": "m"}
    domain = {"name": "package-0", "domain": "package", "reading": reading}
    body = {"host": "h", "sampler": str(uuid.uuid4()), "period_s": 1, "busy_s": 1, "cores": 1}
    with pytest.raises(ValidationError, match="joules"):
        HostSample.model_validate({**body, "domains": [domain]})


def test_a_checksum_takes_all_of_its_64_bits() -> None:
    assert Report(lease=LEASE, checksum=2**64 - 1).checksum == 2**64 - 1


def test_in_an_address_numbers_are_text() -> None:
    assert RunListQuery.model_validate({"limit": "7", "ascending": "true"}).limit == 7
    with pytest.raises(ValidationError):
        RunListQuery.model_validate({"limit": "x"})
