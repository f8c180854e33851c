"""What the server says of a run's certificates."""

from pydantic import Field

from ddlp.core.messages.base import Message


class ProofInfo(Message):
    """What checking the certificates of a run, and their chain, has shown."""

    run: str
    epochs: int = Field(description="Epochs that were begun, of those that the run has.")
    first: int = Field(description="The first epoch that was checked.")
    checked: int = Field(description="How many epochs were checked, from the first on.")
    next: int | None = Field(description="Ask on from this epoch; null when all were checked.")
    samples: int = Field(description="Samples of the dataset.")
    exactly_once: bool | None = Field(
        description="Whether every epoch delivered each sample exactly once; null while nothing "
        "speaks against it and not everything was checked, or can be."
    )
    unbroken: bool | None = Field(
        None,
        description="Whether one unbroken line of training sessions received them: each went on "
        "from a checkpoint of the one before it; null likewise.",
    )
    problems: dict[str, list[str]] = Field(description="What is wrong, by epoch or for the run.")
    lost: dict[str, list[str]] = Field(
        {}, description="Training that was lost with a session, by epoch."
    )
    taken_over: list[str] = Field([], description="The runs that this one went on from, and where.")
    missing: list[str] = Field(
        [], description="Parts of the proof whose certificates are not here."
    )
    bad: dict[str, list[str]] = Field(
        description="Samples that were skipped or replaced, by epoch; the first hundred by name."
    )
    bad_samples: int = Field(description="How many samples were skipped or replaced.")
    repeated: int = Field(description="Samples that padding delivered a second time.")
    dropped: int = Field(description="Samples that the tail policy left out.")
    checked_at: float = Field(description="Seconds since 1970 (UTC).")
