"""Whatever is lost, doubled, late, damaged, slow or dead: every promise is kept, for every seed."""

from dataclasses import replace

import pytest

from ddlp.core.deals import Deals
from ddlp.core.types import End
from tests.core.schedule.scenario import NAMES, Faults, draw
from tests.core.schedule.simulation import Simulation, main, simulate


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("level", "seeds"), [(0.0, 8), (0.3, 24), (1.0, 28)])
def test_every_promise_is_kept(name: str, level: float, seeds: int) -> None:
    for seed in range(seeds):
        simulate(seed, name, level)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("level", [0.1, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("name", NAMES)
def test_every_promise_is_kept_over_many_seeds(name: str, level: float) -> None:
    for seed in range(1000, 1300):
        simulate(seed, name, level)


def test_the_seeds_meet_every_fault() -> None:
    met: set[str] = set()
    for seed in range(120):
        scenario = draw(seed, "wrr", 1.0)
        simulation = Simulation(scenario, trace=lambda line: met.update(line.split()[-1:]))
        simulation.run()
    assert set(Faults.__dataclass_fields__) <= met


def test_a_poisonous_batch_is_left_out_or_ends_the_run_as_the_policy_says() -> None:
    ends: set[tuple[str, str]] = set()
    for seed in range(150):
        scenario = draw(seed, "wrr", 0.3)
        if scenario.poison is None:
            continue
        records = simulate(seed, "wrr", 0.3).service.records
        left_out = any(batch.isolated for batch in records.batches.values())
        end = "failed" if records.failed else "left out" if left_out else "never made"
        ends.add((scenario.limits.on_bad.value, end))
    assert {("fail", "failed"), ("skip", "left out")} <= ends
    assert ("skip", "failed") not in ends
    assert ("fail", "left out") not in ends


@pytest.mark.parametrize("name", [name for name in NAMES if name != "replay"])
def test_a_recorded_order_is_replayed_under_faults(name: str) -> None:
    for seed in range(6):
        recorded = Simulation(draw(seed, name, 0.0))
        recorded.run()
        orders = {
            number: recorded_order(recorded, number) for number in range(recorded.plan.epochs)
        }
        faulty = replace(draw(seed, "replay", 1.0), plan=recorded.plan, orders=orders)
        faulty = replace(faulty, poison=None, spoilt=None)
        again = Simulation(faulty)
        again.run()
        for number, order in orders.items():
            if again.service.records.failed is None and number not in again.checks.unsteady:
                assert recorded_order(again, number).text == order.text


def recorded_order(simulation: Simulation, number: int) -> Deals:
    batches = simulation.service.records.consumed(number)
    return Deals.of(End.TAIL if batch.from_tail else End.HEAD for batch in batches)


def test_a_run_that_never_ends_is_reported_with_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.core.schedule.simulation._PATIENCE_S", 0.5)
    with pytest.raises(AssertionError, match=r"--seed 3 --strategy mte --level 0\.3") as caught:
        simulate(3, "mte", 0.3)
    command = str(caught.value).rpartition("replay it with: ")[2]
    monkeypatch.undo()
    monkeypatch.setattr("sys.argv", command.split()[2:])
    main()
    assert "every promise was kept" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_run() -> None:
    def trace() -> list[str]:
        lines: list[str] = []
        Simulation(draw(7, "bounded", 1.0), trace=lines.append).run()
        return lines

    assert trace() == trace()
