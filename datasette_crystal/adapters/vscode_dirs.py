"""Where editors built on VS Code keep their data, and which project a workspace storage belongs to.

Every edition has a *user directory* (``~/.config/Code/User`` on Linux) with ``globalStorage`` and
``workspaceStorage/<id>``; the latter's ``workspace.json`` names the folder that was open. All
layouts are looked for in any home directory, whatever platform this process runs on: a Windows home
may be mounted in WSL, or copied to a Linux machine. What is a folder is decided by what is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, TypeVar
from urllib.parse import unquote

from ..model import Environment
from ..text import clean
from .jsonl import decode, open_lines

#: Folder names of the editions. A product is named by its folder everywhere in this package.
VSCODE_PRODUCTS = (
    "Code",
    "Code - Insiders",
    "Code - Exploration",
    "Code - OSS",
    "VSCodium",
    "VSCodium - Insiders",
    "Positron",
    "code-server",
)
CURSOR_PRODUCTS = ("Cursor", "Cursor Nightly")
TRAE_PRODUCTS = ("Trae", "Trae CN", "TRAE SOLO", "TRAE SOLO CN")

#: What an edition's remote server calls its folder in the home directory of the remote machine. The
#: chats of a remote window are stored on the desktop; editors that run in a browser keep them here.
_SERVER_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "Code": (".vscode-server/data", ".vscode-remote/data"),
    "Code - Insiders": (".vscode-server-insiders/data", ".vscode-remote-insiders/data"),
    "Code - OSS": (".vscode-server-oss/data", ".openvscode-server/data"),
    "VSCodium": (".vscodium-server/data",),
    "VSCodium - Insiders": (".vscodium-server-insiders/data",),
    "Positron": (".positron-server/data",),
    "code-server": (".local/share/code-server",),
    "Cursor": (".cursor-server/data",),
    "Trae": (".trae-server/data",),
    "Trae CN": (".trae-cn-server/data",),
}
#: Data folders of portable installations at well-known places. (Scoop installs portably.)
_PORTABLE_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "Code": (
        "Applications/code-portable-data/user-data",
        "scoop/persist/vscode/data/user-data",
        "scoop/persist/vscode-portable/data/user-data",
    ),
    "Code - Insiders": (
        "Applications/code-insiders-portable-data/user-data",
        "scoop/persist/vscode-insiders/data/user-data",
    ),
    "VSCodium": (
        "Applications/codium-portable-data/user-data",
        "scoop/persist/vscodium/data/user-data",
    ),
    "Cursor": ("scoop/persist/cursor/data/user-data",),
}
#: Home directories of Windows users as WSL mounts them.
WINDOWS_USERS = Path("/mnt/c/Users")
#: A workspace.json has one line; nothing real comes near this.
_MAX_WORKSPACE_JSON = 1_000_000

AnyPath = TypeVar("AnyPath", bound=PurePath)


# --------------------------------------------------------------------------- user directories


def candidate_user_dirs(home: AnyPath, product: str) -> list[AnyPath]:
    """Where ``product`` may have its user directory below ``home``: Linux, macOS, Windows, a remote
    server's folder, portable installations. Works on pure paths; nothing is looked at."""
    parents = [
        home / ".config" / product,
        home / "Library" / "Application Support" / product,
        home / "AppData" / "Roaming" / product,
        *(home / folder for folder in _SERVER_FOLDERS.get(product, ())),
        *(home / folder for folder in _PORTABLE_FOLDERS.get(product, ())),
    ]
    return [parent / "User" for parent in parents]


def user_dirs(env: Environment, products: Iterable[str]) -> list[tuple[str, Path]]:
    """``(product, user directory)`` of every one that exists, in the order of ``products``, no
    directory twice. The environment's own ``XDG_CONFIG_HOME``, ``APPDATA`` and ``VSCODE_PORTABLE``
    are honoured; within WSL the Windows users' homes are looked at too."""
    homes = [env.home, *_windows_homes(env)]
    found: list[tuple[str, Path]] = []
    seen: set[tuple[int, int] | str] = set()
    flatpaks = _subdirectories(env.home / ".var" / "app")
    for product in products:
        candidates: list[Path] = []
        for variable in ("XDG_CONFIG_HOME", "APPDATA"):
            directory = env.directory_variable(variable)
            if directory is not None:
                candidates.append(directory / product / "User")
        portable = env.directory_variable("VSCODE_PORTABLE")
        if portable is not None and product == "Code":
            candidates.append(portable / "user-data" / "User")
        for home in homes:
            candidates += candidate_user_dirs(home, product)
        candidates += [sandbox / "config" / product / "User" for sandbox in flatpaks]
        for candidate in candidates:
            if _is_new_directory(candidate, seen):
                found.append((product, candidate))
    return found


def root_user_dirs(root: Path, products: Iterable[str]) -> list[tuple[str, Path]]:
    """The user directories that a directory named by the user (``--root``) stands for: it may be
    one, hold one (``user-data``, ``data`` of a portable installation, the folder of a product), be
    a home or configuration directory, or be a ``workspaceStorage`` itself."""
    found: list[tuple[str, Path]] = []
    seen: set[tuple[int, int] | str] = set()
    products = list(products)
    default = products[0] if products else ""
    own = root.parent if root.name in ("workspaceStorage", "globalStorage") else root
    direct = [own, root / "User", root / "user-data" / "User", root / "data" / "user-data" / "User"]
    for candidate in direct:
        if _looks_like_user_dir(candidate) and _is_new_directory(candidate, seen):
            names = [part for part in candidate.parts if part in products]
            found.append((names[-1] if names else default, candidate))
    for product in products:
        for candidate in (root / product / "User", *candidate_user_dirs(root, product)):
            if _looks_like_user_dir(candidate) and _is_new_directory(candidate, seen):
                found.append((product, candidate))
    return found


def _windows_homes(env: Environment) -> list[Path]:
    # Another machine's home (its environment is empty) has nothing to do with our C: drive.
    if "WSL_DISTRO_NAME" in env.variables or "WSL_INTEROP" in env.variables:
        return _subdirectories(WINDOWS_USERS)
    return []


def _subdirectories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return sorted(Path(entry.path) for entry in entries if _entry_is_dir(entry))
    except (OSError, ValueError):
        return []


def _entry_is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _looks_like_user_dir(path: Path) -> bool:
    return _is_directory(path / "workspaceStorage") or _is_directory(path / "globalStorage")


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _is_new_directory(path: Path, seen: set[tuple[int, int] | str]) -> bool:
    """Whether ``path`` is a directory that is not in ``seen`` under any name (file systems that
    fold case, links, a variable that names the usual place); adds it."""
    try:
        if not path.is_dir():
            return False
        status = path.stat()
    except (OSError, ValueError):
        return False
    key = (status.st_dev, status.st_ino) if status.st_ino else str(path)
    if key in seen:
        return False
    seen.add(key)
    return True


# --------------------------------------------------------------------------- workspace storage


@dataclass(frozen=True, slots=True)
class Project:
    """What was open in a window. ``path`` is written as its own machine writes it (``/home/a``,
    ``c:\\work``, ``\\\\server\\share``); ``label`` is its last name (the stem of a
    ``.code-workspace`` file); ``remote`` names the machine where it is not the desktop
    (``wsl+Ubuntu``, ``ssh-remote+box``, ``github``), else it is empty."""

    path: str
    label: str
    is_workspace_file: bool = False
    scheme: str = "file"
    remote: str = ""


@dataclass(frozen=True, slots=True)
class WorkspaceStorage:
    """A directory ``workspaceStorage/<id>``: the id is a hash of the folder, 13 digits for an empty
    window, or a name such as ``no-workspace``."""

    id: str
    path: Path

    def project(self) -> Project | None:
        """What its workspace.json names; ``None`` for an empty window or an unreadable file."""
        return read_project(self.path)


def workspace_storages(
    user_dir: Path, problems: list[OSError] | None = None
) -> Iterator[WorkspaceStorage]:
    """Every workspace storage of a user directory, sorted by id. A directory that cannot be listed
    is appended to ``problems``; one that does not exist is not a problem."""
    try:
        with os.scandir(user_dir / "workspaceStorage") as entries:
            names = sorted(entry.name for entry in entries if _entry_is_dir(entry))
    except FileNotFoundError:
        return
    except OSError as error:
        if problems is not None:
            problems.append(error)
        return
    for name in names:
        yield WorkspaceStorage(name, user_dir / "workspaceStorage" / name)


def read_project(storage: Path) -> Project | None:
    """The project that ``storage/workspace.json`` names, or ``None``. Never raises."""
    try:
        with open_lines(storage / "workspace.json") as file:
            data = file.read(_MAX_WORKSPACE_JSON)
    except (OSError, ValueError):
        return None
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    values, _ = decode(data)
    return project_from_workspace_json(values[0]) if values else None


def project_from_workspace_json(value: Any) -> Project | None:
    """The project of a decoded workspace.json: ``{"folder": uri}``, ``{"workspace": uri}`` of a
    ``.code-workspace`` file, or an older ``{"configuration": uri or {"configPath": uri}}``. A URI
    may be text or the components that VS Code serialises. Garbage gives ``None``."""
    if not isinstance(value, dict):
        return None
    project = project_from_uri(value.get("folder"))
    if project is not None:
        return project
    for key in ("workspace", "configuration"):
        uri = value.get(key)
        if isinstance(uri, dict) and "path" not in uri:
            uri = uri.get("configPath") or uri.get("external")
        project = project_from_uri(uri, is_workspace_file=True)
        if project is not None:
            return project
    return None


def project_from_uri(uri: Any, *, is_workspace_file: bool = False) -> Project | None:
    """The project that a URI stands for, or ``None`` where it is none."""
    parts = _split(uri)
    if parts is None:
        return None
    scheme, authority, path = parts
    path = _native_path(scheme, authority, path)
    if not path:
        return None
    label = _last_name(path)
    if is_workspace_file:
        folder, _, name = label.rpartition(".code-workspace")
        label = folder if folder and not name else label
        if label == "workspace.json":  # User/Workspaces/<time>/workspace.json: not yet saved
            label = "Untitled workspace"
    remote = "" if scheme == "file" else _machine(authority) or scheme
    return Project(path, label, is_workspace_file, scheme, remote)


def path_from_uri(uri: Any) -> str | None:
    """The path of a URI (text, or the components ``{scheme, authority, path}`` or ``{fsPath}`` that
    VS Code serialises) as its machine writes it; ``None`` where there is none. Percent signs are
    decoded exactly once, and only in URIs that are text."""
    parts = _split(uri)
    return _native_path(*parts) or None if parts is not None else None


#: One letter is a drive ("c:\\work"), not a scheme.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_DRIVE = re.compile(r"/?([A-Za-z]):(?=[/\\]|$)")


def _split(uri: Any) -> tuple[str, str, str] | None:
    """Scheme, authority and path, decoded."""
    if isinstance(uri, dict):
        path = uri.get("path")
        if isinstance(path, str) and path:
            scheme, authority = uri.get("scheme"), uri.get("authority")
            return (
                scheme.lower() if isinstance(scheme, str) and scheme else "file",
                clean(authority) if isinstance(authority, str) else "",
                clean(path),
            )
        for key in ("external", "fsPath", "uri"):
            if isinstance(uri.get(key), str) and uri[key]:
                return _split(uri[key])
        return None
    if not isinstance(uri, str) or not uri:
        return None
    match = _SCHEME.match(uri)
    if match is None:  # a plain path: nothing in it is encoded
        return "file", "", clean(uri)
    rest = uri[match.end() :]
    # VS Code encodes ? and # of names, so that bare ones begin a query or a fragment.
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority = ""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    return match.group(1).lower(), _decoded(authority), _decoded(rest)


def _decoded(text: str) -> str:
    """Percent-decoded once. A part that is not UTF-8 when decoded stays as it is, as in VS Code."""
    if "%" not in text:
        return clean(text)
    parts = text.split("/")
    for index, part in enumerate(parts):
        try:
            parts[index] = unquote(part, errors="strict")
        except UnicodeDecodeError:
            pass
    return clean("/".join(parts))


def _native_path(scheme: str, authority: str, path: str) -> str:
    """As ``URI.fsPath`` of VS Code does on the machine that the path belongs to."""
    drive = _DRIVE.match(path)
    if drive is not None:
        rest = path[drive.end() :].replace("/", "\\")
        return f"{drive.group(1).lower()}:{rest or chr(92)}"
    if scheme == "file" and authority and authority.lower() != "localhost":
        return "\\\\" + authority + path.replace("/", "\\")
    return path


def _last_name(path: str) -> str:
    if _DRIVE.match(path) or path.startswith("\\\\"):
        windows = PureWindowsPath(path)
        return windows.name or windows.drive.rstrip("\\").rpartition("\\")[2] or path
    return PurePosixPath(path).name or path


def _machine(authority: str) -> str:
    """A readable name of a remote authority: what SSH and containers write as hexadecimal JSON or
    text (``ssh-remote+7b22686f…``) is decoded."""
    names = []
    for part in authority.split("@"):
        kind, plus, name = part.partition("+")
        names.append(kind + plus + _machine_name(name) if plus else part)
    return "@".join(names)


def _machine_name(name: str) -> str:
    try:
        data = bytes.fromhex(name)
        text = data.decode()
    except ValueError:
        return name
    if len(data) < 3 or not text.isprintable():
        return name
    values, _ = decode(data) if data.startswith(b"{") else ([], False)
    if values and isinstance(values[0], dict):
        for key in ("hostName", "hostPath", "containerName", "name"):
            value = values[0].get(key)
            if isinstance(value, str) and value:
                return clean(value)
    return clean(text)
