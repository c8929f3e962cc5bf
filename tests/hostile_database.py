"""A database whose conversation has hostile text in every field, for tests and ``.ci/jupyterlab``."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conftest import NOW, call, conversation, message, store_all

from datasette_crystal import usage
from datasette_crystal.model import Attachment, FileEdit

#: What only a notebook may fall for: MathJax typesets what stands between dollar signs, and its own
#: commands make links and styles.
NOTEBOOK_PAYLOADS = [
    r"$\href{javascript:alert(1)}{x}$",
    r"$$\require{html}\href{javascript:alert(1)}{\style{position:fixed}{x}}$$",
    r"\(\unicode[myfont'\onload=alert(1)]{x0}\)",
    r"$\class{x' onmouseover='alert(1)}{x}$",
    "echo $HOME and $PATH",
    '<div class="jupyter-widgets"><script type="application/vnd.jupyter.widget-view+json">{}</script>',
    "<script type='module'>import 'https://evil.example/x.js'</script>",
    "</style><script>alert(1)</script>",
    "</div></div></div><img src=https://evil.example/pixel.png>",
    "<button data-commandlinker-command='terminal:create-new' data-commandlinker-args='{}'>x</button>",
]

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63d0d0f80f0002b0017f63b2d6c80000000049454e44ae426082"
)


def make(path: Path, payloads: Sequence[str]) -> None:
    """One conversation, ``source`` toy and ``session_id`` hostile, with each payload in the text, the
    thought, the name, input and output of a tool call, the path and diff of an edit, the name of an
    attachment, a model, a title."""
    messages: list[Any] = []
    # what no text of a database can hold, no importer writes
    payloads = [payload.encode("utf-8", "replace").decode() for payload in payloads]
    for number, payload in enumerate(payloads):
        data = {"command": payload, payload: payload, "file_path": payload}
        messages += [
            message(
                f"u{number}",
                f"{payload}\n\n```{payload}\n{payload}\n```\n[{payload}]({payload}) ![{payload}]({payload})",
                kind=("prompt", "command", "shell", "context", "notification")[number % 5],
                timestamp=NOW,
                attachments=[
                    Attachment("image", payload, "image/png", PIXEL),
                    Attachment("image", payload, "image/svg+xml", payload.encode()),
                    Attachment("image", payload, "image/png", payload.encode()),
                ],
            ),
            message(
                f"r{number}",
                payload,
                thinking=payload,
                model=payload,
                tool_calls=[
                    call(
                        ("Bash", "WebFetch", "AskUserQuestion", payload)[number % 4],
                        input=json.dumps(data),
                        output=payload,
                        status="error",
                        edits=[
                            FileEdit(
                                payload, "edit", 1, 1, f"@@ -1 +1 @@\n-{payload}\n+{payload}\n"
                            )
                        ],
                    )
                ],
            ),
        ]
    store_all(
        path,
        conversation(
            "hostile",
            messages,
            title=payloads[0],
            cwd=payloads[0],
            git_branch=payloads[0],
            model=payloads[0],
        ),
    )
    with sqlite3.connect(path) as connection:  # what no importer would write, a file may hold
        connection.execute("update sources set name = ?", (payloads[0],))
        connection.execute("update projects set name = ?", (payloads[0],))
        connection.execute("update messages set kind = ? where position = 1", (payloads[0],))
        connection.execute("update tool_calls set status = ? where id = 1", (payloads[0],))
        connection.execute("update conversations set kind = ?", (payloads[0],))
    connection.close()


def make_for_notebooks(path: Path, payloads: Sequence[str]) -> None:
    """The same, with hostile text in what only the notebooks show, and where they look: at the word
    test, at tokens by model, at failed commands, at files that could not be read."""
    payloads = [*payloads, *NOTEBOOK_PAYLOADS]
    payloads = [payload.encode("utf-8", "replace").decode() for payload in payloads]
    make(path, [f"{payload} test" for payload in payloads])
    connection = sqlite3.connect(path)
    connection.create_function("payload", 1, lambda number: payloads[number % len(payloads)])
    connection.execute("update conversations set kind = 'main', cost_usd = null")
    connection.execute(
        "update messages set output_tokens = 1000 + id, input_tokens = 10 where kind = 'reply'"
    )
    connection.execute(
        "update conversations set prompt_count = "
        "(select sum(kind in ('prompt', 'command', 'shell')) from messages)"
    )
    connection.execute("update tool_calls set exit_code = 1")
    connection.executescript(
        "update tool_calls set status = 'error' where id % 3 > 0; delete from daily_usage;"
        "delete from import_log; delete from source_files; delete from unknown_records"
    )
    for number in range(20):  # as many as the notebooks show
        values = {"n": number}
        connection.execute(
            "insert into source_files (id, source, machine, root, path, size, mtime_ns, marker, "
            "parser_version, outcome) select :n + 1, id, payload(:n), payload(:n), payload(:n), 1, 1, "
            "'', 1, 'error' from sources",
            values,
        )
        connection.execute(
            "insert into unknown_records (source_file_id, location, type, sample) "
            "values (:n + 1, payload(:n), payload(:n), payload(:n + 1))",
            values,
        )
        connection.execute(
            "insert into import_log (run_id, source, file_path, status, message, records, "
            "kept_records, ignored_records, unknown_records, malformed_records, created_at) "
            "select 1, id, payload(:n), 'error', payload(:n), 4, 1, 1, 1, 1, :day from sources",
            values | {"day": "2026-12-01T00:00:00.000Z"},
        )
    usage.refresh(connection, [])
    connection.commit()
    connection.close()
