"""The run goes back once all ranks of a group have gone back to the same place."""

import pytest

from ddlp.core.errors import Conflict
from ddlp.core.sessions import Start
from ddlp.loader.feed import Going, LoaderState
from ddlp.loader.rewinds import Rewinds


def to(position: int) -> Going:
    return Going(Start.STATE, state=LoaderState(epoch=0, position=position, run={}))


def test_the_run_goes_back_with_the_last_rank_that_asks() -> None:
    rewinds = Rewinds(3)
    assert rewinds.ask(0, to(6)) is None
    assert rewinds.ask(2, to(6)) is None
    assert rewinds.missing() == [1]
    assert rewinds.pending(0) == to(6)
    assert rewinds.ask(1, to(6)) == to(6)
    assert [rewinds.pending(rank) for rank in range(3)] == [None] * 3


def test_another_state_than_the_one_of_the_others_is_refused_with_both_places() -> None:
    rewinds = Rewinds(2)
    rewinds.ask(0, to(6))
    with pytest.raises(Conflict, match=r"rank 1 loads the state at batch 4 .* rank 0 .* batch 6"):
        rewinds.ask(1, to(4))
    assert rewinds.missing() == [1], "it can still load the right one"
    assert rewinds.ask(1, to(6)) == to(6)


def test_the_beginning_of_an_epoch_is_named_as_that() -> None:
    rewinds = Rewinds(2)
    rewinds.ask(0, Going(Start.EPOCH, 2, ahead=False))
    with pytest.raises(Conflict, match="rank 0 has loaded the one at the beginning of epoch 2"):
        rewinds.ask(1, to(4))


def test_a_rank_may_go_back_twice_before_the_others_have_done_so_once() -> None:
    rewinds = Rewinds(2)
    assert rewinds.ask(0, to(6)) is None
    assert rewinds.ask(0, to(2)) is None
    assert rewinds.pending(0) == to(2)
    assert rewinds.ask(1, to(6)) == to(6)
    assert rewinds.missing() == [1]
    assert rewinds.ask(1, to(2)) == to(2)
