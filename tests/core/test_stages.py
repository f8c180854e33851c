"""Where the seconds of a batch went, and what is waited for with whoever makes the next one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.stages import PictureTimes, RecentWork, StageTimes, peak_bytes
from ddlp.core.types import Prong, Spending, Stage

SECONDS = st.floats(0, 1000)
TIMES = st.builds(
    StageTimes, fetch_s=SECONDS, decode_s=SECONDS, transform_s=SECONDS, write_s=SECONDS
)
HOST = {Prong.CPU: 1.0}


@given(TIMES, st.floats(1, 100))
def test_a_slower_processor_takes_longer_for_every_stage(times: StageTimes, factor: float) -> None:
    found = times.stretched(factor).seconds
    assert found == {stage: seconds * factor for stage, seconds in times.seconds.items()}


def test_a_slower_processor_reads_no_more_and_needs_no_more_memory() -> None:
    times = StageTimes(1, 2, 3, 4, fetched_bytes=5, peak_bytes=6)
    assert times.stretched(10) == StageTimes(10, 20, 30, 40, fetched_bytes=5, peak_bytes=6)


def test_stages_are_named() -> None:
    assert StageTimes(1, 2, 3, 4).seconds == {
        Stage.FETCH: 1,
        Stage.DECODE: 2,
        Stage.TRANSFORM: 3,
        Stage.WRITE: 4,
    }


@given(st.lists(st.tuples(st.sampled_from(Prong), TIMES)), st.floats(0, 1))
def test_shares_of_blame_sum_to_one(made: list[tuple[Prong, StageTimes]], cpu: float) -> None:
    work = RecentWork()
    for prong, times in made:
        work.add(prong, times)
    found = work.blame({Prong.CPU: cpu, Prong.CSD: 1 - cpu})
    assert sum(found.values()) == pytest.approx(1)
    assert min(found.values()) > 0
    assert found.get(Spending.CSD, 0.0) == 1 - cpu


def test_who_waits_for_nobody_waits_for_work_to_be_given_out() -> None:
    assert RecentWork().blame({}) == {Spending.SCHEDULING: 1.0}


def test_reading_and_writing_are_storage_and_the_rest_is_decoding() -> None:
    work = RecentWork()
    work.add(Prong.CPU, StageTimes(fetch_s=1, decode_s=4, transform_s=2, write_s=3))
    assert work.blame(HOST) == pytest.approx({Spending.STORAGE: 0.4, Spending.DECODE: 0.6})


def test_what_a_drive_does_inside_is_the_drive() -> None:
    work = RecentWork()
    work.add(Prong.CSD, StageTimes(fetch_s=9, decode_s=1))
    assert work.blame({Prong.CSD: 1.0}) == {Spending.CSD: 1.0}
    assert work.blame(HOST) == {Spending.DECODE: 1.0}, "nothing is known of the host"


def test_earlier_batches_fade() -> None:
    work = RecentWork()
    for _ in range(100):
        work.add(Prong.CPU, StageTimes(decode_s=1))
    shares = []
    for _ in range(40):
        work.add(Prong.CPU, StageTimes(fetch_s=1))
        shares.append(work.blame(HOST)[Spending.STORAGE])
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(0.1, rel=0.01), "one batch moves it a little"
    assert shares[-1] > 0.98, "and forty are believed"


def test_sums_of_pictures_are_taken_once() -> None:
    times = PictureTimes()
    times.fetch_s += 1
    times.decode_s += 2
    times.fetched_bytes += 3
    assert times.take() == PictureTimes(1, 2, 3)
    assert times.take() == PictureTimes()


def test_a_process_has_had_some_memory() -> None:
    before = peak_bytes()
    assert before > 1 << 20
    filled = bytearray(64 << 20)
    filled[::4096] = b"x" * len(filled[::4096])
    assert peak_bytes() >= max(before, len(filled))
