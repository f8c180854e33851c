"""The allowed folders in words: where they come from, and what removing one means."""

from typing import Any

from ddlp.core.messages.roots import RootInfo
from ddlp.core.types import RootState
from ddlp.web.root_views import RootRow, root_rows


def root(path: str, **changes: Any) -> RootInfo:
    usual: dict[str, Any] = {
        "from_settings": False,
        "added_at": 5.0,
        "added_by": "local",
        "state": RootState.AVAILABLE,
        "datasets": [],
    }
    return RootInfo(path=path, **usual | changes)


def only(*found: RootInfo) -> RootRow:
    return root_rows(list(found))[0]


def test_a_folder_that_was_added_can_be_removed() -> None:
    found = only(root("/mnt/my photos&more"))
    assert found.address == "DELETE /api/v1/roots?path=/mnt/my%20photos%26more"
    assert (found.datasets, found.problem) == ("—", "")
    assert found.question == (
        "Remove /mnt/my photos&more from the allowed folders? Its files stay where they are."
    )


def test_a_folder_of_the_settings_has_no_button() -> None:
    assert only(root("/data", from_settings=True, added_at=None, added_by=None)).address is None
    assert only(root("/data", from_settings=True)).address is not None


def test_the_question_names_the_datasets_that_are_lost_by_it() -> None:
    found = root("/mnt", datasets=["pets", "fruit"])
    assert only(found).question.endswith(
        "These datasets below it stay registered and can be trained on, but not scanned again: "
        "pets, fruit."
    )
    inner = root("/mnt/pets", datasets=["pets"])
    assert only(found, inner).question.endswith("not scanned again: fruit.")
    assert only(inner, found).question.endswith("Its files stay where they are.")
    assert only(root("/mnt", datasets=["pets"], from_settings=True)).question.endswith(
        "Its files stay where they are."
    )


def test_a_folder_that_is_not_there_says_what_to_do() -> None:
    found = only(root("/mnt", state=RootState.MISSING))
    assert (found.state, found.problem) == (
        "missing",
        "The folder does not exist. Mount the drive, or remove the folder.",
    )
    assert "permissions" in only(root("/mnt", state=RootState.UNREADABLE)).problem
