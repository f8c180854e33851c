"""The view model of a run's timeline: rows of bars, as fine as a page can show them.

A lane is cut into *rows*, one for each thing that it did at the same time. Bars that are narrower
than the *grain* are put together with their neighbours, each activity as wide as the time it took,
and the grain grows until there are few enough bars. So the ink always stands for the time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ddlp.core.messages.timeline import LaneInfo, LaneKind, SpanInfo, TimelineInfo
from ddlp.core.trace import by_lane, label, split
from ddlp.core.types import Activity

SCALE = 1000
"""Width of a row, in its own units."""
WINDOW_S = 60.0
MAX_LANES = 16
MAX_ROWS = 4
MAX_BARS_A_LANE = 400
MAX_BARS = 500
"""Of all lanes together: keeps a page below 60 kB."""

_GRAIN, _COARSER = 0.5, 1.5
_HOVERED = 2.0
"""A bar that is narrower than this cannot be pointed at, and needs no title."""
_GAP, _PARTED = 1.0, 6.0
"""Room left after a bar that is wide enough, so that a batch can be told from the next one."""
_TICKS = 4
_ONE_ROW_PX, _ROW_PX, _GAP_PX = 17, 9, 2

_LEGEND = {
    "make-cpu": "made by CPU workers",
    "make-csd": "made by the CSD",
    "read": "read",
    "transfer": "moved to the device that trains",
    "train": "training",
    "wait": "waiting for a batch",
}
_VERBS = {
    Activity.MAKE: "making",
    Activity.READ: "reading",
    Activity.TRANSFER: "transferring",
    Activity.TRAIN: "training",
    Activity.WAIT: "waiting",
}
_DEVICES = (LaneKind.CPU, LaneKind.CSD)
_ORDER = list(LaneKind)


@dataclass(frozen=True)
class Bar:
    """A rectangle of a row, in units of `SCALE`."""

    x: float
    width: float
    title: str
    """What is said of it when it is pointed at; empty where it is too narrow for that."""


@dataclass(frozen=True)
class Strip:
    """The bars of one activity in one row."""

    kind: str
    """The class of its colour: `make-cpu`, `make-csd`, `read`, `transfer`, `wait` or `train`."""
    top_px: float
    height_px: float
    bars: list[Bar]


@dataclass(frozen=True)
class LaneView:
    """What one device, reader or trainer did."""

    name: str
    kind: str
    emulated: bool
    words: str
    height_px: int
    strips: list[Strip]

    @property
    def bars(self) -> int:
        """How many rectangles it is drawn with."""
        return sum(len(strip.bars) for strip in self.strips)


@dataclass(frozen=True)
class Tick:
    """A mark of the axis; x is in units of `SCALE`."""

    x: float
    label: str
    anchor: str


@dataclass(frozen=True)
class TimelineView:
    """What was done when in the last seconds of a run."""

    title: str
    lanes: list[LaneView]
    ticks: list[Tick]
    legend: list[tuple[str, str]]
    """Classes of colours, and what they stand for."""
    summary: str
    """All of it in one sentence."""
    note: str
    """What is not shown; empty where that is nothing."""


@dataclass(frozen=True, slots=True)
class _Window:
    start_at: float
    seconds: float

    @property
    def end_at(self) -> float:
        return self.start_at + self.seconds

    def holds(self, span: SpanInfo) -> bool:
        return span.end_at > self.start_at and span.start_at < self.end_at

    def x(self, at: float) -> float:
        inside = min(max(at, self.start_at), self.end_at)
        return SCALE * (inside - self.start_at) / self.seconds


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of a row in which one thing is done; one or several spans."""

    activity: Activity
    x: float
    width: float
    spans: int
    seconds: float
    first: SpanInfo

    @property
    def end(self) -> float:
        return self.x + self.width


_Row = list[_Piece]


@dataclass(frozen=True, slots=True)
class _Lane:
    info: LaneInfo
    spans: list[SpanInfo]
    tracks: int
    rows: list[_Row]


def timeline_view(info: TimelineInfo, window_s: float = WINDOW_S) -> TimelineView:
    """The last seconds of a timeline, ready to be drawn."""
    window = _Window(info.now - window_s, window_s)
    found = sorted(zip(info.lanes, by_lane(info), strict=True), key=_kind_of)
    lanes = [_lane(lane, spans, window) for lane, spans in found[:MAX_LANES]]
    words = [_words(lane, window) for lane in lanes]
    return TimelineView(
        title=f"Who did what in the last {window_s:g} s",
        lanes=[
            _drawn(lane, rows, said)
            for lane, rows, said in zip(lanes, _few_enough(lanes), words, strict=True)
        ],
        ticks=_ticks(window_s),
        legend=_legend(info),
        summary=_summary(lanes, words, window_s),
        note=_note(len(found) - len(lanes), info.dropped),
    )


def _kind_of(entry: tuple[LaneInfo, list[SpanInfo]]) -> int:
    return _ORDER.index(entry[0].kind)


def _lane(info: LaneInfo, spans: list[SpanInfo], window: _Window) -> _Lane:
    seen = [span for span in spans if window.holds(span)]
    tracks = split(seen)
    rows = [_row(track, window) for track in tracks]
    if len(tracks) > MAX_ROWS:
        own, others = tracks[: MAX_ROWS - 1], tracks[MAX_ROWS - 1 :]
        folded = sorted((span for track in others for span in track), key=lambda s: s.start_at)
        rows = [*rows[: len(own)], _folded(folded, window)]
    return _Lane(info, seen, len(tracks), rows)


def _row(track: Sequence[SpanInfo], window: _Window) -> _Row:
    """The spans of one track, each one up to where the next one begins."""
    pieces = [_piece(span, window) for span in track]
    for number, (piece, following) in enumerate(pairwise(pieces)):
        if piece.end > following.x:
            pieces[number] = replace(piece, width=following.x - piece.x)
    return pieces


def _folded(spans: Iterable[SpanInfo], window: _Window) -> _Row:
    """The time in which at least one of several tracks was busy."""
    found: _Row = []
    for span in spans:
        piece = _piece(span, window)
        if not found or piece.x >= found[-1].end:
            found.append(piece)
            continue
        last = found[-1]
        found[-1] = replace(
            last,
            width=max(last.end, piece.end) - last.x,
            spans=last.spans + 1,
            seconds=last.seconds + piece.seconds,
        )
    return found


def _piece(span: SpanInfo, window: _Window) -> _Piece:
    x = window.x(span.start_at)
    return _Piece(span.activity, x, window.x(span.end_at) - x, 1, span.seconds, span)


def _few_enough(lanes: Sequence[_Lane]) -> list[list[_Row]]:
    """The rows of all lanes with the smallest grain that makes few enough bars of them."""
    found, grain = [lane.rows for lane in lanes], _GRAIN
    while True:
        found = [[_gathered(row, grain) for row in rows] for rows in found]
        counts = [sum(map(len, rows)) for rows in found]
        if sum(counts) <= MAX_BARS and max(counts, default=0) <= MAX_BARS_A_LANE:
            return found
        grain *= _COARSER


def _gathered(row: _Row, grain: float) -> _Row:
    """Pieces that are narrower than the grain, put together as far as it reaches."""
    found: _Row = []
    group: _Row = []
    for piece in row:
        if group and (piece.width >= grain or piece.end - group[0].x > grain):
            found += _side_by_side(group)
            group = []
        if piece.width >= grain:
            found.append(piece)
        else:
            group.append(piece)
    return found + _side_by_side(group)


def _side_by_side(group: _Row) -> _Row:
    """One piece for each activity, as wide as all of it, one after the other."""
    if len(group) < 2:
        return group
    found: _Row = []
    x = group[0].x
    for activity in dict.fromkeys(piece.activity for piece in group):
        same = [piece for piece in group if piece.activity is activity]
        width = sum(piece.width for piece in same)
        spans, seconds = sum(piece.spans for piece in same), sum(piece.seconds for piece in same)
        found.append(_Piece(activity, x, width, spans, seconds, same[0].first))
        x += width
    return found


def _drawn(lane: _Lane, rows: Sequence[_Row], words: str) -> LaneView:
    row_px = _ONE_ROW_PX if len(rows) < 2 else _ROW_PX
    strips = [
        strip
        for number, row in enumerate(rows)
        for strip in _strips(lane.info.kind, row, number * (row_px + _GAP_PX), row_px)
    ]
    height_px = max(1, len(rows)) * (row_px + _GAP_PX) - _GAP_PX
    at_once = f", up to {lane.tracks} at once" if lane.tracks > 1 else ""
    return LaneView(
        name=lane.info.name,
        kind=lane.info.kind.value,
        emulated=lane.info.emulated,
        words=words + at_once,
        height_px=height_px,
        strips=strips,
    )


def _strips(kind: LaneKind, row: _Row, top_px: float, row_px: float) -> list[Strip]:
    """The row's bars by activity; a wait is half as high, to be told by more than its colour."""
    ends = [*(piece.x for piece in row[1:]), float(SCALE)]
    bars: dict[Activity, list[Bar]] = {}
    for piece, end in zip(row, ends, strict=True):
        bars.setdefault(piece.activity, []).append(_bar(piece, end))
    found = []
    for activity, some in bars.items():
        height_px = row_px / 2 if activity is Activity.WAIT else row_px
        found.append(Strip(_class(activity, kind), top_px + row_px - height_px, height_px, some))
    return found


def _bar(piece: _Piece, end: float) -> Bar:
    """A piece, widened so that it can be seen where there is room up to the next one."""
    width = max(piece.width, min(_GRAIN, end - piece.x))
    width -= _GAP if width >= _PARTED else 0
    left = min(round(piece.x, 1), SCALE - 0.1)
    right = min(round(piece.x + width, 1), SCALE)
    drawn = max(0.1, round(right - left, 1))
    return Bar(left, drawn, _title(piece) if drawn >= _HOVERED else "")


def _class(activity: Activity, kind: LaneKind) -> str:
    if activity is not Activity.MAKE:
        return activity.value
    return "make-csd" if kind is LaneKind.CSD else "make-cpu"


def _title(piece: _Piece) -> str:
    span, time = piece.first, _seconds(piece.seconds)
    if piece.spans > 1:
        what = "waits" if piece.activity is Activity.WAIT else "batches"
        return f"{piece.spans:,} {what}, {time} in all"
    if span.batch is not None:
        return f"batch {span.batch:,} of epoch {span.epoch}, {time}"
    note = f": {span.note}" if span.note else ""
    return f"{_VERBS[span.activity]}{note}, {time}"


def _seconds(seconds: float) -> str:
    if seconds < 0.1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def _words(lane: _Lane, window: _Window) -> str:
    """Which share of the window a lane spent on what."""
    if lane.info.kind in _DEVICES:
        return f"busy {_share(lane.spans, window)}"
    own = Activity.READ if lane.info.kind is LaneKind.READER else Activity.TRAIN
    seen = {span.activity for span in lane.spans} or {own}
    return ", ".join(
        f"{verb} {_share([s for s in lane.spans if s.activity is activity], window)}"
        for activity, verb in _VERBS.items()
        if activity in seen
    )


def _share(spans: Iterable[SpanInfo], window: _Window) -> str:
    """The time in which at least one of the spans, in the order they began, went on."""
    covered = reached = 0.0
    for span in spans:
        start, end = max(window.x(span.start_at), reached), window.x(span.end_at)
        covered += max(0.0, end - start)
        reached = max(reached, end)
    return f"{100 * covered / SCALE:.0f} %"


def _summary(lanes: Sequence[_Lane], words: Sequence[str], window_s: float) -> str:
    if not any(lane.spans for lane in lanes):
        return f"In the last {window_s:g} s nothing was done."
    kinds = [lane.info.kind for lane in lanes]
    parts = []
    for lane, said in zip(lanes, words, strict=True):
        alone = lane.info.kind not in _DEVICES and kinds.count(lane.info.kind) == 1
        parts.append(said if alone else f"{label(lane.info)} {said}")
    return f"In the last {window_s:g} s: {', '.join(parts)}."


def _legend(info: TimelineInfo) -> list[tuple[str, str]]:
    seen = {(span.activity, info.lanes[span.lane].kind) for span in info.spans}
    classes = {_class(activity, kind) for activity, kind in seen}
    return [(name, words) for name, words in _LEGEND.items() if name in classes]


def _ticks(window_s: float) -> list[Tick]:
    found = []
    for number in range(_TICKS + 1):
        left_s = window_s * (_TICKS - number) / _TICKS
        anchor = {0: "start", _TICKS: "end"}.get(number, "middle")
        found.append(Tick(SCALE * number / _TICKS, f"-{left_s:g} s" if left_s else "now", anchor))
    return found


def _note(hidden: int, dropped: int) -> str:
    said = []
    if hidden:
        said.append(f"{hidden:,} more {'lane is' if hidden == 1 else 'lanes are'} in the trace.")
    if dropped:
        said.append(f"{dropped:,} {'span was' if dropped == 1 else 'spans were'} not kept.")
    return " ".join(said)
