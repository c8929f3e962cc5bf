"""Where VS Code's editions keep their data, and what a workspace.json names."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_crystal.adapters import vscode_dirs
from datasette_crystal.adapters.vscode_dirs import (
    CURSOR_PRODUCTS,
    TRAE_PRODUCTS,
    VSCODE_PRODUCTS,
    candidate_user_dirs,
    path_from_uri,
    project_from_uri,
    project_from_workspace_json,
    read_project,
    root_user_dirs,
    user_dirs,
    workspace_storages,
)
from datasette_crystal.model import Environment


def make(path: Path) -> Path:
    (path / "workspaceStorage").mkdir(parents=True)
    return path


# ------------------------------------------------------------------- user directories


def test_every_platform_has_its_place() -> None:
    linux = candidate_user_dirs(PurePosixPath("/home/ana"), "Code")
    assert PurePosixPath("/home/ana/.config/Code/User") in linux
    assert PurePosixPath("/home/ana/.vscode-server/data/User") in linux
    mac = candidate_user_dirs(PurePosixPath("/Users/ana"), "Cursor")
    assert PurePosixPath("/Users/ana/Library/Application Support/Cursor/User") in mac
    windows = candidate_user_dirs(PureWindowsPath(r"C:\Users\ana"), "Code - Insiders")
    assert PureWindowsPath(r"C:\Users\ana\AppData\Roaming\Code - Insiders\User") in windows


def test_a_home_of_any_platform_is_read_on_any_platform(tmp_path: Path) -> None:
    expected = [
        ("Code", make(tmp_path / ".config/Code/User")),
        ("Code", make(tmp_path / "AppData/Roaming/Code/User")),
        ("Code - Insiders", make(tmp_path / "Library/Application Support/Code - Insiders/User")),
        ("VSCodium", make(tmp_path / ".var/app/com.vscodium.codium/config/VSCodium/User")),
    ]
    assert user_dirs(Environment.for_home(tmp_path), VSCODE_PRODUCTS) == expected


def test_the_four_trae_products_and_cursor(tmp_path: Path) -> None:
    for product in (*TRAE_PRODUCTS, "Cursor"):
        make(tmp_path / ".config" / product / "User")
    env = Environment.for_home(tmp_path)
    assert [product for product, _ in user_dirs(env, TRAE_PRODUCTS)] == [
        "Trae",
        "Trae CN",
        "TRAE SOLO",
        "TRAE SOLO CN",
    ]
    assert [product for product, _ in user_dirs(env, CURSOR_PRODUCTS)] == ["Cursor"]


def test_variables_count_for_the_own_home_only_and_no_directory_is_given_twice(
    tmp_path: Path,
) -> None:
    elsewhere = make(tmp_path / "xdg/Code/User")
    portable = make(tmp_path / "portable/user-data/User")
    usual = make(tmp_path / "home/.config/Code/User")
    (tmp_path / "home/Library/Application Support/Code").mkdir(parents=True)
    (tmp_path / "home/Library/Application Support/Code/User").symlink_to(usual)
    variables = {
        "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
        "VSCODE_PORTABLE": str(portable.parents[1]),
    }
    own = Environment(tmp_path / "home", "linux", variables)
    assert user_dirs(own, ["Code"]) == [("Code", elsewhere), ("Code", portable), ("Code", usual)]
    assert user_dirs(Environment.for_home(tmp_path / "home"), ["Code"]) == [("Code", usual)]
    usual_variable = Environment(
        tmp_path / "home", "linux", {"XDG_CONFIG_HOME": str(tmp_path / "home/.config")}
    )
    assert len(user_dirs(usual_variable, ["Code"])) == 1


def test_windows_homes_are_seen_from_within_wsl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vscode_dirs, "WINDOWS_USERS", tmp_path / "c")
    theirs = make(tmp_path / "c/ana/AppData/Roaming/Code/User")
    (tmp_path / "c/desktop.ini").write_text("")
    (tmp_path / "home").mkdir()
    wsl = Environment(tmp_path / "home", "linux", {"WSL_DISTRO_NAME": "Ubuntu"})
    assert user_dirs(wsl, ["Code"]) == [("Code", theirs)]
    assert user_dirs(Environment.for_home(tmp_path / "home"), ["Code"]) == []


@pytest.mark.parametrize(
    "named", ["User", "User/workspaceStorage", "", "..", "../..", "../user-data"]
)
def test_a_root_may_be_named_at_several_levels(tmp_path: Path, named: str) -> None:
    user_dir = make(tmp_path / "home/.config/Code/User")
    make(tmp_path / "home/.config/user-data/User")
    found = root_user_dirs((tmp_path / "home/.config/Code" / named).resolve(), VSCODE_PRODUCTS)
    if named == "../user-data":
        assert found == [("Code", tmp_path / "home/.config/user-data/User")]
    else:
        assert found[-1] == ("Code", user_dir)


def test_a_root_that_is_nothing_of_the_kind(tmp_path: Path) -> None:
    assert root_user_dirs(tmp_path, VSCODE_PRODUCTS) == []
    assert root_user_dirs(tmp_path / "absent", []) == []


# ------------------------------------------------------------------- URIs

BOX = b'{"hostName":"box"}'.hex()


@pytest.mark.parametrize(
    ("uri", "path", "label", "remote"),
    [
        ("file:///home/ana/shop", "/home/ana/shop", "shop", ""),
        ("file:///home/ana/a%20b%2Bc%26d", "/home/ana/a b+c&d", "a b+c&d", ""),
        ("file:///home/ana/a%2520b", "/home/ana/a%20b", "a%20b", ""),  # decoded once
        ("file:///home/ana/100%", "/home/ana/100%", "100%", ""),
        ("file:///home/ana/%E4%BD%A0", "/home/ana/你", "你", ""),
        ("file:///home/ana/%E4", "/home/ana/%E4", "%E4", ""),  # not UTF-8: as it stands
        ("file:///home/ana/a%2Fb", "/home/ana/a/b", "b", ""),
        ("file:///home/ana/a%23b?x#y", "/home/ana/a#b", "a#b", ""),
        ("file:///Users/ana/shop/", "/Users/ana/shop/", "shop", ""),
        ("file:///", "/", "/", ""),
        ("file://localhost/home/ana", "/home/ana", "ana", ""),
        ("file:///c%3A/work/app", r"c:\work\app", "app", ""),
        ("file:///C:/work/app", r"c:\work\app", "app", ""),
        ("file:///d%3A", "d:\\", "d:", ""),
        ("file://server/share/app", r"\\server\share\app", "app", ""),
        ("file://wsl.localhost/Ubuntu/home/a", r"\\wsl.localhost\Ubuntu\home\a", "a", ""),
        ("file://wsl%24/Ubuntu/home/a", r"\\wsl$\Ubuntu\home\a", "a", ""),
        (r"C:\work\app", r"c:\work\app", "app", ""),
        ("/home/ana/100%25", "/home/ana/100%25", "100%25", ""),  # a path, not a URI
        ("vscode-remote://wsl%2Bubuntu/home/ana/p", "/home/ana/p", "p", "wsl+ubuntu"),
        (f"vscode-remote://ssh-remote%2B{BOX}/srv/p", "/srv/p", "p", "ssh-remote+box"),
        ("vscode-remote://ssh-remote%2Bbeef/srv/p", "/srv/p", "p", "ssh-remote+beef"),
        ("vscode-remote://ssh-remote%2Bbox/c%3A/p", r"c:\p", "p", "ssh-remote+box"),
        (
            f"vscode-remote://dev-container%2B{b'/home/ana/p'.hex()}/workspaces/p",
            "/workspaces/p",
            "p",
            "dev-container+/home/ana/p",
        ),
        ("vscode-vfs://github/ana/shop", "/ana/shop", "shop", "github"),
    ],
)
def test_uris(uri: str, path: str, label: str, remote: str) -> None:
    project = project_from_uri(uri)
    assert project is not None
    assert (project.path, project.label, project.remote) == (path, label, remote)
    assert path_from_uri(uri) == path


def test_components_are_not_decoded_again() -> None:
    value = {"$mid": 1, "path": "/home/ana/a%20b", "scheme": "file", "fsPath": "\\home\\ana"}
    assert path_from_uri(value) == "/home/ana/a%20b"
    assert path_from_uri({"fsPath": r"C:\a%20b"}) == r"c:\a%20b"
    assert path_from_uri({"external": "file:///a%20b"}) == "/a b"


@pytest.mark.parametrize(
    ("value", "path", "label", "is_file"),
    [
        ({"folder": "file:///home/ana/shop"}, "/home/ana/shop", "shop", False),
        (
            {"workspace": "file:///home/ana/all%20of%20it.code-workspace"},
            "/home/ana/all of it.code-workspace",
            "all of it",
            True,
        ),
        (
            {"workspace": "file:///c%3A/w/all.code-workspace"},
            r"c:\w\all.code-workspace",
            "all",
            True,
        ),
        (
            {"configuration": {"configPath": "file:///a/b.code-workspace", "id": "1"}},
            None,
            "b",
            True,
        ),
        ({"configuration": {"path": "/a/b.code-workspace", "scheme": "file"}}, None, "b", True),
        (
            {"workspace": "file:///home/ana/.config/Code/Workspaces/1700000000000/workspace.json"},
            None,
            "Untitled workspace",
            True,
        ),
        ({"folder": {"path": "/home/ana", "scheme": "file"}}, "/home/ana", "ana", False),
    ],
)
def test_forms_of_workspace_json(value: Any, path: str | None, label: str, is_file: bool) -> None:
    project = project_from_workspace_json(value)
    assert project is not None
    assert path is None or project.path == path
    assert (project.label, project.is_workspace_file) == (label, is_file)


@pytest.mark.parametrize(
    "value",
    [None, 1, "x", [], {}, {"folder": None}, {"folder": 1, "workspace": []}, {"folder": {}},
     {"folder": ""}, {"folder": "file:"}, {"workspace": {"configPath": 3}}],
)  # fmt: skip
def test_garbage_names_no_project(value: Any) -> None:
    assert project_from_workspace_json(value) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["folder", "workspace", "configuration", "path", "scheme", "external"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_nothing_raises(value: Any) -> None:
    project_from_workspace_json(value)
    project_from_uri(value)
    path_from_uri(value)


# ------------------------------------------------------------------- workspace storage


def test_storages_are_listed_in_order_with_their_projects(tmp_path: Path) -> None:
    user_dir = make(tmp_path / "User")
    for name, content in (
        ("b" * 32, b'\xef\xbb\xbf{"folder":"file:///home/ana/b"}\r\n'),
        ("a" * 32, b'{"folder": "file:///home/ana/a"'),  # torn
        ("1700000000000", None),
        ("no-workspace", b"\0" * 30),
    ):
        (user_dir / "workspaceStorage" / name).mkdir()
        if content is not None:
            (user_dir / "workspaceStorage" / name / "workspace.json").write_bytes(content)
    (user_dir / "workspaceStorage" / "file").write_text("")
    problems: list[OSError] = []
    storages = list(workspace_storages(user_dir, problems))
    assert [storage.id for storage in storages] == [
        "1700000000000",
        "a" * 32,
        "b" * 32,
        "no-workspace",
    ]
    assert [storage.project() is not None for storage in storages] == [False, False, True, False]
    assert problems == []


def test_a_missing_folder_is_no_problem_and_an_unreadable_one_is(tmp_path: Path) -> None:
    problems: list[OSError] = []
    assert list(workspace_storages(tmp_path, problems)) == []
    assert problems == []
    (tmp_path / "workspaceStorage").write_text(json.dumps({}))
    assert list(workspace_storages(tmp_path, problems)) == []
    assert len(problems) == 1
    assert read_project(tmp_path / "absent") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "workspace.json")
    assert read_project(tmp_path) is None
