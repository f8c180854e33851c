"""What packing a dataset would come to: tried with a few samples in a short-lived child."""

import json
from dataclasses import dataclass

from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ddlp.core.errors import DdlpError
from ddlp.core.forecast_process import SECONDS, ForecastRequest
from ddlp.core.messages import ForecastInfo, PackChoice
from ddlp.core.settings import Settings
from ddlp.core.types import Prong
from ddlp.server import pictures
from ddlp.server.models import Dataset, Device

_MODULE = "ddlp.core.forecast_process"
_USUAL_RATIO = 1.3
"""Of the size where nobody can try: more than records of photographs take."""


class ForecastQuery(PackChoice):
    """How a dataset would be packed, and by whom; asked for in an address."""

    strict_numbers = False

    on: Prong = Field(Prong.CPU, description="Whose processors would pack.")

    @property
    def choice(self) -> PackChoice:
        """What would become of each sample."""
        return PackChoice(**self.model_dump(include=set(PackChoice.model_fields)))


def forecast(row: Dataset, query: ForecastQuery, slots: int) -> ForecastInfo:
    """What packing a dataset would come to, with so many processes of live devices."""
    found = _try(row, query.choice)
    # How fast a drive's processor is only its own worker knows.
    known = slots if query.on is Prong.CPU else 0
    seconds = found.pack_s / known if known else None
    return found.model_copy(update={"seconds": seconds, "processes": slots})


@dataclass(frozen=True)
class Expected:
    """What a packing that is to begin will come to, near enough."""

    bytes: float = 0.0
    forecast: ForecastInfo | None = None
    problem: str | None = None
    """Why there is no forecast."""


def expect(row: Dataset, query: ForecastQuery, slots: int) -> Expected:
    """The forecast, or the usual where none can be made: workers may do what fails here."""
    try:
        found = forecast(row, query, slots)
    except DdlpError as error:
        return Expected(row.total_bytes * _USUAL_RATIO, problem=str(error))
    return Expected(found.bytes, found)


def live_slots(session: Session, settings: Settings, on: Prong, now: float) -> int:
    """The processes of live devices of a prong."""
    alive = Device.last_seen_at >= now - settings.device_timeout_s
    total = select(func.sum(Device.slots)).where(Device.prong == on.value, alive)
    return int(session.scalar(total) or 0)


def _try(row: Dataset, choice: PackChoice) -> ForecastInfo:
    request = ForecastRequest(index_path=row.index_path, choice=choice)
    raw = json.loads(pictures.answer(_MODULE, request, SECONDS))
    return ForecastInfo.model_validate(raw)
