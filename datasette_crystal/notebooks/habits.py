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
# # How I work with agents
#
# When you prompt, how long you let an agent work, where you stop it, which tools fail, what it
# edits, and what it hands to subagents. Only your own prompts count as yours: what the harness wrote
# into the conversation does not.

# %% tags=["parameters"]
database = "crystal.db"

# %%
from datasette_crystal import notebook

crystal = notebook.open(database)
alt = notebook.use_charts()
crystal

# %% [markdown]
# ## When
#
# Prompts by weekday and hour, in the time zone of this machine.

# %%
hours = crystal.sql("""
select cast(strftime('%w', timestamp, 'localtime') as integer) as weekday,
  cast(strftime('%H', timestamp, 'localtime') as integer) as hour, count(*) as prompts
from messages where kind in ('prompt', 'command', 'shell') and timestamp is not null
group by 1, 2
""")
days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
hours["day"] = hours["weekday"].map({number: days[(number - 1) % 7] for number in range(7)})
alt.Chart(hours, title="Prompts by weekday and hour").mark_rect().encode(
    x=alt.X(
        "hour:O",
        title="hour of the day",
        scale=alt.Scale(domain=list(range(24))),
        axis=alt.Axis(labelAngle=0),
    ),
    y=alt.Y("day:N", title=None, sort=days, scale=alt.Scale(domain=days)),
    color=alt.Color("prompts:Q", title="prompts"),
    tooltip=["day", "hour", "prompts"],
).properties(height=alt.Step(24))

# %% [markdown]
# ## How long the prompts are
#
# A line is about 80 characters. Short ones are mostly corrections and permissions to go on.

# %%
lengths = crystal.sql("""
select case when characters < 20 then '1 to 19' when characters < 80 then '20 to 79'
    when characters < 200 then '80 to 199' when characters < 500 then '200 to 499'
    when characters < 2000 then '500 to 1,999' else '2,000 and more' end as length,
  min(characters) as least, count(*) as prompts
from messages where kind = 'prompt' group by 1 order by 2
""")
alt.Chart(lengths, title="Length of prompts").mark_bar().encode(
    x=alt.X(
        "length:N", title="characters", sort=list(lengths["length"]), axis=alt.Axis(labelAngle=0)
    ),
    y=alt.Y("prompts:Q", title="prompts"),
    tooltip=["length", "prompts"],
)

# %% [markdown]
# ## How much an agent does for one prompt
#
# The tool calls between one prompt and the next. The middle of the distribution is how you usually
# work; its end are the long runs that you let go.

# %%
runs = crystal.sql("""
with turns as (
  select m.source, m.conversation_id, m.turn,
    sum((select count(*) from tool_calls t where t.message_id = m.id and m.has_tool_use)) as calls
  from messages m join conversations c on c.id = m.conversation_id
  where m.turn > 0 and c.kind in ('main', 'fork') group by 1, 2, 3
)
select case when calls = 0 then 'none' when calls < 3 then '1 or 2' when calls < 6 then '3 to 5'
    when calls < 11 then '6 to 10' when calls < 26 then '11 to 25' when calls < 51 then '26 to 50'
    else 'more than 50' end as tool_calls, min(calls) as least, source, count(*) as prompts
from turns group by 1, 3 order by 2
""")
order = list(dict.fromkeys(runs["tool_calls"]))
alt.Chart(runs, title="Tool calls that one prompt set off").mark_bar().encode(
    x=alt.X("tool_calls:N", title="tool calls", sort=order, axis=alt.Axis(labelAngle=0)),
    y=alt.Y("prompts:Q", title="prompts"),
    color=alt.Color("source:N", title=None),
    tooltip=["source", "tool_calls", "prompts"],
)

# %% [markdown]
# ## Where I step in
#
# Interruptions, calls that you denied, and what you undid, for each 100 prompts. High numbers are
# neither good nor bad: they tell where the agent and you do not mean the same.

# %%
stops = crystal.sql("""
select s.name as source, sum(c.prompt_count) as prompts,
  (select count(*) from messages m where m.source = s.id and m.kind = 'interruption') as interrupted,
  (select count(*) from tool_calls t join conversations d on d.id = t.conversation_id
    where d.source = s.id and t.status = 'denied') as denied,
  (select count(*) from conversation_messages cm join messages m on m.id = cm.message_id
    where m.source = s.id and m.kind = 'prompt' and cm.state in ('rolled-back', 'abandoned'))
    as taken_back
from sources s join conversations c on c.source = s.id group by s.id order by prompts desc
""")
ways = ["interrupted", "denied", "taken_back"]
rates = stops.melt(["source", "prompts"], ways, "what", "times")
rates = rates[rates["prompts"] > 0].copy()
rates["rate"] = 100 * rates["times"].astype(float) / rates["prompts"].astype(float)
rates["what"] = rates["what"].str.replace("_", " ")
alt.Chart(rates, title="Stepping in").mark_bar().encode(
    x=alt.X("rate:Q", title="for each 100 prompts"),
    y=alt.Y("source:N", title=None, sort=list(stops["source"])),
    yOffset="what:N",
    color=alt.Color("what:N", title=None),
    tooltip=["source", "what", "times", "prompts", alt.Tooltip("rate:Q", format=".1f")],
)

# %% [markdown]
# ## Which tools fail
#
# The tools that were called most. A failed command is often just a failing test, which is what it
# was run for.

# %%
tools = crystal.sql("""
with top as (select name, calls from tool_stats order by calls desc limit 15)
select t.name, t.status, count(*) as calls, top.calls as of_all
from tool_calls t join top using (name) group by t.name, t.status order by top.calls desc
""")
states = ["ok", "error", "denied", "interrupted", "pending", "unknown"]
colours = ["#4d8c5c", "#a82a2a", "#c0722a", "#dcb06a", "#c9d2da", "#e6ebef"]
alt.Chart(tools, title="Tool calls and how they ended").mark_bar().encode(
    x=alt.X("calls:Q", title="calls"),
    y=alt.Y("name:N", title=None, sort=list(dict.fromkeys(tools["name"]))),
    color=alt.Color(
        "status:N", title=None, sort=states, scale=alt.Scale(domain=states, range=colours)
    ),
    order=alt.Order("status_order:Q"),
    tooltip=["name", "status", "calls", alt.Tooltip("of_all:Q", title="of all")],
).transform_calculate(status_order=f"indexof({states}, datum.status)")

# %% [markdown]
# The commands that failed most often:

# %%
commands = crystal.sql("""
select title as command, count(*) as failed, count(distinct conversation_id) as conversations,
  max(started_at) as last
from tool_calls where status = 'error' and exit_code <> 0
group by title order by failed desc, last desc limit 10
""")
notebook.table(commands, {"last": "{:%Y-%m-%d}"})

# %% [markdown]
# ## What gets edited

# %%
edits = crystal.sql("""
select path, count(*) as edits, sum(lines_added) as added, sum(lines_removed) as removed,
  count(distinct conversation_id) as conversations
from file_edits group by path order by edits desc
""")
name = edits["path"].str.replace(r"^.*[/\\]", "", regex=True)
edits["ending"] = name.str.extract(r"\.(\w{1,10})$", expand=False).str.lower().fillna("(none)")
endings = edits.groupby("ending", as_index=False)[["edits", "added", "removed"]].sum()
endings = endings.sort_values("edits", ascending=False).head(12)
alt.Chart(endings, title="Edits by kind of file").mark_bar().encode(
    x=alt.X("edits:Q", title="edits"),
    y=alt.Y("ending:N", title="file ending", sort="-x"),
    tooltip=[
        "ending",
        "edits",
        alt.Tooltip("added", title="lines added"),
        alt.Tooltip("removed", title="lines removed"),
    ],
)

# %% [markdown]
# The files that were edited most, and in how many conversations. A file that many conversations come
# back to is worth a look.

# %%
notebook.table(edits[["path", "edits", "conversations", "added", "removed"]].head(10))

# %% [markdown]
# ## Subagents
#
# Who hands work on, and how much of the work that is.

# %%
agents = crystal.sql("""
select s.name as source, sum(c.kind = 'subagent') as subagents,
  sum(c.kind in ('main', 'fork')) as conversations,
  count(distinct case when c.kind = 'subagent' then c.parent_id end) as with_subagents,
  round(100.0 * sum(case when c.kind = 'subagent' then c.tool_call_count else 0 end)
    / nullif(sum(c.tool_call_count), 0), 1) as percent_of_tool_calls
from conversations c join sources s on s.id = c.source group by s.id order by subagents desc
""")
notebook.table(agents, {"percent_of_tool_calls": "{:.1f}"})

# %% [markdown]
# Every chart adds up to what it was made of:

# %%
truth = crystal.sql("""
select (select count(*) from messages where kind in ('prompt', 'command', 'shell')) as entered,
  (select count(*) from messages
    where kind in ('prompt', 'command', 'shell') and timestamp is null) as without_time,
  (select count(*) from messages where kind = 'prompt') as prompts,
  (select coalesce(sum(prompt_count), 0) from conversations) as counted,
  (select count(*) from file_edits) as edits
""").iloc[0]
assert hours["prompts"].sum() == truth["entered"] - truth["without_time"]
assert hours["hour"].between(0, 23).all()
assert lengths["prompts"].sum() == truth["prompts"]
assert truth["counted"] == truth["entered"], "conversations count the prompts that they own"
assert edits["edits"].sum() == truth["edits"]
assert (tools.groupby("name")["calls"].sum() == tools.groupby("name")["of_all"].first()).all()
assert agents["subagents"].sum() == len(crystal.conversations(kind="subagent"))
