"""View models of datasets and of bad samples."""

from dataclasses import dataclass
from urllib.parse import urlencode

from ddlp.core.messages import (
    BadSampleInfo,
    DatasetInfo,
    PackingInfo,
    RejectedInfo,
    RunInfo,
    ScanInfo,
)
from ddlp.core.messages.statistics import PlacesInfo
from ddlp.core.schedule.limits import bad_allowed
from ddlp.core.types import BadPolicy, DatasetState, Prong, RunState
from ddlp.core.units import duration, size
from ddlp.web.sample_views import picture_address

_POLICIES = {
    BadPolicy.FAIL: "The first sample that cannot be used ends the run.",
    BadPolicy.SKIP: "A sample that cannot be used is left out of its batch.",
    BadPolicy.REPLACE: "A sample that cannot be used is replaced by another of its class.",
}

_WORK = {DatasetState.SCANNING: "Scan", DatasetState.PACKING: "Packing"}
_PACKERS = {Prong.CPU: "the host's workers", Prong.CSD: "the drives"}
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
    counted: bool
    """Whether they are counted: where the first one ends the run, there is nothing to count."""
    policy: str
    limit: str
    rows: list[BadRow]
    more: str | None


@dataclass(frozen=True)
class DatasetView:
    """A dataset, in the list and on its page."""

    name: str
    uri: str
    state: str
    reason: str | None
    work: str | None
    """What is being done to it, if anything is: then the page follows it."""
    progress: str
    percent: int
    waiting: str | None
    storage: str
    samples: str
    classes: str
    size: str
    rejected: int
    notes: list[str]
    """What else the scan left out or did not read."""
    facts: list[tuple[str, str]]
    removal: str
    """What removing it means."""
    rescan: str
    """What came of the last rescan, in words."""
    rescan_failed: bool
    can_rescan: bool
    after_removal: str
    """Where its page leads then: what failed can be registered again."""


@dataclass(frozen=True)
class PlaceView:
    """A place that somebody types, and what is known of it."""

    uri: str
    words: str
    usable: bool
    problem: str | None
    places: list[str]
    """How the path could go on."""
    splits: list[tuple[str, str]]
    """Names and addresses of forms for the datasets in it, if it holds several."""


_KINDS = {
    "folder": "a folder with one subfolder of images a class",
    "manifest": "a manifest that lists images",
    "tar": "tar files of images",
    "array": "arrays of images",
    "packed": "packed records",
}


_NO_FOLDER = "No folder is allowed yet. Add one under Allowed folders."


def place_view(found: PlacesInfo, uri: str) -> PlaceView:
    """What the form says of the place that stands in it."""
    if found.kind is not None:
        words = f"It looks like {_KINDS.get(found.kind, found.kind)}."
    elif uri:
        words = "" if found.problem else "What it is will be seen when it is scanned."
    else:
        words = f"Below {' or '.join(found.places)}." if found.places else _NO_FOLDER
    splits = [
        (split.name, f"/datasets?{urlencode({'uri': split.uri, 'name': split.name})}#register")
        for split in found.splits
        if split.problem is None
    ]
    problem = found.problem if uri else None
    return PlaceView(uri, words, found.kind is not None, problem, found.places, splits)


def bad_view(info: RunInfo, newest: list[BadSampleInfo]) -> BadView:
    """What a run's page says of bad samples."""
    older = info.bad_samples - len(newest)
    return BadView(
        count=info.bad_samples,
        counted=info.on_bad is not BadPolicy.FAIL,
        policy=_POLICIES[info.on_bad],
        limit=(
            _ended_by(info)
            if info.on_bad is BadPolicy.FAIL
            else f"The run stops when more than {_allowed(info)} of an epoch are bad."
        ),
        rows=[_bad_row(info, entry) for entry in newest],
        more=f"{older:,} earlier ones: ddlp run bad {info.name} --all" if older > 0 else None,
    )


def _ended_by(info: RunInfo) -> str:
    if info.state is not RunState.FAILED:
        return ""
    return "The message at the top of this page says what ended this one."


def _allowed(info: RunInfo) -> str:
    """How many samples of an epoch may be bad."""
    count = bad_allowed(info.max_bad_share, info.samples)
    return f"{count:,} of the {info.samples:,} samples"


def dataset_view(info: DatasetInfo) -> DatasetView:
    """What the pages say of a dataset."""
    ready = info.state is DatasetState.READY
    progress, percent = _progress(info)
    return DatasetView(
        name=info.name,
        uri=info.uri,
        state=info.state.value,
        reason=info.reason,
        work="Rescan" if _is_rescanned(info) else _WORK.get(info.state),
        progress=progress,
        percent=percent,
        waiting=info.packing.waiting if info.packing else None,
        storage=(info.kind or "—") + (", lossy" if info.lossy else ""),
        samples=f"{info.samples:,}" if ready else "—",
        classes=f"{len(info.classes):,}" if ready else "—",
        size=size(info.total_bytes) if ready else "—",
        rejected=info.rejected,
        notes=info.notes,
        facts=_facts(info),
        removal=_removal(info),
        rescan=_rescan(info),
        rescan_failed=info.rescan is not None and info.rescan.state == "failed",
        can_rescan=ready and info.packing is None and "@" not in info.name,
        after_removal=(
            f"/datasets?{urlencode({'uri': info.uri, 'name': info.name})}#register"
            if info.state is DatasetState.FAILED and info.packing is None
            else "/datasets"
        ),
    )


def _is_rescanned(info: DatasetInfo) -> bool:
    return info.rescan is not None and info.rescan.state == "scanning"


def _rescan(info: DatasetInfo) -> str:
    """What came of the last rescan."""
    if info.rescan is None or info.rescan.state == "scanning":
        return ""
    if info.rescan.state == "failed":
        return f"The last rescan failed, and the dataset is as it was: {info.rescan.reason}"
    if info.rescan.state == "unchanged":
        return "The last rescan found the same version: nothing has changed."
    kept = f" The version before is kept for its runs as {info.rescan.earlier}."
    return "The last rescan made a new version." + (kept if info.rescan.earlier else "")


def _removal(info: DatasetInfo) -> str:
    """The question before it is removed."""
    shards = (
        "Shards that the server made for it are deleted."
        if info.packing
        else ("Its files stay where they are.")
    )
    return f"Remove dataset {info.name}? Its index is deleted. {shards}"


def _progress(info: DatasetInfo) -> tuple[str, int]:
    """How far a scan or a packing is, in words and in percent."""
    seen, packing = info.progress, info.packing
    if info.rescan is not None and _is_rescanned(info):
        seen = info.rescan.progress or ScanInfo()
    if packing is None or info.state is not DatasetState.PACKING:
        words = f"{seen.done:,} of {seen.found:,} looked at · {seen.rejected:,} rejected"
        return f"{words} · {size(seen.bytes)}", 100 * seen.done // max(1, seen.found)
    emulated = " (emulated)" if packing.emulated else ""
    parts = [
        f"{packing.samples_done:,} of {packing.samples:,} samples",
        f"{packing.shards_done:,} of {packing.shards:,} shards",
        size(packing.bytes),
    ]
    if packing.images_per_s is not None and packing.seconds_left is not None:
        parts.append(f"{packing.images_per_s:,.0f} images/s on {packing.on}{emulated}")
        parts.append(f"{duration(packing.seconds_left)} left")
    return " · ".join(parts), 100 * packing.samples_done // max(1, packing.samples)


def rejected_rows(found: list[RejectedInfo]) -> list[tuple[str, str]]:
    """Files that a scan left out, with the reason."""
    return [(entry.name, entry.reason) for entry in found]


def _bad_row(info: RunInfo, entry: BadSampleInfo) -> BadRow:
    return BadRow(
        thumbnail=picture_address(info.dataset, info.dataset_version, entry.sample),
        name=entry.name,
        reason=entry.reason,
        done="skipped" if entry.substitute is None else f"replaced by sample {entry.substitute}",
        where=f"epoch {entry.epoch}, batch {entry.batch:,}",
    )


def _facts(info: DatasetInfo) -> list[tuple[str, str]]:
    facts = [("place", info.uri), ("check", _CHECKS[info.check])]
    if info.packing is not None:
        facts += _packed_facts(info.packing)
    if info.pixels is not None:
        facts.append(("pixels", info.pixels))
    if info.state is DatasetState.READY:
        shown = ", ".join(info.classes[:12]) + (" …" if len(info.classes) > 12 else "")
        facts += [
            ("storage form", info.kind or ""),
            ("samples", f"{info.samples:,}"),
            ("classes", f"{len(info.classes):,}: {shown}"),
            ("size", size(info.total_bytes)),
            ("version", info.version),
        ]
    if info.versions:
        facts.append(("earlier versions", ", ".join(info.versions)))
    return facts


def _packed_facts(packing: PackingInfo) -> list[tuple[str, str]]:
    facts = [("packed from", f"{packing.origin}, by {_PACKERS[packing.on]} ({_device(packing)})")]
    if packing.ratio is not None:
        words = [
            f"{packing.records:,} as records",
            f"{packing.kept:,} as they were",
            *([f"{packing.skipped:,} left out"] if packing.skipped else []),
        ]
        facts += [
            ("packed samples", " · ".join(words)),
            ("packed size", f"{size(packing.bytes)}, {packing.ratio:.2f} times the origin's"),
        ]
    return facts


def _device(packing: PackingInfo) -> str:
    """On what it is packed."""
    return f"{packing.on}, emulated" if packing.emulated else packing.on.value
