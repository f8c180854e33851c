"""What the first start says of itself."""

import pytest

from ddlp.core.messages.demo import DemoInfo, DemoState
from ddlp.web.first_start_views import DemoView, demo_view


def view(state: DemoState, run: str | None = None, note: str | None = None) -> DemoView:
    return demo_view(DemoInfo(state=state, words="Drawing", percent=40, run=run, note=note))


@pytest.mark.parametrize("state", DemoState)
def test_it_is_followed_until_there_is_a_run_or_none_will_come(state: DemoState) -> None:
    coming = state in (DemoState.DRAWING, DemoState.SCANNING, DemoState.STARTING)
    assert view(state).following is coming
    assert (view(state).words, view(state).percent) == ("Drawing", 40)


@pytest.mark.parametrize("state", [state for state in DemoState if state != DemoState.FAILED])
def test_only_what_failed_is_a_problem(state: DemoState) -> None:
    assert view(state).problem is None
    assert view(DemoState.FAILED).problem == "The demo did not work: Drawing"


def test_a_run_that_is_there_is_named_and_what_it_lacks_comes_first() -> None:
    found = view(DemoState.RUNNING, run="demo-2", note="PyTorch is not installed")
    assert (found.run, found.words) == ("demo-2", "PyTorch is not installed")
    assert view(DemoState.FAILED, run="demo").run == "demo"
