"""What audit events say to people: one sentence an action, without its subject."""

from collections.abc import Callable
from typing import Any

from ddlp.core.units import size

Detail = dict[str, Any]


def words(action: str, detail: Detail) -> str:
    """An event as a sentence; one that is not known, as it was kept."""
    known = _WORDS.get(action)
    if known is not None:
        try:
            return known(detail)
        except (KeyError, TypeError):  # an older server kept less of it
            pass
    given = [f"{name}={value}" for name, value in detail.items() if value is not None]
    return " ".join([action, *given])


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _changed(said: str) -> Callable[[Detail], str]:
    """A run's state: what it is now, what it was, and why."""

    def tell(detail: Detail) -> str:
        reason = detail.get("reason")
        return f"{said} (was {detail['was']})" + (f": {reason}" if reason else "")

    return tell


def _run_began(detail: Detail) -> str:
    return "resumed (was paused)" if detail["was"] == "paused" else "began"


def _run_made(detail: Detail) -> str:
    epochs = "open-ended" if detail["epochs"] is None else _count(detail["epochs"], "epoch")
    source = detail.get("clone_of")
    return (
        ("" if source is None else f"cloned from {source}: ")
        + f"made from dataset {detail['dataset']} with pipeline {detail['pipeline']}: "
        f"{epochs}, batches of {detail['batch_size']}, "
        f"strategy {detail['strategy']}"
    )


def _strategy(detail: Detail) -> str:
    window = detail.get("reorder_window")
    within = "" if window is None else f", {_count(window, 'batch', 'batches')} out of order"
    return f"switched to {detail['strategy']}{within}"


def _limits(detail: Detail) -> str:
    old, new = detail["old"], detail["new"]
    parts = [
        f"{said} {unit(old[name])} → {unit(new[name])}"
        for name, (said, unit) in _LIMITS.items()
        if old[name] != new[name]
    ]
    return f"limits changed: {', '.join(parts)}" if parts else "limits stay as they were"


def _batches(number: int | None) -> str:
    return "as set for the server" if number is None else _count(number, "batch", "batches")


def _bytes(number: int | None) -> str:
    return "as set for the server" if number is None else size(number)


def _bad_samples(detail: Detail) -> str:
    were = "was" if detail["count"] == 1 else "were"
    return (
        f"{_count(detail['count'], 'bad sample')} of epoch {detail['epoch']} {were} "
        f"{detail['done']} so far; the last is {detail['name']}: {detail['reason']}"
    )


_LIMITS: dict[str, tuple[str, Callable[[int | None], str]]] = {
    "cpu_window": ("CPU window", _batches),
    "cpu_store_bytes": ("CPU store", _bytes),
    "csd_store_bytes": ("CSD store", _bytes),
}


def _dataset_ready(detail: Detail) -> str:
    left_out = detail["rejected"]
    rest = f", {_count(left_out, 'file')} left out" if left_out else ""
    return f"ready: {_count(detail['samples'], 'sample')}{rest}"


def _rescanned(detail: Detail) -> str:
    kept = detail["earlier"]
    return f"has a new version, {detail['version'][:12]}: {_count(detail['samples'], 'sample')}" + (
        f"; the version before is kept as {kept}" if kept else ""
    )


def _packed(detail: Detail) -> str:
    return (
        f"packed: {_count(detail['records'], 'record')} of {size(detail['bytes'])}, "
        f"{detail['kept']:,} kept as they were, {detail['skipped']:,} skipped"
    )


def _took_over(detail: Detail) -> str:
    own = detail["own"]
    void = f"; {_count(own, 'epoch')} of its own count no more" if own else ""
    return (
        f"goes on from run {detail['of']} after {_count(detail['position'], 'batch', 'batches')} "
        f"of epoch {detail['epoch']}{void}"
    )


_WORDS: dict[str, Callable[[Detail], str]] = {
    "run.create": _run_made,
    "run.replay": lambda d: f"made to replay {d['of']}",
    "run.delete": lambda d: f"deleted; it was {d['state']}, over dataset {d['dataset']}",
    "run.took_over": _took_over,
    "run.extend": lambda d: f"extended to {_count(d['epochs'], 'epoch')}",
    "run.retry": lambda d: f"made to try {d['of']} again",
    "run.running": _run_began,
    "run.paused": _changed("paused"),
    "run.completed": lambda _: "completed",
    "run.incomplete": _changed("incomplete"),
    "run.failed": _changed("failed"),
    "run.cancelled": _changed("cancelled"),
    "run.strategy": _strategy,
    "run.limits": _limits,
    "run.bad_samples": _bad_samples,
    "run.will_fail": lambda d: f"will fail when training comes to it: {d['reason']}",
    "run.held_up": lambda d: f"held up: {d['reason']}",
    "run.goes_on": lambda _: "goes on",
    "trainer.lost": lambda d: f"lost rank {d['rank']} on {d['host']}: it was silent for too long",
    "dataset.add": lambda d: f"added from {d['uri']}",
    "dataset.ready": _dataset_ready,
    "dataset.failed": lambda d: f"failed: {d['reason']}",
    "dataset.rescan": lambda d: f"being scanned again, from {d['uri']}",
    "dataset.rescanned": _rescanned,
    "dataset.unchanged": lambda d: f"scanned again; nothing changed: version {d['version'][:12]}",
    "dataset.rescan_failed": lambda d: f"could not be scanned again: {d['reason']}",
    "dataset.remove": lambda d: f"removed; it was at {d['uri']}",
    "dataset.pack": lambda d: f"being packed from {d['origin']}, on {d['on']}",
    "dataset.packed": _packed,
    "root.add": lambda d: f"allowed for datasets: {d['path']}",
    "root.remove": lambda d: f"no longer allowed for datasets: {d['path']}",
    "pipeline.delete": lambda d: f"deleted; its hash was {d['hash'][:12]}",
    "pipeline.add": lambda d: f"named; its hash is {d['hash'][:12]}",
    "device.register": lambda d: f"registered as {d['kind']}: {_count(d['slots'], 'slot')}",
    "device.drain": lambda _: "drained: it is given no new work",
    "device.resume": lambda _: "resumed: it is given work again",
    "demo.start": lambda d: f"the demo was started with {_count(d['images'], 'image')}",
    "key.create": lambda d: f"made, with scope {d['scope']}",
    "key.revoke": lambda d: f"revoked; its scope was {d['scope']}",
    "session.open": lambda _: "signed in with a browser",
    "session.close": lambda _: "signed out",
    "device.remove": lambda d: f"removed; it was a {d['kind']} on {d['host']}",
}
ACTIONS = frozenset(_WORDS)
"""What has words of its own."""
