"""Strategies switched in the middle of an epoch, and recorded orders proved and replayed."""

import json
from pathlib import Path

import pytest

from ddlp.core.client import Client
from ddlp.core.exit_codes import ExitCode
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.harm import once_at
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run, train

EPOCHS = 2
Recorded = tuple[str, list[list[int]], list[dict[int, bytes]]]


@pytest.mark.parametrize(
    ("before", "after"),
    [("wrr", "cpu"), ("cpu", "csd"), ("csd", "mte"), ("mte", "bounded"), ("bounded", "wrr")],
)
def test_a_strategy_switched_in_the_middle_of_an_epoch_keeps_it_exact(
    victim: UpProcess, client: Client, before: str, after: str
) -> None:
    def switch() -> None:
        with victim.client() as other:
            assert other.post(f"/runs/{run}/strategy", {"strategy": after})["strategy"] == after

    run = new_run(client, strategy=before, batch_size=1)
    [account] = train(victim, run, once_at(40, switch), prefetch=2)
    assert account.samples == ONCE
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    assert client.get(f"/runs/{run}")["strategy"] == after
    assert client.get(f"/runs/{run}/epochs/0/certificate")["exactly_once"]


@pytest.fixture(scope="module")
def recorded(up: UpProcess) -> Recorded:
    """A run of both prongs: its name, the order of its batches and the bytes of its samples."""
    with up.client() as client:
        run = new_run(client, strategy="wrr", epochs=EPOCHS, batch_size=4)
        accounts = train(up, run)
        wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
        made = [epoch["made"] for epoch in client.get(f"/runs/{run}/epochs")]
    assert all(count > 0 for epoch in made for count in epoch.values())
    return run, [a.order for a in accounts], [a.pixels for a in accounts]


def test_a_replay_delivers_the_same_batches_in_the_same_order(
    up: UpProcess, api: Client, recorded: Recorded
) -> None:
    run, orders, pixels = recorded
    made = ddlp("replay", run, "--json", url=up.url)
    assert made.returncode == 0, made.stderr
    replay = json.loads(made.stdout)
    assert replay["strategy"] == "replay"
    accounts = train(up, replay["name"])
    assert [account.order for account in accounts] == orders
    assert [account.pixels for account in accounts] == pixels
    assert any(order != sorted(order) for order in orders)
    wait_until(lambda: api.get(f"/runs/{replay['name']}")["state"] == "completed")
    checksums = [
        [api.get(f"/runs/{name}/epochs/{n}/certificate")["checksums"] for n in range(EPOCHS)]
        for name in (run, replay["name"])
    ]
    assert checksums[0] == checksums[1]


def test_a_run_is_verified_and_so_is_the_file_of_its_certificates(
    up: UpProcess, recorded: Recorded, tmp_path: Path
) -> None:
    run, file = recorded[0], tmp_path / "certificates.json"
    verified = ddlp("verify", run, "--json", url=up.url)
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["exactly_once"]
    assert ddlp("certificate", run, "--out", str(file), url=up.url).returncode == 0
    alone = ddlp("verify", str(file), "--json", url="http://127.0.0.1:9")
    assert json.loads(alone.stdout) == json.loads(verified.stdout)


def test_a_file_of_certificates_that_was_tampered_with_is_refused(
    up: UpProcess, recorded: Recorded, tmp_path: Path
) -> None:
    file = tmp_path / "certificates.json"
    ddlp("certificate", recorded[0], "--out", str(file), url=up.url)
    kept = json.loads(file.read_text())
    checksums = kept["certificates"][0]["checksums"]
    kept["certificates"][0]["checksums"] = checksums[16:] + checksums[:16]
    file.write_text(json.dumps(kept))
    refused = ddlp("verify", str(file), "--json")
    assert refused.returncode == ExitCode.FAILED_CHECK
    assert not json.loads(refused.stdout)["exactly_once"]
