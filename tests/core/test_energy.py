"""Modelled energy is watts times busy seconds, and says that it is modelled."""

import pytest
from pydantic import ValidationError

from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.types import Provenance


def test_joules_are_watts_times_busy_seconds() -> None:
    model = PowerModel(active_w=7.5, source="data sheet")
    assert model.joules(4.0) == 30.0
    assert model.joules(0.0) == 0.0


def test_a_figure_from_a_model_says_that_it_is_modelled() -> None:
    assert PowerModel(active_w=1.0, source="guess").provenance is Provenance.MODELLED


@pytest.mark.parametrize("watts", [-1.0, 10_001.0, float("nan"), float("inf")])
def test_impossible_watts_are_refused(watts: float) -> None:
    with pytest.raises(ValidationError, match="active_w"):
        PowerModel(active_w=watts, source="guess")


def test_where_the_figure_comes_from_must_be_said() -> None:
    with pytest.raises(ValidationError, match="source"):
        PowerModel.model_validate({"active_w": 1.0})


def test_it_survives_the_trip_to_the_server() -> None:
    model = PowerModel(active_w=8.0, source="250 W for 32 cores")
    assert PowerModel.model_validate_json(model.model_dump_json()) == model


def test_unknown_watts_give_no_joules_and_not_0() -> None:
    model = PowerModel(active_w=None, source="nobody said")
    assert model.joules(5.0) is None
    assert model.provenance is Provenance.UNAVAILABLE


@pytest.mark.parametrize(
    ("joules", "provenance"), [(None, Provenance.MEASURED), (0.0, Provenance.UNAVAILABLE)]
)
def test_a_reading_is_known_or_unavailable(joules: float | None, provenance: Provenance) -> None:
    with pytest.raises(ValidationError, match="if and only if they are unavailable"):
        EnergyReading(joules=joules, provenance=provenance, method="guess")
