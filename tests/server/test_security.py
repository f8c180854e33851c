"""A known Host, JSON from the own site only, nothing outside the folders allowed, and keys."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from ddlp.core.errors import NotAllowed
from ddlp.core.queue import create_celery
from ddlp.core.seal import Seal
from ddlp.core.settings import Settings
from ddlp.core.types import Scope
from ddlp.server import keys
from ddlp.server.datasets import allowed_path
from ddlp.server.roots import AllowedFolders
from ddlp.server.security import check_listen, needed_scope
from tests.conftest import Locked, UpProcess
from tests.server.apps import client_of
from tests.server.conftest import Plane

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


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Host", ["127.0.0.1", "evil.example"]),
        ("Host", ["evil.example", "127.0.0.1"]),
        ("Authorization", ["Bearer a", "Bearer b"]),
        ("Content-Type", ["text/plain", "application/json"]),
        ("Origin", ["http://evil.example", "http://127.0.0.1"]),
    ],
)
def test_a_header_that_can_be_read_in_two_ways_is_refused(
    up: UpProcess, name: str, values: list[str]
) -> None:
    parts = urlsplit(up.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.putrequest("POST", "/api/v1/runs", skip_host=name == "Host")
    for value in values:
        connection.putheader(name, value)
    connection.putheader("Content-Length", "0")
    connection.endheaders()
    response = connection.getresponse()
    told = json.loads(response.read())
    connection.close()
    assert response.status == 400
    assert f"the header {name} is sent more than once" in told["detail"]


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


def test_a_bare_delete_is_taken_as_curl_sends_it(up: UpProcess) -> None:
    parts = urlsplit(up.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.request("DELETE", "/api/v1/runs/nothing", headers={"Accept": "*/*"})
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["detail"][:24]) == (
        404,
        "there is no run nothing;",
    )
    connection.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_a_delete_of_another_site_is_refused(
    up: UpProcess, headers: dict[str, str], status: int
) -> None:
    assert send(up, "DELETE", "/api/v1/runs/nothing", **headers)[0] == status


@pytest.mark.parametrize("headers", [{}, {"Transfer_Encoding": "chunked"}])
def test_only_a_delete_without_a_body_needs_no_type(up: UpProcess, headers: dict[str, str]) -> None:
    body = "0\r\n\r\n" if headers else "{}"
    assert send(up, "DELETE", "/api/v1/runs/nothing", body, **headers)[0] == 415


@pytest.mark.parametrize(
    ("method", "status"), [("POST", 415), ("PUT", 405), ("PATCH", 405), ("TRACE", 405)]
)
def test_other_changes_without_a_type_are_refused(up: UpProcess, method: str, status: int) -> None:
    assert send(up, method, "/api/v1/runs/nothing/cancel")[0] == status


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
    with pytest.raises(NotAllowed, match="/link is not below"):
        allowed_path(AllowedFolders((allowed,), tmp_path / "drawn"), str(allowed / "link"))


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


def test_a_server_that_asks_for_keys_may_listen_beyond_loopback() -> None:
    check_listen(Settings(host="0.0.0.0", keys="required"))


CANCEL = "/api/v1/runs/nothing/cancel"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_changes_are_not_taken_from_pages_of_other_sites(up: UpProcess, site: str) -> None:
    headers = {"Content_Type": "application/json", "Sec_Fetch_Site": site}
    status, answer = send(up, "POST", CANCEL, "{}", **headers)
    assert status == 403
    assert "other sites" in answer["detail"]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://["]
)
def test_changes_are_not_taken_from_another_origin(up: UpProcess, origin: str) -> None:
    status, answer = send(up, "POST", CANCEL, "{}", Content_Type="application/json", Origin=origin)
    assert status == 403
    assert origin in answer["detail"]


def test_changes_are_taken_from_the_own_page(up: UpProcess) -> None:
    headers = {"Content_Type": "application/json", "Sec_Fetch_Site": "same-origin"}
    status, answer = send(up, "POST", CANCEL, "{}", Origin=up.url, **headers)
    assert status == 404, answer


def test_a_wrong_key_is_refused_where_none_is_needed(up: UpProcess) -> None:
    status, answer = send(up, "GET", "/api/v1/runs?limit=1", Authorization="Bearer ddlp_wrong")
    assert status == 401
    assert "not known or was revoked" in answer["detail"]
    assert send(up, "GET", "/api/v1/datasets", Authorization="Basic eDp5")[0] == 401


def test_a_cookie_of_another_server_of_this_host_does_no_harm(up: UpProcess) -> None:
    assert send(up, "GET", "/api/v1/datasets", Cookie="ddlp_key=ddlp_of-another")[0] == 200


@pytest.mark.parametrize("path", ["/api/v1/runs", "/metrics", "/openapi.json", "/api/v1/keys"])
def test_nothing_is_told_without_a_key(locked: Locked, path: str) -> None:
    status, answer = send(locked.up, "GET", path)
    assert status == 401
    assert "DDLP_KEY" in answer["detail"]
    assert "ddlp keys create NAME --scope admin --local" in answer["detail"]
    assert send(locked.up, "GET", path, Cookie="ddlp_key=ddlp_wrong")[0] == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_whether_it_is_up_is_told_to_everybody(locked: Locked, path: str) -> None:
    assert send(locked.up, "GET", path)[0] == 200


def visit(up: UpProcess, path: str, **headers: str) -> tuple[int, str]:
    """Status of a page, and where it leads to."""
    parts = urlsplit(up.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers={"Accept": "text/html", **given})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, response.headers.get("Location", "")


def test_pages_lead_to_signing_in_and_back(locked: Locked) -> None:
    assert visit(locked.up, "/?q=a&b=c") == (303, "/signin?next=/%3Fq%3Da%26b%3Dc")
    assert visit(locked.up, "/signin?next=/keys") == (200, "")
    assert visit(locked.up, "/static/icon.svg") == (200, "")
    assert visit(locked.up, "/", Cookie=f"ddlp_key={locked.read}") == (200, "")
    assert visit(locked.up, "/keys", Cookie=f"ddlp_key={locked.read}") == (
        303,
        "/signin?next=/keys",
    )
    assert visit(locked.up, "/", HX_Request="true")[0] == 401


@pytest.mark.parametrize(
    ("who", "method", "path", "allowed"),
    [
        ("read", "GET", "/api/v1/runs", True),
        ("read", "POST", "/api/v1/leases/claim", False),
        ("read", "POST", "/api/v1/runs/nothing/pause", False),
        ("read", "GET", "/api/v1/keys", False),
        ("work", "GET", "/api/v1/runs", True),
        ("work", "POST", "/api/v1/leases/claim", True),
        ("work", "POST", "/api/v1/runs", False),
        ("work", "POST", "/api/v1/devices/cpu/drain", False),
        ("work", "POST", "/api/v1/keys", False),
        ("read", "GET", "/api/v1/roots", True),
        ("read", "POST", "/api/v1/roots", False),
        ("read", "DELETE", "/api/v1/roots?path=/data", False),
        ("work", "POST", "/api/v1/roots", False),
        ("work", "DELETE", "/api/v1/roots?path=/data", False),
        ("admin", "DELETE", "/api/v1/roots?path=/data", True),
        ("work", "DELETE", "/api/v1/datasets/fruit", False),
        ("work", "DELETE", "/api/v1/runs/nothing", False),
        ("work", "DELETE", "/api/v1/pipelines/nothing", False),
        ("work", "POST", "/api/v1/runs/nothing/clone", False),
        ("work", "POST", "/api/v1/runs/nothing/extend", False),
        ("admin", "DELETE", "/api/v1/runs/nothing", True),
        ("admin", "GET", "/api/v1/keys", True),
        ("admin", "POST", "/api/v1/runs/nothing/pause", True),
    ],
)
def test_a_key_may_do_what_its_scope_says(
    locked: Locked, who: str, method: str, path: str, allowed: bool
) -> None:
    headers = {"Authorization": f"Bearer {getattr(locked, who)}"}
    status, answer = send(locked.up, method, path, "{}", Content_Type="application/json", **headers)
    assert (status != 403) == allowed, answer
    if not allowed:
        assert f"has scope {who}, and this needs" in answer["detail"]


def test_every_change_needs_admin_but_for_those_of_workers_and_trainers(locked: Locked) -> None:
    with locked.up.client(locked.read) as client:
        client._base = ""
        described = client.get("/openapi.json")["paths"]
    work = {
        path
        for path, methods in described.items()
        for method in methods
        if needed_scope(method.upper(), path) is Scope.WORK
    }
    assert work == {
        "/api/v1/leases/claim",
        "/api/v1/leases/report",
        "/api/v1/devices",
        "/api/v1/devices/queue-key",
        "/api/v1/devices/{name}/heartbeat",
        "/api/v1/meters",
        "/api/v1/packings/{packing}/claim",
        "/api/v1/packings/{packing}/news",
        "/api/v1/packings/{packing}/report",
        "/api/v1/runs/{ref}/attach",
        "/api/v1/runs/{run_id}/begin",
        "/api/v1/runs/{run_id}/alive",
        "/api/v1/runs/{run_id}/leave",
        "/api/v1/runs/{run_id}/mark",
        "/api/v1/runs/{run_id}/feed",
        "/api/v1/runs/{run_id}/damaged",
    }


def test_a_browser_keeps_its_key_where_no_script_and_no_other_site_gets_at_it(
    locked: Locked,
) -> None:
    parts = urlsplit(locked.up.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    body, kind = json.dumps({"key": locked.read}), {"Content-Type": "application/json"}
    connection.request("POST", "/api/v1/session", body=body, headers=kind)
    response = connection.getresponse()
    assert json.loads(response.read()) == {"name": "a-read", "scope": "read"}
    cookie = response.headers["Set-Cookie"]
    assert f"ddlp_key={locked.read};" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    connection.close()
    wrong = json.dumps({"key": "ddlp_wrong"})
    headers = {"Content_Type": "application/json"}
    assert send(locked.up, "POST", "/api/v1/session", wrong, **headers)[0] == 401


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_key_that_came_over_tls_goes_over_tls_only(plane: Plane, scheme: str) -> None:
    """The proxy that speaks TLS is not named to the server; the browser says what it sees."""
    with plane.database.session() as session:
        made = keys.add(session, "ann", Scope.READ, 1.0)
    with client_of(plane) as client:
        shown, origin = {"key": made.key}, {"Origin": f"{scheme}://localhost"}
        answer = client.post("/api/v1/session", json=shown, headers=origin)
    assert answer.is_success
    assert ("Secure" in answer.headers["set-cookie"]) == (scheme == "https")


def test_celery_takes_json_and_nothing_else() -> None:
    celery = create_celery("redis://127.0.0.1:1/0", Seal("secret"))
    assert celery.conf.accept_content == ["json"]
    assert celery.conf.task_serializer == "json"
