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
# # Where the tokens and the money went
#
# Which project, which model, which day, and how much of it was read from the cache. Every call of a
# model counts once, however many forks and resumed sessions repeat it.
#
# **About the dollars.** Some tools record what a conversation cost. For the rest the tokens are
# priced at the list price of the model's maker. That is not your bill: with a subscription you pay
# something else. It tells what is large and what is small. A model without a known price has no cost
# here, and none is guessed.

# %% tags=["parameters"]
database = "crystal.db"

# %%
from datasette_crystal import notebook

crystal = notebook.open(database)
alt = notebook.use_charts()
crystal

# %% [markdown]
# `crystal.usage()` has a row for each day, source, project and model.

# %%
usage = crystal.usage()
kinds = ["input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens"]
usage["tokens"] = usage[kinds].fillna(0).sum(axis=1)
usage[["project", "model"]] = usage[["project", "model"]].astype("string").fillna("unknown")
usage["source"] = usage["source"].astype("string")
usage["week"] = usage["day"].dt.to_period("W-SUN").dt.start_time
notebook.table(usage.dropna(subset=["day"]).tail(3), {"day": "{:%Y-%m-%d}", "week": "{:%Y-%m-%d}"})

# %% [markdown]
# ## In one table
#
# Where a cell is empty, the tool does not record it, which is not the same as none. `unpriced_tokens`
# are not in the cost: nobody knows the price of their model.

# %%
usage["unpriced_tokens"] = usage["tokens"].where(usage["cost_usd"].isna() & (usage["tokens"] > 0))
sums = usage.groupby("source")[
    ["conversations", "prompts", "replies", "tool_calls", *kinds, "cost_usd", "unpriced_tokens"]
]
by_source = sums.sum(min_count=1).sort_values("output_tokens", ascending=False)
notebook.table(by_source)

# %% [markdown]
# ## Week by week
#
# Output tokens are what the models wrote. A week begins on Monday.

# %%
weekly = (
    usage.dropna(subset=["week"]).groupby(["week", "source"], as_index=False)["output_tokens"].sum()
)
alt.Chart(weekly, title="Output tokens by week").mark_bar().encode(
    x=alt.X(
        "yearmonthdate(week):O",
        title="week of",
        axis=alt.Axis(format="%e %b", labelAngle=0, labelOverlap=True),
    ),
    y=alt.Y("output_tokens:Q", title="output tokens", axis=alt.Axis(format="~s")),
    color=alt.Color("source:N", title=None),
    tooltip=[
        alt.Tooltip("week:T", title="week of", format="%Y-%m-%d"),
        "source",
        alt.Tooltip("output_tokens:Q", title="output tokens", format=","),
    ],
)

# %% [markdown]
# ## What kind of tokens
#
# An agent sends the whole conversation again with each call. Most of that is read from the
# provider's cache, at about a tenth of the price. Tokens read from the cache are therefore many and
# cheap; a small share of them means that the cache was missed, and that costs.

# %%
by_kind = usage.groupby("model")[kinds].sum().astype("float64")
by_kind = by_kind[by_kind.sum(axis=1) > 0]
share = (
    by_kind.div(by_kind.sum(axis=1), axis=0)
    .reset_index()
    .melt("model", var_name="kind", value_name="share")
)
tokens = by_kind.reset_index().melt("model", var_name="kind", value_name="tokens")
share["tokens"] = tokens["tokens"]
share["kind"] = share["kind"].str.removesuffix("_tokens").str.replace("_", " ")
alt.Chart(share, title="Tokens by kind").mark_bar().encode(
    x=alt.X(
        "share:Q",
        title="share of the model's tokens",
        axis=alt.Axis(format="%"),
        scale=alt.Scale(domain=[0, 1]),
    ),
    y=alt.Y("model:N", title=None),
    color=alt.Color("kind:N", title=None, sort=["input", "cache write", "cache read", "output"]),
    tooltip=[
        "model",
        "kind",
        alt.Tooltip("share:Q", format=".1%"),
        alt.Tooltip("tokens:Q", format=","),
    ],
)

# %%
read = usage["cache_read_tokens"].sum()
sent = read + usage["input_tokens"].sum() + usage["cache_write_tokens"].sum()
if sent:
    print(f"{read / sent:.0%} of the {sent:,} tokens that were sent came from the cache.")

# %% [markdown]
# ## Projects and models, in dollars
#
# Darker is more. Hover to see how much of it the tools recorded themselves.

# %%
usage["recorded"] = usage["cost_usd"].where(usage["cost_origin"] == "recorded", 0)
dollars = usage.groupby(["project", "model"], as_index=False)[
    ["cost_usd", "recorded", "tokens"]
].sum()
largest = dollars.groupby("project")["cost_usd"].sum().nlargest(15).index
dollars = dollars[dollars["project"].isin(largest) & (dollars["cost_usd"] > 0)]
alt.Chart(
    dollars,
    title=alt.Title(
        "Cost by project and model",
        subtitle="recorded by the tool, else API list price: not your bill",
    ),
).mark_rect().encode(
    x=alt.X("model:N", title=None, axis=alt.Axis(labelAngle=-30)),
    y=alt.Y("project:N", title=None, sort=list(largest)),
    color=alt.Color("cost_usd:Q", title="US $"),
    tooltip=[
        "project",
        "model",
        alt.Tooltip("cost_usd:Q", title="US $", format=",.2f"),
        alt.Tooltip("recorded:Q", title="of that recorded", format=",.2f"),
        alt.Tooltip("tokens:Q", format=","),
    ],
)

# %% [markdown]
# ## The largest conversations
#
# A few long ones often take most of it. These are the figures of the conversations themselves,
# without their subagents'. `cost_usd` is what the tool recorded, `list_price_usd` the API list price
# of the tokens: not your bill. Open one with `crystal.conversation(id)`.

# %%
conversations = crystal.conversations()
columns = ["id", "title", "source", "project", "model", "prompt_count", "message_count"]
columns += ["output_tokens", "cache_read_tokens", "cost_usd", "list_price_usd"]
notebook.table(conversations.nlargest(10, "list_price_usd")[columns])

# %% [markdown]
# By output tokens, which also finds those whose model has no price:

# %%
notebook.table(conversations.nlargest(10, "output_tokens")[columns])

# %% [markdown]
# ## Subagents
#
# What subagents used belongs to them, and is part of every sum above. Leaving them out is the
# commonest way to count too little.

# %%
parts = crystal.sql("""
select case kind when 'subagent' then 'subagents' else 'conversations' end as part,
  sum(output_tokens) as output_tokens, sum(tool_call_count) as tool_calls
from conversations where kind <> 'prompt-history' group by 1
""")
notebook.table(parts)

# %% [markdown]
# ## What has no price

# %%
unpriced = usage[(usage["tokens"] > 0) & usage["cost_origin"].isna()]
by_model = unpriced.groupby("model")["tokens"].sum().sort_values(ascending=False)
notebook.table(by_model.to_frame())

# %% [markdown]
# Each sum above was taken from `daily_usage`. It must be that of the messages themselves:

# %%
truth = crystal.sql("""
select coalesce(sum(m.input_tokens), 0) as input_tokens,
  coalesce(sum(m.cache_write_tokens), 0) as cache_write_tokens,
  coalesce(sum(m.cache_read_tokens), 0) as cache_read_tokens,
  coalesce(sum(m.output_tokens), 0) as output_tokens
from messages m join conversations c on c.id = m.conversation_id
where c.kind <> 'prompt-history'
""").iloc[0]
for kind in kinds:
    assert usage[kind].sum() == truth[kind], kind
recorded = crystal.sql("select coalesce(sum(cost_usd), 0.0) as usd from conversations")["usd"][0]
assert abs(usage["recorded"].sum() - recorded) < 0.005, "recorded dollars are those of the tools"
assert (usage["cost_usd"].dropna() >= 0).all()
listed = conversations.loc[conversations["cost_origin"].isna(), "list_price_usd"].sum()
assert abs(usage["cost_usd"].sum() - recorded - listed) < 0.005, "both price the same tokens"
assert unpriced["cost_usd"].isna().all(), "no price is guessed"
