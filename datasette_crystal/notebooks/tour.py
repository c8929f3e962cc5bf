# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A tour of crystal.db
#
# `crystal.db` is an ordinary SQLite file. This notebook walks through its tables in SQL: what a
# conversation is, what a message is, who wrote it, what the tools did, and why sums over messages
# are right as they stand. Everything is read-only and stays on your machine.

# %% tags=["parameters"]
database = "crystal.db"

# %%
from datasette_crystal import notebook

crystal = notebook.open(database)
alt = notebook.use_charts()
crystal

# %% [markdown]
# ## The tables
#
# The first five hold the conversations. The rest keep accounts: what was read, from which files,
# and what could not be understood. Views at the end join what is often asked for together.

# %%
notebook.table(crystal.tables())

# %% [markdown]
# Every column is explained, here and in Datasette:

# %%
notebook.table(crystal.columns("messages"))

# %% [markdown]
# ## Conversations
#
# One row for each session of a tool. A `fork` goes on from another conversation, a `subagent` was
# started by one; both name their parent. Of a `prompt-history` only your prompts are left: the tool
# has deleted the rest.

# %%
conversations = crystal.sql("""
select s.name as source, c.kind, count(*) as conversations, sum(c.message_count) as messages
from conversations c join sources s on s.id = c.source
group by c.source, c.kind
order by messages desc
""")
alt.Chart(conversations, title="Messages by source and kind of conversation").mark_bar().encode(
    x=alt.X("messages:Q", title="messages"),
    y=alt.Y("source:N", sort="-x", title=None),
    color=alt.Color("kind:N", title="kind"),
    tooltip=["source", "kind", "conversations", "messages"],
)

# %% [markdown]
# ## Messages
#
# A message is one step: thinking, then text, then the tool calls that followed. `kind` says whose
# words it is made of. That is told from the tools' records and never guessed from the text.
#
# | whose words | kinds |
# |---|---|
# | yours | `prompt`, `command` (slash command), `shell` (`!command`), `answer` |
# | another agent's | `task` |
# | the model's | `reply`, `partial` (cut off) |
# | the harness's | `context`, `summary`, `notification`, `interruption`, `error`, `local-output`, `hook` |

# %%
kinds = crystal.sql("""
select kind, count(*) as messages, round(avg(characters)) as characters
from messages group by kind
""")
whose = {
    **dict.fromkeys(["prompt", "command", "shell", "answer"], "yours"),
    "task": "another agent's",
    **dict.fromkeys(["reply", "partial"], "the model's"),
}
kinds["words"] = kinds["kind"].map(whose).fillna("the harness's")
alt.Chart(kinds, title="Whose words the messages are").mark_bar().encode(
    x=alt.X("messages:Q", title="messages"),
    y=alt.Y("kind:N", sort="-x", title=None),
    color=alt.Color("words:N", title="words are"),
    tooltip=["kind", "words", "messages", alt.Tooltip("characters", title="mean length")],
)

# %% [markdown]
# ## A conversation as it reads
#
# The view `transcript` lists the messages that a conversation shows, in order, with those that a
# fork took over from its parent. What you undid is kept and marked in `state`.

# %%
shows = crystal.sql("""
select position, kind, state, inherited, tool_calls, substr(title, 1, 70) as title
from transcript
where conversation_id = (select id from conversations where kind = 'main'
  order by prompt_count desc, id limit 1)
order by position limit 15
""")
notebook.table(shows)

# %% [markdown]
# ## Counted once
#
# A fork repeats its parent's messages, and so do resumed sessions. Here such a message is one row of
# `messages`, owned by the conversation that wrote it first; `conversation_messages` says who shows
# it. So `sum(output_tokens)` over `messages` is right, and counting what the conversations show is
# not:

# %%
counted = crystal.sql("""
select (select count(*) from messages) as stored,
  (select count(*) from conversation_messages) as shown
""")
stored, shown = counted["stored"][0], counted["shown"][0]
print(f"{stored:,} messages are stored, {shown:,} are shown: {shown - stored:,} are repeats.")

# %% [markdown]
# ## What the tools did
#
# A tool call belongs to the message that made it, with what was asked for (`input`, JSON) and what
# came back (`output`). The changes that it made to files are in `file_edits`.

# %%
calls = crystal.sql("""
select t.name, count(*) as calls, sum(t.status = 'error') as failed,
  count(distinct t.conversation_id) as conversations,
  sum((select count(*) from file_edits e
    where e.message_id = t.message_id and e.position = t.position)) as edits
from tool_calls t group by t.name order by calls desc limit 12
""")
notebook.table(calls)

# %% [markdown]
# ## From here
#
# `crystal.sql("…")` runs any query. In Datasette the same tables have search boxes, facets and saved
# queries, which are a good start for your own.
#
# The tour ends with what must hold in every crystal database.

# %%
check = crystal.sql("""
select (select coalesce(sum(message_count), 0) from conversations) as counted,
  (select count(*) from messages m where not exists (
    select 1 from conversation_messages cm
    where cm.conversation_id = m.conversation_id and cm.message_id = m.id)) as without_owner,
  (select count(*) from tool_calls t join messages m on m.id = t.message_id
    where m.conversation_id <> t.conversation_id) as strays
""").iloc[0]
assert check["counted"] == stored, "the conversations' counts add up to the messages"
assert check["without_owner"] == 0, "every message is shown by the conversation that owns it"
assert check["strays"] == 0, "a tool call belongs to the conversation of its message"
assert kinds["messages"].sum() == stored
assert shown >= stored
