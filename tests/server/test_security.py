"""Until there are keys: loopback, a known Host, JSON only, nothing outside the folders allowed."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from ddlp.core.errors import NotAllowed
from ddlp.core.queue import create_celery
from ddlp.core.settings import Settings
from ddlp.server.datasets import allowed_path
from ddlp.server.security import check_listen
from tests.conftest import UpProcess

RUN = {"dataset": "fruit"}


def send(
    up: UpProcess, method: str, path: str, body: str = "", **headers: str
) -> tuple[int, dict[str, str]]:
    parts = urlsplit(up.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body=body, headers=given)
    response = connection.getresponse()
    answer = response.status, json.loads(response.read() or "{}")
    connection.close()
    return answer


@pytest.mark.parametrize("host", ["evil.example", "169.254.1.1", "localhost.evil.example", ""])
def test_a_host_that_is_not_served_is_refused(up: UpProcess, host: str) -> None:
    status, answer = send(up, "GET", "/api/v1/runs", Host=host)
    assert status == 400
    assert "is not served here" in answer["detail"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9999", "[::1]:80"])
def test_loopback_names_are_served(up: UpProcess, host: str) -> None:
    assert send(up, "GET", "/api/v1/datasets", Host=host)[0] == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_is_not_json_is_refused(up: UpProcess, kind: str) -> None:
    status, answer = send(up, "POST", "/api/v1/runs", json.dumps(RUN), Content_Type=kind)
    assert status == 415
    assert "send application/json" in answer["detail"]


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"dataset": 3}', '{"x": 1}', "\xff"])
def test_a_malformed_body_is_told_what_is_wrong(up: UpProcess, body: str) -> None:
    status, answer = send(up, "POST", "/api/v1/runs", body, Content_Type="application/json")
    assert status in (400, 422)
    assert isinstance(answer["detail"], str)


@pytest.mark.parametrize("path", ["/etc", "/", "../../etc", "{root}/../..", "{root}%2e%2e", "\0"])
def test_paths_outside_the_allowed_folders_are_refused(up: UpProcess, path: str) -> None:
    root = up.home.parent
    body = json.dumps({"uri": path.format(root=root), "name": "outside"})
    status, _ = send(up, "POST", "/api/v1/datasets", body, Content_Type="application/json")
    assert status in (403, 422)


def test_a_link_that_leads_out_of_an_allowed_folder_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "link").symlink_to("/etc")
    with pytest.raises(NotAllowed, match="/etc is not below"):
        allowed_path(Settings(dataset_roots=[allowed]), str(allowed / "link"))


@pytest.mark.parametrize("path", ["preview", "preview.png", "samples/0/thumbnail"])
def test_other_sites_cannot_have_pictures_made(up: UpProcess, path: str) -> None:
    status, answer = send(up, "GET", f"/api/v1/datasets/fruit/{path}", Sec_Fetch_Site="cross-site")
    assert status == 403
    assert "other sites" in answer["detail"]


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_a_preview_is_shown_to_its_own_site(up: UpProcess, site: str) -> None:
    assert send(up, "GET", "/api/v1/datasets/fruit/preview", Sec_Fetch_Site=site)[0] == 200


def test_files_beside_the_static_ones_are_not_served(up: UpProcess) -> None:
    assert send(up, "GET", "/static/../app.py")[0] == 404
    assert send(up, "GET", "/static/%2e%2e/app.py")[0] == 404


def test_pages_may_load_nothing_from_elsewhere(up: UpProcess) -> None:
    parts = urlsplit(up.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.request("GET", "/")
    policy = connection.getresponse().headers["Content-Security-Policy"]
    connection.close()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::"])
def test_listening_beyond_loopback_must_be_asked_for(host: str) -> None:
    with pytest.raises(NotAllowed, match="DDLP_UNSAFE_LISTEN"):
        check_listen(Settings(host=host))
    check_listen(Settings(host=host, unsafe_listen=True))


def test_celery_takes_json_and_nothing_else() -> None:
    celery = create_celery("redis://127.0.0.1:1/0")
    assert celery.conf.accept_content == ["json"]
    assert celery.conf.task_serializer == "json"
