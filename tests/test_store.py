"""Storing conversations: counted once, kept for ever, the same in any order."""

from __future__ import annotations

import itertools
import os
import sqlite3
import stat
from pathlib import Path

import pytest
from conftest import (
    NOW,
    call,
    check_invariants,
    contents,
    conversation,
    message,
    query,
    shown,
    store_all,
)

from datasette_crystal import usage
from datasette_crystal.migrations import APPLICATION_ID
from datasette_crystal.model import Attachment, FileEdit, Tokens
from datasette_crystal.store import StoreError, open_for_writing, open_readonly, project_name


def times(*texts: str, minute: int = 0) -> list[str]:
    return [f"2026-11-30T10:{minute + i:02d}:00.000Z" for i, _ in enumerate(texts)]


def chat(*texts: str, prefix: str = "", minute: int = 0, **values: object):
    """Prompts and replies in turn, with uids made of the text."""
    return [
        message(
            ("u" if i % 2 == 0 else "a") + prefix + text,
            text,
            timestamp=f"2026-11-30T10:{minute + i:02d}:00.000Z",
            **values,
        )
        for i, text in enumerate(texts)
    ]


def test_a_conversation_is_stored_with_all_its_parts(database: Path) -> None:
    store_all(
        database,
        conversation(
            "s1",
            [
                message(
                    "u1",
                    "  \nAdd a test\nplease",
                    timestamp="2026-11-30T10:00:00.000Z",
                    attachments=[Attachment("image", "a.png", "image/png", b"\x89PNG")],
                ),
                message(
                    "a1",
                    "Here:\n```python\nx\n```",
                    thinking="Hm.",
                    model="gpt-6",
                    timestamp="2026-11-30T10:01:00.000Z",
                    tokens=Tokens(10, 20, 30, 40, 5),
                    tool_calls=[
                        call(
                            "Edit",
                            input='{"file_path":"/a.py"}',
                            call_id="c1",
                            edits=[FileEdit("/a.py", "edit", 1, 2, "-a\n-b\n+c")],
                        ),
                        call("Bash", status="error", exit_code=2, output="no"),
                    ],
                ),
                message("a2", "", tool_calls=[call("Bash", input='{"command":"ls -la"}')]),
            ],
            model="gpt-6",
            git_branch="main",
        ),
    )
    assert query(
        database,
        "select title, title_origin, source, session_id, git_branch, kind, started_at, ended_at, "
        "prompt_count, message_count, inherited_count, tool_call_count, error_count, input_tokens, "
        "output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens from conversations",
    ) == [
        (
            "Add a test",
            "first-prompt",
            "toy",
            "s1",
            "main",
            "main",
            "2026-11-30T10:00:00.000Z",
            "2026-11-30T10:01:00.000Z",
            1,
            3,
            0,
            3,
            1,
            10,
            20,
            30,
            40,
            5,
        )
    ]
    assert query(
        database, "select title, position, turn, has_code, has_tool_use from messages order by id"
    ) == [
        ("Add a test", 0, 1, 0, 0),
        ("Here:", 1, 1, 1, 1),
        ("[Bash] ls -la", 2, 1, 0, 1),
    ]
    assert query(
        database, "select title, name, status, exit_code, position from tool_calls order by id"
    ) == [
        ("Edit: /a.py", "Edit", "ok", None, 0),
        ("Bash: ls", "Bash", "error", 2, 1),
        ("Bash: ls -la", "Bash", "ok", None, 0),
    ]
    assert query(
        database, "select path, action, lines_added, lines_removed, tool from file_history"
    ) == [("/a.py", "edit", 1, 2, "Edit")]
    assert query(database, "select name, kind, media_type, size, content from attachments") == [
        ("a.png", "image", "image/png", 4, b"\x89PNG")
    ]
    assert query(database, "select name, machine, path from projects") == [
        ("shop", "m1", "/home/ana/shop")
    ]
    check_invariants(database)


def test_reading_again_changes_nothing(database: Path) -> None:
    made = lambda: conversation("s1", chat("one", "two", "three"), title="T", title_origin="tool")  # noqa: E731
    assert store_all(database, made()) == ["imported"]
    before = (
        query(database, "select * from messages"),
        query(database, "select * from conversations"),
    )
    assert store_all(database, made()) == ["unchanged"]
    assert before == (
        query(database, "select * from messages"),
        query(database, "select * from conversations"),
    )


def test_rows_keep_their_id_when_a_conversation_grows(database: Path) -> None:
    store_all(database, conversation("s1", chat("one", "two")))
    ids = query(database, "select id, content from messages")
    assert store_all(database, conversation("s1", chat("one", "two", "three", "four"))) == [
        "updated"
    ]
    assert query(database, "select id, content from messages")[:2] == ids
    assert shown(database, "s1") == [
        (text, "active", 0) for text in ("one", "two", "three", "four")
    ]
    check_invariants(database)


def test_rows_keep_their_id_when_the_tool_gives_new_ids(database: Path) -> None:
    """Codex rewrites rollouts in place: other ids, other record numbers, the same conversation."""
    old = [
        message(f"{'u' if i % 2 == 0 else 'a'}-line-{i}", text, shared_uid=False, record=i)
        for i, text in enumerate(("ask", "OK", "again", "OK", "more"))
    ]
    new = [
        message(
            f"{'u' if i % 2 == 0 else 'a'}-item-{i}", text + " ", shared_uid=False, record=i + 7
        )
        for i, text in enumerate(("ask", "OK", "again", "OK", "more", "new"))
    ]
    store_all(database, conversation("s1", old))
    ids = query(database, "select id from messages order by position")
    store_all(database, conversation("s1", new))
    assert query(database, "select id from messages order by position")[:5] == ids
    assert query(database, "select count(*), sum(state = 'gone') from conversation_messages") == [
        (6, 0)
    ]
    check_invariants(database)


def test_positional_ids_that_moved_are_not_taken_for_the_same_message(database: Path) -> None:
    store_all(
        database,
        conversation(
            "s1",
            [message("u0", "first", shared_uid=False), message("a1", "answer", shared_uid=False)],
        ),
    )
    store_all(
        database,
        conversation(
            "s1",
            [
                message("u0", "put in front", shared_uid=False),
                message("a1", "greeting", shared_uid=False),
                message("u2", "first", shared_uid=False),
                message("a3", "answer", shared_uid=False),
            ],
        ),
    )
    assert [row[0] for row in shown(database, "s1")] == [
        "put in front",
        "greeting",
        "first",
        "answer",
    ]
    assert query(database, "select id from messages where content = 'first'") == [(1,)]
    check_invariants(database)


def test_what_the_tool_dropped_stays_and_is_marked(database: Path) -> None:
    store_all(database, conversation("s1", chat("one", "two", "three", "four")))
    store_all(
        database,
        conversation("s1", [m for m in chat("one", "two", "three", "four") if m.content != "two"]),
    )
    assert shown(database, "s1") == [
        ("one", "active", 0),
        ("two", "gone", 0),
        ("three", "active", 0),
        ("four", "active", 0),
    ]
    check_invariants(database)
    store_all(database, conversation("s1", []))
    assert [row[1] for row in shown(database, "s1")] == ["gone"] * 4
    assert query(database, "select message_count, title from conversations") == [(4, "one")]
    store_all(database, conversation("s1", chat("one", "two", "three", "four")))
    assert shown(database, "s1") == [
        (text, "active", 0) for text in ("one", "two", "three", "four")
    ]
    assert query(database, "select count(*) from messages") == [(4,)]
    check_invariants(database)


@pytest.mark.parametrize(
    "worse",
    ["", "A long ans", "[Old tool result content cleared]"],
    ids=["empty", "prefix", "cleared"],
)
def test_a_poorer_reading_does_not_replace_a_richer_one(database: Path, worse: str) -> None:
    def made(text: str, output: str):
        return conversation(
            "s1", [message("u1", "ask"), message("a1", text, tool_calls=[call(output=output)])]
        )

    store_all(database, made("A long answer", "A long answer"))
    store_all(database, made(worse, worse))
    assert query(database, "select content from messages where uid = 'a1'") == [("A long answer",)]
    assert query(database, "select output from tool_calls") == [("A long answer",)]
    store_all(database, made("Another answer", "Another answer"))
    assert query(database, "select content from messages where uid = 'a1'") == [("Another answer",)]
    assert query(database, "select output from tool_calls") == [("Another answer",)]
    check_invariants(database)


def test_a_result_that_comes_later_completes_the_call(database: Path) -> None:
    store_all(
        database,
        conversation(
            "s1",
            [message("u1", "x"), message("a1", tool_calls=[call(output=None, status="pending")])],
        ),
    )
    store_all(
        database,
        conversation(
            "s1",
            [
                message("u1", "x"),
                message(
                    "a1", tool_calls=[call(output="7", status="ok", duration_ms=5), call("Read")]
                ),
            ],
        ),
    )
    assert query(
        database, "select name, status, output, duration_ms from tool_calls order by id"
    ) == [
        ("Bash", "ok", "7", 5),
        ("Read", "ok", "done", None),
    ]
    assert query(database, "select tool_call_count from conversations") == [(2,)]


def fork_family():
    """A parent, a fork that repeats its first two messages under the same ids, and a fork of that
    fork; each with tokens."""

    def reply(uid: str, text: str, minute: int):
        return message(
            uid,
            text,
            timestamp=f"2026-11-30T10:{minute:02d}:00.000Z",
            tokens=Tokens(1, 10, 0, 0, 0),
            tool_calls=[call(call_id="c" + uid)],
        )

    def ask(uid: str, text: str, minute: int):
        return message(uid, text, timestamp=f"2026-11-30T10:{minute:02d}:00.000Z")

    first = lambda: [ask("u1", "ask", 0), reply("a1", "say", 1)]  # noqa: E731
    second = lambda: [ask("u2", "only in fork", 6), reply("a2", "fork says", 7)]  # noqa: E731
    return [
        conversation("parent", [*first(), ask("u9", "go on", 20), reply("a9", "went on", 21)]),
        conversation(
            "fork",
            [*first(), *second()],
            kind="fork",
            parent_session_id="parent",
            started_at="2026-11-30T10:05:00.000Z",
        ),
        conversation(
            "grandchild",
            [*first(), *second(), ask("u3", "deeper", 31)],
            kind="fork",
            parent_session_id="fork",
            started_at="2026-11-30T10:30:00.000Z",
        ),
    ]


def test_copies_are_counted_once_in_any_order(tmp_path: Path) -> None:
    results = []
    for number, order in enumerate(itertools.permutations(range(3))):
        database = tmp_path / f"{number}.db"
        for index in order:
            store_all(database, fork_family()[index])
        check_invariants(database)
        results.append(contents(database))
    assert all(result == results[0] for result in results)
    database = tmp_path / "0.db"
    assert query(database, "select count(*), sum(output_tokens) from messages") == [(7, 30)]
    assert query(database, "select count(*) from tool_calls") == [(3,)]
    assert query(
        database,
        "select c.session_id, c.message_count, c.inherited_count, c.prompt_count, c.output_tokens, "
        "p.session_id from conversations c left join conversations p on p.id = c.parent_id "
        "order by c.started_at",
    ) == [
        ("parent", 4, 0, 2, 20, None),
        ("fork", 2, 2, 1, 10, "parent"),
        ("grandchild", 1, 4, 1, None, "fork"),
    ]
    assert shown(database, "grandchild") == [
        ("ask", "active", 1),
        ("say", "active", 1),
        ("only in fork", "active", 1),
        ("fork says", "active", 1),
        ("deeper", "active", 0),
    ]
    assert query(
        database, "select day, conversations, prompts, replies, output_tokens from daily_usage"
    ) == [("2026-11-30", 3, 4, 3, 30)]


def resumed_family(count: int = 4):
    """Claude Code 1.0.35: each resume is a new file with all of the history under new uuids and one
    time; only the ids of the model's messages stay."""
    family = []
    for n in range(count):
        stamp = f"2026-11-30T11:{n:02d}:00.000Z"
        messages = []
        for i in range(n):
            messages.append(message(f"u{n}-{i}", f"ask {i}", timestamp=stamp))
            messages.append(
                message(f"msg{i}", f"say {i}", timestamp=stamp, tokens=Tokens(output=1))
            )
        own = f"2026-11-30T11:{n:02d}:05.000Z"
        messages.append(message(f"u{n}-{n}", f"ask {n}", timestamp=own))
        messages.append(message(f"msg{n}", f"say {n}", timestamp=own, tokens=Tokens(output=1)))
        family.append(conversation(f"s{n}", messages))
    return family


def test_a_session_resumed_under_new_ids_is_one_conversation_in_any_order(tmp_path: Path) -> None:
    results = []
    for number, order in enumerate(itertools.permutations(range(4))):
        database = tmp_path / f"{number}.db"
        for index in order:
            store_all(database, resumed_family()[index])
            check_invariants(database)
        # reading any of its files again changes nothing
        assert store_all(database, *resumed_family()) == ["unchanged"] * 4
        results.append(contents(database))
    database = tmp_path / "0.db"
    assert query(database, "select session_id, message_count, prompt_count from conversations") == [
        ("s0", 8, 4)
    ]
    assert [row[0] for row in shown(database, "s0")] == [
        text for i in range(4) for text in (f"ask {i}", f"say {i}")
    ]
    assert query(
        database, "select uid, timestamp, turn, output_tokens from messages order by position"
    ) == [
        row
        for i in range(4)
        for row in (
            (f"u{i}-{i}", f"2026-11-30T11:{i:02d}:05.000Z", i + 1, None),
            (f"msg{i}", f"2026-11-30T11:{i:02d}:05.000Z", i + 1, 1),
        )
    ]
    assert query(database, "select session_id from resumed_sessions order by 1") == [
        ("s1",),
        ("s2",),
        ("s3",),
    ]
    assert all(result == results[0] for result in results)


def test_a_resumed_session_that_goes_another_way_is_a_conversation_of_its_own(
    database: Path,
) -> None:
    """Two resumes of one session, each with a prompt of its own: the first goes on with it."""
    family = resumed_family(3)
    other = conversation(
        "other",
        [
            message("ux-0", "ask 0", timestamp="2026-11-30T12:00:00.000Z"),
            message("msg0", "say 0", timestamp="2026-11-30T12:00:00.000Z"),
            message("ux-1", "another way", timestamp="2026-11-30T12:00:05.000Z"),
            message("msg9", "another answer", timestamp="2026-11-30T12:00:06.000Z"),
        ],
    )
    store_all(database, *family, other)
    assert query(
        database,
        "select session_id, message_count, inherited_count from conversations order by id",
    ) == [("s0", 6, 0), ("other", 2, 2)]
    check_invariants(database)


def test_the_same_words_in_two_conversations_are_two_prompts(database: Path) -> None:
    """Both go on after a common start, with the same word."""
    start = lambda: chat("ask", "say")  # noqa: E731
    store_all(
        database,
        conversation(
            "s1", [*start(), message("ux", "continue", timestamp="2026-11-30T10:10:00.000Z")]
        ),
        conversation(
            "s2",
            [*start(), message("uy", "continue", timestamp="2026-11-30T10:20:00.000Z")],
            started_at="2026-11-30T10:15:00.000Z",
        ),
    )
    assert query(database, "select count(*) from messages where content = 'continue'") == [(2,)]


def test_equal_ids_with_other_content_and_time_are_two_messages(database: Path) -> None:
    """A proxy that numbers its messages from 1 in every session."""
    store_all(
        database,
        conversation(
            "s1", [message("u1", "a", timestamp="2026-11-30T10:00:00.000Z"), message("a1", "b")]
        ),
        conversation(
            "s2", [message("u1", "c", timestamp="2026-11-30T10:05:00.000Z"), message("a1", "d")]
        ),
    )
    assert query(database, "select count(*) from messages") == [(4,)]
    assert shown(database, "s2") == [("c", "active", 0), ("d", "active", 0)]
    check_invariants(database)


def test_an_id_twice_in_one_conversation_is_two_messages(database: Path) -> None:
    made = lambda: conversation("s1", [message("u1", "a"), message("u1", "b"), message("u1", "c")])  # noqa: E731
    store_all(database, made())
    assert query(database, "select uid, content from messages") == [
        ("u1", "a"),
        ("u1~2", "b"),
        ("u1~3", "c"),
    ]
    assert store_all(database, made()) == ["unchanged"]


def declared_family():
    """Codex before 0.148: a fork repeats its parent's messages without ids, stamped anew; and a
    subagent repeats only some of them."""

    def plain(uid: str, text: str, stamp: str, inherited: bool = False):
        calls = [call(call_id="c" + text, started_at=stamp)] if uid.startswith("a") else []
        return message(
            uid, text, timestamp=stamp, inherited=inherited, shared_uid=False, tool_calls=calls
        )

    early, late = "2026-11-30T10:00:00.000Z", "2026-11-30T10:30:00.000Z"
    return [
        conversation(
            "parent",
            [
                plain("u1", "ask", early),
                plain("a2", "OK", early),
                plain("u3", "more", early),
                plain("a4", "OK", early),
            ],
        ),
        conversation(
            "fork",
            [
                plain("u1", "ask", late, True),
                plain("a2", "OK", late, True),
                plain("u5", "more", late),
                plain("a6", "OK", late),
            ],
            kind="fork",
            parent_session_id="parent",
            started_at=late,
        ),
        conversation(
            "sub",
            [plain("u7", "more", late, True), plain("a8", "found", late)],
            kind="subagent",
            parent_session_id="parent",
            started_at="2026-11-30T10:40:00.000Z",
        ),
    ]


def test_declared_copies_are_counted_once_in_any_order(tmp_path: Path) -> None:
    results = []
    for number, order in enumerate(itertools.permutations(range(3))):
        database = tmp_path / f"{number}.db"
        for index in order:
            store_all(database, declared_family()[index])
        check_invariants(database)
        results.append(contents(database))
    database = tmp_path / "0.db"
    assert query(database, "select count(*) from messages") == [(7,)]
    assert shown(database, "fork") == [
        ("ask", "active", 1),
        ("OK", "active", 1),
        ("more", "active", 0),
        ("OK", "active", 0),
    ]
    assert shown(database, "sub") == [("more", "active", 1), ("found", "active", 0)]
    assert all(result == results[0] for result in results)


def test_declared_copies_stay_while_the_parent_is_not_there(database: Path) -> None:
    store_all(database, declared_family()[1])
    assert shown(database, "fork") == [(t, "active", 0) for t in ("ask", "OK", "more", "OK")]


def test_a_copy_that_names_no_parent_is_linked_to_what_it_repeats(tmp_path: Path) -> None:
    results = []
    for number, order in enumerate(itertools.permutations(range(3))):
        database = tmp_path / f"{number}.db"
        for index in order:
            store_all(database, unnamed_family()[index])
        check_invariants(database)
        assert store_all(database, *unnamed_family()) == ["unchanged"] * 3
        results.append(contents(database))
    assert query(
        tmp_path / "0.db",
        "select c.session_id, c.kind, p.session_id from conversations c "
        "left join conversations p on p.id = c.parent_id order by c.started_at",
    ) == [("parent", "main", None), ("fork", "fork", "parent"), ("grandchild", "fork", "fork")]
    assert all(result == results[0] for result in results)


def unnamed_family():
    family = fork_family()
    for item in family:
        item.kind, item.parent_session_id = "main", None
    return family


def referring_family():
    """Codex since 0.148: a fork holds only its own records and says up to where its parent's belong
    to it; ordinals go on counting."""

    def at(uid: str, record: int):
        return message(
            uid,
            f"text {uid}",
            record=record,
            shared_uid=True,
            timestamp=f"2026-11-30T10:{record:02d}:00.000Z",
        )

    return [
        conversation("parent", [at("u1", 3), at("a1", 5), at("u2", 9), at("a2", 11)]),
        conversation(
            "fork",
            [at("u3", 12), at("a3", 14)],
            kind="fork",
            parent_session_id="parent",
            inherits_until=9,
        ),
        conversation(
            "deep", [at("u4", 20)], kind="fork", parent_session_id="fork", inherits_until=14
        ),
    ]


def test_forks_by_reference_show_their_parents_history_in_any_order(tmp_path: Path) -> None:
    results = []
    for number, order in enumerate(itertools.permutations(range(3))):
        database = tmp_path / f"{number}.db"
        for index in order:
            store_all(database, referring_family()[index])
            check_invariants(database)
        results.append(contents(database))
        assert [row[0] for row in shown(database, "deep")] == [
            "text u1",
            "text a1",
            "text u3",
            "text u4",
        ]
        # once more: nothing moves
        assert store_all(database, *referring_family()) == ["unchanged"] * 3
        assert contents(database) == results[-1]
    assert all(result == results[0] for result in results)


def test_forks_that_refer_to_each_other_do_no_harm(database: Path) -> None:
    store_all(
        database,
        conversation("a", [message("u1", "x", record=1)], parent_session_id="b", inherits_until=9),
        conversation("b", [message("u2", "y", record=1)], parent_session_id="a", inherits_until=9),
        conversation("c", [message("u3", "z", record=1)], parent_session_id="c", inherits_until=9),
    )
    assert query(database, "select count(*) from messages") == [(3,)]
    assert query(database, "select parent_id from conversations where session_id = 'c'") == [
        (None,)
    ]
    check_invariants(database)


def test_a_subagent_is_linked_whichever_comes_first(tmp_path: Path) -> None:
    for number, order in enumerate(((0, 1), (1, 0))):
        database = tmp_path / f"{number}.db"
        both = [
            conversation(
                "main",
                [
                    message("u1", "go"),
                    message("a1", tool_calls=[call("Task", subagent_session_id="agent-7")]),
                ],
            ),
            conversation(
                "agent-7", chat("task", "done"), kind="subagent", parent_session_id="main"
            ),
        ]
        for index in order:
            store_all(database, both[index])
        assert query(
            database,
            "select s.session_id, p.session_id from tool_calls t join conversations s "
            "on s.id = t.subagent_id join conversations p on p.id = s.parent_id",
        ) == [("agent-7", "main")]


def test_prompts_of_a_lost_transcript_give_way_to_the_transcript(tmp_path: Path) -> None:
    history = lambda: conversation(  # noqa: E731
        "s1",
        [message("u-h1", "one", shared_uid=False), message("u-h2", "never sent", shared_uid=False)],
        kind="prompt-history",
    )
    results = []
    for number, order in enumerate(((0, 1), (1, 0))):
        database = tmp_path / f"{number}.db"
        for index in order:
            store_all(database, (conversation("s1", chat("one", "two")), history())[index])
        check_invariants(database)
        assert shown(database, "s1") == [("one", "active", 0), ("two", "active", 0)]
        results.append(contents(database))
    assert results[0] == results[1]


def test_what_a_copy_knows_better_is_added_up_by_the_owner(database: Path) -> None:
    """The owner's sums and the daily figures follow when a fork fills in tokens."""
    start = times("")[0]

    def family(tokens: Tokens | None):
        first = [message("u1", "ask", timestamp=start), message("a1", "say", timestamp=start)]
        copy = [
            message("u1", "ask", timestamp=start),
            message("a1", "say", timestamp=start, tokens=tokens),
            message("u2", "go on", timestamp="2026-12-01T10:00:00.000Z"),
        ]
        return [
            conversation("A", first),
            conversation("B", copy, started_at="2026-12-01T10:00:00.000Z"),
        ]

    store_all(database, *family(None))
    store_all(database, family(Tokens(5, 7))[1])
    assert query(database, "select session_id, output_tokens from conversations order by 1") == [
        ("A", 7),
        ("B", None),
    ]
    assert query(database, "select sum(output_tokens) from daily_usage") == [(7,)]
    check_invariants(database)


def test_titles_are_kept_when_the_tool_drops_them(database: Path) -> None:
    store_all(database, conversation("s1", chat("one", "two"), title="Mine", title_origin="user"))
    store_all(database, conversation("s1", chat("one", "two", "three")))
    assert query(database, "select title, title_origin from conversations") == [("Mine", "user")]
    store_all(
        database,
        conversation("s1", chat("one", "two", "three"), title="Better", title_origin="user"),
    )
    assert query(database, "select title, title_origin from conversations") == [("Better", "user")]


def test_days_add_up(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_all(
        database,
        conversation(
            "s1",
            [
                message("u1", "a", timestamp="2026-11-28T10:00:00.000Z"),
                message(
                    "a1", "b", timestamp="2026-11-29T10:00:00.000Z", model="m1", tokens=Tokens(1, 2)
                ),
                message("a2", "", tool_calls=[call(status="error")]),
            ],
            model="m1",
        ),
        conversation("s2", [message("u2", "c"), message("a3", "d", model="m2")]),
        conversation("s3", [message("u4", "lost")], kind="prompt-history"),
    )
    expected = [
        ("2026-11-28", "m1", 1, 1, 0, 1, 1),
        ("2026-11-29", "m1", 0, 0, 1, 0, 0),
        ("undated", None, 1, 1, 0, 0, 0),
        ("undated", "m2", 0, 0, 1, 0, 0),
    ]
    sql = (
        "select day, model, conversations, prompts, replies, tool_calls, errors from daily_usage "
        "order by day, model"
    )
    assert query(database, sql) == expected
    # a change of one conversation refreshes its days only, to the same figures as a rebuild
    store_all(
        database,
        conversation(
            "s2",
            [
                message("u2", "c"),
                message("a3", "d", model="m2"),
                message("u5", "e", timestamp="2026-11-29T11:00:00.000Z"),
            ],
        ),
    )
    incremental = query(database, sql)
    # messages without a time count on the day that their conversation began, which is known now
    assert incremental == [
        ("2026-11-28", "m1", 1, 1, 0, 1, 1),
        ("2026-11-29", None, 1, 2, 0, 0, 0),
        ("2026-11-29", "m1", 0, 0, 1, 0, 0),
        ("2026-11-29", "m2", 0, 0, 1, 0, 0),
    ]
    connection = sqlite3.connect(database)
    connection.execute("delete from daily_usage")
    usage.refresh(connection, [])
    connection.commit()
    connection.close()
    assert query(database, sql) == incremental


def test_full_text_follows_the_messages(database: Path) -> None:
    store_all(database, conversation("s1", chat("alpha 数据迁移", "beta")))
    find = lambda word: query(  # noqa: E731
        database, "select rowid from messages_fts where messages_fts match ?", word
    )
    cjk = lambda text: query(  # noqa: E731
        database,
        "select rowid from messages_cjk where messages_cjk match ?",
        '"' + " ".join(text) + '"',
    )
    assert (
        find("alpha") == [(1,)]
        and cjk("迁移") == [(1,)]
        and cjk("移") == [(1,)]
        and cjk("迁据") == []
    )
    store_all(
        database,
        conversation("s1", [message("ualpha 数据迁移", "gamma 备份"), *chat("x", "beta")[1:]]),
    )
    assert find("alpha") == [] and find("gamma") == [(1,)]
    assert cjk("迁移") == [] and cjk("备份") == [(1,)]
    check_invariants(database)


def test_words_that_touch_cjk_characters_are_found(database: Path) -> None:
    store_all(
        database,
        conversation("s1", chat("用pytest测试，再改foo_bar/b.py。", "先跑test, 然后 alone 吧")),
    )

    def cjk(phrase: str) -> list[tuple[int]]:
        return query(
            database,
            "select rowid from messages_cjk where messages_cjk match ? order by rowid",
            f'"{phrase}"',
        )

    assert cjk("pytest") == cjk("用 pytest 测") == cjk("foo_bar") == cjk("b.py") == [(1,)]
    assert cjk("跑 test") == [(2,)]
    assert cjk("试 再") == cjk("test 然") == cjk("alone") == []  # they do not touch


def test_text_that_sqlite_cannot_hold_is_mended(database: Path) -> None:
    store_all(
        database,
        conversation(
            "s\udfff1",
            [
                message("u\ud83d", "a\0b \ud83d c", thinking="\udcb2"),
                message(
                    "a1",
                    "",
                    tool_calls=[call("T\ud800", input='"\udcff"', output="\0", call_id="\ud801")],
                ),
            ],
            title="t\ud83d",
            cwd="/h/\udcff",
        ),
    )
    assert query(database, "select content from messages where position = 0") == [
        ("a\N{SYMBOL FOR NULL}b \ufffd c",)
    ]
    check_invariants(database)


def test_a_new_file_is_private_and_one_file_at_rest(tmp_path: Path) -> None:
    database = tmp_path / "crystal.db"
    old = os.umask(0)
    try:
        store_all(database, conversation("s1", chat("one", "two")))
    finally:
        os.umask(old)
    if os.name == "posix":
        assert stat.S_IMODE(database.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["crystal.db"]
    assert query(database, "pragma journal_mode") == [("delete",)]
    assert query(database, "pragma application_id") == [(APPLICATION_ID,)]


def test_other_databases_are_refused_unharmed(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("create table conversations (id)")
    connection.close()
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be read as one\n" * 30)
    for path in (other, text):
        before = path.read_bytes()
        with pytest.raises(StoreError) as refused:
            open_for_writing(path)
        assert str(path) in str(refused.value) and "\n" not in str(refused.value)
        with pytest.raises(StoreError):
            open_readonly(path)
        assert path.read_bytes() == before


def test_a_newer_database_is_refused_unharmed(database: Path) -> None:
    store_all(database, conversation("s1", chat("one", "two")))
    connection = sqlite3.connect(database)
    connection.execute(
        "insert into _sqlite_migrations (migration_set, name, applied_at) "
        "values ('crystal', 'm999_future', ?)",
        (NOW,),
    )
    connection.commit()
    connection.close()
    before = database.read_bytes()
    with pytest.raises(StoreError, match="m999_future"):
        open_for_writing(database)
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    "path,name",
    [
        ("/home/ana/shop", "shop"),
        ("/home/ana/my.shop/", "my.shop"),
        ("C:\\Users\\Ana\\shop", "shop"),
        ("c:/Users/Ana/shop", "shop"),
        ("\\\\server\\share\\shop", "shop"),
        ("/", "/"),
    ],
)
def test_project_names_in_the_way_of_their_machine(path: str, name: str) -> None:
    assert project_name(path) == name
