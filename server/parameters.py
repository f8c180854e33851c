"""What may stand in paths and queries: each number and each text has its bounds here."""

from typing import Annotated

from fastapi import Path, Query

from ddlp.core.bounds import BEYOND

_LONGEST = 255
_EPOCHS = 2**31 - 1

Text = Annotated[str, Query(max_length=_LONGEST)]
RunRef = Annotated[str, Path(max_length=_LONGEST, description="Name or id of a run.")]
Named = Annotated[str, Path(max_length=_LONGEST, description="Name.")]
RunRefs = Annotated[
    list[Annotated[str, Query(max_length=_LONGEST)]],
    Query(min_length=2, max_length=32, description="Names or ids; the first is the base."),
]
EpochNumber = Annotated[int, Path(ge=0, le=_EPOCHS, description="Number of an epoch, from 0.")]
SampleNumber = Annotated[int, Path(ge=0, lt=BEYOND, description="Number of a sample, from 0.")]
Before = Annotated[
    int | None, Query(ge=0, lt=BEYOND, description="Only entries with an id below this one.")
]
Offset = Annotated[int, Query(ge=0, le=2**62, description="Entries to leave out at the start.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Entries to return at most.")]
Seed = Annotated[int, Query(ge=0, lt=BEYOND)]
Epoch = Annotated[int, Query(ge=0, le=_EPOCHS)]
