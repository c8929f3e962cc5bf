"""crystal.db in a notebook: DataFrames, a search, and conversations that one can read.

>>> from datasette_crystal import notebook
>>> crystal = notebook.open("crystal.db")
>>> crystal.conversations(source="codex", since="2026-11-01")
>>> crystal.sql("select kind, count(*) as messages from messages group by kind")
>>> crystal.search('"race condition" -mysql')
>>> crystal.conversation(17)

Needs ``pip install datasette-crystal[notebook]``. Importing this module imports neither Datasette
nor pandas, and nothing here writes: the database is opened read-only, while imports may go on.
"""

from __future__ import annotations

import html
import json
import os
import re
import sqlite3
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .model import CALL_STATUSES, CONVERSATION_KINDS, EDIT_ACTIONS, MESSAGE_KINDS, ROLES

if TYPE_CHECKING:
    from types import TracebackType

    import pandas as pd

__all__ = [
    *("Conversation", "Crystal", "CrystalError", "Table", "Transcript"),
    *("open", "table", "use_charts"),
]

#: What a filter takes: one value, or several of which any will do.
Filter: TypeAlias = "str | Iterable[str] | None"
#: A day (``"2026-11-30"``), a time, or nothing.
When: TypeAlias = "str | date | None"


class CrystalError(Exception):
    """What went wrong, in one line: no such file, no crystal database, an SQL error."""


def open(path: str | os.PathLike[str] = "crystal.db") -> Crystal:
    """Opens a crystal database to read.

    ``path`` is the file that ``datasette crystal import`` writes. Raises :class:`CrystalError` when
    there is no such file, when it is something else, or when a newer version of datasette-crystal
    wrote it.

    >>> crystal = notebook.open("crystal.db")
    >>> with notebook.open("crystal.db") as crystal:  # closes it in the end
    ...     print(crystal)
    """
    return Crystal(path)


class Crystal:
    """A crystal database, to read. Made by :func:`open`.

    ==========================  =====================================================
    ``conversations(...)``      one row for each conversation
    ``messages(...)``           one row for each step of them
    ``tool_calls(...)``         what the model did
    ``file_edits(...)``         what it changed
    ``usage(...)``              tokens and dollars by day, source, project and model
    ``sql("select ...")``       anything
    ``search("...")``           messages that hold words
    ``conversation(17)``        one conversation, to read
    ``tables()``, ``columns()`` what there is, and what it means
    ==========================  =====================================================

    All but ``conversation`` give a pandas DataFrame: times are UTC timestamps, counts are ``Int64``
    (they may be missing), flags are ``boolean``. Filters take one value or a list of them:
    ``source=["codex", "cursor"]``; ``since`` and ``until`` take days, both included, or times (UTC).
    A source, kind, role, status or action that does not exist raises :class:`ValueError`, which
    names those that do.

    A frame shows itself in Jupyter, and what stands in it shows as text. ``frame.style`` of pandas
    does not see to that: it would run the HTML of a prompt. ``notebook.table(frame)`` does.
    """

    def __init__(self, path: str | os.PathLike[str] = "crystal.db") -> None:
        from .store import StoreError, open_readonly

        self.path = Path(path)
        try:
            self._connection = open_readonly(self.path)
            # a transaction would stand where it began, and not see what imports bring
            self._connection.isolation_level = None
        except StoreError as error:
            raise CrystalError(str(error)) from None
        if not self._rows("select 1 from sqlite_master where name = 'conversations'"):
            self.close()
            raise CrystalError(
                f"{self.path} is empty; `datasette crystal import` puts conversations into it"
            )
        self._types: dict[str, str] | None = None

    # ------------------------------------------------------------------ open and close

    def __enter__(self) -> Crystal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the database. Frames stay as they are."""
        self._connection.close()

    def __repr__(self) -> str:
        try:
            conversations, first, last = self._rows(
                "select count(*), min(started_at), max(started_at) from conversations"
            )[0]
            messages = self._rows("select count(*) from messages")[0][0]
            sources = [row[0] for row in self._rows("select name from sources order by name")]
        except CrystalError as error:
            return f"<Crystal {self.path}: {error}>"
        text = f"<Crystal {self.path}: {_many(conversations, 'conversation')}"
        text += f", {_many(messages, 'message')}"
        if sources:
            text += f" of {', '.join(_line(name) for name in sources)}"
        if first:
            text += f"; {first[:10]} to {last[:10]}"
        return text + ">"

    # ------------------------------------------------------------------ SQL

    def sql(self, sql: str, **parameters: Any) -> pd.DataFrame:
        """The rows of an SQL query as a DataFrame. ``parameters`` fill ``:names`` in it.

        >>> crystal.sql("select * from tool_stats order by calls desc limit 10")
        >>> crystal.sql(
        ...     "select model, count(*) as replies from messages "
        ...     "where kind = 'reply' and timestamp >= :since group by model",
        ...     since="2026-11-01",
        ... )

        Add up in SQL what you can: it is many times quicker than loading rows to add them up.
        Columns that hold times become UTC timestamps, whole numbers ``Int64``, days
        ``datetime64``, also where there are no rows, as far as the columns are those of a table.
        """
        cursor = self._execute(sql, {name: _plain(value) for name, value in parameters.items()})
        if cursor.description is None:
            if self._connection.in_transaction:
                self._connection.rollback()
            raise CrystalError("this statement gives no rows: only queries can be run here")
        names = [entry[0] for entry in cursor.description]
        try:
            return self._frame(names, cursor.fetchall())
        except sqlite3.Error as error:
            raise CrystalError(str(error)) from None

    def _execute(self, sql: str, parameters: Mapping[str, Any]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, parameters)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise CrystalError(str(error)) from None

    def _rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        return self._execute(sql, parameters or {}).fetchall()

    def _frame(
        self, names: Sequence[str], rows: Iterable[Sequence[Any]], categories: bool = False
    ) -> pd.DataFrame:
        from . import frames

        if self._types is None:
            computed = {"list_price_usd": "real"}
            self._types = frames.declared_types(self._connection) | computed
        return frames.frame(names, rows, self._types, frames.CATEGORIES if categories else ())

    def _check(
        self, name: str, value: Filter, known: Collection[str], table: str, column: str = ""
    ) -> None:
        """Raises :class:`ValueError` when a filter asks for something that neither this version nor
        this database knows: an empty result would look like an answer."""
        wrong = [] if value is None else [one for one in _several(value) if one not in known]
        if not wrong:
            return
        rows = self._rows(f"select distinct {column or name} from {table}")
        there = {str(row[0]) for row in rows if row[0] is not None}
        for one in wrong:
            if one not in there:
                choice = _either([*known, *sorted(there.difference(known))])
                raise ValueError(f"{name} is {choice}, not {one!r}")

    def _check_source(self, value: Filter) -> None:
        if value is None:
            return
        there = [row[0] for row in self._rows("select id from sources order by id")]
        if set(_several(value)) <= set(there):
            return
        from .plugins import get_adapters

        self._check("source", value, [*get_adapters()], "sources", "id")

    def _select(self, columns: str, source: str, where: _Where, order: str) -> pd.DataFrame:
        cursor = self._execute(
            f"select {columns} from {source} {where.sql()} order by {order}{where.limit}",
            where.parameters,
        )
        names = [entry[0] for entry in cursor.description]
        return self._frame(names, cursor.fetchall(), categories=True)

    # ------------------------------------------------------------------ tables

    def conversations(
        self,
        *,
        source: Filter = None,
        project: Filter = None,
        kind: Filter = None,
        model: Filter = None,
        since: When = None,
        until: When = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """Conversations, newest first: one row each, with the columns of the table
        ``conversations`` and the project's name and path.

        ``kind`` is ``main``, ``subagent``, ``fork``, ``review`` or ``prompt-history``; ``project``
        is a name or a path; ``since`` and ``until`` look at ``started_at``.

        ``cost_usd`` is what the tool recorded, and most record nothing. ``list_price_usd`` is what
        the tokens would cost at the API list price - not your bill: see :meth:`usage` - and missing
        where no model of the conversation has one, or no tokens were recorded. Both are for the
        conversation alone, without its subagents.

        >>> crystal.conversations(kind="main", project="shop", since="2026-11-01")
        >>> crystal.conversations().nlargest(10, "list_price_usd")
        """
        self._check_source(source)
        self._check("kind", kind, CONVERSATION_KINDS, "conversations")
        where = _Where(limit)
        where.any_of("c.source", source)
        where.any_of("c.kind", kind)
        where.any_of("c.model", model)
        where.project(project)
        where.between("c.started_at", since, until)
        cursor = self._execute(
            "select c.id, c.title, c.source, p.name as project, p.path as project_path, c.kind, "
            "c.model, "
            "c.started_at, c.ended_at, c.prompt_count, c.message_count, c.tool_call_count, "
            "c.error_count, c.inherited_count, c.input_tokens, c.output_tokens, "
            "c.cache_read_tokens, c.cache_write_tokens, c.reasoning_tokens, c.cost_usd, "
            "c.cost_origin, null as list_price_usd, c.git_branch, c.parent_id, c.cwd, "
            "c.tool_version, c.machine, c.title_origin, c.session_id, c.archived, c.fidelity, "
            "c.imported_at, c.updated_at, c.missing_since "
            "from conversations c left join projects p on p.id = c.project_id "
            f"{where.sql()} order by c.started_at desc, c.id desc{where.limit}",
            where.parameters,
        )
        names = [entry[0] for entry in cursor.description]
        rows = [list(row) for row in cursor]
        prices = self._list_prices([row[0] for row in rows])
        at = names.index("list_price_usd")
        for row in rows:
            row[at] = prices.get(row[0])
        return self._frame(names, rows, categories=True)

    def _list_prices(self, ids: Sequence[int]) -> dict[int, float]:
        """US dollars at list price by conversation, for those that have tokens of a priced model.
        Days and models are those of ``daily_usage``, so that both add up to the same."""
        from .web import cost

        prices: dict[int, float] = {}
        for id, model, day, *tokens in self._rows(
            "select c.id, coalesce(m.model, c.model), "
            "coalesce(date(coalesce(m.timestamp, c.started_at), 'localtime'), 'undated'), "
            + ", ".join(f"coalesce(sum(m.{kind}), 0)" for kind in _PRICED)
            + " from json_each(:ids) i cross join conversations c on c.id = i.value "
            "join messages m on m.conversation_id = c.id "
            f"where coalesce({', '.join(f'm.{kind}' for kind in _PRICED)}) is not null "
            "group by 1, 2, 3",
            {"ids": json.dumps(ids)},
        ):
            rates = cost.rates(model, day) if any(tokens) else None
            if rates is not None:
                prices[id] = prices.get(id, 0.0) + rates.price(*tokens)
        return prices

    def messages(
        self,
        *,
        source: Filter = None,
        project: Filter = None,
        kind: Filter = None,
        role: Filter = None,
        model: Filter = None,
        conversation: int | None = None,
        since: When = None,
        until: When = None,
        limit: int | None = None,
        text: bool = True,
    ) -> pd.DataFrame:
        """Messages, newest first: each once, however many forks repeat it.

        ``kind`` says whose words they are: a person's ``prompt``, ``command``, ``shell``,
        ``answer``; the model's ``reply``; see ``crystal.columns("messages")``. ``text=False`` leaves
        out ``content`` and ``thinking``, which are nearly all of it. ``conversation`` is a number:
        the messages that it owns. For a conversation as it reads, take
        ``crystal.conversation(17).to_frame()``.

        >>> crystal.messages(kind=["prompt", "command"], since="2026-11-01")
        """
        self._check_source(source)
        self._check("kind", kind, MESSAGE_KINDS, "messages")
        self._check("role", role, ROLES, "messages")
        where = _Where(limit)
        where.any_of("m.source", source)
        where.any_of("m.kind", kind)
        where.any_of("m.role", role)
        where.any_of("m.model", model)
        where.conversation("m.conversation_id", conversation)
        where.project(project)
        where.between("m.timestamp", since, until)
        return self._select(
            "m.id, m.timestamp, m.kind, m.role, m.source, p.name as project, m.conversation_id, "
            "c.title as conversation, m.position, m.turn, m.model, m.title, m.has_code, "
            "m.has_tool_use, m.characters, m.input_tokens, m.output_tokens, m.cache_read_tokens, "
            "m.cache_write_tokens, m.reasoning_tokens, m.vote, m.uid"
            + (", m.content, m.thinking" if text else ""),
            "messages m join conversations c on c.id = m.conversation_id "
            "left join projects p on p.id = c.project_id",
            where,
            "m.timestamp desc, m.id desc",
        )

    def tool_calls(
        self,
        *,
        name: Filter = None,
        status: Filter = None,
        source: Filter = None,
        project: Filter = None,
        conversation: int | None = None,
        since: When = None,
        until: When = None,
        limit: int | None = None,
        text: bool = False,
    ) -> pd.DataFrame:
        """Tool calls, newest first. ``status`` is ``ok``, ``error``, ``denied``, ``interrupted``,
        ``pending`` or ``unknown``. ``text=True`` adds ``input`` and ``output``, which are most of a
        crystal database.

        >>> crystal.tool_calls(name="Bash", status="error", text=True, limit=20)
        """
        self._check_source(source)
        self._check("status", status, CALL_STATUSES, "tool_calls")
        where = _Where(limit)
        where.any_of("t.name", name)
        where.any_of("t.status", status)
        where.any_of("c.source", source)
        where.conversation("t.conversation_id", conversation)
        where.project(project)
        where.between("t.started_at", since, until)
        return self._select(
            "t.id, t.started_at, t.name, t.title, t.status, t.exit_code, t.duration_ms, c.source, "
            "p.name as project, t.conversation_id, c.title as conversation, t.message_id, "
            "t.position, t.call_id, t.subagent_id" + (", t.input, t.output" if text else ""),
            "tool_calls t join conversations c on c.id = t.conversation_id "
            "left join projects p on p.id = c.project_id",
            where,
            "t.started_at desc, t.id desc",
        )

    def file_edits(
        self,
        *,
        path: str | None = None,
        action: Filter = None,
        source: Filter = None,
        project: Filter = None,
        conversation: int | None = None,
        since: When = None,
        until: When = None,
        limit: int | None = None,
        text: bool = False,
    ) -> pd.DataFrame:
        """Changes that tool calls made to files, newest first. ``path`` is a file, or the end of
        one: ``README.md``, ``shop/cart.py``. ``text=True`` adds the diffs.

        >>> crystal.file_edits(path="cart.py", text=True)
        """
        self._check_source(source)
        self._check("action", action, EDIT_ACTIONS, "file_edits")
        where = _Where(limit)
        if path is not None:
            where.add("substr(e.path, -length(:path)) = :path", path=path)
        where.any_of("e.action", action)
        where.any_of("c.source", source)
        where.conversation("e.conversation_id", conversation)
        where.project(project)
        where.between("m.timestamp", since, until)
        return self._select(
            "e.id, m.timestamp, e.path, e.action, e.lines_added, e.lines_removed, t.name as tool, "
            "t.status, c.source, p.name as project, e.conversation_id, c.title as conversation, "
            "e.message_id, t.id as tool_call_id" + (", e.diff" if text else ""),
            "file_edits e join messages m on m.id = e.message_id "
            "join conversations c on c.id = e.conversation_id "
            "left join projects p on p.id = c.project_id left join tool_calls t "
            "on t.message_id = e.message_id and t.position = e.position",
            where,
            "m.timestamp desc, e.id desc",
        )

    def usage(
        self,
        *,
        source: Filter = None,
        project: Filter = None,
        model: Filter = None,
        since: When = None,
        until: When = None,
    ) -> pd.DataFrame:
        """What each day took, by source, project and model: conversations, prompts, replies, tool
        calls, errors, tokens and dollars. Every column adds up to the whole.

        ``day`` is a day in the time zone of the machine that imported, missing for what has no time.
        ``cost_usd`` is what the tool recorded (on the day that the conversation began) where
        ``cost_origin`` is ``recorded``. Else it is what the tokens would cost at the list price of
        the model's maker - what you pay with a subscription is something else, and ``cost_origin``
        says so. Where both are missing, nobody knows a price.

        >>> crystal.usage(since="2026-11-01").groupby("model", observed=True).output_tokens.sum()
        """
        from .web import cost

        self._check_source(source)
        where = _Where(None)
        where.any_of("d.source", source)
        where.any_of("d.model", model)
        where.project(project, "d.project_id")
        where.days("d.day", since, until)
        cursor = self._execute(
            "select d.day, d.source, p.name as project, p.path as project_path, d.model, "
            "d.conversations, d.prompts, d.replies, d.tool_calls, d.errors, d.input_tokens, "
            "d.output_tokens, d.cache_read_tokens, d.cache_write_tokens, d.reasoning_tokens, "
            "d.cost_usd, d.cost_origin "
            f"from daily_usage d left join projects p on p.id = d.project_id {where.sql()} "
            "order by d.day, d.source, p.name, d.model",
            where.parameters,
        )
        names = [entry[0] for entry in cursor.description]
        rows = []
        for row in cursor:
            day, name, origin = row[0], row[4], row[-1]
            tokens = [row[names.index(kind)] or 0 for kind in _PRICED]
            rates = cost.rates(name, day) if any(tokens) and origin is None else None
            if rates is not None:
                row = (*row[:-2], rates.price(*tokens), cost.LABEL)
            rows.append(row)
        return self._frame(names, rows, categories=True)

    # ------------------------------------------------------------------ search

    def search(
        self,
        text: str,
        *,
        place: str | None = None,
        source: Filter = None,
        project: Filter = None,
        kind: Filter = None,
        since: When = None,
        until: When = None,
        best: bool = False,
        limit: int = 100,
    ) -> pd.DataFrame:
        """Messages that hold all of these words, newest first (or, with ``best``, by how well they
        match), with the passage where they stand.

        Words, ``"phrases"``, ``prefix*``, ``-without``, identifiers (``foo_bar``, ``a/b.py``), and
        Chinese, Japanese and Korean text from one character on. ``place`` is ``prompts``,
        ``replies`` or ``thinking``.

        >>> crystal.search('lock "race condition" -mysql', place="replies")
        >>> crystal.search("数据库")
        """
        from .web import search_page, search_terms
        from .web.reader import Reader, run

        if place is not None and place not in search_page._PLACE_SQL:
            raise ValueError(f"place is {_either(search_page._PLACE_SQL)}, not {place!r}")
        self._check_source(source)
        self._check("kind", kind, MESSAGE_KINDS, "messages")
        terms = search_terms.parse(text)
        for note in terms.notes:
            warnings.warn(note, stacklevel=2)
        reader = Reader(self._connection)
        where = _Where(limit)
        rank = None
        if terms.all:
            indexes = run(search_page._indexes(reader))
            if "messages_fts" not in indexes:
                raise CrystalError("the word index is made at the end of the first import")
            touching = run(search_page._touching(reader, terms, indexes))
            column = search_page._PLACE_COLUMN.get(place or "")
            many = run(search_page._many(reader, terms, touching, column)) and not best
            found, rank = search_page._text_conditions(terms, touching, column, many)
            where.conditions += found.conditions
            where.parameters |= found.parameters
        else:
            where.add("0")
        if place is not None:
            where.add(search_page._PLACE_SQL[place])
        where.any_of("m.source", source)
        where.any_of("m.kind", kind)
        where.project(project)
        where.between("m.timestamp", since, until)
        tables, order = "messages m", "m.timestamp desc, m.id desc"
        if best and rank is not None:
            index, where.parameters["rank"] = rank
            tables = f"{index} cross join messages m on m.id = {index}.rowid"
            where.add(f"{index} match :rank")
            order = f"{index}.rank"
        ids = self._rows(
            f"select m.id from {tables} join conversations c on c.id = m.conversation_id "
            f"{where.sql()} order by {order}{where.limit}",
            where.parameters,
        )
        cursor = self._execute(
            "select m.timestamp, m.kind, m.source, p.name as project, c.title as conversation, "
            "m.title, m.conversation_id, m.id as message_id, m.content, m.thinking "
            "from json_each(:ids) i cross join messages m on m.id = i.value "
            "join conversations c on c.id = m.conversation_id "
            "left join projects p on p.id = c.project_id order by i.key",
            {"ids": json.dumps([row[0] for row in ids])},
        )
        names = [entry[0] for entry in cursor.description]
        names[5] = "passage"
        rows = []
        for row in cursor:
            texts = [row[9] or ""] if place == "thinking" else [row[8] or "", row[9] or ""]
            passages = [search_terms.passage(part, terms.wanted) for part in texts]
            pieces, most = max(passages, key=lambda passage: passage[1])
            shown = "".join(piece for piece, _ in pieces) if most else row[5]
            rows.append((*row[:5], shown, *row[6:8]))
        return self._frame(names[:8], rows, categories=True)

    # ------------------------------------------------------------------ one conversation

    def conversation(self, id: int | str, source: str | None = None) -> Conversation:
        """A conversation, to read: in Jupyter it shows itself, ``print`` writes it as Markdown.

        ``id`` is our number (``conversations.id``), or the id that the tool gave the session.
        ``source`` is needed only where two tools gave the same one. Raises :class:`CrystalError`
        when there is none.

        >>> crystal.conversation(17)
        >>> crystal.conversation("527d1a98-efce-435e-ad7d-c6f0f580d612").show(only="talk")
        """
        self._check_source(source)
        if isinstance(id, str):
            found = self._rows(
                "select id, source from conversations "
                "where session_id = :session and source = coalesce(:source, source) union "
                "select conversation_id, source from resumed_sessions "
                "where session_id = :session and source = coalesce(:source, source) order by 2",
                {"session": _plain(id), "source": source},
            )
            if len(found) > 1:
                tools = _either([row[1] for row in found])
                raise CrystalError(f"two conversations are called {id!r}: say source={tools}")
            if not found and id.isascii() and id.isdigit() and len(id) < 19:
                return self.conversation(int(id), source)
        else:
            found = self._rows(
                "select id from conversations where id = :id and source = coalesce(:source, source)",
                {"id": _plain(id), "source": source},
            )
        if not found:
            raise CrystalError(f"there is no conversation {id!r} in {self.path}")
        return Conversation(self, found[0][0])

    # ------------------------------------------------------------------ what there is

    def tables(self) -> pd.DataFrame:
        """The tables and views: what each is about, and how many rows the tables have."""
        from .schema import TABLES, VIEWS

        there = dict(
            self._rows("select name, type from sqlite_master where type in ('table', 'view')")
        )
        rows = []
        for name, table in (TABLES | VIEWS).items():
            if there.get(name) is None or name.startswith(("_", "messages_")):
                continue
            count = None
            if there[name] == "table":
                count = self._rows(f'select count(*) from "{name}"')[0][0]
            rows.append((name, there[name], count, table.description))
        return self._frame(["name", "type", "rows", "description"], rows)

    def columns(self, table: str) -> pd.DataFrame:
        """The columns of a table or view, and what they mean.

        >>> crystal.columns("messages")
        """
        from .schema import TABLES, VIEWS

        described = (TABLES | VIEWS).get(table)
        rows = self._rows(
            "select name, lower(type) from pragma_table_info(:table)", {"table": table}
        )
        if not rows:
            raise CrystalError(f"there is no table {table!r}; crystal.tables() lists them")
        texts = described.columns if described else {}
        return self._frame(
            ["column", "type", "meaning"],
            [(name, type_ or None, texts.get(name)) for name, type_ in rows],
        )


#: The order in which prices are asked for.
_PRICED = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class Conversation:
    """A conversation, to read. Made by ``crystal.conversation(17)``.

    In Jupyter it shows itself, its first hundred messages; ``print(conversation)`` writes all of it
    as Markdown.

    >>> conversation = crystal.conversation(17)
    >>> conversation.title
    >>> conversation.show(only="failed")  # or talk, prompts, edits
    >>> conversation.show(search="lock")
    >>> conversation.to_frame()
    >>> Path("17.md").write_text(conversation.markdown())
    """

    def __init__(self, crystal: Crystal, id: int) -> None:
        from .web.conversation import CONVERSATION_SQL
        from .web.reader import Reader, run

        self._crystal = crystal
        self._reader = Reader(crystal._connection)
        names = crystal._rows(
            "select source, session_id from conversations where id = :id", {"id": id}
        )[0]
        values = {"source": names[0], "session_id": names[1]}
        row = run(self._reader.execute(CONVERSATION_SQL, values)).first()
        #: Its row in ``conversations``, with names of its source, project and parent.
        self.row: dict[str, Any] = dict(row) if row is not None else {}

    @property
    def id(self) -> int:
        """Our number of it."""
        return int(self.row["id"])

    @property
    def title(self) -> str:
        return str(self.row["title"])

    @property
    def source(self) -> str:
        """The tool that it comes from, such as ``codex``."""
        return str(self.row["source"])

    @property
    def session_id(self) -> str:
        """The id that the tool gave it."""
        return str(self.row["session_id"])

    @property
    def project(self) -> str | None:
        """The name of the project."""
        return self.row["project"]

    def __repr__(self) -> str:
        row = self.row
        facts = [row["source_name"], row["project"], (row["started_at"] or "")[:10]]
        counts = [_many(row["prompt_count"], "prompt"), _many(row["message_count"], "message")]
        told = ", ".join([*(_line(str(fact)) for fact in facts if fact), *counts])
        return f"<Conversation {row['id']} “{_line(row['title'])}”: {told}>"

    def __str__(self) -> str:
        return self.markdown()

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()

    def show(
        self,
        start: int = 0,
        limit: int = 100,
        *,
        only: str | None = None,
        search: str | None = None,
    ) -> Transcript:
        """A part of it, which shows itself in Jupyter: ``limit`` messages from the one at ``start``
        on. ``only`` leaves ``talk`` (prompts and replies), ``prompts``, ``edits`` or ``failed``;
        ``search`` leaves the messages that hold this text, and marks it.

        >>> conversation.show(start=100)
        >>> conversation.show(only="edits")
        """
        from .web.conversation import FILTERS

        known = [name for name in FILTERS if name]
        if only is not None and only not in known:
            raise ValueError(f"only is {_either(known)}, not {only!r}")
        if start < 0 or limit < 1:
            raise ValueError("start is 0 or more, and limit 1 or more")
        return Transcript(self, start, limit, only or "", search or "")

    def markdown(self) -> str:
        """All of it as Markdown, also what ``print`` writes: prompts are headings, long outputs are
        shortened. The text is as it was written: a program that shows Markdown with the HTML in it
        has to sanitise it."""
        from .web.export import as_markdown
        from .web.reader import run

        return run(as_markdown(self._reader, self.row))

    def to_frame(self) -> pd.DataFrame:
        """Its messages in the order in which it shows them, those taken over from its parent
        included (``inherited``), and those that were undone (``state``)."""
        cursor = self._crystal._execute(
            "select t.position, t.message_id, t.timestamp, t.role, t.kind, t.model, t.turn, t.state, "
            "t.inherited, t.title, t.tool_calls, m.input_tokens, m.output_tokens, "
            "m.cache_read_tokens, m.cache_write_tokens, t.content, t.thinking "
            "from transcript t join messages m on m.id = t.message_id "
            "where t.conversation_id = :id order by t.position",
            {"id": self.id},
        )
        names = [entry[0] for entry in cursor.description]
        return self._crystal._frame(names, cursor.fetchall(), categories=True)

    def tool_calls(self, text: bool = False) -> pd.DataFrame:
        """Its tool calls, in order: see :meth:`Crystal.tool_calls`."""
        calls = self._crystal.tool_calls(conversation=self.id, text=text)
        return calls.sort_values(["message_id", "position"], ignore_index=True)

    def file_edits(self, text: bool = False) -> pd.DataFrame:
        """The changes that it made to files, in order: see :meth:`Crystal.file_edits`."""
        edits = self._crystal.file_edits(conversation=self.id, text=text)
        return edits.sort_values("id", ignore_index=True)


class Transcript:
    """A part of a conversation that shows itself in Jupyter. Made by ``conversation.show()``."""

    def __init__(
        self, conversation: Conversation, start: int, limit: int, only: str, search: str
    ) -> None:
        self._conversation = conversation
        self._arguments = (start, limit, only, search)

    def _repr_html_(self) -> str:
        from .notebook_html import conversation_html

        connection = self._conversation._crystal._connection
        return conversation_html(connection, self._conversation.row, *self._arguments)

    def __repr__(self) -> str:
        start, limit, only, search = self._arguments
        of = "".join([f", only {only}" if only else "", f", with {search!r}" if search else ""])
        return f"<{limit} messages from {start}{of} of {self._conversation!r}>"


# --------------------------------------------------------------------------- tables

#: Rows of a table that are shown unless more are asked for.
_ROWS = 100
#: Characters of a text that may want more than one line.
_LONG_TEXT = 30


def table(
    frame: pd.DataFrame,
    formats: Mapping[str, str] | None = None,
    *,
    missing: str = "",
    limit: int = _ROWS,
) -> Table:
    """A frame as a table to look at: whole texts, ``12,345``, dollars in columns called ``…_usd``,
    the rest as ``formats`` says (column to ``"{:.1%}"``, ``"{:%Y-%m-%d}"``). ``missing`` stands
    where there is no value. Shows the first ``limit`` rows; an index that has a name is the first
    column.

    All of it is text, whatever a prompt or a title holds. ``frame.style`` does not escape: never
    use it on text of conversations.

    >>> notebook.table(crystal.conversations().head(), {"started_at": "{:%e %B}"})
    """
    return Table(frame, dict(formats or {}), missing, limit)


class Table:
    """A frame that shows itself in Jupyter as text. Made by :func:`table`."""

    def __init__(
        self, frame: pd.DataFrame, formats: Mapping[str, str], missing: str, limit: int
    ) -> None:
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index(allow_duplicates=True)
        unknown = [name for name in formats if name not in frame.columns]
        if unknown:
            raise ValueError(f"there is no column {unknown[0]!r} to format")
        self._frame = frame
        self._formats = formats
        self._missing = missing
        self._limit = limit

    def __repr__(self) -> str:
        return str(self._frame)

    def _cell(self, name: Any, value: Any) -> str:
        import pandas as pd

        from .web.numbers import dollars

        if pd.api.types.is_scalar(value) and pd.isna(value):
            return self._missing
        if name in self._formats:
            return self._formats[name].format(value)
        if isinstance(value, datetime):
            return f"{value:%Y-%m-%d %H:%M}"
        if not pd.api.types.is_number(value):
            return str(value)
        if str(name).endswith("_usd"):
            return dollars(value)
        if pd.api.types.is_float(value):
            return f"{value:,.6g}"
        # the number of a row is its name
        return str(value) if re.search(r"(?:^|_)id$", str(name)) else f"{value:,}"

    def _repr_html_(self) -> str:
        import pandas as pd

        def line(tag: str, cells: Iterable[str]) -> str:
            made = (
                f'<{tag} style="text-align: {side}">{html.escape(cell)}</{tag}>'
                for cell, side in zip(cells, sides, strict=True)
            )
            return f"<tr>{''.join(made)}</tr>"

        names = list(self._frame.columns)
        shown = self._frame.head(self._limit).itertuples(index=False, name=None)
        rows = [[*map(self._cell, names, row)] for row in shown]
        sides = []
        for at, dtype in enumerate(self._frame.dtypes):
            numeric = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
            side = "right" if numeric else "left"
            # else the browser makes a long text as narrow as its longest word
            if any(len(row[at]) > _LONG_TEXT for row in rows):
                side += "; min-width: 18em"
            sides.append(side)
        body = "".join(line("td", row) for row in rows)
        more = len(self._frame) - self._limit
        # tex2jax_ignore, mathjax_ignore: $PATH and $HOME are no mathematics
        return (
            '<div class="tex2jax_ignore mathjax_ignore"><table class="dataframe"><thead>'
            f"{line('th', map(str, names))}</thead><tbody>{body}</tbody></table>"
            + (f"<p>… and {_many(more, 'more row')}</p>" if more > 0 else "")
            + ("" if len(self._frame) else "<p>No rows</p>")
            + "</div>"
        )


# --------------------------------------------------------------------------- charts

#: Colours of series, told apart by lightness too.
_SERIES = ("#2f78a8", "#c0722a", "#4d8c5c", "#8a63b0", "#b04a68", "#6d7782", "#9a8a2a", "#3f9a9a")


def use_charts() -> Any:
    """Makes Altair draw in the notebook itself, with nothing loaded from elsewhere, and in our
    colours. Returns the module ``altair``.

    Altair's own renderer puts a script from a CDN into the output. JupyterLab, Notebook 7 and VS
    Code draw Vega-Lite by themselves, offline, from version 5 of its data type; Altair 6 names
    version 6, which they do not know, so the type is written here. The charts that people draw are
    the same in both.

    Exports to HTML and PDF show no such charts. ``alt.renderers.enable("png")`` after this call
    makes them pictures, which show everywhere (``pip install vl-convert-python``).

    >>> alt = notebook.use_charts()
    >>> alt.Chart(crystal.usage()).mark_bar().encode(x="yearmonth(day)", y="sum(output_tokens)")
    """
    import altair as alt

    def offline(spec: dict[str, Any], **_: Any) -> dict[str, Any]:
        name = str(spec.get("$schema", "")).rpartition("/")[0]
        schema = f"{name}/v5.json" if name else spec.get("$schema")
        return {
            "application/vnd.vegalite.v5+json": {**spec, "$schema": schema},
            "text/plain": "<a chart: JupyterLab, Notebook 7 and VS Code draw it; for HTML and PDF, "
            "alt.renderers.enable('png') makes it a picture>",
        }

    alt.renderers.register("crystal", offline)
    alt.renderers.enable("crystal")
    grey = "#51606f"
    font = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
    axis = {
        "labelColor": grey,
        "titleColor": grey,
        "titleFontWeight": "normal",
        "gridColor": "#e6ebef",
    }
    config = {
        "background": "#ffffff",
        "font": font,
        "padding": 12,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "view": {
            "continuousWidth": 660,
            "discreteWidth": 660,
            "continuousHeight": 240,
            "stroke": None,
        },
        "range": {"category": list(_SERIES), "heatmap": ["#e8ecf0", "#86b7d4", "#1d5a82"]},
        "title": {"anchor": "start", "fontSize": 15, "subtitleColor": grey, "color": "#18212c"},
        "axis": {**axis, "domainColor": "#8a97a5", "tickColor": "#8a97a5"},
        "legend": {
            "orient": "top",
            "labelColor": grey,
            "titleColor": grey,
            "titleFontWeight": "normal",
        },
        "header": {"labelColor": grey, "titleColor": grey},
        **{mark: {"color": _SERIES[0]} for mark in ("bar", "line", "point", "area", "rule")},
    }

    def theme() -> Any:
        return {"config": config}

    if hasattr(alt, "theme"):
        alt.theme.register("crystal", enable=True)(theme)
    else:  # Altair before 5.5
        alt.themes.register("crystal", theme)
        alt.themes.enable("crystal")
    return alt


# --------------------------------------------------------------------------- filters


class _Where:
    """The conditions of a query, made of the filters that were given."""

    def __init__(self, limit: int | None) -> None:
        self.conditions: list[str] = []
        self.parameters: dict[str, Any] = {}
        self.limit = ""
        if limit is not None:
            if limit < 0:
                raise ValueError("limit is 0 or more")
            self.add_parameter("limit", limit)
            self.limit = " limit :limit"

    def sql(self) -> str:
        return f"where {' and '.join(self.conditions)}" if self.conditions else ""

    def add_parameter(self, name: str, value: Any) -> None:
        self.parameters[name] = _plain(value)

    def add(self, condition: str, **parameters: Any) -> None:
        self.conditions.append(condition)
        for name, value in parameters.items():
            self.add_parameter(name, value)

    def any_of(self, column: str, value: Any) -> None:
        if value is None:
            return
        name = column.replace(".", "_")
        self.parameters[name] = json.dumps(_several(value))
        self.conditions.append(f"{column} in (select value from json_each(:{name}))")

    def conversation(self, column: str, id: int | None) -> None:
        if id is not None:
            self.add(f"{column} = :conversation", conversation=id)

    def project(self, value: Any, column: str = "c.project_id") -> None:
        if value is None:
            return
        self.parameters["projects"] = json.dumps(_several(value))
        names = "(select value from json_each(:projects))"
        self.conditions.append(
            f"{column} in (select id from projects where name in {names} or path in {names})"
        )

    def between(self, column: str, since: When, until: When) -> None:
        if since is not None:
            self.add(f"{column} >= :since", since=_moment(since, "since"))
        if until is not None:
            moment = _moment(until, "until")
            # later than every time of that day, earlier than the next day
            moment = f"{moment}T~" if len(moment) == 10 else moment
            self.add(f"{column} <= :until", until=moment)

    def days(self, column: str, since: When, until: When) -> None:
        if since is not None or until is not None:
            self.add(f"{column} <> 'undated'")
        if since is not None:
            self.add(f"{column} >= :since", since=_moment(since, "since")[:10])
        if until is not None:
            self.add(f"{column} <= :until", until=_moment(until, "until")[:10])


def _several(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable):
        raise TypeError(f"a filter takes a text or a list of texts, not {value!r}")
    return [_plain(item) for item in value]


_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")


def _moment(value: When, name: str) -> str:
    """A day as it is written in crystal.db, or a time: UTC, with milliseconds."""
    if isinstance(value, str):
        try:
            if _DAY.fullmatch(value):
                return date.fromisoformat(value).isoformat()
            if _TIME.match(value):
                text = f"{value[:-1]}+00:00" if value.endswith("Z") else value
                return _utc(datetime.fromisoformat(text))
        except ValueError:
            pass
    elif isinstance(value, datetime):
        return _utc(value)
    elif isinstance(value, date):
        return value.isoformat()
    raise ValueError(f"{name} is a day (2026-11-30) or a time, not {value!r}")


def _utc(moment: datetime) -> str:
    """Times without a zone are UTC."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _plain(value: Any) -> Any:
    """A value as SQLite takes it: numbers of numpy, and times of pandas, too."""
    if value is None or isinstance(value, (str, bytes, float, int)):
        return value
    if isinstance(value, datetime):
        return _utc(value)
    if isinstance(value, date):
        return value.isoformat()
    item = getattr(value, "item", None)
    return item() if item is not None else value


# --------------------------------------------------------------------------- words


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _either(names: Iterable[str]) -> str:
    *most, last = (repr(name) for name in names)
    return f"{', '.join(most)} or {last}" if most else last


def _line(text: str) -> str:
    from .text import first_line

    return first_line(text, 80)
