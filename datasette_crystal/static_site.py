"""A crystal database as plain HTML files, to be read without a server: from a disk, or from any folder
of a web server.

The pages are made by what makes those of the plugin - the same queries, blocks, templates and style
sheets - with links of another kind (:class:`_Links`), and by no running Datasette: crawling one would
take a server, a rewriting of every link, and would still lack a search. Names of files come from ids
of conversations by :func:`folder_name`, so an address holds when the site is written anew. Two runs
over one database write the same bytes.

A site may be published, so each page carries a Content-Security-Policy of its own: there is no inline
script or style, nothing is loaded from elsewhere, and nothing can be sent anywhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from .site_index import MAX_INDEXED, SiteIndex, data_script
from .store import StoreError, is_crystal, open_readonly
from .text import first_line, milliseconds_between
from .web import blocks, overview, render
from .web import conversation as live
from .web.reader import Reader, run
from .web.transcript import outline, pager, rows_of, transcript
from .web.urls import anchor

#: What bears this file was written by :func:`write_site`, and it lists what it wrote.
MARKER = ".crystal-site"
_MARKER_HEAD = "A static site of datasette-crystal. Files that it consists of:"
#: Messages on a page of a conversation, conversations on a page of the list.
PAGE_SIZE, LIST_SIZE = live.PAGE_SIZE, 200

#: "file:" because Firefox takes 'self' for nothing on a page that was opened from a disk; a page
#: that came from a server can load no file anyway.
POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:; "
    "form-action 'self' file:; base-uri 'none'"
)

DEFAULT_TITLE = "Conversations with coding tools"

_PACKAGE = Path(__file__).parent
_ASSETS = (
    "crystal-base.css",
    "crystal-conversation.css",
    "crystal-overview.css",
    "crystal-search.css",
    "crystal-site.css",
    "crystal-time.js",
    "crystal-conversation.js",
    "crystal-site.js",
    "crystal-icon.svg",
)
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


class SiteError(Exception):
    """The site can't be written, and why: one line to show."""


@dataclass(frozen=True)
class SiteReport:
    """What was written, and where: numbers of conversations, of messages that are shown and of those
    that can be searched, of files, and their size."""

    directory: Path
    conversations: int
    messages: int
    searchable: int
    images: int
    files: int
    bytes: int


def write_site(
    database: str | Path,
    directory: str | Path,
    *,
    title: str | None = None,
    indexing: bool = False,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> SiteReport:
    """Writes the conversations of a crystal database as a static site into ``directory``.

    ``title`` is shown on every page (:data:`DEFAULT_TITLE` unless given). Search engines are asked to stay
    away unless ``indexing``. ``jobs`` processes make the pages; more than one only in a program that
    can be started anew in each of them, see :mod:`multiprocessing`. ``progress`` is called with the numbers of conversations written and to
    be written.

    The directory must not be there yet, or be empty, or hold a site that was written before: of that
    one, what is no longer part of the site is deleted, and files that were added by hand (``.git``,
    ``CNAME``) stay. All is written beside it first, so a run that fails leaves what was there.
    Everything that the database holds is shown: leave out and redact what nobody may see before, as
    ``datasette crystal publish`` does.

    Raises :class:`SiteError` when the database can't be read or the directory holds something else.
    """
    place = Path(directory)
    try:
        place = place.resolve()
        known = _site_files(place)
        connection = open_readonly(database)
    except StoreError as error:
        raise SiteError(str(error)) from error
    except OSError as error:
        raise SiteError(f"{directory}: {error.strerror or error}") from error
    if not is_crystal(connection):
        connection.close()
        raise SiteError(f"{database} is empty")
    beside = place.with_name(f".{place.name[:100]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        remove_remains(place)
        beside.mkdir(parents=True)
        site = _Site(connection, beside, title or DEFAULT_TITLE, indexing)
        with closing(_parts(site, Path(database), jobs)) as parts:
            report = site.write(place, parts, progress or (lambda done, all_: None))
        _put_in_place(beside, place, known)
        return report
    except (OSError, sqlite3.Error, BrokenExecutor) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SiteError(f"Can't write the site into {directory}: {reason}") from error
    finally:
        connection.close()
        shutil.rmtree(beside, ignore_errors=True)


def check_place(directory: Path) -> None:
    """Raises :class:`SiteError` where a site can't be written, as a directory holds something else."""
    _site_files(directory.resolve())


def draft_of(directory: Path) -> Path:
    """Where to write a site to look at it before it goes to ``directory``, on the same disk."""
    return directory.with_name(f".{directory.name[:80]}.{secrets.token_hex(4)}.site")


def remove_remains(directory: Path) -> None:
    """Deletes what runs that were killed left beside the place of a site: folders that
    :func:`write_site` wrote to before they were moved, also for a :func:`draft_of` it."""
    name, draft = (re.escape(directory.name[:length]) for length in (100, 80))
    remains = re.compile(
        rf"\.{name}\.\d+-[0-9a-f]{{8}}\.tmp"
        rf"|\.{draft}\.[0-9a-f]{{8}}\.site"
        rf"|\.\.{draft}\.[0-9a-f]{{8}}\.site\.\d+-[0-9a-f]{{8}}\.tmp"
    )
    if not directory.parent.is_dir():
        return
    for path in directory.parent.iterdir():
        if remains.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def place_site(site: Path, directory: Path) -> None:
    """Moves a site that :func:`write_site` wrote to a directory on the same disk, by the same rules:
    to look at it before it stands where others see it. Raises :class:`SiteError`."""
    try:
        place = directory.resolve()
        _put_in_place(site, place, _site_files(place))
        shutil.rmtree(site, ignore_errors=True)
    except OSError as error:
        raise SiteError(f"{directory}: {error.strerror or error}") from error


# --------------------------------------------------------------------------- names

_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")


def folder_name(source: str, session_id: str) -> str:
    """The folder of a conversation: ``codex_0199a213-81ac-7b63-9e0c-2f5a3c4d5e6f``.

    Lower-case letters, digits, "-" and "_" only, at most 110 characters, and another one for every
    conversation, also where names do not tell capitals apart. Ids that are made of other characters
    or are longer end in a hash.
    """
    if _PLAIN.fullmatch(source) and len(source) <= 24 and _PLAIN.fullmatch(session_id):
        return f"{source}_{session_id}"
    key = f"{len(source)}:{source}{session_id}".encode("utf-8", "surrogatepass")
    return "_".join(
        (_slug(source, 24), _slug(session_id, 40), hashlib.blake2b(key, digest_size=10).hexdigest())
    )


def _slug(text: str, most: int) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text[: 4 * most].lower())[:most].strip("-") or "x"


def _page_file(page: int) -> str:
    return f"page-{page}.html" if page > 1 else "index.html"


def _list_file(page: int) -> str:
    return f"list-{page}.html" if page > 1 else "index.html"


# --------------------------------------------------------------------------- links


class _Links:
    """The links of a conversation's pages: a :class:`datasette_crystal.web.transcript.Linker`."""

    def __init__(self, site: _Site, lines: Sequence[Any]) -> None:
        self._site = site
        self._pages: dict[str, int] = {}
        for number, line in enumerate(lines):
            self._pages.setdefault(line["uid"], number // PAGE_SIZE + 1)

    def conversation(self, source: str, session_id: str, ending: str = "") -> str:
        return f"../{folder_name(source, session_id)}/index.html"

    def message(self, uid: str) -> str:
        return f"{_page_file(self._pages.get(uid, 1))}#{anchor(uid)}"

    def anchor(self, uid: str) -> str:
        return anchor(uid)

    def page(self, page: int) -> str:
        return _page_file(page)

    def row_of(self, table: str, id: int) -> str:
        return ""

    def image(self, id: int) -> str:
        name = self._site.image(id)
        return f"../../{name}" if name else ""


class _ListLinks(_Links):
    """Those of the pages of the list."""

    def __init__(self) -> None:
        pass

    def page(self, page: int) -> str:
        return _list_file(page)


@dataclass(frozen=True)
class _OverviewLinks(overview.Links):
    """The overview leads to the list of conversations, filtered; there are no tables to lead to."""

    labels: overview.Labels = field(kw_only=True)

    def table(self, name: str, /, *groups: Mapping[str, Any], **more: Any) -> str:
        return ""

    def query(self, name: str, table: str, **values: Any) -> str:
        return ""

    def here(self, **changes: Any) -> str:
        given = {key: changes[key] for key in ("source", "from", "to") if changes.get(key)}
        if changes.get("project") is not None:
            given["project"] = self.labels.of("project", changes["project"])
        return f"index.html?{urlencode(given)}" if given else "index.html"

    def messages_of(self, day: date) -> str:
        return self.period(day, day)

    @cached_property
    def all_messages(self) -> str:
        return ""


# --------------------------------------------------------------------------- the site

_CONVERSATIONS_SQL = """
select c.id, c.title, c.source, c.session_id, c.project_id, c.model, c.kind, c.started_at,
  c.ended_at, c.prompt_count, c.message_count, c.tool_call_count, c.parent_id
from conversations c
order by c.started_at is null, c.started_at desc, c.source, c.session_id
"""

_SHOWN_SQL = "select count(*) from conversation_messages"

_DAYS_SQL = """
select (select min(day) from daily_usage where day >= :first),
  (select max(day) from daily_usage where day >= :first and day <= :last)
"""


#: A message as :meth:`SiteIndex.add` takes it.
Entry = tuple[str, str, str, int, "str | None", str]


@dataclass(frozen=True)
class _Part:
    """What became of a conversation: its files and their sizes, images by their attachments, and
    messages to be found."""

    written: dict[str, int]
    images: dict[int, str]
    entries: list[Entry]


class _Site:
    """A site while it is written into a folder."""

    def __init__(
        self, connection: sqlite3.Connection, folder: Path, title: str, indexing: bool
    ) -> None:
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        self.connection = connection
        self.reader = Reader(connection)
        self.folder = folder
        self.title = first_line(title, 200) or DEFAULT_TITLE
        self.indexing = indexing
        self.index = SiteIndex()
        self.written: dict[str, int] = {}
        self.images: dict[int, str] = {}
        self.entries: list[Entry] = []
        self.data = hashlib.blake2b(digest_size=6)
        self.templates = _templates()
        sources = self._rows("select id, name from sources order by id")
        projects = self._rows("select id, name, path from projects order by name, path, id")
        self.labels = overview.Labels(
            {row[0]: row[1] for row in sources}, overview.project_labels(projects)
        )

    def _rows(self, sql: str, values: Any = ()) -> list[sqlite3.Row]:
        return run(self.reader.execute(sql, values)).rows

    # ---- files

    def _write(self, name: str, content: str | bytes) -> None:
        if isinstance(content, str):
            content = content.encode("utf-8", "replace")
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.written[name] = len(content)

    def _write_data(self, name: str, content: str) -> None:
        self._write(f"data/{name}", content)
        self.data.update(content.encode("utf-8", "replace"))

    def _render(self, template: str, name: str, page: str, view: Mapping[str, Any]) -> None:
        root = "../" * name.count("/")
        frame = {
            "site": True,
            "title": self.title,
            "root": root,
            "page": page,
            "policy": POLICY,
            "indexing": self.indexing,
            "pager": view.get("pager"),
            "static": lambda asset: f"{root}assets/{asset}?{_fingerprint(asset)}",
        }
        self._write(name, self.templates.get_template(template).render(crystal=frame, **view))

    def image(self, id: int) -> str:
        """The file that an attachment is when it is an image; empty when it is none."""
        if id not in self.images:
            row = self._rows("select media_type, content from attachments where id = ?", (id,))[0]
            media_type = blocks.image_type(row[0], row[1])
            name = ""
            if media_type is not None:
                digest = hashlib.sha256(row[1]).hexdigest()[:32]
                name = f"images/{digest}.{_ENDINGS[media_type]}"
            self.images[id] = name
        return self.images[id]

    # ---- all of it

    def conversations(self) -> list[sqlite3.Row]:
        return self._rows(_CONVERSATIONS_SQL)

    def write(
        self, place: Path, parts: Iterable[_Part], progress: Callable[[int, int], None]
    ) -> SiteReport:
        rows = self.conversations()
        firsts = []
        progress(0, len(rows))
        for number, part in enumerate(parts, 1):
            firsts.append(self.index.count)
            self.written |= part.written
            for id, name in part.images.items():
                if name and name not in self.written:
                    found = self._rows("select content from attachments where id = ?", (id,))
                    self._write(name, found[0][0])
            for entry in part.entries:
                for name, script in self.index.add(*entry):
                    self._write_data(name, script)
            progress(number, len(rows))
        for name, content in self.index.finish():
            self._write_data(name, content)
        self._lists(rows, firsts)
        for asset in _ASSETS:
            self._write(f"assets/{asset}", _asset(asset))
        self._write(".nojekyll", b"")
        self._write(MARKER, _marker_text({*self.written, MARKER}))
        return SiteReport(
            directory=place,
            conversations=len(rows),
            messages=self._rows(_SHOWN_SQL)[0][0],
            searchable=self.index.count,
            images=sum(name.startswith("images/") for name in self.written),
            files=len(self.written),
            bytes=sum(self.written.values()),
        )

    # ---- a conversation

    def conversation(self, source: str, session_id: str) -> _Part:
        """Writes the pages of a conversation."""
        self.written, self.images, self.entries = {}, {}, []
        names = {"source": source, "session_id": session_id}
        row = dict(self._rows(live.CONVERSATION_SQL, names)[0])
        folder = folder_name(row["source"], row["session_id"])
        lines = self._rows(live.LINES_SQL, {"id": row["id"], "limit": live.MAX_MESSAGES})
        pages = max(1, -(-len(lines) // PAGE_SIZE))
        links = _Links(self, lines)
        parent_href = ""
        if row["parent_session"]:
            parent_href = links.conversation(row["parent_source"], row["parent_session"])
        project = self.labels.of("project", row["project_id"])
        listed = None
        if row["cost_usd"] is None:
            listed = live.list_price(self._rows(live.TOKENS_SQL, {"id": row["id"]}), row)
        view = {
            "conversation": row,
            "pages": pages,
            "count": len(lines),
            "asked": live.Request.of({}),
            "filters": list(live.FILTERS.items()),
            "facts": live.facts(row, listed),
            "details": [
                pair for pair in live.details(row) if pair[0] not in ("Resume with", "Imported")
            ],
            "files": [
                dict(file) | {"short": blocks.shorten_path(file["path"], row["cwd"]), "href": ""}
                for file in self._rows(live.FILES_SQL, {"id": row["id"]})
            ],
            "children": [
                dict(child) | {"href": links.conversation(child["source"], child["session_id"])}
                for child in self._rows(live.CHILDREN_SQL, {"id": row["id"]})
            ],
            "parent_href": parent_href,
            "project_href": f"../../index.html?{urlencode({'project': project})}",
            "neighbours": run(live.neighbours(self.reader, row, links)),
            "folder": folder,
            "search_href": "../../search.html",
            "duration": blocks.duration(milliseconds_between(row["started_at"], row["ended_at"])),
            "number": blocks.number,
        }
        for page in range(1, pages + 1):
            first = (page - 1) * PAGE_SIZE
            shown = lines[first : first + PAGE_SIZE]
            page_rows = run(rows_of(self.reader, shown))
            # No limit for a page: what is shown must not depend on how busy this machine is
            context = blocks.Context(row["cwd"], render.Budget(float("inf")))
            messages = transcript(shown, page_rows, context, links)
            view |= {
                "runs": blocks.runs(messages, row["parent_title"] or "", parent_href),
                "page": page,
                "outline": outline(lines, shown, PAGE_SIZE, links),
                "pager": pager(page, pages, links),
            }
            name = f"conversations/{folder}/{_page_file(page)}"
            self._render("crystal_conversation.html", name, "", view)
            self._add_entries(page, shown, page_rows)
        return _Part(self.written, self.images, self.entries)

    def _add_entries(self, page: int, shown: Sequence[Any], rows: Mapping[str, Any]) -> None:
        for line in shown:
            if line["inherited"]:
                continue  # found where it was written
            message = rows["messages"][line["message_id"]]
            calls = [call["title"] for call in rows["calls"].get(line["message_id"], ())]
            texts = (message["content"], message["thinking"], *calls)
            text = "\n".join(text for text in texts if text)
            if text:
                family = blocks.family_of_kind(message["kind"])
                letter = {"person": "p", "model": "m"}.get(family, "o")
                label = blocks.label_of_kind(message["kind"])
                place = (anchor(line["uid"]), page, message["timestamp"])
                self.entries.append((letter, label, *place, text[:MAX_INDEXED]))

    # ---- the list, the overview, the search

    def _lists(self, rows: Sequence[sqlite3.Row], firsts: Sequence[int]) -> None:
        labels = self.labels
        entries = [
            {
                "folder": folder_name(row["source"], row["session_id"]),
                "title": row["title"],
                "source": row["source"],
                "source_name": labels.of("source", row["source"]),
                "colour": row["source"] if row["source"] in overview.SOURCE_COLOURS else "other",
                "project": labels.of("project", row["project_id"])
                if row["project_id"] is not None
                else "",
                "model": row["model"] or "",
                "kind": row["kind"],
                "started_at": row["started_at"],
                "ended_at": row["ended_at"],
                "counts": _counts(row),
                # subagents stand in their parents
                "listed": row["kind"] != "subagent" or row["parent_id"] is None,
                "first": first,
            }
            for row, first in zip(rows, firsts, strict=True)
        ]
        for entry in entries:
            entry["href"] = f"conversations/{entry['folder']}/index.html"
        self._write_data("conversations.js", self._conversations_data(entries))
        listed = [entry for entry in entries if entry["listed"]]
        zone, context = self._overview()
        moment = datetime(2000, 1, 1, tzinfo=overview.fixed_offset(zone))
        offset = int((moment.utcoffset() or timedelta()).total_seconds() // 60)
        days = context["period"]
        messages = self._rows("select count(*) from messages")[0][0]
        summary = " · ".join(
            part
            for part in (
                blocks.plural(len(listed), "conversation"),
                blocks.plural(messages, "message"),
                (days[0] if days[0] == days[1] else f"{days[0]} – {days[1]}") if days else "",
            )
            if part
        )
        common = {
            "version": self.data.hexdigest(),
            "offset": offset,
            "fields": _fields(listed),
            "summary": summary,
            "heat": context["heat"],
        }
        pages = max(1, -(-len(listed) // LIST_SIZE))
        for page in range(1, pages + 1):
            first = (page - 1) * LIST_SIZE
            shown = listed[first : first + LIST_SIZE]
            count_text = "Newest first"
            if pages > 1:
                count_text = (
                    f"{first + 1:,} to {first + len(shown):,} of {len(listed):,}, newest first"
                )
            view = {
                "rows": shown,
                "page": page,
                "pager": pager(page, pages, _ListLinks()),
                "count_text": count_text if listed else "No conversations.",
            }
            self._render("static_index.html", _list_file(page), "index", common | view)
        self._render("static_search.html", "search.html", "search", common)
        self._render("static_overview.html", "overview.html", "overview", context)

    def _conversations_data(self, entries: Sequence[Mapping[str, Any]]) -> str:
        sources = sorted({(e["source"], e["source_name"], e["colour"]) for e in entries})
        projects = sorted({e["project"] for e in entries if e["project"]})
        models = sorted({e["model"] for e in entries if e["model"]})
        place = {
            "source": {source[0]: number for number, source in enumerate(sources)},
            "project": {"": -1} | {name: number for number, name in enumerate(projects)},
            "model": {"": -1} | {name: number for number, name in enumerate(models)},
        }
        columns = ["folder", "title", "source", "project", "model", "kind", "started", "ended"]
        columns += ["counts", "listed", "first"]
        rows = [
            [
                entry["folder"],
                entry["title"],
                *(place[name][entry[name]] for name in ("source", "project", "model")),
                entry["kind"],
                entry["started_at"] or "",
                entry["ended_at"] or "",
                entry["counts"],
                int(entry["listed"]),
                entry["first"],
            ]
            for entry in entries
        ]
        data = {
            "sources": sources,
            "projects": projects,
            "models": models,
            "columns": columns,
            "rows": rows,
        }
        return data_script("conversations", data)

    def _overview(self) -> tuple[str, dict[str, Any]]:
        """The time zone that days are in, and what the overview shows."""
        runs = self._rows("select timezone from import_runs order by id desc limit 1")
        zone = runs[0][0] if runs else "UTC"
        # as far as the clock of the import went, not that of today: a site written tomorrow is equal
        newest = self._rows("select max(imported_at) from conversations")[0][0]
        try:
            latest = date.fromisoformat((newest or "")[:10]) + timedelta(days=1)
        except ValueError:
            latest = date.max
        days = {"first": str(overview.FIRST_DAY), "last": str(latest)}
        oldest_day, newest_day = self._rows(_DAYS_SQL, days)[0]
        scope = overview.Scope(overview.Filters(), None, None, None, False)
        links = _OverviewLinks(None, "", scope, zone, labels=self.labels)
        kinds: dict[str, int] = {
            row[0]: row[1] for row in self._rows(overview.KINDS.format(where=""))
        }
        page = overview.Page(
            links, self.labels, scope.filters, _day(oldest_day), _day(newest_day), latest, kinds
        )
        usage = self._rows(overview.USAGE.format(where=""), scope.values())
        context = page.context(
            [tuple(row) for row in usage],
            [],
            [tuple(row) for row in self._rows(overview.TOOLS)],
            [tuple(row) for row in self._rows(overview.FILES_EDITED)],
            [],
        )
        return zone, context | {"zone": zone if runs else ""}


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        return None


def _counts(row: sqlite3.Row) -> str:
    parts = (
        ("prompt_count", "prompt"),
        ("message_count", "message"),
        ("tool_call_count", "tool call"),
    )
    return ", ".join(blocks.plural(row[column], noun) for column, noun in parts if row[column])


def _fields(listed: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the list can be filtered by: (value, label, number of conversations) of each."""
    fields = []
    for name, label, shown in (
        ("source", "Source", "source_name"),
        ("project", "Project", "project"),
        ("model", "Model", "model"),
    ):
        counts: dict[tuple[str, str], int] = {}
        for entry in listed:
            if entry[name]:
                key = (entry[name], entry[shown])
                counts[key] = counts.get(key, 0) + 1
        options = [(value, text, count) for (value, text), count in counts.items()]
        options.sort(key=lambda option: (option[1].lower(), option[0]))
        fields.append({"name": name, "label": label, "options": options})
    return fields


# --------------------------------------------------------------------------- many processes


def _parts(site: _Site, database: Path, jobs: int) -> Generator[_Part, None, None]:
    """Writes the pages of all conversations, and gives what became of them in the site's order."""
    names = [(row["source"], row["session_id"]) for row in site.conversations()]
    if jobs < 2 or len(names) < 2:
        maker = _Site(site.connection, site.folder, site.title, site.indexing)
        for name in names:
            yield maker.conversation(*name)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    made_of = (database, site.folder, site.title, site.indexing)
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _start_worker, made_of)
    try:
        yield from pool.map(_work, names, chunksize=4)
    finally:
        pool.shutdown(cancel_futures=True)


_worker: _Site


def _start_worker(database: Path, folder: Path, title: str, indexing: bool) -> None:
    global _worker
    _worker = _Site(open_readonly(database), folder, title, indexing)


def _work(name: tuple[str, str]) -> _Part:
    return _worker.conversation(*name)


# --------------------------------------------------------------------------- templates, assets


def _templates() -> Any:
    from jinja2 import ChoiceLoader, DictLoader, Environment, FileSystemLoader

    folder = _PACKAGE / "templates"
    # the conversation's template extends the frame that Datasette's pages have: here it is ours
    frame = (folder / "static_base.html").read_text("utf-8")
    loader = ChoiceLoader([DictLoader({"_crystal_base.html": frame}), FileSystemLoader(folder)])
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def _asset(name: str) -> str:
    text = (_PACKAGE / "static" / name).read_text("utf-8")
    if name == "crystal-conversation.js":
        # a module elsewhere; from a disk browsers load none, and a plain script shares its names
        return f'(() => {{\n"use strict";\n{text}}})();\n'
    return text


def _fingerprint(name: str) -> str:
    return hashlib.sha256(_asset(name).encode()).hexdigest()[:8]


# --------------------------------------------------------------------------- into its place

_OURS = re.compile(
    r"(?:[a-z]+(?:-\d+)?\.html|\.nojekyll|\.crystal-site"
    r"|(?:assets|data|images)/[a-z0-9.-]+|conversations/[a-z0-9_-]+/[a-z0-9-]+\.html)"
)


def _marker_text(names: Iterable[str]) -> str:
    return "\n".join((_MARKER_HEAD, *sorted(names))) + "\n"


def _site_files(place: Path) -> set[str] | None:
    """The files of the site that a directory holds; ``None`` where there is no directory. Raises
    :class:`SiteError` where it holds something else."""
    if not place.exists():
        return None
    if not place.is_dir():
        raise SiteError(f"{place} is not a directory")
    if not any(place.iterdir()):
        return set()
    marker = place / MARKER
    lines = []
    if marker.is_file() and not marker.is_symlink():
        lines = marker.read_text("utf-8", "replace").splitlines()
    if lines[:1] != [_MARKER_HEAD]:
        raise SiteError(
            f"{place} holds files that are no site of datasette-crystal: "
            "name an empty or a new directory"
        )
    # names that we would never write are none of ours, whatever the marker says
    return {line for line in lines[1:] if _OURS.fullmatch(line)}


def _put_in_place(beside: Path, place: Path, known: set[str] | None) -> None:
    """Moves a complete site to where it belongs; ``known`` are the files of the site before."""
    if known is None:
        os.rename(beside, place)
        return
    names = sorted(_files_in(beside))
    for name in (*names, *known):
        for folder in Path(name).parents:
            if (place / folder).is_symlink() and folder != Path("."):
                raise SiteError(f"{place / folder} is a link: files are not written through it")
    strangers = [name for name in names if name not in known and os.path.lexists(place / name)]
    if strangers:
        raise SiteError(
            f"{place / strangers[0]} is no file of the site that is there: move it away first"
        )
    # Stopped at any time, this can be taken up again: what was there and what comes is listed before
    # anything is moved, and what is left is listed when the rest is gone. Pages that lead to others
    # come last.
    listed = beside / f"{MARKER}-all"
    listed.write_text(_marker_text({*known, *names}), encoding="utf-8")
    os.replace(listed, place / MARKER)
    names.sort(key=lambda name: ("/" not in name, name))
    for name in names:
        if name != MARKER:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(beside / name, place / name)
    for name in sorted(known.difference(names)):
        (place / name).unlink(missing_ok=True)
    for left in sorted({str(Path(name).parent) for name in known}, reverse=True):
        if left != "." and (place / left).is_dir() and not any((place / left).iterdir()):
            (place / left).rmdir()
    os.replace(beside / MARKER, place / MARKER)


def _files_in(folder: Path) -> Iterator[str]:
    for root, _, names in os.walk(folder):
        for name in names:
            yield (Path(root) / name).relative_to(folder).as_posix()
