"""A burst is told in few lines, and nothing of it is lost."""

from ddlp.core.bursts import EVERY_S, Burst


def test_what_happens_once_is_said_at_once_as_it_is() -> None:
    assert Burst("{} things").add(10.0, "a thing") == "a thing"


def test_what_follows_is_one_line_with_its_number() -> None:
    burst, said = Burst("{} batches are made again"), []
    for number in range(40):
        said.append(burst.add(10.0 + number / 100, f"batch {number}"))
    assert [line for line in said if line] == ["batch 0"]
    assert burst.due(10.0 + EVERY_S - 0.1) is None
    assert burst.due(10.0 + EVERY_S) == "39 batches are made again; the last: batch 39"
    assert burst.due(100.0) is None, "nothing is said twice"


def test_one_that_follows_is_said_as_it_is_and_after_a_silence_at_once() -> None:
    burst = Burst("{} things")
    burst.add(10.0, "first")
    assert burst.add(11.0, "second") is None
    assert burst.due(10.0 + EVERY_S) == "second"
    assert burst.add(11.0 + 2 * EVERY_S, "third") == "third"


def test_the_end_tells_what_is_left() -> None:
    burst = Burst("{} things")
    for line in ("a", "b", "c"):
        burst.add(10.0, line)
    assert burst.due(10.1, over=True) == "2 things; the last: c"
    assert burst.due(10.1, over=True) is None
