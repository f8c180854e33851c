"""What limits a run is said in one sentence, with a remedy that fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.stalls import Circumstances, limit, shares
from ddlp.core.types import Spending

USUAL = Circumstances()
WAITS = [what for what in Spending if what is not Spending.TRAINING]
SECONDS = st.dictionaries(st.sampled_from(list(Spending)), st.floats(0, 1e6))


@given(SECONDS)
def test_shares_sum_to_one(spent_s: dict[Spending, float]) -> None:
    found = shares(spent_s)
    if sum(spent_s.values()) > 0:
        assert sum(found.values()) == pytest.approx(1)
        assert set(found) == set(Spending)
    else:
        assert found == {}


@given(SECONDS)
def test_the_largest_wait_is_named_unless_training_limits(spent_s: dict[Spending, float]) -> None:
    found = limit(spent_s, USUAL)
    whole_s = sum(spent_s.values())
    training_s = spent_s.get(Spending.TRAINING, 0.0)
    if whole_s < 1:
        assert (found.by, found.share) == (None, None)
    elif found.by is Spending.TRAINING:
        assert training_s / whole_s >= 0.9
    else:
        assert training_s / whole_s < 0.9
        assert found.by is not None
        assert spent_s[found.by] == max(spent_s.get(what, 0.0) for what in WAITS)
        assert found.share == spent_s[found.by] / whole_s


def test_a_trainer_that_works_is_what_limits() -> None:
    found = limit({Spending.TRAINING: 9.0, Spending.DECODE: 1.0}, USUAL)
    assert found.by is Spending.TRAINING
    assert found.share == pytest.approx(0.9)
    assert "works 90 % of its time" in found.sentence
    assert "more workers would not" in found.sentence
    assert limit({Spending.TRAINING: 8.9, Spending.DECODE: 1.1}, USUAL).by is Spending.DECODE


@pytest.mark.parametrize("spent_s", [{}, {Spending.DECODE: 0.9}])
def test_too_little_is_said_to_be_too_little(spent_s: dict[Spending, float]) -> None:
    found = limit(spent_s, USUAL)
    assert (found.by, found.share) == (None, None)
    assert "Too little has happened" in found.sentence


def sentence(what: Spending, **known: object) -> str:
    """What is said of a run that only waits for one thing."""
    return limit({what: 10.0}, Circumstances(**known)).sentence  # type: ignore[arg-type]


def test_every_spending_has_words_of_its_own() -> None:
    said = {sentence(what) for what in Spending}
    assert len(said) == len(Spending)
    for what in WAITS:
        assert "limits the run: the trainer waits for it 100 % of its time." in sentence(what)
        assert sentence(what).endswith(" would change that.")


@pytest.mark.parametrize("what", [Spending.DECODE, Spending.STORAGE])
def test_packing_is_proposed_for_what_is_not_packed(what: Spending) -> None:
    assert "packed" in sentence(what, storage="folder")
    assert "packed" in sentence(what)
    assert "packed" not in sentence(what, storage="packed")


def test_a_drive_is_proposed_where_there_is_none() -> None:
    assert "a drive as the second prong" in sentence(Spending.DECODE)
    assert "a drive" not in sentence(Spending.DECODE, has_csd=True)
    assert "More CPU workers would change that." in sentence(
        Spending.DECODE, has_csd=True, storage="packed"
    )


@pytest.mark.parametrize("strategy", ["mte", "bounded", "csd", "replay"])
def test_wrr_is_proposed_to_those_who_wait_for_a_drive_otherwise(strategy: str) -> None:
    assert "The strategy wrr" in sentence(Spending.CSD, strategy=strategy)
    assert "wrr" not in sentence(Spending.CSD, strategy="wrr")


def test_a_pause_is_not_taken_for_slow_scheduling() -> None:
    assert "Resuming it would change that." in sentence(Spending.SCHEDULING, paused=True)
    assert "a larger window would" in sentence(Spending.SCHEDULING)


# Advice fits the run


@pytest.mark.parametrize("devices", [{"cpu"}, {""}, set(), {"cuda:0"}, {"mps"}])
def test_gpudirect_is_proposed_only_where_a_drive_feeds_a_gpu(devices: set[str]) -> None:
    for has_csd in (False, True):
        said = sentence(Spending.TRANSFER, devices=frozenset(devices), has_csd=has_csd)
        assert ("GPUDirect" in said) == (has_csd and "cuda:0" in devices)


def test_a_trainer_on_processors_is_told_nothing_of_its_accelerator() -> None:
    said = sentence(Spending.TRANSFER, devices=frozenset({"cpu"}))
    assert "normalize=False" in said
    assert "device" not in said
    training = sentence(Spending.TRAINING, devices=frozenset({"cpu"}))
    assert "A faster model or an accelerator would" in training
    assert "an accelerator" not in sentence(Spending.TRAINING, devices=frozenset({"cuda:1"}))


def test_where_no_device_works_nothing_else_is_blamed() -> None:
    """Not "larger batches", and not "too little has happened": a drained drive is the reason."""
    for spent_s in ({}, {Spending.SCHEDULING: 10.0}, {Spending.DECODE: 10.0}):
        found = limit(spent_s, Circumstances(has_device=False))
        assert (found.by, found.share) == (None, None)
        assert found.sentence == (
            "No device makes batches for this run, so nothing else limits it."
        )
    assert "Resuming" in sentence(Spending.SCHEDULING, has_device=False, paused=True)


def test_a_run_that_is_over_is_told_in_the_past() -> None:
    over = Circumstances(over=True)
    assert limit({}, over).sentence == "The run ended too early to say what limited it."
    trained = limit({Spending.TRAINING: 10.0}, over).sentence
    assert "limited the run: the trainer worked 100 %" in trained
    assert trained.endswith("more workers would not have.")
    waited = limit({Spending.DECODE: 10.0}, over).sentence
    assert "limited the run: the trainer waited for it" in waited
    assert waited.endswith("would have changed that.")


def test_a_run_that_uses_no_drive_is_not_told_to_get_one() -> None:
    assert "drive" not in sentence(Spending.DECODE, strategy="cpu")
    assert "the strategy wrr" in sentence(Spending.DECODE, strategy="cpu", has_csd=True)
