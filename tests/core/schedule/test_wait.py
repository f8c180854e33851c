"""What a rank waits for is said in words: which batch, who has it, and what to do."""

from ddlp.core.schedule import Failed, explain_wait
from tests.core.schedule.making import claim, finish, make_all, schedule


def test_a_prong_without_a_device_is_named_with_the_command_that_starts_one() -> None:
    run = schedule("wrr", devices={})
    assert explain_wait(run, 0, 2.0) == (
        "no live device serves cpu or csd; start one with: ddlp worker --prong cpu"
    )
    assert "--prong csd" in explain_wait(schedule("csd", devices={}), 0, 2.0)


def test_a_batch_that_nobody_has_picked_up_is_in_its_queue() -> None:
    run = schedule("cpu", queued_s=5.0, unknown_s=60.0)
    run.top_up(0.0)
    assert explain_wait(run, 0, 2.0) == (
        "batch 0 of epoch 0, held by queue cpu and not picked up yet for 2.0 s (attempt 1); "
        "its lease ends in 63.0 s and it is then given out again"
    )


def test_who_holds_a_batch_is_named_with_when_it_was_last_heard_of() -> None:
    run = schedule("cpu")
    claim(run, run.top_up(0.0)[0], 1.0)
    assert "held by cpu for 4.0 s" in explain_wait(run, 0, 4.0)
    assert "held by cpu (last heard of 3.5 s ago) for 4.0 s" in explain_wait(
        run, 0, 4.0, {"cpu": 0.5, "other": 3.9}
    )


def test_the_batch_that_is_due_is_named_and_not_the_oldest() -> None:
    run = schedule("mte", batches=8)
    first, second, *_ = run.top_up(0.0)
    finish(run, first)
    run.fetch(0, 0, 0, 1)
    claim(run, second, 5.0)
    assert explain_wait(run, 0, 9.0).startswith(f"batch {second.index} of epoch 0, held by cpu")


def test_a_batch_that_is_made_again_says_so() -> None:
    run = schedule("cpu")
    batch = finish(run, run.top_up(0.0)[0])
    run.fetch(0, 0, 0, 1)
    run.damaged(0, batch.index, batch.token, Failed("a bit flipped"), 0.0)
    run.top_up(1.0)
    assert "batch 0 of epoch 0" in explain_wait(run, 0, 2.0)
    assert "(attempt 2)" in explain_wait(run, 0, 2.0)


def test_a_lease_that_is_over_does_not_end_in_the_past() -> None:
    run = schedule("cpu")
    run.top_up(0.0)
    assert "its lease ends in 0.0 s" in explain_wait(run, 0, 10_000.0)


def test_an_epoch_that_is_not_open_yet_waits_for_other_ranks() -> None:
    run = schedule("cpu", world_size=2)
    run.top_up(0.0)
    assert explain_wait(run, 1, 0.0) == (
        "epoch 1 is not open yet; other ranks are still in an earlier one"
    )


def test_where_nothing_is_under_way_the_log_is_pointed_at() -> None:
    run = schedule("cpu", batches=2, epochs=1)
    make_all(run)
    assert explain_wait(run, 0, 0.0) == "epoch 0 has no batch under way; see the server's log"
