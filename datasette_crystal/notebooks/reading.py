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
# # Search and read
#
# Find something that you know you once asked, read the conversation around it, and take it with you
# as Markdown or as a DataFrame.

# %% tags=["parameters"]
database = "crystal.db"

# %%
import pandas as pd

from datasette_crystal import notebook

pd.set_option("display.max_colwidth", 120)
crystal = notebook.open(database)
alt = notebook.use_charts()
crystal

# %% [markdown]
# ## Search
#
# All words must stand in a message. `"A phrase"`, `begin*`, `-without`, identifiers such as
# `foo_bar`, and Chinese, Japanese and Korean text work. Put words of your own here:

# %%
words = "test -lock"
hits = crystal.search(words)
columns = ["timestamp", "kind", "source", "project", "passage", "conversation_id"]
notebook.table(hits[columns].head(10))

# %% [markdown]
# The same in your own prompts only, the best matches first:

# %%
mine = crystal.search("test*", place="prompts", best=True, limit=10)
notebook.table(mine[["timestamp", "project", "passage", "conversation_id"]])

# %% [markdown]
# ## When did it come up?

# %%
found = crystal.search("test*", limit=5000)
by_month = (
    found.assign(
        month=found["timestamp"].dt.strftime("%Y-%m"), source=found["source"].astype("string")
    )
    .groupby(["month", "source"], as_index=False)
    .size()
)
alt.Chart(by_month, title="Messages that mention tests").mark_bar().encode(
    x=alt.X("month:O", title="month", axis=alt.Axis(labelAngle=0)),
    y=alt.Y("size:Q", title="messages"),
    color=alt.Color("source:N", title=None),
    tooltip=["month", "source", alt.Tooltip("size:Q", title="messages")],
)

# %% [markdown]
# ## Read
#
# A conversation shows itself: your prompts stand out, tool calls are folded to one line, edits are
# diffs. Here is the one with the newest hit, or the newest of all.

# %%
newest = crystal.conversations(kind="main", limit=1)
chosen = hits["conversation_id"] if len(hits) else newest["id"]
conversation = crystal.conversation(int(chosen.iloc[0])) if len(chosen) else None
conversation

# %% [markdown]
# Long ones come in parts: `conversation.show(start=100)`. `only` leaves `talk`, `prompts`, `edits`
# or `failed`; `search` leaves and marks what holds a text.

# %%
conversation.show(only="prompts") if conversation else None

# %% [markdown]
# ## Take it along
#
# As Markdown (`print(conversation)` writes all of it):

# %%
text = conversation.markdown() if conversation else ""
print(text[:600])

# %% [markdown]
# As a DataFrame, with every message, also those that were undone:

# %%
messages = conversation.to_frame() if conversation else pd.DataFrame()
notebook.table(messages.head(8).drop(columns=["content", "thinking"], errors="ignore"))

# %% [markdown]
# ## What was said about a file
#
# Each change, with the prompt that led to it. This is the file that was edited most:

# %%
path = crystal.sql("select path from file_edits group by path order by count(*) desc, path limit 1")
history = crystal.sql(
    """
select h.timestamp, h.action, h.lines_added, h.lines_removed, h.conversation,
  (select p.title from messages p where p.conversation_id = h.conversation_id
   and p.kind = 'prompt' and p.position < m.position order by p.position desc limit 1) as prompt
from file_history h join messages m on m.id = h.message_id
where h.path = :path order by h.timestamp desc limit 20
""",
    path=path["path"].iloc[0] if len(path) else "",
)
notebook.table(history)

# %%
assert not any("lock" in passage.lower().split() for passage in hits["passage"])
assert mine["kind"].isin(["prompt", "command", "shell", "answer"]).all()
assert by_month["size"].sum() == found["timestamp"].notna().sum()
assert found["message_id"].is_unique
if conversation:
    assert text.startswith("# ") and len(text) > 100
    assert list(messages["position"]) == list(range(len(messages)))
    html = conversation._repr_html_()
    assert "<script" not in html and 'src="http' not in html
