"""What the audit page says of events."""

from ddlp.core.messages.audit import AuditInfo
from ddlp.web.audit_views import Asked, audit_view


def event(number: int, action: str = "run.paused", subject: str = "r50") -> AuditInfo:
    return AuditInfo(
        id=number, at=5.0, actor="local", action=action, subject=subject, detail={}, words="paused"
    )


def test_subjects_lead_to_their_pages_where_they_have_one() -> None:
    known = [
        ("run.paused", "a/b", "/runs/a%2Fb"),
        ("dataset.add", "photos", "/datasets/photos"),
        ("device.drain", "csd0", "/devices#device-csd0"),
        ("device.remove", "csd0", None),
        ("pipeline.add", "small", None),
    ]
    found = audit_view(Asked(), [event(9, action, name) for action, name, _ in known], 50)
    assert [row.place for row in found.rows] == [place for _, _, place in known]
    assert (found.older, found.newest, found.filtered) == (None, None, False)


def test_older_ones_are_a_page_further_with_the_same_filter() -> None:
    asked = Asked("r 50", "run", before=10)
    found = audit_view(asked, [event(9), event(8), event(7)], 2)
    assert [row.id for row in found.rows] == [9, 8]
    assert found.older == "/audit?subject=r+50&action=run&before=8"
    assert found.newest == "/audit?subject=r+50&action=run"
    assert found.filtered
