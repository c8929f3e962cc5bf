"""Sample conversations that ship with the package: a small team's six weeks with two tools.

``HOME`` is a home directory with ``.claude`` and ``.codex`` in it, in the tools' own formats. The
conversations are invented; :mod:`.stories` tells them and :mod:`.build` writes the files.
"""

from pathlib import Path

HOME: Path = Path(__file__).parent / "home"
