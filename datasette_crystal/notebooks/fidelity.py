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
# # How faithful each source is
#
# The tools do not keep the same things, and an importer may miss some of what they keep. Both can be
# measured: every record of every file was counted as kept, ignored (known to hold nothing of a
# conversation), unknown or malformed. This notebook shows the account, and then what each source
# has to say at all: times, tokens, results, exit codes, diffs.

# %% tags=["parameters"]
database = "crystal.db"

# %%
from datasette_crystal import notebook

crystal = notebook.open(database)
alt = notebook.use_charts()
crystal

# %% [markdown]
# ## The account
#
# `import_health` says how the files of each source stand now.

# %%
health = crystal.sql("select * from import_health order by records desc")
notebook.table(health)

# %%
fates = ["kept", "ignored", "unknown", "malformed"]
records = health.melt(
    ["source", "name", "records"], [f"{fate}_records" for fate in fates], "fate", "number"
).dropna()
records["fate"] = records["fate"].str.removesuffix("_records")
records["share"] = records["number"].astype(float) / records["records"].astype(float)
alt.Chart(records, title="What became of the records in the tools' files").mark_bar().encode(
    x=alt.X(
        "share:Q",
        title="share of the records",
        axis=alt.Axis(format="%"),
        scale=alt.Scale(domain=[0, 1]),
    ),
    y=alt.Y("name:N", title=None),
    color=alt.Color(
        "fate:N",
        title=None,
        sort=fates,
        scale=alt.Scale(domain=fates, range=["#2f78a8", "#c9d2da", "#c0722a", "#a82a2a"]),
    ),
    order=alt.Order("fate_order:Q"),
    tooltip=[
        "name",
        "fate",
        alt.Tooltip("number:Q", title="records", format=","),
        alt.Tooltip("share:Q", format=".2%"),
    ],
).transform_calculate(fate_order=f"indexof({fates}, datum.fate)")

# %% [markdown]
# ## What was not understood
#
# Kinds of records that no adapter knows yet. Their content is still in the tool's files.

# %%
unknown = crystal.sql("""
select f.source, u.type, count(*) as samples, min(substr(u.sample, 1, 100)) as looks_like
from unknown_records u join source_files f on f.id = u.source_file_id
group by f.source, u.type order by samples desc limit 20
""")
notebook.table(unknown)

# %% [markdown]
# ## What could not be read
#
# The newest outcome of each file that failed.

# %%
failed = crystal.sql("""
select source, status, message, file_path from import_log
where id in (select max(id) from import_log group by source, file_path)
  and status in ('error', 'unreadable')
order by created_at desc limit 20
""")
notebook.table(failed)

# %% [markdown]
# ## What each source tells
#
# The share of rows that have a value. An empty cell means that the source has no such rows. A source
# without tokens is not cheap: it does not say. Compare sources only where both tell.

# %%
told = crystal.sql("""
with m as (
  select source, avg(timestamp is not null) as time,
    avg(case when kind in ('reply', 'partial') then model is not null end) as model,
    avg(case when kind in ('reply', 'partial') then output_tokens is not null end) as tokens,
    avg(case when kind in ('reply', 'partial') then coalesce(thinking, '') <> '' end) as thinking
  from messages group by source
), t as (
  select c.source, avg(t.status <> 'unknown') as outcome, avg(coalesce(t.output, '') <> '') as output,
    avg(t.duration_ms is not null) as duration
  from tool_calls t join conversations c on c.id = t.conversation_id group by c.source
), e as (
  select c.source, avg(coalesce(e.diff, '') <> '') as diff
  from file_edits e join conversations c on c.id = e.conversation_id group by c.source
), c as (
  select source, avg(fidelity = 'complete') as complete from conversations group by source
)
select s.name, c.complete as "conversation complete", m.time as "message: time",
  m.model as "reply: model", m.tokens as "reply: tokens", m.thinking as "reply: thinking",
  t.outcome as "call: outcome", t.output as "call: output", t.duration as "call: duration",
  e.diff as "edit: diff"
from sources s join c on c.source = s.id left join m on m.source = s.id
left join t on t.source = s.id left join e on e.source = s.id
order by s.name
""")
columns = [column for column in told.columns if column != "name"]
cells = told.melt("name", columns, "what", "share").dropna()
base = alt.Chart(cells).encode(
    x=alt.X("what:N", title=None, sort=columns, axis=alt.Axis(labelAngle=-35, orient="top")),
    y=alt.Y("name:N", title=None),
    tooltip=["name", "what", alt.Tooltip("share:Q", format=".1%")],
)
squares = base.mark_rect().encode(
    color=alt.Color(
        "share:Q", title="share", scale=alt.Scale(domain=[0, 1]), legend=alt.Legend(format="%")
    )
)
numbers = base.mark_text(fontSize=11).encode(
    text=alt.Text("share:Q", format=".0%"),
    color=alt.condition("datum.share > 0.6", alt.value("white"), alt.value("#18212c")),
)
(squares + numbers).properties(title="What the sources tell", height=alt.Step(30))

# %% [markdown]
# ## What the tools have deleted
#
# Some tools delete their history after a while. What was imported stays: these conversations are no
# longer in the tool's own files.

# %%
deleted = crystal.sql("""
select s.name, count(*) as conversations, sum(c.missing_since is not null) as deleted_by_the_tool,
  sum(c.kind = 'prompt-history') as only_prompts_left
from conversations c join sources s on s.id = c.source group by s.name order by s.name
""")
notebook.table(deleted)

# %% [markdown]
# The account must be complete: no record without a fate.

# %%
counted = health.dropna(subset=["records"])
accounted = counted[[f"{fate}_records" for fate in fates]].sum(axis=1)
assert (accounted == counted["records"]).all(), "records = kept + ignored + unknown + malformed"
assert cells["share"].between(0, 1).all()
samples = crystal.sql("""
select count(*) as missing from unknown_records u
where not exists (select 1 from source_files f where f.id = u.source_file_id)
""")
assert samples["missing"][0] == 0, "every unknown record names its file"
