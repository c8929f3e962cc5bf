"""The schema of crystal.db, as sqlite-utils migrations.

Rules: integer keys inside and natural keys as unique constraints; every foreign key leads to a table
with a ``name`` or ``title``, so that Datasette shows a label; times are ISO 8601 UTC text; long
text comes last in a table, so that reading the narrow columns does not touch it.

What each column means is written in :mod:`datasette_crystal.schema`. Never change a migration that
was released: add another one.
"""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

#: Marks a crystal database, whatever the file is called: "CRYS".
APPLICATION_ID = 0x43525953

migrations = Migrations("crystal")

_TABLES = """
create table sources (
  id text primary key,
  name text not null unique
);
create table projects (
  id integer primary key,
  name text not null,
  machine text not null,
  path text not null,
  remote text,
  unique (machine, path)
);
create table conversations (
  id integer primary key,
  title text not null,
  source text not null references sources(id),
  project_id integer references projects(id),
  kind text not null default 'main',
  model text,
  started_at text,
  ended_at text,
  prompt_count integer not null default 0,
  message_count integer not null default 0,
  tool_call_count integer not null default 0,
  error_count integer not null default 0,
  inherited_count integer not null default 0,
  input_tokens integer,
  output_tokens integer,
  cache_read_tokens integer,
  cache_write_tokens integer,
  reasoning_tokens integer,
  cost_usd real,
  cost_origin text,
  git_branch text,
  parent_id integer references conversations(id),
  cwd text,
  tool_version text,
  machine text,
  title_origin text,
  session_id text not null,
  parent_session_id text,
  inherits_until integer,
  archived integer not null default 0,
  fidelity text not null default 'complete',
  imported_at text not null,
  updated_at text not null,
  missing_since text,
  unique (source, session_id)
);
create table messages (
  id integer primary key,
  title text not null,
  kind text not null,
  timestamp text,
  conversation_id integer not null references conversations(id),
  role text not null,
  source text not null references sources(id),
  model text,
  turn integer not null,
  position integer not null,
  has_code integer not null default 0,
  has_tool_use integer not null default 0,
  characters integer not null default 0,
  input_tokens integer,
  output_tokens integer,
  cache_read_tokens integer,
  cache_write_tokens integer,
  reasoning_tokens integer,
  vote text,
  uid text not null,
  content text not null default '',
  thinking text
);
create table conversation_messages (
  conversation_id integer not null references conversations(id),
  position integer not null,
  message_id integer not null references messages(id),
  uid text not null,
  state text not null default 'active',
  origin text not null default 'own',
  record integer,
  primary key (conversation_id, position)
) without rowid;
create table tool_calls (
  id integer primary key,
  title text not null,
  name text not null,
  status text not null,
  exit_code integer,
  started_at text,
  duration_ms integer,
  message_id integer not null references messages(id),
  conversation_id integer not null references conversations(id),
  subagent_id integer references conversations(id),
  position integer not null,
  call_id text,
  subagent_session_id text,
  input text,
  output text
);
create table file_edits (
  id integer primary key,
  path text not null,
  action text not null,
  message_id integer not null references messages(id),
  position integer,
  conversation_id integer not null references conversations(id),
  lines_added integer,
  lines_removed integer,
  diff text,
  foreign key (message_id, position) references tool_calls(message_id, position)
);
create table attachments (
  id integer primary key,
  name text not null,
  message_id integer not null references messages(id),
  position integer not null,
  kind text not null,
  media_type text,
  size integer,
  sha256 text,
  content blob
);
create table daily_usage (
  day text not null,
  source text not null references sources(id),
  project_id integer references projects(id),
  model text,
  conversations integer not null,
  prompts integer not null,
  replies integer not null,
  tool_calls integer not null,
  errors integer not null,
  input_tokens integer,
  output_tokens integer,
  cache_read_tokens integer,
  cache_write_tokens integer,
  reasoning_tokens integer,
  cost_usd real,
  cost_origin text
);
create table source_files (
  id integer primary key,
  source text not null references sources(id),
  machine text not null,
  root text not null,
  path text not null,
  part text not null default '',
  size integer not null,
  mtime_ns integer not null,
  marker text not null,
  parser_version integer not null,
  boundary_hash text,
  outcome text not null,
  skipped_below integer,
  missing_since text,
  unique (machine, path, part)
);
create table resumed_sessions (
  source text not null references sources(id),
  session_id text not null,
  conversation_id integer not null references conversations(id),
  primary key (source, session_id)
) without rowid;
create table conversation_files (
  conversation_id integer not null references conversations(id),
  source_file_id integer not null references source_files(id),
  primary key (conversation_id, source_file_id)
) without rowid;
create table import_runs (
  id integer primary key,
  started_at text not null,
  ended_at text,
  version text not null,
  machine text not null,
  timezone text not null,
  options text not null
);
create table import_log (
  id integer primary key,
  run_id integer not null references import_runs(id),
  source text not null references sources(id),
  conversation_id integer references conversations(id),
  file_path text not null,
  status text not null,
  message text,
  records integer,
  kept_records integer,
  ignored_records integer,
  unknown_records integer,
  malformed_records integer,
  created_at text not null
);
create table unknown_records (
  id integer primary key,
  source_file_id integer not null references source_files(id),
  location text not null,
  type text not null,
  sample text not null
);
"""

#: Needed while importing: looked up for every conversation, appended to in order.
_KEYS = """
create index conversations_parent_session_id on conversations (source, parent_session_id)
  where parent_session_id is not null;
create index messages_conversation_id on messages (conversation_id, position);
create index conversation_messages_uid on conversation_messages (uid);
create index conversation_messages_message_id on conversation_messages (message_id);
create unique index tool_calls_message_id on tool_calls (message_id, position);
create index tool_calls_conversation_id
  on tool_calls (conversation_id, name, started_at, status);
create index tool_calls_subagent_session_id on tool_calls (subagent_session_id)
  where subagent_session_id is not null;
create index file_edits_message_id on file_edits (message_id, position);
create index attachments_message_id on attachments (message_id);
create index resumed_sessions_conversation_id on resumed_sessions (conversation_id);
create index conversation_files_source_file_id on conversation_files (source_file_id);
create index import_log_file_path on import_log (file_path);
create index unknown_records_source_file_id on unknown_records (source_file_id);
"""

_VIEWS = """
create view transcript as
  select cm.conversation_id, cm.position, cm.message_id, m.turn, m.role, m.kind, m.model,
    m.timestamp, cm.state, m.conversation_id <> cm.conversation_id as inherited, m.title,
    (select count(*) from tool_calls t where t.message_id = m.id) as tool_calls,
    m.content, m.thinking
  from conversation_messages cm join messages m on m.id = cm.message_id;
create view prompts as
  select m.id as message_id, m.timestamp, m.source, p.name as project, c.title as conversation,
    m.conversation_id, m.kind, m.content
  from messages m
  join conversations c on c.id = m.conversation_id
  left join projects p on p.id = c.project_id
  where m.kind in ('prompt', 'command', 'shell');
create view failed_tool_calls as
  select t.id as tool_call_id, t.started_at, t.name, t.title, t.status, t.exit_code, t.duration_ms,
    c.source, p.name as project, c.title as conversation, t.conversation_id, t.message_id,
    substr(t.output, 1, 500) as output_start
  from tool_calls t
  join conversations c on c.id = t.conversation_id
  left join projects p on p.id = c.project_id
  where t.status in ('error', 'denied', 'interrupted');
create view file_history as
  select e.path, m.timestamp, e.action, e.lines_added, e.lines_removed, c.source,
    p.name as project, c.title as conversation, e.conversation_id, e.message_id,
    t.id as tool_call_id, t.name as tool, t.status, e.diff
  from file_edits e
  join messages m on m.id = e.message_id
  join conversations c on c.id = e.conversation_id
  left join projects p on p.id = c.project_id
  left join tool_calls t on t.message_id = e.message_id and t.position = e.position;
create view tool_stats as
  select name, count(*) as calls, sum(status = 'ok') as ok, sum(status = 'error') as errors,
    sum(status = 'denied') as denied, sum(status = 'interrupted') as interrupted,
    round(100.0 * sum(status = 'error') / nullif(sum(status in ('ok', 'error')), 0), 1)
      as error_percent,
    round(avg(duration_ms)) as average_duration_ms
  from tool_calls group by name;
create view import_health as
  with newest as (
    select max(id) as id from import_log where records is not null group by source, file_path
  ),
  outcomes as (
    select source, sum(status in ('error', 'unreadable')) as failed_files from import_log
    where id in (select max(id) from import_log group by source, file_path) group by source
  ),
  files as (
    select source, count(*) as files, sum(missing_since is not null) as missing_files
    from source_files group by source
  ),
  log as (
    select l.source, sum(l.records) as records, sum(l.kept_records) as kept_records,
      sum(l.ignored_records) as ignored_records, sum(l.unknown_records) as unknown_records,
      sum(l.malformed_records) as malformed_records
    from import_log l join newest using (id) group by l.source
  )
  select s.id as source, s.name, f.files, f.missing_files, o.failed_files, l.records,
    l.kept_records, l.ignored_records, l.unknown_records, l.malformed_records
  from sources s left join files f on f.source = s.id left join outcomes o on o.source = s.id
    left join log l on l.source = s.id;
"""

#: Built at the end of the first import: cheaper than keeping them up to date row by row. Every
#: foreign key, and one index that begins with each default facet, goes on in the order that a table
#: page shows, and covers the other facets: so a filtered page, its next page and its facets are
#: answered from an index. Times descend, because the next page is asked for by "time desc, id".
LATE_INDEXES = {
    "messages_timestamp": "messages (timestamp desc)",
    "messages_source": "messages (source, timestamp desc, kind, role, model)",
    "messages_kind": "messages (kind, timestamp desc, source, role, model)",
    "messages_role": "messages (role, timestamp desc, source, kind, model)",
    "messages_model": "messages (model, timestamp desc, source, kind, role)",
    "conversations_started_at": "conversations (started_at desc)",
    "conversations_source": "conversations (source, kind)",
    "conversations_kind": "conversations (kind)",
    "conversations_model": "conversations (model)",
    "conversations_project_id": "conversations (project_id)",
    "conversations_parent_id": "conversations (parent_id)",
    "tool_calls_name": "tool_calls (name, started_at desc, status, duration_ms)",
    "tool_calls_status": "tool_calls (status, started_at desc, name)",
    "tool_calls_started_at": "tool_calls (started_at desc)",
    "tool_calls_subagent_id": "tool_calls (subagent_id)",
    "file_edits_path": "file_edits (path)",
    "file_edits_action": "file_edits (action)",
    "file_edits_conversation_id": "file_edits (conversation_id)",
    "import_log_run_id": "import_log (run_id)",
    "import_log_status": "import_log (status, source)",
    "import_log_source": "import_log (source)",
    "import_log_conversation_id": "import_log (conversation_id)",
    "daily_usage_day": "daily_usage (day)",
    "daily_usage_source": "daily_usage (source)",
    "daily_usage_project_id": "daily_usage (project_id)",
    "source_files_source": "source_files (source)",
}


def _run(db: Database, script: str) -> None:
    # not executescript: it would commit the transaction that a migration runs in
    for statement in script.split(";\n"):
        if statement.strip():
            db.conn.execute(statement)


@migrations()
def m001_initial(db: Database) -> None:
    _run(db, _TABLES)
    _run(db, _KEYS)
    _run(db, _VIEWS)
    # Contentless: the importer deletes by the 'delete' command with the old text, since SQLite
    # before 3.43 knows no contentless_delete.
    db.conn.execute("create virtual table messages_cjk using fts5(text, content='')")


def ensure_late_indexes(connection: sqlite3.Connection) -> None:
    """Creates the indexes that are missing of :data:`LATE_INDEXES`."""
    for name, on in LATE_INDEXES.items():
        connection.execute(f"create index if not exists {name} on {on}")


def newer_migrations(db: Database) -> list[str]:
    """Names of migrations that were applied to the database and that this version does not know:
    it was written by a newer version."""
    known = {migration.name for migration in migrations._migrations}
    return [applied.name for applied in migrations.applied(db) if applied.name not in known]
