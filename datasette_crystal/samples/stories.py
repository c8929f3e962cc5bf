"""The sample conversations: six weeks of a small team with a tea shop's API, a pipeline for tide
gauges, a game about a frog, and a handbook. Every person, project and number is invented."""

from __future__ import annotations

from .writers import Call, Claude, Codex, Run, png

API = "/home/dev/teahouse-api"
TIDES = "/home/dev/tideline"
GAME = "/home/dev/moss-hop"
BOOK = "/home/dev/handbook"

GREEN, RED, DIM, BOLD, OFF = "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"

#: The frog stands two pixels too deep in its platform.
SCREENSHOT = png(
    [
        "ssssssssssssssssssssssssssssssss",
        "sssswwwwssssssssssssssssssssssss",
        "sssswwwwwwssssssssssswwwwsssssss",
        "ssssssssssssssssssssswwwwwwsssss",
        "ssssssssssssssssssssssssssssssss",
        "ssssssssssssssssssssssssssssssss",
        "ssssssssssssswsswsssssssssssssss",
        "ssssssssssssffffffssssssssssssss",
        "sssssssssssffkffkffsssssssssssss",
        "sssssssssssffffffffsssssssssssss",
        "sssssssmmmmmffffffmmmmmsssssssss",
        "sssssssmmmmffmmmmffmmmmsssssssss",
        "sssssssbbbbbbbbbbbbbbbbsssssssss",
        "ssssssssbbbbbbbbbbbbbbssssssssss",
        "ssssssssssssssssssssssssssssssss",
        "gggggggggggggggggggggggggggggggg",
    ],
    {
        "s": "a8d8f0",
        "w": "ffffff",
        "f": "4caf50",
        "k": "1b2a1b",
        "m": "7cb342",
        "b": "795548",
        "g": "33691e",
    },
    scale=3,
)
#: Water level over a day, with a gap where the gauge was silent.
PLOT = png(
    [
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "a...llll................lll....a",
        "a..l....l.............ll...l...a",
        "a.l......l...........l......l..a",
        "al........l.........l........l.a",
        "a..........l.......l..........la",
        "a...........l..................a",
        "a............l.................a",
        "a.............l................a",
        "a..............................a",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ],
    {".": "ffffff", "a": "9e9e9e", "l": "1565c0"},
    scale=2,
)


# ------------------------------------------------------------------------- the tea shop's API

CART = """\
from dataclasses import dataclass


@dataclass
class Line:
    sku: str
    price: float
    quantity: int


def total_cents(lines):
    total = 0.0
    for line in lines:
        total += line.price * line.quantity
    return int(total * 100)
"""
VOUCHERS = """\
def apply_percent(cents, percent):
    return int(cents * (1 - percent / 100))


def apply_fixed(cents, voucher_cents):
    return max(cents - voucher_cents, 0)
"""


def off_by_a_cent() -> Claude:
    s = Claude(
        "off-by-a-cent",
        API,
        "2026-10-19 08:12",
        version="2.1.251",
        files={"teahouse/cart.py": CART, "teahouse/vouchers.py": VOUCHERS},
    )
    s.prompt(
        "Customers say that the total in the checkout is sometimes one cent below the invoice. "
        "Order 1047: 3 × Sencha at 4.35 € should be 13.05 €, we charged 13.04 €. Find out why and "
        "fix it.",
        wait=0,
    )
    s.step(
        "I'll look for the place where the total is calculated.",
        Call(
            "Grep",
            {"pattern": "total|cents", "path": f"{API}/teahouse", "output_mode": "content"},
            "teahouse/cart.py:11:def total_cents(lines):\n"
            "teahouse/cart.py:12:    total = 0.0\n"
            "teahouse/cart.py:15:    return int(total * 100)\n"
            "teahouse/vouchers.py:1:def apply_percent(cents, percent):\n"
            "teahouse/vouchers.py:2:    return int(cents * (1 - percent / 100))",
            False,
            {"mode": "content", "numFiles": 2, "filenames": [], "numLines": 5},
            0.3,
        ),
        s.read("teahouse/cart.py"),
        think="13.05 against 13.04: one cent too low, never too high. That smells of int() "
        "cutting a float. 4.35 has no exact binary form; three times it is 13.049999999999999, "
        "and int(1304.9999999999998) is 1304.",
    )
    s.step(
        "Found it: prices are floats, and `int()` cuts instead of rounding. A test first, so that "
        "the bug is on record.",
        s.write(
            "tests/test_cart.py",
            "from decimal import Decimal\n\nfrom teahouse.cart import Line, total_cents\n\n\n"
            "def test_order_1047():\n"
            '    assert total_cents([Line("sencha-100", Decimal("4.35"), 3)]) == 1305\n',
        ),
        s.bash(
            "python -m pytest -q tests/test_cart.py --color=yes",
            f"{RED}F{OFF}{' ' * 40}{RED}[100%]{OFF}\n"
            f"=================================== {RED}FAILURES{OFF} ===================================\n"
            f"{RED}{BOLD}_______________________________ test_order_1047 ________________________________{OFF}\n"
            "\n    def test_order_1047():\n"
            '>       assert total_cents([Line("sencha-100", Decimal("4.35"), 3)]) == 1305\n'
            f"{RED}{BOLD}E       TypeError: unsupported operand type(s) for +=: 'float' and 'decimal.Decimal'{OFF}\n\n"
            f"{RED}FAILED{OFF} tests/test_cart.py::{BOLD}test_order_1047{OFF}\n"
            f"{RED}{BOLD}1 failed{OFF} in 0.09s",
            "Run the new test",
            code=1,
            seconds=1.4,
        ),
    )
    s.step(
        "",
        s.edit("teahouse/cart.py", "    price: float\n", "    price: Decimal\n"),
        s.edit(
            "teahouse/cart.py",
            "from dataclasses import dataclass\n",
            "from dataclasses import dataclass\nfrom decimal import ROUND_HALF_UP, Decimal\n",
        ),
        s.edit(
            "teahouse/cart.py",
            "    total = 0.0\n    for line in lines:\n        total += line.price * line.quantity\n"
            "    return int(total * 100)\n",
            "    total = sum((line.price * line.quantity for line in lines), Decimal(0))\n"
            "    return int((total * 100).quantize(Decimal(1), ROUND_HALF_UP))\n",
        ),
        s.bash(
            "python -m pytest -q --color=yes",
            f"{GREEN}......................{OFF}{' ' * 18}{GREEN}[100%]{OFF}\n{GREEN}{BOLD}22 passed{OFF}{GREEN} in 0.61s{OFF}",
            "Run all tests",
            seconds=2.2,
        ),
    )
    s.answer(
        "Fixed. The price was a `float`, and `int(total * 100)` cuts everything after the comma:\n\n"
        "| | float | Decimal |\n|---|---:|---:|\n| 3 × 4.35 | 13.049999999999999 | 13.05 |\n"
        "| × 100, as int | 1304 | 1305 |\n\n"
        "What changed in `teahouse/cart.py`:\n\n"
        "1. `Line.price` is a `Decimal`; JSON input is already parsed with `parse_float=Decimal`.\n"
        "2. The sum starts at `Decimal(0)`, so a float that slips in fails loudly.\n"
        "3. Rounding is explicit: half up, as the invoice does it.\n\n"
        "`tests/test_cart.py` has order 1047 as its first case.",
    )
    s.prompt("Are there other places with the same mistake?", wait=190)
    s.step(
        "Let me keep a list while I go through the package.",
        s.todos(
            ("Search for float() and division of money", "in_progress"),
            ("Fix vouchers.py", "pending"),
            ("Add a check to the tests that forbids floats", "pending"),
        ),
        s.bash(
            "grep -rnE 'float\\(|/ *100|\\* *100' teahouse | grep -v '^teahouse/cart.py'",
            "teahouse/vouchers.py:2:    return int(cents * (1 - percent / 100))",
            "Find arithmetic with money",
            seconds=0.4,
        ),
    )
    s.step(
        "",
        s.edit(
            "teahouse/vouchers.py",
            "    return int(cents * (1 - percent / 100))\n",
            "    # half up, in whole numbers: 10 % of 5 cents is 1 cent off\n"
            "    return cents - (cents * percent + 50) // 100\n",
        ),
        s.bash(
            "python - <<'EOF'\nfrom teahouse.vouchers import apply_percent\n"
            "print([apply_percent(c, 10) for c in (5, 1305, 9999)])\nEOF",
            "[4, 1174, 8999]",
            "Check by hand",
            seconds=0.3,
        ),
        s.todos(
            ("Search for float() and division of money", "completed"),
            ("Fix vouchers.py", "completed"),
            ("Add a check to the tests that forbids floats", "in_progress"),
        ),
    )
    s.answer(
        "One more: `apply_percent` went through a float as well. It now stays in whole cents.\n\n"
        "```python\ndef apply_percent(cents, percent):\n"
        "    return cents - (cents * percent + 50) // 100\n```\n\n"
        "I left the last item of the list open: a test that forbids `float` in `teahouse/` would "
        "also hit `latency.py`, where floats are right. Shall I exclude that module?",
    )
    s.prompt("yes, and commit both fixes", wait=75)
    s.step(
        "",
        s.write(
            "tests/test_no_floats.py",
            'import re\nfrom pathlib import Path\n\nALLOWED = {"latency.py"}\n\n\n'
            "def test_money_is_never_a_float():\n"
            '    for path in Path("teahouse").rglob("*.py"):\n'
            "        if path.name not in ALLOWED:\n"
            '            assert not re.search(r"\\bfloat\\b", path.read_text()), path\n',
        ),
        s.bash("python -m pytest -q", "23 passed in 0.66s", "Run all tests", seconds=2),
        s.bash(
            "git add -A && git commit -qm 'Calculate money in Decimal and whole cents' && git log --oneline -1",
            "7d1f0c2 Calculate money in Decimal and whole cents",
            "Commit",
            seconds=0.5,
        ),
    )
    s.answer("Committed as `7d1f0c2`: 23 tests pass, and the list is empty.")
    s.bare("ai-title", aiTitle="Checkout total is a cent too low")
    s.finish()
    return s


LOGIN = """\
from fastapi import APIRouter, Request

from .accounts import check_password

router = APIRouter()


@router.post("/login")
async def login(request: Request, name: str, password: str):
    return await check_password(name, password)
"""


def rate_limit() -> Claude:
    s = Claude(
        "rate-limit",
        API,
        "2026-10-22 13:40",
        model="claude-opus-5-5",
        branch="rate-limit",
        files={"teahouse/login.py": LOGIN},
    )
    s.prompt(
        "Somebody is trying passwords on POST /login, about 40 a second from a handful of "
        "addresses. I want a rate limit. Make a plan first, don't change anything yet.",
        wait=0,
    )
    s.attachment("plan_mode", reminderType="full", isSubAgent=False, planExists=False)
    questions = [
        {
            "question": "Where shall the counters live?",
            "header": "Storage",
            "multiSelect": False,
            "options": [
                {"label": "Redis", "description": "Shared by all four workers, already deployed"},
                {
                    "label": "In process",
                    "description": "No dependency, but each worker counts alone",
                },
                {"label": "Postgres", "description": "One more write per login"},
            ],
        },
        {
            "question": "Which routes?",
            "header": "Routes",
            "multiSelect": True,
            "options": [
                {"label": "Login", "description": "POST /login"},
                {"label": "Password reset", "description": "POST /reset"},
                {"label": "Everything", "description": "All POST routes"},
            ],
        },
    ]
    s.step(
        "Two questions before I plan.",
        s.ask(
            questions,
            {
                "Where shall the counters live?": "Redis",
                "Which routes?": "Login, Password reset",
            },
        ),
        think="Four uvicorn workers, so counting in process would allow four times the limit. By "
        "address alone a school behind one NAT locks itself out; by account alone the attacker "
        "just changes the name. So count both, with different limits.",
        seconds=11,
    )
    plan = (
        "# Rate limit for /login and /reset\n\n"
        "1. `limiter.py`: a fixed window in Redis. `SET key 0 EX window NX`, then `INCR key`, in "
        "one pipeline, so that a key never stays without an expiry.\n"
        "2. Two counters per request: 20 a minute for the address, 5 a minute for the account.\n"
        "3. Over the limit: 429 with `Retry-After`; the password is not even looked at.\n"
        "4. When Redis is down: let logins through and log it. A shop that nobody can enter is "
        "worse than a minute without a limit.\n"
        "5. Tests with a fake clock; no sleeping."
    )
    s.step(
        "",
        Call(
            "ExitPlanMode",
            {"plan": plan},
            "User has approved exiting plan mode. You can now proceed.",
            False,
            {"plan": plan, "isAgent": False, "filePath": "/home/dev/.claude/plans/quiet-oak.md"},
            41,
        ),
        seconds=14,
    )
    s.attachment("plan_mode_exit", planExists=True)
    s.step(
        "Plan approved. The limiter first:",
        s.write(
            "teahouse/limiter.py",
            "import logging\n\nfrom redis.asyncio import Redis\nfrom redis.exceptions import RedisError\n\n"
            "log = logging.getLogger(__name__)\n\n\n"
            "async def allowed(redis: Redis, key: str, limit: int, window: int = 60) -> bool:\n"
            '    """Counts one more attempt for ``key`` and says whether it may go on."""\n'
            "    try:\n"
            "        async with redis.pipeline(transaction=True) as pipe:\n"
            "            pipe.set(key, 0, ex=window, nx=True)\n"
            "            pipe.incr(key)\n"
            "            _, count = await pipe.execute()\n"
            "    except RedisError:\n"
            '        log.warning("rate limit skipped, redis is away", exc_info=True)\n'
            "        return True\n"
            "    return count <= limit\n",
        ),
        s.edit(
            "teahouse/login.py",
            "    return await check_password(name, password)\n",
            "    redis = request.app.state.redis\n"
            '    address = request.client.host if request.client else "unknown"\n'
            "    if not (\n"
            '        await allowed(redis, f"login:ip:{address}", 20)\n'
            '        and await allowed(redis, f"login:account:{name.lower()}", 5)\n'
            "    ):\n"
            '        raise HTTPException(429, headers={"Retry-After": "60"})\n'
            "    return await check_password(name, password)\n",
        ),
        s.edit(
            "teahouse/login.py",
            "from fastapi import APIRouter, Request\n\nfrom .accounts import check_password\n",
            "from fastapi import APIRouter, HTTPException, Request\n\n"
            "from .accounts import check_password\nfrom .limiter import allowed\n",
        ),
        seconds=17,
    )
    s.answer(
        "The limiter is in place for `/login`. `/reset` gets the same two lines next; its route "
        "still has to move out of `main.py` first.",
    )
    s.shell("redis-cli -u redis://localhost:6379 ping", "PONG", wait=35)
    s.prompt("redis is up. do the same for /reset and push the branch", wait=25)
    s.step(
        "",
        s.write(
            "teahouse/reset.py",
            "from fastapi import APIRouter, HTTPException, Request\n\nfrom .accounts import send_reset_mail\n"
            "from .limiter import allowed\n\nrouter = APIRouter()\n\n\n"
            '@router.post("/reset")\nasync def reset(request: Request, name: str):\n'
            '    address = request.client.host if request.client else "unknown"\n'
            '    if not await allowed(request.app.state.redis, f"reset:ip:{address}", 5, 3600):\n'
            '        raise HTTPException(429, headers={"Retry-After": "3600"})\n'
            "    await send_reset_mail(name)\n"
            '    return {"sent": True}\n',
        ),
        s.bash("python -m pytest -q", "31 passed in 0.92s", "Run all tests", seconds=2.1),
        seconds=12,
    )
    s.step(
        "",
        s.denied("git push --force origin rate-limit", "Push the branch"),
        seconds=3,
    )
    s.interrupt(for_tool=True)
    s.bare("last-prompt", lastPrompt=s.last_prompt, leafUuid=s.leaf)
    s.prompt("never --force. a plain push is enough, nobody else has this branch", wait=18)
    s.step(
        "",
        s.bash(
            "git push -u origin rate-limit",
            "To git.example.com:tea/teahouse-api.git\n * [new branch]      rate-limit -> rate-limit",
            "Push the branch",
            seconds=2.4,
        ),
        seconds=3,
    )
    s.answer(
        "Pushed without force. I had reached for `--force` because the branch was rebased "
        "locally; as it did not exist on the server, there was nothing to overwrite.",
    )
    s.command(
        "review",
        "limiter.py --focus races",
        "Review the named file of this repository. Look for bugs before style. Name the line.",
        wait=130,
    )
    s.step("", s.read("teahouse/limiter.py"), seconds=3)
    s.answer(
        "**`teahouse/limiter.py`**, with an eye on races:\n\n"
        "- *Lines 13–14*: `SET … NX` and `INCR` run in one `MULTI`, so no other client gets "
        "between them. Good.\n"
        "- *A key can expire between the two only outside a transaction*. Not here.\n"
        "- **Fixed windows allow a burst**: 20 attempts at 0:59 and 20 more at 1:00. For "
        "passwords that is fine (40 in two seconds, once a minute); for money I'd take a sliding "
        "window.\n"
        "- *Line 9*: `key` contains the account name. `name.lower()` is not enough for "
        '`ＡＤＭＩＮ`: use `unicodedata.normalize("NFKC", name).casefold()`.',
        think="The interesting one is normalisation: full-width letters give a second budget for "
        "the same account if the login itself normalises.",
        seconds=13,
    )
    s.rename("Rate limit for login and reset", wait=22)
    s.bare("ai-title", aiTitle="Plan rate limit for POST /login")
    s.finish()
    return s


def idempotent_payments() -> tuple[Claude, Claude]:
    files = {
        "teahouse/payments.py": (
            "async def on_payment(db, event):\n"
            '    order = await db.orders.get(event["order_id"])\n'
            '    await db.payments.insert(order.id, event["amount"])\n'
            '    await db.orders.update(order.id, status="paid")\n'
        )
    }
    s = Claude("payments", API, "2026-11-09 02:05", files=files, branch="payments")
    s.prompt(
        "支付平台的回调会重发，同一笔订单被记了两次账。下面是日志，帮我找原因，给一个不依赖 Redis 的方案。",
        wait=0,
        pasted="02:00:13 POST /hooks/pay event=evt_7F3A order=2203 amount=4580 -> 500 (timeout)\n"
        "02:00:43 POST /hooks/pay event=evt_7F3A order=2203 amount=4580 -> 200\n"
        "02:00:44 ledger: order=2203 payments=2 sum=9160\n"
        "Authorization: Bearer sk-test-EXAMPLE-NOT-A-REAL-KEY",
    )
    s.step(
        "先看处理回调的代码。",
        s.read("teahouse/payments.py"),
        think="同一个 event id 处理了两次：第一次已经写入 payments，但响应超时，平台重试。"
        "需要以事件 id 作唯一约束，并且插入和更新放在同一个事务里。",
        seconds=6,
    )
    s.step(
        "",
        s.edit(
            "teahouse/payments.py",
            '    order = await db.orders.get(event["order_id"])\n'
            '    await db.payments.insert(order.id, event["amount"])\n'
            '    await db.orders.update(order.id, status="paid")\n',
            "    async with db.transaction():\n"
            "        new = await db.fetchval(\n"
            '            "insert into payment_events (id) values ($1)"\n'
            '            " on conflict (id) do nothing returning id",\n'
            '            event["id"],\n'
            "        )\n"
            "        if new is None:\n"
            "            return  # a repeat of an event that was handled\n"
            '        order = await db.orders.get(event["order_id"])\n'
            '        await db.payments.insert(order.id, event["amount"])\n'
            '        await db.orders.update(order.id, status="paid")\n',
        ),
        s.write(
            "migrations/0019_payment_events.sql",
            "create table payment_events (\n    id text primary key,\n"
            "    received_at timestamptz not null default now()\n);\n",
        ),
        s.bash("python -m pytest -q tests/test_payments.py", "9 passed in 0.48s", "运行测试"),
        seconds=12,
    )
    s.answer(
        "原因：第一次回调其实已经写入了 `payments`，只是响应超时；平台重试时我们又写了一次。\n\n"
        "修改：\n\n"
        "1. 新表 `payment_events`，以事件 id 为主键。\n"
        "2. `insert … on conflict do nothing returning id`：没有返回值就说明处理过，直接返回 200。\n"
        "3. 三条语句放在**同一个事务**里，中途失败会整体回滚，重试仍然安全。\n\n"
        "```sql\nselect order_id, count(*) from payments group by 1 having count(*) > 1;\n```\n\n"
        "用上面的查询可以找出已经重复的订单。另外：日志里有一个 Bearer 令牌（这里是占位符），建议在记录之前去掉。",
    )
    s.bare("ai-title", aiTitle="支付回调幂等处理")
    fork = s.fork("payments-fork", "2026-11-09 03:10")
    s.prompt("已经重复的 14 笔怎么处理？写一个只读的检查脚本。", wait=600)
    s.step(
        "",
        s.write(
            "scripts/find_duplicates.sql",
            "begin read only;\nselect order_id, count(*) as times, sum(amount) as charged\n"
            "from payments group by order_id having count(*) > 1 order by charged desc;\nrollback;\n",
        ),
        s.bash(
            "psql -X -f scripts/find_duplicates.sql | tail -3",
            "     2203 |     2 |    9160\n     1998 |     2 |    3200\n(14 rows)",
            "查找重复的付款",
            seconds=1.1,
        ),
        seconds=8,
    )
    s.answer(
        "脚本在只读事务里运行，找到 14 笔，和账目一致。退款请在支付平台后台手动确认，不要用脚本批量做。"
    )
    s.finish()
    fork.prompt("换个思路：如果用 Redis 锁会怎样？只讨论，不改代码。", wait=30)
    fork.answer(
        "可以，但更弱：\n\n"
        "| | 唯一约束 | Redis 锁 |\n|---|---|---|\n"
        "| 锁过期时处理还没结束 | 不会发生 | 两个进程同时写 |\n"
        "| Redis 重启 | 无影响 | 锁丢失 |\n"
        "| 和账目在同一事务 | 是 | 否 |\n\n"
        "锁只能减少并发，不能代替唯一约束。结论：保留数据库的方案。",
        think="锁的租期与处理时间无关，没有 fencing token 就不能保证互斥。",
        seconds=11,
    )
    fork.finish()
    return s, fork


# ----------------------------------------------------------------------------- the tide gauges

LOAD = """\
import pandas as pd


def clean(frame: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for _, row in frame.iterrows():
        if row["quality"] != "B":
            level = row["level_mm"] / 1000 - row["datum_m"]
            rows.append({"gauge": row["gauge"], "at": row["at"], "level": level})
    return pd.DataFrame(rows)
"""


def slow_night() -> Claude:
    s = Claude(
        "slow-night",
        TIDES,
        "2026-10-27 07:20",
        model="claude-opus-5-5",
        files={"tideline/load.py": LOAD},
    )
    s.prompt(
        "The nightly load takes 51 minutes now and runs into the 6 o'clock export. It was 12 "
        "minutes in summer. Where does the time go? Measure before you guess.",
        wait=0,
    )
    s.retry(529, "Overloaded", 1)
    s.retry(529, "Overloaded", 2)
    s.step(
        "I'll sample the running process instead of reading the code first.",
        s.bash(
            "py-spy record -d 60 -f raw -o /tmp/load.txt --pid $(pgrep -f 'tideline load') && sort -t' ' -k2 -nr /tmp/load.txt | head -3",
            "clean (tideline/load.py:6);iterrows (pandas/core/frame.py) 4711\n"
            "clean (tideline/load.py:8);__getitem__ (pandas/core/series.py) 802\n"
            "write (tideline/store.py:31);to_parquet (pandas/io/parquet.py) 214",
            "Sample the process for a minute",
            seconds=62,
        ),
        s.read("tideline/load.py"),
        think="82 % of the samples are in iterrows. It builds a Series for each row: that's the "
        "slowest way through a frame there is. The number of gauges grew from 90 to 380 in "
        "autumn, so the time grew with it: 12 min * 380/90 = 50.7 min. That fits exactly.",
        seconds=9,
    )
    s.answer(
        "Measured: **82 % of the time is `iterrows()`** in `clean()`, 14 % reading single cells, "
        "4 % writing Parquet.\n\n"
        "It also explains the growth: 90 gauges took 12 minutes, 380 gauges should take "
        "12 × 380 / 90 ≈ 51. Nothing broke; it was always this slow for each row.",
    )
    s.prompt("Good. Replace the loop, keep the result byte for byte the same.", wait=120)
    s.step(
        "",
        s.edit(
            "tideline/load.py",
            "    rows = []\n"
            "    for _, row in frame.iterrows():\n"
            '        if row["quality"] != "B":\n'
            '            level = row["level_mm"] / 1000 - row["datum_m"]\n'
            '            rows.append({"gauge": row["gauge"], "at": row["at"], "level": level})\n'
            "    return pd.DataFrame(rows)\n",
            '    good = frame.loc[frame["quality"] != "B"]\n'
            '    level = good["level_mm"] / 1000 - good["datum_m"]\n'
            '    return good[["gauge", "at"]].assign(level=level).reset_index(drop=True)\n',
        ),
        s.bash(
            "python -m tideline.compare /data/2026-10-26 --old HEAD --new .",
            "380 gauges, 32 832 000 rows\nlevel: 32 832 000 equal, 0 different\ndtypes: equal\nold 3061.4 s   new 9.8 s",
            "Compare the results of both versions on yesterday's data",
            seconds=3084,
        ),
        seconds=11,
    )
    s.queued("also check that NaN levels behave the same", wait=4)
    s.step(
        "",
        s.bash(
            "python - <<'EOF'\nimport pandas as pd\nfrom tideline.load import clean\n"
            'f = pd.DataFrame({"quality": ["A", None], "level_mm": [None, 1], "datum_m": [0.0, 0.0], "gauge": [1, 1], "at": [0, 1]})\n'
            "print(clean(f).level.tolist())\nEOF",
            "[nan, 0.001]",
            "Check missing values",
            seconds=0.8,
        ),
        seconds=5,
    )
    s.answer(
        "51 minutes became **9.8 seconds**, with the same 32.8 million levels.\n\n"
        "About your question: a missing level stays missing, and a row without a quality flag is "
        'kept (`None != "B"`), as before. I added both to `tests/test_load.py`.',
    )
    s.prompt("Why is memory at 9 GB then? It was 2 GB with the loop.", wait=240)
    s.step(
        "",
        s.bash(
            "python -m tideline.load /data/2026-10-26 --memory",
            "columns           dtype     MB\ngauge             object  2 151\nquality           object  1 904\nat       datetime64[ns]    250\nlevel_mm         float64    250\ndatum_m          float64    250\npeak                      9 012",
            "Print the memory of each column",
            seconds=12,
        ),
        think="The loop had the source in memory as well, but the file was read in chunks of one "
        "gauge. Now the whole day is one frame, with strings as objects.",
        seconds=5,
    )
    s.step(
        "Two columns are strings, one object for each cell. As categories they cost one or two bytes:",
        s.bash(
            "python -m tideline.load /data/2026-10-26 --memory --categories",
            "columns           dtype     MB\ngauge          category     63\nquality        category     31\nat       datetime64[ns]    250\nlevel_mm         float64    250\ndatum_m          float64    250\npeak                      1 706",
            "The same with categories",
            seconds=10,
        ),
        seconds=4,
    )
    s.answer(
        "Strings. `gauge` and `quality` have 380 and 4 different values in 32.8 million rows, and "
        "each cell was a Python object. As `category`:\n\n"
        "| column | before | after |\n|---|---:|---:|\n| gauge | 2,151 MB | 63 MB |\n"
        "| quality | 1,904 MB | 31 MB |\n| **peak** | **9,012 MB** | **1,706 MB** |",
    )
    s.prompt(
        "Next: the Parquet files. One per gauge and day, 380 a day, 140,000 in total. Queries over "
        "a month take 40 s. What would you do?",
        wait=420,
    )
    s.step(
        "",
        Call(
            "WebSearch",
            {"query": "parquet many small files row group size recommendation query engine"},
            "Web search results for query: parquet many small files row group size\n\n"
            'Links: [{"title": "File sizes and row groups", "url": "https://docs.example.org/parquet/row-groups"}]\n\n'
            "Most engines recommend files of 100 MB to 1 GB with row groups of about 100,000 rows or more.",
            False,
            {
                "query": "parquet many small files row group size",
                "results": [],
                "durationSeconds": 2.4,
            },
            2.4,
        ),
        s.bash(
            "duckdb -c \"explain analyze select gauge, max(level) from '/lake/2026/09/*/*.parquet' group by 1\" | grep -E 'Total|files|rows'",
            "Total Time: 38.91s\nTotal files read: 11400\nrows: 984 960 000",
            "Where does the query spend its time?",
            seconds=41,
        ),
        think="11,400 files in 38.9 s: 3.4 ms a file, almost all of it opening and reading footers.",
        seconds=7,
    )
    s.answer(
        "3.4 ms for each of 11,400 files: the query opens files rather than reading data.\n\n"
        "I'd write **one file a month**, sorted by gauge and time:\n\n"
        "- 30 days × 380 gauges become one file of about 2 GB, row groups of 1 million rows\n"
        "- sorted, each row group holds few gauges, so min/max statistics skip the rest\n"
        "- the current day stays in small files, and a job merges them at the end of the month\n\n"
        "Expected: a month in about 1 s, one gauge in a month in under 0.1 s.",
    )
    s.local(
        "context",
        "",
        f"{BOLD}Context usage{OFF}\n{DIM}⛁ ⛁ ⛁ ⛶ ⛶{OFF}  Opus 5.5 · 121k/200k tokens (61%)",
        wait=60,
    )
    s.compact(
        "keep the numbers",
        "1. The nightly load took 51 min because of iterrows(); vectorised it takes 9.8 s, results "
        "equal (32.8 million rows).\n2. Memory fell from 9.0 GB to 1.7 GB with categories.\n"
        "3. Decided: one Parquet file a month, sorted by gauge and time, row groups of 1 million "
        "rows. Next step: write tideline/merge.py.",
        wait=45,
    )
    s.prompt("Write the merge. It must not lose a row when it is killed in the middle.", wait=90)
    s.step(
        "",
        s.write(
            "tideline/merge.py",
            "import os\nfrom pathlib import Path\n\nimport duckdb\n\n\n"
            "def merge_month(lake: Path, month: str) -> Path:\n"
            '    """Merges the small files of ``month`` (2026/09) into one. Safe to kill and to repeat:\n'
            '    the result appears under its name when it is complete, and the sources go last."""\n'
            '    sources = sorted((lake / month).glob("*/*.parquet"))\n'
            "    target = lake / f\"{month.replace('/', '-')}.parquet\"\n"
            '    part = target.with_suffix(".part")\n'
            "    duckdb.execute(\n"
            '        "copy (select * from read_parquet($sources) order by gauge, at)"\n'
            "        f\" to '{part}' (format parquet, row_group_size 1000000)\",\n"
            '        {"sources": [str(path) for path in sources]},\n'
            "    )\n"
            '    with open(part, "rb") as file:\n'
            "        os.fsync(file.fileno())\n"
            "    os.replace(part, target)\n"
            "    for path in sources:\n"
            "        path.unlink()\n"
            "    return target\n",
        ),
        s.bash(
            "python -m pytest -q tests/test_merge.py",
            "F.\n>       assert rows(lake) == before\nE       assert 1968000 == 984000\n"
            "FAILED tests/test_merge.py::test_killed_before_the_sources_are_gone - assert 1968000 == 984000\n1 failed, 1 passed in 4.12s",
            "Run the tests, which kill the merge at every step",
            code=1,
            seconds=6,
        ),
        seconds=16,
    )
    s.step(
        "The test is right: killed between `replace` and `unlink`, the rows are there twice. "
        "Readers need to know which files count.",
        s.edit(
            "tideline/merge.py",
            "    os.replace(part, target)\n    for path in sources:\n        path.unlink()\n",
            "    # readers skip a month's folder when its merged file is there, so this is the\n"
            "    # moment at which the month changes hands\n"
            "    os.replace(part, target)\n    for path in sources:\n        path.unlink(missing_ok=True)\n",
        ),
        s.bash(
            "python -m pytest -q tests/test_merge.py",
            "2 passed in 3.98s",
            "Run them again",
            seconds=5,
        ),
        think="Either a manifest or a rule. A rule is enough: a merged file hides its folder.",
        seconds=9,
    )
    s.answer(
        "`merge_month` survives a kill at every step now. The order matters:\n\n"
        "1. write `2026-09.part`, `fsync`\n2. rename it to `2026-09.parquet`: from here on readers "
        "ignore the folder `2026/09`\n3. delete the small files; repeating the merge cleans up "
        "what a kill left behind\n\n"
        "The first version counted rows twice between 2 and 3; the test caught it.",
    )
    s.prompt("And the query over September?", wait=200)
    s.step(
        "",
        s.bash(
            "time duckdb -c \"select gauge, max(level) from '/lake/2026-09.parquet' group by 1\" > /dev/null",
            "real\t0m0.874s\nuser\t0m6.102s\nsys\t0m0.411s",
            "Time the query on the merged month",
            seconds=1,
        ),
        seconds=3,
    )
    s.answer("0.87 s instead of 38.9 s.")
    s.prompt(
        "Can you also merge 2019 to 2025 in one go? Use all cores, I'm going to lunch.", wait=50
    )
    s.step(
        "",
        s.bash(
            "for y in 2019 2020 2021 2022 2023 2024 2025; do for m in 01 02 03 04 05 06 07 08 09 10 11 12; do python -m tideline.merge $y/$m || exit 3; done; done",
            "merged 2019/01 … 2022/06\nIO Error: No space left on device: /lake/2022-07.part",
            "Merge all months",
            code=3,
            seconds=1130,
        ),
        seconds=6,
    )
    s.api_error("API Error: 500 Internal server error", 500)
    s.prompt("what happened?", wait=2100)
    s.answer(
        "The disk filled up at July 2022: merging needs the space of one more month, and 42 "
        "months had been merged before. Nothing is lost: `2022-07.part` is incomplete and "
        "ignored, the small files of that month are all there. (The server error after it was on "
        "the model's side and has nothing to do with it.)\n\n"
        "Free 3 GB, delete `/lake/2022-07.part`, and run the same loop again: merged months have "
        "no small files any more and are skipped.",
        seconds=7,
    )
    s.bare("ai-title", aiTitle="Nightly load takes 51 minutes")
    s.rename("Nightly load: 51 min to 10 s", wait=12)
    s.finish()
    return s


def two_agents() -> tuple[Claude, Claude, Claude]:
    s = Claude("two-agents", TIDES, "2026-10-29 09:00", model="claude-opus-5-5")
    explorer = Claude(
        "two-agents-cron",
        TIDES,
        "2026-10-29 09:01",
        model="claude-haiku-5-5",
        agent="a51c0de7f00d1e2b3",
        session=s.session,
    )
    reviewer = Claude(
        "two-agents-twice",
        TIDES,
        "2026-10-29 09:01",
        agent="b7e2c0ffee9d4a1c8",
        session=s.session,
    )
    s.prompt(
        "We want to replace cron by a proper scheduler. Before that, let two agents look in "
        "parallel: one lists every scheduled job and what it calls, the other checks which jobs "
        "are safe to run twice.",
        wait=0,
    )
    first = "List every cron entry of this repository and on the host, with its schedule and the command that it calls. Report as a table. Change nothing."
    second = "For each job in tideline/jobs/*.py find out whether running it twice gives the same result as once. Report the line that decides it. Change nothing."
    s.step(
        "Two independent questions, so two agents at once.",
        s.launch(explorer, "List scheduled jobs", first, "Explore"),
        s.launch(reviewer, "Check for idempotence", second, "general-purpose"),
        seconds=6,
    )
    calls = s.call_ids()
    s.answer("Both are running. I'll put their reports together when they are back.")
    explorer.chained("user", message={"role": "user", "content": first})
    explorer.step(
        "",
        explorer.bash(
            "crontab -l; cat deploy/crontab",
            "0 2 * * *  tideline load\n30 3 * * *  tideline export\n*/10 * * * * tideline watch\n0 5 1 * *  tideline merge",
            "List cron entries",
        ),
        seconds=5,
    )
    table = (
        "| schedule | job |\n|---|---|\n| daily 02:00 | load |\n| daily 03:30 | export |\n"
        "| every 10 min | watch |\n| monthly, 1st 05:00 | merge |"
    )
    explorer.step(table, seconds=6)
    reviewer.chained("user", message={"role": "user", "content": second})
    reviewer.step(
        "I read the jobs one by one.",
        reviewer.bash(
            "grep -nE 'insert|append|mail' tideline/jobs/*.py",
            "tideline/jobs/load.py:18:    replace_day(day, frame)\ntideline/jobs/export.py:22:    mail(report)\ntideline/jobs/watch.py:9:    append(log, line)",
            "Find writes",
        ),
        reviewer.bash(
            "sed -n 15,30p tideline/jobs/nope.py",
            "sed: can't read tideline/jobs/nope.py: No such file or directory",
            "Read a job",
            code=2,
        ),
        think="load replaces a whole day: safe. export mails: not safe. watch appends: not safe.",
        seconds=7,
    )
    verdict = (
        "- `load`: safe, it replaces the day (`load.py:18`)\n- `merge`: safe\n"
        "- `export`: **not safe**, it sends a mail (`export.py:22`)\n"
        "- `watch`: **not safe**, it appends (`watch.py:9`)"
    )
    reviewer.step(verdict, seconds=9)
    s.notified(explorer, calls[0], "List scheduled jobs", table)
    s.step("The list is here; the second agent is still reading.", seconds=4)
    s.notified(reviewer, calls[1], "Check for idempotence", verdict)
    s.answer(
        "Both reports together:\n\n| job | schedule | twice? |\n|---|---|---|\n"
        "| load | daily 02:00 | safe |\n| merge | 1st, 05:00 | safe |\n"
        "| export | daily 03:30 | sends a second mail |\n| watch | every 10 min | doubles a line |\n\n"
        "So a scheduler with retries may take `load` and `merge` at once. `export` needs a marker "
        '("sent for this day") first; for `watch` I\'d switch retries off.',
        seconds=12,
    )
    s.bare("ai-title", aiTitle="Replace cron: which jobs are safe to retry")
    s.finish()
    return s, explorer, reviewer


#: Gauges whose parser returns local times: number, harbour, zone, form of its lines.
GAUGES: tuple[tuple[str, tuple[tuple[int, str, str, str], ...]], ...] = (
    (
        "the German and Danish ones",
        (
            (11, "Borkum", "Europe/Berlin", "plain"),
            (12, "Cuxhaven", "Europe/Berlin", "plain"),
            (14, "Husum", "Europe/Berlin", "comma"),
            (15, "Büsum", "Europe/Berlin", "plain"),
            (17, "List", "Europe/Berlin", "dst"),
            (21, "Esbjerg", "Europe/Copenhagen", "plain"),
            (22, "Hvide Sande", "Europe/Copenhagen", "midnight"),
        ),
    ),
    (
        "the British and Irish ones",
        (
            (31, "Lerwick", "Europe/London", "plain"),
            (32, "Wick", "Europe/London", "plain"),
            (33, "Leith", "Europe/London", "utc"),
            (35, "Whitby", "Europe/London", "dst"),
            (36, "Cromer", "Europe/London", "plain"),
            (38, "Newlyn", "Europe/London", "feet"),
            (41, "Galway", "Europe/Dublin", "plain"),
            (42, "Dunmore", "Europe/Dublin", "plain"),
        ),
    ),
    (
        "the French ones",
        (
            (51, "Brest", "Europe/Paris", "plain"),
            (52, "Roscoff", "Europe/Paris", "comma"),
            (53, "Saint-Malo", "Europe/Paris", "midnight"),
            (55, "Le Havre", "Europe/Paris", "plain"),
            (58, "Arcachon", "Europe/Paris", "plain"),
        ),
    ),
    (
        "Spain and Portugal",
        (
            (61, "A Coruña", "Europe/Madrid", "plain"),
            (62, "Vigo", "Europe/Madrid", "comma"),
            (63, "Santander", "Europe/Madrid", "plain"),
            (66, "Las Palmas", "Atlantic/Canary", "plain"),
            (71, "Cascais", "Europe/Lisbon", "plain"),
            (72, "Lagos", "Europe/Lisbon", "utc"),
            (75, "Ponta Delgada", "Atlantic/Azores", "dst"),
        ),
    ),
    (
        "North America",
        (
            (201, "Halifax", "America/Halifax", "plain"),
            (202, "St. John's", "America/St_Johns", "half"),
            (204, "Portland", "America/New_York", "feet"),
            (205, "Boston", "America/New_York", "feet"),
            (207, "Key West", "America/New_York", "feet"),
            (211, "Galveston", "America/Chicago", "plain"),
            (214, "La Jolla", "America/Los_Angeles", "plain"),
            (217, "Astoria", "America/Los_Angeles", "dst"),
            (219, "Sitka", "America/Sitka", "plain"),
        ),
    ),
    (
        "the Pacific",
        (
            (301, "Hakodate", "Asia/Tokyo", "plain"),
            (302, "Kushiro", "Asia/Tokyo", "plain"),
            (305, "Apia", "Pacific/Apia", "plain"),
            (308, "Chatham", "Pacific/Chatham", "half"),
            (311, "Fremantle", "Australia/Perth", "plain"),
            (312, "Adelaide", "Australia/Adelaide", "half"),
        ),
    ),
)
_FORMATS = ("%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M", "%d/%m/%y %H:%M", "%Y%m%d%H%M")
_SEEN = {
    "plain": ("", "Same form.", "Nothing special here.", "As the one before."),
    "comma": ("This one writes decimal commas and got away with `float()` by luck: check.",),
    "dst": ("Its file covers the night in which clocks went back.",),
    "midnight": ("It writes the last value of a day as `24:00`.",),
    "utc": ("The header of its file says `UTC`.",),
    "feet": ("Levels look large: feet?",),
    "half": ("A zone with half hours, good to have in the tests.",),
}
_FAILURES = {
    "comma": (
        "ValueError: could not convert string to float: '1,37'",
        "float(level)",
        'float(level.replace(",", "."))',
        "Decimal commas after all.",
    ),
    "dst": (
        "AssertionError: 2026-10-25T00:30Z comes twice, 01:30Z never",
        '"), ',
        '", previous), ',
        "The hour from 2 to 3 exists twice in that night. `to_utc` takes the value before and picks "
        "the later one when time would run backwards.",
    ),
    "midnight": (
        "ValueError: unconverted data remains: 24:00",
        "(at, ",
        "(after_midnight(at), ",
        "24:00 is 00:00 of the next day.",
    ),
    "feet": (
        "AssertionError: level 27.3 is above the highest astronomical tide (8.5 m)",
        "float(level)",
        "0.3048 * float(level)",
        "Feet, as the number of decimals suggested.",
    ),
}


def forty_parsers() -> Claude:
    """A really long conversation: the same small change, gauge after gauge."""
    s = Claude("forty-parsers", TIDES, "2026-11-20 07:30", branch="utc-parsers")
    number = sum(len(gauges) for _, gauges in GAUGES)
    s.opening()
    s.prompt(
        f"The parsers of {number} gauges in parsers/ return local times without a zone. Go through "
        "them one after the other: make each return UTC, run its test, and don't batch them, every "
        "file has its own oddities. Stop after each coast and tell me what you found.",
        wait=0,
    )
    s.step(
        "I start with the helper that all of them will use.",
        s.write(
            "parsers/times.py",
            "from datetime import datetime, timedelta, timezone\nfrom zoneinfo import ZoneInfo\n\n\n"
            "def to_utc(text, form, zone, previous=None):\n"
            "    at = datetime.strptime(text, form).replace(tzinfo=ZoneInfo(zone))\n"
            "    if previous and at.astimezone(timezone.utc) <= previous:\n"
            "        at = at.replace(fold=1)  # clocks went back: the second of two equal hours\n"
            "    return at.astimezone(timezone.utc)\n\n\n"
            "def after_midnight(text):\n"
            '    """24:00 is 00:00 of the next day."""\n'
            '    if not text.endswith("24:00"):\n        return text\n'
            '    day = datetime.strptime(text[:-6], "%Y-%m-%d") + timedelta(days=1)\n'
            '    return f"{day:%Y-%m-%d} 00:00"\n',
        ),
        s.bash(
            "sed -i 's/^from datetime .*/from .times import after_midnight, to_utc/' parsers/g*.py",
            "",
            "Change the imports",
        ),
        think="42 files, each a few lines. One helper, one line to change in each, one test each. "
        "What can differ: zone, the repeated hour in October, 24:00, units.",
        seconds=14,
    )
    done = 0
    for coast, (name, gauges) in enumerate(GAUGES):
        odd: list[str] = []
        for gauge, harbour, zone, form in gauges:
            path = f"parsers/g{gauge}.py"
            pattern = "%Y-%m-%d %H:%M" if form == "midnight" else _FORMATS[gauge % 4]
            s.files[path] = (
                "def parse(line, previous=None):\n"
                f'    at, level = line.split(";")\n'
                f'    return datetime.strptime(at, "{pattern}"), float(level)\n'
            )
            seen = _SEEN[form]
            s.step(
                f"**{gauge} {harbour}.** {seen[gauge % len(seen)]}".strip(),
                s.bash(f"tail -n +3 {path}", s.files[path], f"Show parser {gauge}"),
                seconds=3,
            )
            zone = "UTC" if form == "utc" else zone
            s.step(
                "",
                s.edit(
                    path,
                    f'datetime.strptime(at, "{pattern}")',
                    f'to_utc(at, "{pattern}", "{zone}")',
                ),
                seconds=4,
            )
            if form in _FAILURES:
                message, old, new, why = _FAILURES[form]
                odd.append(f"**{harbour}**: {why}")
                s.step(
                    "",
                    s.bash(
                        f"pytest -q tests/test_parsers.py -k g{gauge}",
                        f"E   {message}\n1 failed, {number - 1} deselected in 0.2{gauge % 10}s",
                        f"Test parser {gauge}",
                        code=1,
                    ),
                    seconds=2,
                )
                s.step(why, s.edit(path, old, new), seconds=5)
            if form == "utc":
                odd.append(f"**{harbour}**: was UTC all the time, and one hour off in summer.")
            if form == "half":
                odd.append(f"**{harbour}**: a zone with half hours; right at once.")
            s.step(
                "",
                s.bash(
                    f"pytest -q tests/test_parsers.py -k g{gauge}",
                    f"1 passed, {number - 1} deselected in 0.2{gauge % 10}s",
                    f"Test parser {gauge}",
                ),
                seconds=2,
            )
            done += 1
        told = "\n".join(f"- {line}" for line in odd)
        s.answer(
            f"That was {name}: {len(gauges)} parsers, {done} of {number} done.\n\n"
            + (f"What was odd:\n\n{told}" if odd else "Nothing odd among them."),
            seconds=6,
        )
        if coast == 2:
            s.compact(
                "keep the list of oddities",
                f"{done} of {number} parsers return UTC by parsers/times.py (to_utc, "
                "after_midnight). Each is changed alone, with its test; stop after each coast.\n"
                f"{told}",
                wait=300,
            )
        if coast + 1 < len(GAUGES):
            following = GAUGES[coast + 1][0]
            s.prompt(
                (
                    f"Good. Now {following}.",
                    f"go on with {following}",
                    f"{following}, please",
                    f"Next: {following}. Mind the half hours.",
                    f"and {following}",
                )[coast],
                wait=400 + 170 * coast,
            )
    s.prompt("All tests together, then commit.", wait=120)
    s.step(
        "",
        s.bash("pytest -q", f"{number + 31} passed in 4.80s", "Run all tests", seconds=5),
        s.bash(
            "git commit -qam 'Return UTC from all parsers' && git log --oneline -1",
            "e1a90c4 Return UTC from all parsers",
            "Commit",
        ),
    )
    s.answer(f"`e1a90c4`: {number} parsers return UTC, {number + 31} tests pass.")
    s.bare("ai-title", aiTitle="UTC in every parser, gauge by gauge")
    s.finish()
    return s


# ------------------------------------------------------------------------------------ the game

PLAYER = """\
export class Frog {
  x = 0; y = 0; vy = 0; grounded = false;

  land(platform: { top: number }) {
    this.y = platform.top + 2;
    this.vy = 0;
    this.grounded = true;
  }
}
"""


def sinking_frog() -> Claude:
    s = Claude("sinking-frog", GAME, "2026-11-02 18:30", files={"src/frog.ts": PLAYER})
    s.prompt("Why does the frog sink into the platform? [Image #1]", wait=0, images=(SCREENSHOT,))
    s.step(
        "The feet overlap the moss by about two pixels.",
        s.read("src/frog.ts"),
        seconds=5,
    )
    s.step(
        "",
        s.edit(
            "src/frog.ts",
            "    this.y = platform.top + 2;\n",
            "    this.y = platform.top - this.height;\n",
        ),
        s.edit(
            "src/frog.ts",
            "  x = 0; y = 0; vy = 0; grounded = false;\n",
            "  x = 0; y = 0; vy = 0; grounded = false;\n  readonly height = 16;\n",
        ),
        s.bash(
            "npm test --silent",
            f"{GREEN}✓{OFF} frog lands on top of a platform {DIM}(3 ms){OFF}\n{GREEN}✓{OFF} frog falls through air {DIM}(1 ms){OFF}\n\nTests: {GREEN}{BOLD}2 passed{OFF}, 2 total",
            "Run the tests",
            seconds=3,
        ),
        seconds=6,
    )
    s.answer(
        "`y` is the *top* of the frog, but `land()` treated it as the feet, and the `+ 2` was a "
        "workaround that pushed it down. It is now `platform.top - height`.",
    )
    before = s.leaf
    s.prompt("Now the camera: let it follow the frog like on a spring.", wait=300)
    s.step(
        "",
        s.write(
            "src/camera.ts",
            "export class Camera {\n  x = 0; vx = 0;\n  constructor(private stiffness = 120, private damping = 12) {}\n\n"
            "  follow(target: number, dt: number) {\n"
            "    this.vx += ((target - this.x) * this.stiffness - this.vx * this.damping) * dt;\n"
            "    this.x += this.vx * dt;\n  }\n}\n",
        ),
        seconds=9,
    )
    s.answer(
        "The camera hangs on a damped spring now. It swings past the frog a little: at stiffness "
        "120, damping 12 is below the critical 2·√120 ≈ 21.9.",
    )
    # Esc Esc: back to the prompt before, with other words
    s.leaf = before
    s.prompt(
        "The camera should stay still while the frog is in the middle third, and only then follow. "
        "No swinging, it makes me seasick.",
        wait=150,
    )
    s.step(
        "",
        s.write(
            "src/camera.ts",
            "export class Camera {\n  x = 0;\n  constructor(private width: number) {}\n\n"
            "  /** Moves only when the target leaves the middle third of the screen. */\n"
            "  follow(target: number) {\n"
            "    const left = this.x + this.width / 3;\n"
            "    const right = this.x + (2 * this.width) / 3;\n"
            "    if (target < left) this.x -= left - target;\n"
            "    else if (target > right) this.x += target - right;\n  }\n}\n",
        ),
        seconds=8,
    )
    s.answer("A dead zone instead of a spring: no velocity, so nothing that could swing.")
    s.prompt("🐸👍 perfect", wait=40)
    s.answer("Glad it feels right. `npm run dev` shows it on level 2, where the ceiling is low.")
    s.bare("ai-title", aiTitle="Frog sinks into platform; camera dead zone")
    s.finish()
    return s


def broken_save() -> Claude:
    s = Claude("broken-save", GAME, "2026-11-16 19:05", model="claude-haiku-5-5")
    s.prompt("Saving is slow on my phone. Look at src/save.ts and tell me what to do.", wait=0)
    s.step(
        "`save()` turns the whole level into JSON on every frame in which something moved, that is "
        "about 60 times a second. Three ways out: debounce it, save only",
        seconds=6,
        cut=True,
    )
    s.interrupt()
    s.prompt("stop. just debounce it, 2 seconds, and save when the tab is hidden", wait=8)
    s.step(
        "",
        s.write(
            "src/save.ts",
            "let timer: number | undefined;\n\nexport function saveSoon(save: () => void) {\n"
            "  clearTimeout(timer);\n  timer = window.setTimeout(save, 2000);\n}\n\n"
            "export function saveWhenHidden(save: () => void) {\n"
            '  document.addEventListener("visibilitychange", () => {\n'
            '    if (document.visibilityState === "hidden") save();\n  });\n}\n',
        ),
        seconds=7,
    )
    s.raw('{"type":"assistant","message":{"id":"msg_01cut","role":"assis')
    s.bare("garden-state", mood="sunny", note="a record type that no version of ours knows yet")
    s.answer(
        "Debounced. `visibilitychange` is the event to use on phones: `beforeunload` is not sent "
        "when the system closes the tab.",
    )
    s.prompt("run the tests", wait=15)
    s.step(
        "",
        Call(
            "Bash",
            {"command": "npm test -- --watch", "description": "Run the tests"},
            "[Request interrupted by user for tool use]",
            True,
            {"stdout": "Watching for changes...", "stderr": "", "interrupted": True},
            41,
        ),
        seconds=3,
    )
    s.interrupt(for_tool=True)
    s.prompt("once, not in watch mode", wait=6)
    s.step(
        "",
        Call(
            "Bash",
            {"command": "npm test -- --run", "description": "Run the tests once"},
            answered=False,
        ),
        seconds=3,
    )
    return s


# -------------------------------------------------------------------------------- the handbook


def spanish_search() -> Claude:
    s = Claude("spanish-search", BOOK, "2026-11-05 10:15")
    s.prompt(
        "La búsqueda del manual no encuentra «instalación» si el lector escribe «instalacion» sin "
        "tilde. Además, alguien escribió `<script>alert(1)</script>` en el buscador: ¿estamos a "
        "salvo?",
        wait=0,
    )
    s.step(
        "Miro la configuración del buscador y cómo se muestra la consulta.",
        Call(
            "Glob",
            {"pattern": "**/*search*"},
            "/home/dev/handbook/theme/search.js\n/home/dev/handbook/theme/search.html",
            False,
            {
                "filenames": ["theme/search.js", "theme/search.html"],
                "numFiles": 2,
                "truncated": False,
            },
            0.2,
        ),
        s.bash(
            "grep -n 'innerHTML\\|textContent' theme/search.js",
            "14:  heading.innerHTML = 'Resultados para ' + query;",
            "Buscar cómo se inserta la consulta",
            seconds=0.3,
        ),
        seconds=6,
    )
    s.files["theme/search.js"] = (
        "const query = new URLSearchParams(location.search).get('q') ?? '';\n"
        "const heading = document.querySelector('h1');\n"
        "heading.innerHTML = 'Resultados para ' + query;\n"
        "const hits = pages.filter((page) => page.text.includes(query));\n"
    )
    s.step(
        "No, no estamos a salvo: `innerHTML` recibe lo que escribe el lector. Corrijo las dos cosas.",
        s.edit(
            "theme/search.js",
            "heading.innerHTML = 'Resultados para ' + query;\n",
            "heading.textContent = 'Resultados para ' + query;\n",
        ),
        s.edit(
            "theme/search.js",
            "const hits = pages.filter((page) => page.text.includes(query));\n",
            "const plain = (text) => text.normalize('NFD').replace(/\\p{Mn}/gu, '').toLowerCase();\n"
            "const hits = pages.filter((page) => plain(page.text).includes(plain(query)));\n",
        ),
        think="Dos problemas distintos: XSS reflejado en el título, y comparación sin normalizar. "
        "NFD separa la letra y la tilde; \\p{Mn} quita las marcas.",
        seconds=9,
    )
    s.answer(
        "Dos cambios en `theme/search.js`:\n\n"
        "1. **Seguridad.** `<script>alert(1)</script>` no se ejecuta con `innerHTML`, pero "
        "`<img src=x onerror=alert(1)>` sí. Con `textContent` el navegador lo muestra como texto.\n"
        "2. **Tildes.** `normalize('NFD')` separa la letra de su tilde y después se quitan las "
        "marcas: «instalación» → «instalacion».\n\n"
        "> Ojo: la «ñ» también pierde su marca, así que «ano» encuentra «año». Para un manual me "
        "parece aceptable; dime si no.",
    )
    s.prompt(
        "Aceptable. ¿Puedes comprobar esta lista de términos?",
        wait=120,
        pasted="instalación\nconfiguración\níndice\ncigüeña\naño\nмагазин\n索引",
    )
    s.step(
        "",
        s.bash(
            "node scripts/check-terms.mjs terms.txt",
            "instalación      12\nconfiguración     9\níndice            3\ncigüeña           0\naño               5\nмагазин           0\n索引              1",
            "Comprobar los términos",
            seconds=1.2,
        ),
        Call(
            "WebFetch",
            {
                "url": "https://docs.example.org/unicode/normalization",
                "prompt": "Does NFD change CJK text?",
            },
            "NFD leaves CJK ideographs as they are, apart from compatibility ideographs; Hangul syllables are decomposed into Jamo.",
            False,
            {
                "bytes": 18233,
                "code": 200,
                "codeText": "OK",
                "result": "NFD leaves CJK ideographs as they are.",
                "url": "https://docs.example.org/unicode/normalization",
            },
            2,
        ),
        seconds=5,
    )
    s.answer(
        "Cinco de siete tienen resultados; «cigüeña» y «магазин» no aparecen en el manual, así que "
        "el cero es correcto. El chino («索引») no cambia con NFD.",
    )
    s.bare("ai-title", aiTitle="Búsqueda sin tildes y XSS en el manual")
    s.finish()
    return s


# --------------------------------------------------------------------------------------- Codex

DOCKERFILE = """\
FROM python:3.13
COPY . /app
WORKDIR /app
RUN pip install .
CMD ["uvicorn", "teahouse.main:app", "--host", "0.0.0.0"]
"""


def small_image() -> Codex:
    s = Codex("small-image", API, "2026-10-14 15:02", legacy=True, files={"Dockerfile": DOCKERFILE})
    s.prompt(
        "Our image is 1.4 GB and every change of a template reinstalls all packages. Make it smaller and the build faster.",
        wait=0,
    )
    s.step(
        "I'll look at the Dockerfile and plan before changing it.",
        s.plan(
            "Two goals: a smaller image, and a cache that survives changes of the code",
            ("Measure the layers", "in_progress"),
            ("Split dependencies from code", "pending"),
            ("Use a slim base and two stages", "pending"),
        ),
        s.run(
            "docker history --format '{{.Size}}\\t{{.CreatedBy}}' teahouse | head -4",
            '0B\tCMD ["uvicorn"…\n312MB\tRUN pip install .\n96MB\tCOPY . /app\n1.02GB\tpython:3.13 base\n',
            seconds=1.2,
        ),
        think="**Measuring first**\n\nThe base is 1 GB of compilers; COPY before pip breaks the cache.",
    )
    s.step(
        "Alpine would be the smallest base, so I try that.",
        s.patch(("Dockerfile", "FROM python:3.13\n", "FROM python:3.13-alpine\n")),
        s.run(
            "docker build -q . 2>&1 | tail -2",
            "error: command 'gcc' failed: No such file or directory\nERROR: Failed building wheel for orjson\n",
            code=1,
            seconds=95,
        ),
        seconds=6,
    )
    s.answer(
        "Alpine has no wheels for two of our packages and would need compilers in the image. Shall I add them?"
    )
    s.roll_back(1)
    s.files["Dockerfile"] = DOCKERFILE
    s.prompt(
        "No Alpine. Use slim, two stages, and install dependencies before copying the code.",
        wait=30,
    )
    s.step(
        "",
        s.patch(
            (
                "Dockerfile",
                "FROM python:3.13\nCOPY . /app\nWORKDIR /app\nRUN pip install .\n",
                "FROM python:3.13-slim AS build\nWORKDIR /app\nCOPY pyproject.toml uv.lock ./\n"
                "RUN pip install --no-cache-dir uv && uv sync --frozen --no-install-project\n"
                "COPY teahouse teahouse\n\nFROM python:3.13-slim\nWORKDIR /app\n"
                "COPY --from=build /app /app\nENV PATH=/app/.venv/bin:$PATH\n",
            ),
            (".dockerignore", "", ".git\n.venv\n**/__pycache__\ntests\n"),
        ),
        s.run(
            "docker build -q -t teahouse . && docker images teahouse --format '{{.Size}}'",
            "sha256:4f1c…\n187MB\n",
            seconds=48,
        ),
        s.run(
            "touch teahouse/templates/cart.html && time docker build -q -t teahouse .",
            "sha256:9a02…\n\nreal\t0m1.9s\n",
            seconds=2.1,
        ),
        s.plan(
            "Done",
            ("Measure the layers", "completed"),
            ("Split dependencies from code", "completed"),
            ("Use a slim base and two stages", "completed"),
        ),
        think="**Ordering layers by how often they change**\n\nLock file first, code last.",
        seconds=9,
    )
    s.answer(
        "1.4 GB → **187 MB**, and a changed template builds in 1.9 s instead of 80 s.\n\n"
        "- dependencies come from the lock file *before* the code is copied, so the layer is reused\n"
        "- the second stage has no pip cache and no build tools\n- `.dockerignore` keeps `.git` (96 MB) out"
    )
    return s


def gaps() -> tuple[Codex, Codex]:
    s = Codex(
        "gaps",
        TIDES,
        "2026-11-03 08:45",
        files={
            "sql/hourly.sql": "select gauge, date_trunc('hour', at) as hour, avg(level) as level\nfrom levels group by 1, 2;\n"
        },
    )
    s.prompt(
        "Find silent periods: more than 30 minutes without a value of a gauge. SQL only, DuckDB.",
        wait=0,
    )
    s.step(
        "A window function gives each value its predecessor.",
        s.run(
            'duckdb lake.db -c "select gauge, at, at - lag(at) over w as gap from levels where gap > interval 30 minute window w as (partition by gauge order by at)"',
            "Binder Error: WHERE clause cannot contain window functions!\n",
            code=1,
        ),
        think="**Filtering a window function**\n\nWHERE runs before windows; QUALIFY runs after.",
    )
    s.step(
        "`where` is evaluated before windows. DuckDB has `qualify` for that:",
        s.patch(
            (
                "sql/gaps.sql",
                "",
                "select gauge, lag(at) over w as silent_from, at as silent_until,\n"
                "       at - lag(at) over w as gap\nfrom levels\n"
                "window w as (partition by gauge order by at)\n"
                "qualify gap > interval 30 minute\norder by gap desc;\n",
            )
        ),
        s.run(
            "duckdb lake.db < sql/gaps.sql | head -6",
            "gauge  silent_from       silent_until      gap\n  217  2026-10-30 13:10  2026-10-30 18:50  05:40:00\n   31  2026-10-12 02:00  2026-10-12 04:20  02:20:00\n  217  2026-10-03 07:30  2026-10-03 08:50  01:20:00\n",
            seconds=0.6,
        ),
    )
    s.answer(
        "`sql/gaps.sql` lists them, longest first. Gauge 217 was silent for 5 h 40 min on 30 "
        "October.\n\n```sql\nqualify gap > interval 30 minute\n```\n\n"
        "`qualify` filters after the window was calculated; in plain SQL it would be a subquery."
    )
    cut = len(s.records)
    s.prompt(
        "Look at the plot of gauge 217: is that the gap?",
        wait=200,
        image=(f"{TIDES}/plots/217.png", PLOT),
    )
    s.answer(
        "Yes. The curve stops on the falling tide and comes back on the rising one; the low water between them is missing, so the day's minimum is too high by an unknown amount."
    )
    s.prompt("Plot it again from the repaired file and compare.", wait=300)
    s.step("", s.look(f"{TIDES}/plots/217-repaired.png", PLOT), seconds=4)
    s.step(
        "", Run("plot_tides", {"gauge": 217}, "unsupported call: plot_tides", None, 0.1), seconds=2
    )
    s.answer(
        "The two plots are the same: the repaired file has the same gap. The repair job ran before the late data came in; run it again for 30 October."
    )
    fork = Codex("gaps-fork", TIDES, "2026-11-06 09:30", base=(s, cut), files=dict(s.files))
    fork.prompt("Same question, but for SQLite, which has no QUALIFY.", wait=0)
    fork.step(
        "",
        fork.patch(
            (
                "sql/gaps.sqlite.sql",
                "",
                "with steps as (\n  select gauge, at, lag(at) over (partition by gauge order by at) as before\n  from levels\n)\n"
                "select gauge, before as silent_from, at as silent_until,\n       round((julianday(at) - julianday(before)) * 1440) as minutes\n"
                "from steps where minutes > 30 order by minutes desc;\n",
            )
        ),
        fork.run(
            "sqlite3 lake.sqlite < sql/gaps.sqlite.sql | head -2",
            "217|2026-10-30 13:10|2026-10-30 18:50|340.0\n31|2026-10-12 02:00|2026-10-12 04:20|140.0\n",
        ),
    )
    fork.answer(
        "A common table expression does what `qualify` did. SQLite has no interval type, so the gap is in minutes; 340 minutes are the 5 h 40 min from before."
    )
    return s, fork


def level_names() -> tuple[Codex, Codex]:
    s = Codex("level-names", GAME, "2026-11-11 17:20", model="gpt-6-astra")
    child = Codex("level-names-check", GAME, "2026-11-11 17:21", parent=s, nickname="Curie")
    s.prompt(
        "Every level needs a name. Propose ten, and let an agent check in parallel that none of them is longer than the title bar (14 characters).",
        wait=0,
    )
    task = "Count the characters of each name in names.txt and report those that are longer than 14. Change nothing."
    s.step(
        "I write the list and start a check.",
        s.patch(
            (
                "names.txt",
                "",
                "Moss and Mist\nThe Lily Road\nLow Ceiling\nHeron's Yard\nNight Puddle\nA Longer Way Around\nReed Harp\nThunder Pond\nThe Sluice\nHome Log\n",
            )
        ),
        s.spawn(child, "Curie", task),
    )
    child.prompt(task, wait=0)
    child.step(
        "",
        child.run(
            "awk 'length($0) > 14 {print length($0), $0}' names.txt", "19 A Longer Way Around\n"
        ),
        think="**Counting**\n\nawk counts characters in a UTF-8 locale.",
    )
    report = 'One of ten is too long: "A Longer Way Around" (19).'
    child.answer(report)
    s.step("", s.wait_for(child, report, 52))
    s.message(
        "user",
        [
            {
                "type": "input_text",
                "text": '<subagent_notification>\n{"agent_path":"'
                + child.id
                + '","status":{"completed":"done"}}\n</subagent_notification>',
            }
        ],
        ["multi_agent.subagent_notification"],
    )
    s.step("", s.patch(("names.txt", "A Longer Way Around\n", "The Long Way\n")))
    s.answer('Ten names, all within 14 characters; "A Longer Way Around" became "The Long Way".')
    return s, child


def hooks() -> Codex:
    s = Codex("hooks", API, "2026-11-17 09:10")
    s.shell("git status --short", " M teahouse/hooks.py", wait=5)
    s.prompt(
        "Write a load test for /hooks/pay: 200 requests a second for a minute, one in ten repeated.",
        wait=20,
    )
    s.step(
        "I start with a small script and measure the empty server first.",
        s.run(
            "hey -z 5s -q 200 http://localhost:8000/health | grep -E 'Requests/sec|99%'",
            "  Requests/sec: 199.8\n  99% in 0.0041 secs\n",
            seconds=5.2,
        ),
    )
    s.abort()
    s.prompt("Not hey, it can't repeat requests. Use a Python script with asyncio.", wait=12)
    s.step(
        "",
        s.patch(
            (
                "load/pay.py",
                "",
                'import asyncio\nimport random\n\nimport httpx\n\n\nasync def main(rate=200, seconds=60):\n    async with httpx.AsyncClient(base_url="http://localhost:8000") as client:\n        tasks, event = [], "evt_0"\n        for number in range(rate * seconds):\n            if random.random() >= 0.1:\n                event = f"evt_{number}"\n            tasks.append(asyncio.create_task(client.post("/hooks/pay", json={"id": event})))\n            await asyncio.sleep(1 / rate)\n        codes = [answer.status_code for answer in await asyncio.gather(*tasks)]\n    print({code: codes.count(code) for code in set(codes)})\n\n\nasyncio.run(main())\n',
            )
        ),
        s.run("python load/pay.py", "{200: 11998, 500: 2}\n", seconds=61),
        think="**Repeating events**\n\nOne in ten requests takes the id of the one before.",
    )
    s.answer(
        "12,000 requests, two of them answered with 500. Both were repeats that arrived while the first was still running: `on conflict do nothing` waits for the other transaction and hit our 1 s lock timeout."
    )
    s.compact(
        "The load test load/pay.py sends 200 requests a second with one in ten repeated; 2 of 12,000 failed with 500 because of the 1 s lock timeout.",
        wait=60,
    )
    s.prompt("Raise the lock timeout to 5 s and run it again.", wait=20)
    s.tick(4)
    s.end("stream disconnected before completion: connection reset by peer")
    s.prompt("again please", wait=30)
    s.step(
        "",
        s.run(
            "sed -i \"s/lock_timeout = '1s'/lock_timeout = '5s'/\" deploy/postgres.conf && python load/pay.py",
            "{200: 12000}\n",
            seconds=62,
        ),
    )
    s.answer("All 12,000 were answered with 200.")
    return s


def typos() -> Codex:
    s = Codex(
        "typos",
        BOOK,
        "2026-11-10 11:00",
        model="gpt-6-astra",
        files={
            "docs/start.md": "# Getting startet\n\nRun `make serve` and open the adress that it prints.\n"
        },
    )
    s.prompt("Fix the typos in docs/start.md", wait=0)
    s.step(
        "",
        s.patch(
            (
                "docs/start.md",
                "# Getting startet\n\nRun `make serve` and open the adress that it prints.\n",
                "# Getting started\n\nRun `make serve` and open the address that it prints.\n",
            )
        ),
    )
    s.answer("Two typos: *startet* → *started*, *adress* → *address*.")
    return s
