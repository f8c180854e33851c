"""Who did what, on the command line."""

import json

from ddlp.cli.audit import dated
from ddlp.core.client import Client
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess
from tests.end_to_end.trainer import new_run


def test_events_carry_dates() -> None:
    assert dated([{"id": 1, "at": 86_399.9}]) == [{"id": 1, "at": "1970-01-01 23:59:59Z"}]


def test_what_was_done_to_a_run_is_listed(up: UpProcess, api: Client) -> None:
    run = new_run(api)
    api.post(f"/runs/{run}/cancel")
    head, newest, *_ = ddlp("audit", "--subject", run, url=up.url).stdout.splitlines()
    assert head.split() == ["id", "at", "actor", "subject", "words"]
    assert f"local  {run}" in newest
    assert "cancelled (was " in newest
    asked = ("audit", "--subject", run, "--action", "run.create", "--limit", "1", "--json")
    [made] = json.loads(ddlp(*asked, url=up.url).stdout)
    assert (made["action"], made["subject"]) == ("run.create", run)
    older = ddlp("audit", "--subject", run, "--before", str(made["id"]), url=up.url)
    assert older.stdout == "none yet\n"
