"""The API does what its description says, whatever is sent: schemathesis with all of its checks.

What it finds is compared with a short list of what is meant to be so. The demo is left out, which
draws up to 100,000 images whenever it is asked for, and so are the events of a run, which do not
end while it lives; both have tests of their own.
"""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import text

from ddlp.server.database import connect
from tests.conftest import SMALL_PIPELINE, UpProcess, add_dataset

EXAMPLES = 25
LEFT_OUT = "/(demo|events)$"
BARE = r"POST .*/(queue-key|rescan|drain|resume|revoke|cancel|pause)"
"""Operations that read nothing of their body."""


@dataclass(frozen=True)
class Excuse:
    """A finding that is no fault, and why."""

    code: str
    operation: str
    answer: str
    reason: str


EXCUSED = [
    Excuse(
        "ST202",
        ".*",
        r'^(?!.*"errors": \[).*"type": "urn:ddlp:problem:invalid-input"',
        "each value fits, but not together, or it names what is not there: no schema says that",
    ),
    Excuse(
        "ST202",
        ".*/(heartbeat|meters)|.*/devices",
        "joules are null if and only if",
        "two values that must fit each other",
    ),
    Excuse("ST202", "POST .*/devices", "serves a store", "addresses that lead to no store"),
    Excuse("ST202", "POST .*/begin", '"field": "state', "parts of a state must fit each other"),
    Excuse(
        "ST202", "POST .*/(runs|clone|replay|retry)", "address of the pages", "four words are taken"
    ),
    Excuse(
        "ST202",
        ".*",
        "less than (or equal to )?(9223372036854775808|1152921504606846976|18446744073709551616)",
        "it compares whole numbers beyond 2^53 as floating-point numbers",
    ),
    Excuse(
        "ST204",
        ".*",
        "Unsupported method (POST|DELETE) returned 415",
        "a change must be JSON before it is looked at what is there",
    ),
    Excuse("ST201", BARE, "", "nothing is read of the body, so nothing in it can be wrong"),
    Excuse(
        "ST201",
        "Stateful tests",
        r"-X POST [^\n]*/(queue-key|rescan|drain|resume|revoke|cancel|pause)\S*\s*\Z",
        "the same, as the last of several requests",
    ),
    Excuse(
        "ST302",
        ".*",
        "is not registered; register it again",
        "a device that was started anew is not the one that registered: its id changed",
    ),
]


@dataclass(frozen=True)
class Finding:
    code: str
    operation: str
    text: str

    @property
    def excused(self) -> bool:
        return any(
            excuse.code == self.code
            and re.fullmatch(excuse.operation, self.operation)
            and re.search(excuse.answer, self.text, re.DOTALL)
            for excuse in EXCUSED
        )


def findings(report: Path) -> list[Finding]:
    found = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        for problem in [*case.iter("failure"), *case.iter("error")]:
            words = (problem.get("message") or "") + "\n" + (problem.text or "")
            for part in re.split(r"\n(?=- ST\d+ )", words):
                code = re.search(r"- (ST\d+) ", part)
                if code is not None:
                    found.append(Finding(code[1], str(case.get("name")), part))
                elif problem.tag == "error":
                    found.append(Finding("error", str(case.get("name")), part))
    return found


def fuzz(up: UpProcess, folder: Path, key: str) -> list[Finding]:
    """Let schemathesis loose on a server."""
    report = folder / "findings.xml"
    command = [str(Path(sys.executable).parent / "schemathesis"), "run", f"{up.url}/openapi.json"]
    options = {
        "--checks": "all",
        "--phases": "examples,coverage,fuzzing,stateful",
        "--max-examples": str(EXAMPLES),
        "--seed": "1",
        "--exclude-path-regex": LEFT_OUT,
        "--request-timeout": "60",
        "--output-truncate": "false",
        "--report-junit-path": str(report),
    }
    arguments = [part for option in options.items() for part in option]
    shown = ["--header", f"Authorization: Bearer {key}"] if key else []
    flags = ["--continue-on-failure", "--no-shrink"]
    done = subprocess.run(
        [*command, *arguments, *flags, *shown],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_COLOR": "1"},
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    assert "Tested: 0" not in done.stdout
    return findings(report)


@pytest.fixture
def empty_postgres(postgres_url: str) -> Iterator[str]:
    server = connect(postgres_url).execution_options(isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text("create database ddlp_fuzz"))
    yield postgres_url.replace("/postgres?", "/ddlp_fuzz?")
    with server.connect() as connection:
        connection.execute(text("drop database ddlp_fuzz with (force)"))
    server.dispose()


def first_key(home: Path, **settings: str) -> str:
    command = [sys.executable, "-m", "ddlp.cli", "keys", "create", "boss", "--scope", "admin"]
    environment = {f"DDLP_{name.upper()}": value for name, value in settings.items()}
    made = subprocess.run(
        [*command, "--local", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"DDLP_HOME": str(home)} | environment,
    )
    return str(json.loads(made.stdout)["key"])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("keys", ["off", "shown", "missing"])
def test_nothing_is_found_but_what_is_meant_to_be_so(
    request: pytest.FixtureRequest, tmp_path: Path, images: Path, database: str, keys: str
) -> None:
    settings = {"cpu_workers": "1", "keys": "off" if keys == "off" else "required"}
    if database == "postgresql":
        settings["database_url"] = request.getfixturevalue("empty_postgres")
    home = tmp_path / "home"
    with UpProcess(home, [images], **settings) as up:
        key = "" if keys == "off" else first_key(home, **settings)
        with up.client(key) as client:
            add_dataset(client, images, "fruit")
            client.post("/pipelines", {"name": "small", **SMALL_PIPELINE})
            client.post("/runs", {"dataset": "fruit", "pipeline": "small", "name": "first"})
        found = fuzz(up, tmp_path, "" if keys == "missing" else key)
    left = [finding for finding in found if not finding.excused]
    assert left == [], "\n\n".join(f"{f.operation}\n{f.text}" for f in left)
