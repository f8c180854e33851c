"""View models of datasets and of bad samples."""

from dataclasses import dataclass
from urllib.parse import quote

from ddlp.core.messages import BadSampleInfo, DatasetInfo, RejectedInfo, RunInfo
from ddlp.core.types import BadPolicy, DatasetState
from ddlp.web.views import size

_POLICIES = {
    BadPolicy.FAIL: "A sample that cannot be used ends the run.",
    BadPolicy.SKIP: "A sample that cannot be used is left out of its batch.",
    BadPolicy.REPLACE: "A sample that cannot be used is replaced by another of its class.",
}

_CHECKS = {"quick": "quick: the head of each image", "full": "full: each image was decoded"}


@dataclass(frozen=True)
class BadRow:
    """A sample that was skipped or replaced."""

    thumbnail: str
    name: str
    reason: str
    done: str
    where: str


@dataclass(frozen=True)
class BadView:
    """The bad samples of a run."""

    count: int
    policy: str
    limit: str
    rows: list[BadRow]
    more: str | None
    source: str
    """Where this part of the page can be had again."""


@dataclass(frozen=True)
class DatasetView:
    """A dataset, in the list and on its page."""

    name: str
    uri: str
    state: str
    reason: str | None
    scanning: bool
    progress: str
    percent: int
    samples: str
    classes: str
    size: str
    rejected: int
    facts: list[tuple[str, str]]


def bad_view(info: RunInfo, newest: list[BadSampleInfo]) -> BadView:
    """What a run's page says of bad samples."""
    older = info.bad_samples - len(newest)
    return BadView(
        count=info.bad_samples,
        policy=_POLICIES[info.on_bad],
        limit=(
            ""
            if info.on_bad is BadPolicy.FAIL
            else f"The run stops when more than {_share(info)} of an epoch are bad."
        ),
        rows=[_bad_row(info, entry) for entry in newest],
        more=f"{older:,} earlier ones: ddlp run bad {info.name} --all" if older > 0 else None,
        source=f"/runs/{info.name}/bad",
    )


def _share(info: RunInfo) -> str:
    """How many samples of an epoch may be bad."""
    return f"{100 * info.max_bad_share:g} %"


def dataset_view(info: DatasetInfo) -> DatasetView:
    """What the pages say of a dataset."""
    seen = info.progress
    scanning, ready = (info.state is s for s in (DatasetState.SCANNING, DatasetState.READY))
    return DatasetView(
        name=info.name,
        uri=info.uri,
        state=info.state.value,
        reason=info.reason,
        scanning=scanning,
        progress=(
            f"{seen.done:,} of {seen.found:,} looked at · {seen.rejected:,} rejected · "
            f"{size(seen.bytes)}"
        ),
        percent=100 * seen.done // max(1, seen.found),
        samples=f"{info.samples:,}" if ready else "—",
        classes=f"{len(info.classes):,}" if ready else "—",
        size=size(info.total_bytes) if ready else "—",
        rejected=info.rejected,
        facts=_facts(info),
    )


def rejected_rows(found: list[RejectedInfo]) -> list[tuple[str, str]]:
    """Files that a scan left out, with the reason."""
    return [(entry.name, entry.reason) for entry in found]


def _bad_row(info: RunInfo, entry: BadSampleInfo) -> BadRow:
    dataset, version = quote(info.dataset), info.dataset_version[:12]
    return BadRow(
        thumbnail=f"/api/v1/datasets/{dataset}/samples/{entry.sample}/thumbnail?version={version}",
        name=entry.name,
        reason=entry.reason,
        done="skipped" if entry.substitute is None else f"replaced by sample {entry.substitute}",
        where=f"epoch {entry.epoch + 1}, batch {entry.batch:,}",
    )


def _facts(info: DatasetInfo) -> list[tuple[str, str]]:
    facts = [("place", info.uri), ("check", _CHECKS[info.check])]
    if info.state is DatasetState.READY:
        shown = ", ".join(info.classes[:12]) + (" …" if len(info.classes) > 12 else "")
        facts += [
            ("kind", info.kind or ""),
            ("samples", f"{info.samples:,}"),
            ("classes", f"{len(info.classes):,}: {shown}"),
            ("size", size(info.total_bytes)),
            ("version", info.version),
        ]
    return facts
