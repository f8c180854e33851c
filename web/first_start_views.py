"""View model of the first start."""

from dataclasses import dataclass

from ddlp.core.messages.demo import DemoInfo, DemoState


@dataclass(frozen=True)
class DemoView:
    """How the demo stands, for whoever has nothing else yet."""

    words: str
    percent: int
    following: bool
    """Whether the run is still to come, so that the page asks again."""
    problem: str | None
    run: str | None


def demo_view(info: DemoInfo) -> DemoView:
    """What the page says of the demo."""
    failed = info.state is DemoState.FAILED
    return DemoView(
        words=info.note or info.words,
        percent=info.percent,
        following=info.state.under_way,
        problem=f"The demo did not work: {info.words}" if failed else None,
        run=info.run,
    )
