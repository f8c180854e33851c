"""What batches are called: a name says which it is, and no path leads anywhere from it."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.store import batch_name, is_batch_name, run_folder
from ddlp.core.store.names import parse_run

RUN = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
NAME = f"ddlp-run-{RUN}/00003-00000012-345"


def test_a_name_says_which_batch_it_is() -> None:
    assert batch_name(RUN, 3, 12, 345) == NAME
    assert is_batch_name(NAME)


@given(
    run=st.uuids(),
    epoch=st.integers(0, 2**32 - 1),
    index=st.integers(0, 2**64 - 1),
    token=st.integers(0, 2**64 - 1),
)
def test_every_batch_has_a_name(run: uuid.UUID, epoch: int, index: int, token: int) -> None:
    name = batch_name(run, epoch, index, token)
    assert is_batch_name(name)
    folder, _, file = name.partition("/")
    assert parse_run(folder) == run
    assert [int(part) for part in file.split("-")] == [epoch, index, token]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        f"/{NAME}",
        f"{NAME}/",
        f"{NAME}\n",
        f"{NAME} ",
        f" {NAME}",
        f"{NAME}\0",
        f"{NAME}/../x",
        f"../{NAME}",
        NAME.upper(),
        NAME.replace("/", "//"),
        NAME.replace("/", "/free/"),
        NAME.replace("/", "/making/"),
        NAME.replace("-345", "-"),
        NAME.replace("-345", "--345"),
        NAME.replace("345", "٣"),
        NAME.replace("345", "3" * 21),
        NAME.replace("00003", "3"),
        NAME.replace(str(RUN), RUN.hex),
        run_folder(RUN),
        f"{run_folder(RUN)}/..",
    ],
)
def test_nothing_else_is_a_name(text: str) -> None:
    assert not is_batch_name(text)


@given(st.text(alphabet="./%-0123456789abcdefdlprun\\\0\n", max_size=90))
def test_no_name_leads_upwards(text: str) -> None:
    assert not is_batch_name(text) or (".." not in text and text.count("/") == 1)


@pytest.mark.parametrize(
    "folder",
    ["", "ddlp-run-", "ddlp-run-x", f"ddlp-run-{RUN.hex}", str(RUN), f"ddlp-run-{{{RUN}}}"],
)
def test_only_folders_of_runs_belong_to_one(folder: str) -> None:
    assert parse_run(folder) is None
    assert parse_run(run_folder(RUN)) == RUN
