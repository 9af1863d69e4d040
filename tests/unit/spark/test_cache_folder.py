"""What is run later with a user's rights lies where nobody else can have put it."""

import os
from pathlib import Path

import pytest

from everlog.spark.cache_folder import cache_folder


def test_it_is_made_for_this_user_alone(tmp_path: Path) -> None:
    found = cache_folder({"HOME": str(tmp_path)})

    assert found == tmp_path / ".cache" / "everlog"
    assert found.stat().st_mode & 0o777 == 0o700
    assert cache_folder({"HOME": "/none", "XDG_CACHE_HOME": str(tmp_path / ".cache")}) == found


def test_what_an_open_umask_has_left_is_closed(tmp_path: Path) -> None:
    (tmp_path / "everlog").mkdir()
    (tmp_path / "everlog").chmod(0o775)

    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("open_one", [".", "everlog"])
def test_one_that_all_may_write_to_is_refused(tmp_path: Path, open_one: str) -> None:
    folder = tmp_path / "cache"
    (folder / "everlog").mkdir(parents=True)
    (folder / open_one).chmod(0o777)

    with pytest.raises(PermissionError, match=f"{(folder / open_one)} is open to others: expected a folder"):
        cache_folder({"XDG_CACHE_HOME": str(folder)})


def test_one_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_folder({"XDG_CACHE_HOME": str(tmp_path)})
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)

    with pytest.raises(PermissionError, match=f"expected a folder of user {somebody} alone"):
        cache_folder({"XDG_CACHE_HOME": str(tmp_path)})


def test_a_folder_of_ours_where_all_may_make_their_own_will_do(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)

    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "everlog"


@pytest.mark.parametrize("link", [".", "cache"])
def test_who_turns_a_link_elsewhere_later_turns_nothing_of_ours(tmp_path: Path, link: str) -> None:
    ours, shared = tmp_path / "ours", tmp_path / "shared"
    (ours / "everlog").mkdir(parents=True, mode=0o700)
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "everlog").symlink_to(ours / "everlog")
    (shared / "cache").symlink_to(ours)

    assert cache_folder({"XDG_CACHE_HOME": str(shared / link)}) == ours / "everlog"


def test_who_has_no_home_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(OSError, match=r"^Could not determine home directory\. XDG_CACHE_HOME can name"):
        cache_folder({})
