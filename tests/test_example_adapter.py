"""The example package of docs/adapters.md: it is built, installed and found like any other."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from notetaker import notetaker_home

ROOT = Path(__file__).parent.parent
EXAMPLE = Path(__file__).parent / "example_adapter"

#: Run by another Python, which knows the adapter only from its installed metadata.
SCRIPT = """
import sys
from pathlib import Path
import datasette_crystal.plugins
from datasette_crystal.model import Environment
from datasette_crystal.testing import check_adapter

adapters = datasette_crystal.plugins.get_adapters()
adapter = adapters["notetaker"]
print(sys.modules[type(adapter).__module__].__file__)
print(",".join(adapters))
check_adapter(adapter, Path(sys.argv[1]))
(boat, empty) = adapter.scan(Environment.for_home(Path(sys.argv[1])))
parsed = adapter.parse(boat)
(conversation,) = parsed.conversations
print(conversation.title, [message.kind for message in conversation.messages])
"""


def build_wheel(source: Path, target: Path) -> Path:
    """Builds a wheel as the example's pyproject.toml says: by setuptools where this environment
    has one that builds wheels alone, else by pip, which fetches it."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(target), "."]
    if importlib.util.find_spec("setuptools"):
        import setuptools

        if tuple(map(int, setuptools.__version__.split(".")[:2])) >= (70, 1):
            call = f"import setuptools.build_meta as b; b.build_wheel({str(target)!r})"
            command = [sys.executable, "-c", call]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = target.glob("*.whl")
    return wheel


def test_installed_package_is_found_and_good(tmp_path: Path) -> None:
    source, wheels, site = tmp_path / "source", tmp_path / "wheels", tmp_path / "site"
    shutil.copytree(
        EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    )
    wheels.mkdir()
    with zipfile.ZipFile(build_wheel(source, wheels)) as wheel:
        wheel.extractall(site)  # to unpack a wheel of Python code is to install it
    home = notetaker_home(tmp_path / "home").home
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(home)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT)))},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    file, names, story = result.stdout.splitlines()
    assert Path(file).resolve() == (site / "crystal_notetaker.py").resolve()
    assert names.split(",")[:2] == ["claude-code", "codex"]
    assert story == "Names for a boat ['prompt', 'reply', 'prompt', 'reply']"


def test_the_test_that_the_guide_shows_passes(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "adapters.md").read_text("utf-8")
    block = next(
        b for b in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "def test_" in b
    )
    (tmp_path / "test_notetaker.py").write_text(block, "utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(EXAMPLE), str(ROOT)))},
        capture_output=True,
        text=True,
    )
    assert "1 passed" in result.stdout, result.stdout


def test_the_guide_shows_the_example() -> None:
    guide = (ROOT / "docs" / "adapters.md").read_text("utf-8")
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", guide, re.DOTALL)
    for name in ("crystal_notetaker.py", "pyproject.toml"):
        assert (EXAMPLE / name).read_text("utf-8") in blocks, name
