"""What the team did in its editors: the same projects as in :mod:`.stories`, six weeks in GitHub
Copilot, Cursor, Cursor's command line agent and Trae."""

from __future__ import annotations

from .editor_writers import Composer, Copilot, CursorCli, Trae
from .stories import API, BOOK, GAME, SCREENSHOT, TIDES
from .writers import Codex

# ------------------------------------------------------------------------------------- Copilot

EDITOR = """\
import { Level } from "./level";

export class Editor {
  constructor(private level: Level) {}

  paint(x: number, y: number, tile: number) {
    this.level.tiles[y][x] = tile;
  }

  erase(x: number, y: number) {
    this.level.tiles[y][x] = 0;
  }
}
"""
UNDO = """\
export interface Change {
  x: number;
  y: number;
  before: number;
  after: number;
}

export class History {
  private done: Change[] = [];
  private undone: Change[] = [];

  constructor(private limit = 50) {}

  record(change: Change) {
    this.done.push(change);
    if (this.done.length > this.limit) this.done.shift();
    this.undone = [];
  }

  undo(): Change | undefined {
    const change = this.done.pop();
    if (change) this.undone.push(change);
    return change;
  }
}
"""


def level_editor() -> Copilot:
    """Agent mode, as a mutation log: rounds, edits, commands, an abandoned and a cancelled
    request, an image, a subagent."""
    s = Copilot("level-editor", GAME, "2026-10-27 16:20", log=True, files={"src/editor.ts": EDITOR})
    s.ask(
        "Add undo to the level editor: Ctrl+Z takes back the last 50 changes. With tests.",
        wait=20,
        variables=(s.file("src/editor.ts", 1, 14),),
    )
    s.step(
        "I'll look at how the editor changes a level. Every change goes through ",
        s.reference("src/editor.ts"),
        ", so that is the place to record them.",
        think="Undo needs the old tile, so paint() has to read before it writes. A list of changes "
        "is smaller than copies of the level: 50 × 4 numbers.",
        calls=[
            s.todos(
                ("Write a history of changes", "in-progress"),
                ("Record in paint and erase", "not-started"),
                ("Test undo and its limit", "not-started"),
            ),
            s.read("src/editor.ts"),
            s.search("\\.tiles\\[", [("src/editor.ts", 7), ("src/editor.ts", 11)]),
        ],
    )
    s.step("First the history itself:", calls=[s.edit("src/undo.ts", "", UNDO)])
    s.step(
        "Now the editor records what it changes.",
        calls=[
            s.edit(
                "src/editor.ts",
                "    this.level.tiles[y][x] = tile;\n",
                "    const before = this.level.tiles[y][x];\n"
                "    if (before === tile) return;\n"
                "    this.history.record({ x, y, before, after: tile });\n"
                "    this.level.tiles[y][x] = tile;\n",
            ),
            s.edit(
                "src/editor.ts",
                "    this.level.tiles[y][x] = 0;\n",
                "    this.paint(x, y, 0);\n",
            ),
            s.terminal(
                "npm test -- --run",
                "\x1b[31m FAIL \x1b[0m src/editor.test.ts\n"
                "TypeError: Cannot read properties of undefined (reading 'record')\n"
                " ❯ Editor.paint src/editor.ts:9:18\n\n"
                " Tests  \x1b[31m1 failed\x1b[0m | 11 passed (12)",
                code=1,
                seconds=3.4,
            ),
        ],
    )
    s.step(
        "The history is missing in the constructor.",
        think="I used this.history without declaring it.",
        calls=[
            s.edit(
                "src/editor.ts",
                "  constructor(private level: Level) {}\n",
                "  constructor(\n    private level: Level,\n    private history = new History(),\n  ) {}\n\n"
                "  undo() {\n    const change = this.history.undo();\n"
                "    if (change) this.level.tiles[change.y][change.x] = change.before;\n  }\n",
            ),
            s.edit(
                "src/editor.ts",
                'import { Level } from "./level";\n',
                'import { Level } from "./level";\nimport { History } from "./undo";\n',
            ),
            s.terminal(
                "npm test -- --run",
                " \x1b[32m✓\x1b[0m src/editor.test.ts (12 tests) 41ms\n\n Tests  \x1b[32m12 passed\x1b[0m (12)",
                seconds=3.1,
            ),
            s.todos(
                ("Write a history of changes", "completed"),
                ("Record in paint and erase", "completed"),
                ("Test undo and its limit", "completed"),
            ),
        ],
    )
    s.end(
        "Ctrl+Z works. ",
        s.reference("src/undo.ts"),
        " keeps the last 50 changes, and `Editor.undo()` puts the old tile back. Painting a tile "
        "in its own colour is no change, so it takes no place in the history.",
        vote=1,
    )
    s.ask("Keep the history in localStorage, so that it survives a reload.", wait=140)
    s.step(
        "I'll write the changes to `localStorage` after every stroke.",
        calls=[
            s.search("localStorage", [("src/save.ts", 4)]),
        ],
    )
    s.end("`History` now has `save()` and `load()`; the key is `moss-hop.history`.")
    # the prompt was edited and sent again: the old request is taken out of the log
    s.ask(
        "No persistence. Keep the history in memory, but make redo work too (Ctrl+Shift+Z).",
        wait=45,
        instead=1,
    )
    s.step(
        "Redo is the mirror of undo: the changes are already kept in `undone`.",
        calls=[
            s.edit(
                "src/undo.ts",
                "    return change;\n  }\n}\n",
                "    return change;\n  }\n\n  redo(): Change | undefined {\n"
                "    const change = this.undone.pop();\n"
                "    if (change) this.done.push(change);\n    return change;\n  }\n}\n",
            ),
            s.subagent(
                "Keyboards without Z",
                "On which keyboard layouts is the key of Ctrl+Z not where it is on a US keyboard? "
                "Look at how src/input.ts reads keys. Change nothing.",
                "src/input.ts compares event.code ('KeyZ'). On QWERTZ and AZERTY keyboards that is "
                "another letter; event.key === 'z' follows the layout.",
            ),
        ],
    )
    parent = s.state["requests"][s.at]["response"][-1]["toolCallId"]
    s.push(
        ["requests", s.at, "response"],
        [*s.search("KeyZ|event\\.code", [("src/input.ts", 22)], parent=parent)["parts"]],
    )
    s.end(
        "Redo works, and both read `event.key` now: on a German keyboard `event.code` 'KeyZ' is "
        'the key of **Y**.\n\n```ts\nif (event.ctrlKey && event.key.toLowerCase() === "z")\n'
        "  event.shiftKey ? editor.redo() : editor.undo();\n```",
    )
    s.ask(
        "The undo button stands under the grid in this screenshot. Why?",
        wait=200,
        variables=(s.image("screenshot.png", SCREENSHOT),),
    )
    s.end(
        "The picture shows the platform of level 2, so I take it that the toolbar is pushed down "
        "by the canvas. Three things could cause that: the grid has a fixed height of",
        cancelled=True,
    )
    s.ask("wrong picture, sorry. just move the button into the toolbar", wait=15)
    s.files["index.html"] = (
        '<nav id="toolbar"></nav>\n<canvas id="grid"></canvas>\n<button id="undo">↶</button>\n'
    )
    s.step(
        calls=[
            s.edit(
                "index.html",
                '<nav id="toolbar"></nav>\n<canvas id="grid"></canvas>\n<button id="undo">↶</button>\n',
                '<nav id="toolbar"><button id="undo">↶</button></nav>\n<canvas id="grid"></canvas>\n',
            ),
            s.terminal("git push --force", "", skipped=True, seconds=0.3),
        ],
    )
    s.end("Moved. I did not push: you skipped that command.")
    s.name("Undo and redo in the level editor")
    return s


def link_check() -> Copilot:
    """A flat file: a slash command, an MCP server, a vote down, an error."""
    s = Copilot(
        "link-check",
        BOOK,
        "2026-11-12 09:35",
        log=False,
        model="gpt-5.5",
        name="GPT-5.5",
        files={"theme/build-index.mjs": 'import { readFile } from "node:fs/promises";\n'},
    )
    s.ask(
        "/explain how does the search index get built?",
        wait=10,
        agent="github.copilot.workspace",
        command="explain",
    )
    s.step(calls=[s.read("theme/build-index.mjs")], seconds=3)
    s.end(
        "The index is built by ",
        s.reference("theme/build-index.mjs"),
        " when the site is built:\n\n1. it reads every page,\n2. strips the markup,\n3. writes "
        "`search-index.json`, which ",
        s.reference("theme/search.js"),
        " loads when the box gets the focus.\n\n> The index has grown to 2.1 MB; a stemmer would "
        "halve it.",
        vote=0,
    )
    s.ask("It's 310 KB. Never mind: are there broken links in the handbook?", wait=90)
    s.step(
        "I'll ask the link checker.",
        calls=[
            s.mcp(
                "links", "check_site", {"root": "public"}, "No such directory: public", error=True
            )
        ],
    )
    s.step(
        "The site is built into `dist`, not `public`:",
        calls=[
            s.mcp(
                "links",
                "check_site",
                {"root": "dist"},
                "checked 412 links\n404 /install/windows.html#wsl (docs/start.md:31)\n"
                "404 https://example.org/fonts (theme/base.html:8)",
            )
        ],
    )
    s.end(
        "Two of 412 links are broken:\n\n| where | link |\n|---|---|\n"
        "| `docs/start.md` line 31 | `/install/windows.html#wsl` |\n"
        "| `theme/base.html` line 8 | `https://example.org/fonts` |"
    )
    s.ask("Fix the first one", wait=40)
    s.tick(2)
    s.end(
        error={
            "message": "Sorry, you have been rate-limited. Please wait a moment before trying again.",
            "code": "rateLimited",
            "isRateLimited": True,
            "responseIsIncomplete": True,
        }
    )
    s.name("How the search index is built")
    return s


def empty_window() -> Copilot:
    """A window without a folder: a short question. The answer has no title of its own."""
    s = Copilot("empty-window", "/home/dev", "2026-11-19 12:02", log=True, model="gpt-5.5")
    s.ask(
        "What was the flag of `git log` that shows the diff of each commit?",
        wait=5,
        agent="github.copilot.default",
    )
    s.end("`git log -p` (or `--patch`). With `--stat` you get the list of files instead.")
    return s


# -------------------------------------------------------------------------------------- Cursor

CHART = """\
import * as d3 from "d3";

export function chart(rows) {
  const x = d3.scaleTime(d3.extent(rows, (r) => r.at), [0, 960]);
  const y = d3.scaleLinear(d3.extent(rows, (r) => r.level), [320, 0]);
  return d3.line((r) => x(r.at), (r) => y(r.level))(rows);
}
"""


def tide_chart() -> tuple[Composer, Composer]:
    """An agent with a todo list, a subagent, a regenerated answer, an image without words, a
    declined command; and its subagent."""
    s = Composer(
        "tide-chart",
        TIDES,
        "2026-11-09 13:05",
        "Show gaps in the tide chart",
        files={"web/chart.js": CHART},
    )
    s.prompt(
        "The chart draws a straight line over the hours in which a gauge was silent. Leave a hole "
        "there instead.",
        wait=0,
        attached=("web/chart.js",),
    )
    s.think(
        "**Holes in a line**\n\nd3.line has defined(): a row for which it is false breaks the line. "
        "So the gaps must be rows of their own."
    )
    s.say("I'll read the chart, and let an agent find out how long a gap may be.")
    s.todos(
        ("Find the longest normal interval", "in_progress"),
        ("Insert rows for gaps", "pending"),
        ("Break the line there", "pending"),
    )
    s.read("web/chart.js")
    task = (
        "Look at sql/gaps.sql and the ingest settings: how often does a gauge report when "
        "everything is well, and from what interval on is it called silent? Change nothing."
    )
    found = (
        "Gauges report every 10 minutes. `sql/gaps.sql` calls a gauge silent after 30 minutes; "
        "`ingest.toml` has no setting for it."
    )
    child = Composer("tide-chart-interval", TIDES, "2026-11-09 13:06", "Reporting interval")
    call = s.call(
        "task_v2",
        {"description": "Reporting interval", "prompt": task, "subagentType": "explore"},
        {"agentId": child.composer, "result": found},
        seconds=41,
    )
    child.parent = (s.composer, call)
    s.children.append(child.composer)
    child.prompt(task, wait=0)
    child.call(
        "codebase_search",
        {"query": "interval after which a gauge is silent", "targetDirectories": []},
        {"results": [{"path": "sql/gaps.sql", "startLine": 4, "endLine": 5}]},
        seconds=2,
    )
    child.run("grep -rn interval ingest.toml", "", code=1, seconds=0.4)
    child.say(found, tokens=(6120, 96))
    s.say("30 minutes it is.")
    s.edit(
        "web/chart.js",
        "export function chart(rows) {\n",
        "const SILENT = 30 * 60 * 1000;\n\n"
        "/** A row without a level wherever a gauge was silent. */\n"
        "function withGaps(rows) {\n  return rows.flatMap((row, i) =>\n"
        "    i && row.at - rows[i - 1].at > SILENT\n"
        "      ? [{ at: new Date(+row.at - 1), level: null }, row]\n      : [row],\n  );\n}\n\n"
        "export function chart(rows) {\n",
    )
    s.edit(
        "web/chart.js",
        "  return d3.line((r) => x(r.at), (r) => y(r.level))(rows);\n",
        "  return d3\n    .line((r) => x(r.at), (r) => y(r.level))\n"
        "    .defined((r) => r.level !== null)(withGaps(rows));\n",
    )
    s.run("npm run -s check", "web/chart.js  ok\n14 tests, 14 passed", seconds=4)
    s.todos(
        ("Find the longest normal interval", "completed"),
        ("Insert rows for gaps", "completed"),
        ("Break the line there", "completed"),
    )
    s.say(
        "The line breaks wherever a gauge was silent for more than 30 minutes, as in "
        "`sql/gaps.sql`. `d3.extent` skips `null`, so the scale stays as it was.",
        tokens=(18_240, 1_310),
    )
    s.prompt("", wait=120, images=("/home/dev/tideline/plots/217.png",))
    s.say("Is this how it should look? Then the hole is where it belongs.", seconds=6)
    s.drop(1)  # regenerated
    s.think("The picture has no words with it: gauge 217 on 30 October, a hole at low water.")
    s.say(
        "That is gauge 217 on 30 October: the hole goes from 13:10 to 18:50 and takes the low water "
        "with it. Shall the missing low water be marked?",
        seconds=7,
    )
    s.prompt("yes, a grey band. and deploy it", wait=50)
    s.edit(
        "web/chart.js",
        "export function chart(rows) {\n",
        "/** Where to draw a grey band: from the last value before a gap to the first one after. */\n"
        "export function bands(rows) {\n  return rows.flatMap((row, i) =>\n"
        "    i && row.at - rows[i - 1].at > SILENT ? [[rows[i - 1].at, row.at]] : [],\n  );\n}\n\n"
        "export function chart(rows) {\n",
    )
    s.call(
        "run_terminal_command_v2",
        {"command": "make deploy", "cwd": TIDES, "isBackground": False},
        None,
        status="cancelled",
        rejected=True,
    )
    s.say(
        "The bands are there. You declined `make deploy`, so it is not live yet.",
        tokens=(9_800, 420),
    )
    return s, child


def stock_alert() -> Composer:
    """Archived: a failed tool, a summary, an error at the end."""
    s = Composer(
        "stock-alert",
        API,
        "2026-10-21 10:40",
        "Alert when a tea runs out",
        model="claude-sonnet-5-5",
        archived=True,
        files={"teahouse/stock.py": "def take(stock, sku, grams):\n    stock[sku] -= grams\n"},
    )
    s.prompt("Send a mail to the buyers when less than 500 g of a tea are left.", wait=0)
    s.read("teahouse/stock.py")
    s.call(
        "edit_file_v2",
        {"relativeWorkspacePath": "teahouse/stocks.py"},
        None,
        status="error",
        error="No such file: teahouse/stocks.py. Did you mean teahouse/stock.py?",
    )
    s.say("A slip in the name; once more:")
    s.edit(
        "teahouse/stock.py",
        "    stock[sku] -= grams\n",
        "    before = stock[sku]\n    stock[sku] = before - grams\n"
        "    # once, when the limit is crossed, not at every sale below it\n"
        "    if before >= LOW > stock[sku]:\n        notify_buyers(sku, stock[sku])\n",
    )
    s.summary(
        "The user wants a mail to the buyers when less than 500 g of a tea are left. `take()` in "
        "teahouse/stock.py now calls `notify_buyers` when the limit is crossed; LOW is not yet defined."
    )
    s.prompt("define LOW in settings, per tea, default 500", wait=70)
    s.fail("Usage limit reached", "You have used all fast requests of this month.")
    return s


# ---------------------------------------------------------------------------------- Cursor CLI


def release_notes() -> CursorCli:
    """A store: thinking, tools, a failed one, a branch that was left."""
    s = CursorCli(
        "release-notes", BOOK, "2026-11-18 15:30", "Release notes for November", "composer-2.5"
    )
    s.preamble()
    s.prompt("Write release notes for November from the merged pull requests.", wait=0)
    s.step(
        "",
        ("Shell", {"command": "gh pr list --state merged --limit 50"}, "gh: command not found"),
        failed=True,
    )
    s.step(
        "`gh` is not installed; the merge commits tell the same.",
        (
            "Shell",
            {"command": "git log --merges --since 2026-11-01 --format=%s"},
            "Merge pull request #88 from dev/search-accents\nMerge pull request #91 from dev/dark-theme\n"
            "Merge pull request #93 from dev/fix-typos",
        ),
        think="Three merges in November. The titles say enough; #88 is the one that readers notice.",
    )
    s.step("I would put the dark theme first.")
    s.prompt("No, by size of the change.", wait=20)
    s.step("Then #91 is first anyway: 41 files.")
    s.drop(3)  # back to before, with another thought
    s.step(
        "",
        (
            "Write",
            {
                "path": f"{BOOK}/docs/releases/2026-11.md",
                "contents": "# November 2026\n\n- Search finds words without their accents (#88)\n"
                "- A dark theme (#91)\n- Typos (#93)\n",
            },
            "wrote 4 lines",
        ),
    )
    s.step(
        "`docs/releases/2026-11.md` has three points, the one that readers notice first:\n\n"
        "- Search finds words without their accents (#88)\n- A dark theme (#91)\n- Typos (#93)"
    )
    s.prompt("Danke! Und bitte auch auf Deutsch, als `2026-11.de.md`.", wait=45)
    s.step(
        "",
        (
            "Write",
            {
                "path": f"{BOOK}/docs/releases/2026-11.de.md",
                "contents": "# November 2026\n\n- Die Suche findet Wörter auch ohne Akzente (#88)\n"
                "- Ein dunkles Farbschema (#91)\n- Tippfehler (#93)\n",
            },
            "wrote 4 lines",
        ),
    )
    s.step("Fertig: `docs/releases/2026-11.de.md`.")
    return s


def dead_code() -> tuple[CursorCli, CursorCli]:
    """Only a transcript is left, and that of a subagent."""
    s = CursorCli("dead-code", API, "2026-10-29 08:50", "", "composer-2.5")
    child = CursorCli("dead-code-templates", API, "2026-10-29 08:51", "", "composer-2.5")
    s.preamble()
    s.prompt("Is there code in teahouse/ that nothing uses?", wait=0)
    s.step(
        "I look at the functions, an agent at the templates.",
        ("Shell", {"command": "vulture teahouse --min-confidence 80"}, ""),
        ("Task", {"description": "Unused templates", "prompt": "List unused templates."}, ""),
        think="vulture for functions; templates are named in strings.",
    )
    s.step(
        "Two functions and one template are unused: `legacy_total`, `as_pounds` and "
        "`mail/birthday.txt`. Shall I delete them?"
    )
    s.prompt("yes", wait=30)
    s.step("", ("Delete", {"path": f"{API}/teahouse/legacy.py"}, ""))
    s.step("Deleted. All tests pass.")
    child.prompt("List unused templates.", wait=0)
    child.step("", ("Grep", {"pattern": "birthday", "path": f"{API}/teahouse"}, ""))
    child.step("`mail/birthday.txt` is named nowhere.")
    return s, child


# ---------------------------------------------------------------------------------------- Trae


def water_sound() -> tuple[Trae, Trae, list[str]]:
    """A chat, a session of the builder, and prompts of which one is in no session any more."""
    build = Trae(
        "water-sound", "2026-11-13 17:45", "Sound of water near the pond", "Gemini-3-Flash"
    )
    first = "池塘附近要有水声，越近越大。用 Web Audio，不要加新的依赖。"
    build.prompt(first, wait=0, files=(f"{GAME}/src/audio.ts",))
    build.build(
        "先看现有的音频代码，再按距离调节音量。",
        build.step(
            "view_files",
            {"files": [{"file_path": f"{GAME}/src/audio.ts"}]},
            "export const context = new AudioContext();",
            "The game has one AudioContext already; a second one would be blocked on iOS.",
        ),
        build.step(
            "create_file",
            {
                "file_path": f"{GAME}/src/water.ts",
                "content": "export function volume(distance: number, reach = 12) {\n"
                "  return Math.max(0, 1 - distance / reach) ** 2;\n}\n",
            },
            {"status": "success"},
            "Loudness falls with the square, so the slope near the pond is gentle.",
        ),
        build.step(
            "run_command",
            {"command": "npm run build"},
            {
                "output": "src/water.ts(3,9): error TS2532: Object is possibly undefined.",
                "exit_code": 2,
            },
            status="failed",
        ),
        build.step(
            "update_file",
            {"file_path": f"{GAME}/src/water.ts", "content": "..."},
            {"status": "success"},
        ),
        build.step(
            "run_command",
            {"command": "npm run build"},
            {"output": "built in 1.21s", "exit_code": 0},
        ),
        think="用户要求不加依赖：GainNode 足够。",
        final="水声已经加好：`volume()` 随距离的平方减小，12 格以外听不到。构建通过。",
    )
    second = "iPhone 上没有声音"
    build.prompt(second, wait=260)
    build.build(
        "iOS 要求在用户手势之后恢复 AudioContext。",
        build.step(
            "update_file",
            {"file_path": f"{GAME}/src/audio.ts", "content": "..."},
            {"status": "success"},
        ),
        final="第一次点击时调用 `context.resume()`，现在 iPhone 上也有声音了。",
    )
    build.prompt("can the frog splash, too?", wait=30)
    build.build(
        "A splash is a short burst of noise. I'll build one from",
        final="",
        status="canceled",
    )
    chat = Trae("easing", "2026-11-14 10:10", "Which easing for the jump", "Doubao-Seed-2.0")
    question = "Which easing function suits the jump of a frog?"
    chat.prompt(question, wait=0)
    chat.chat(
        "For the way up `easeOutQuad`, for the way down `easeInQuad`: together they are a parabola, "
        "which is what gravity does.\n\n```ts\nconst y = 4 * height * t * (1 - t);\n```",
        think="A jump under constant gravity is a parabola; one formula does both halves.",
    )
    chat.prompt("and if it should look heavier?", wait=40)
    chat.chat(
        "Shorten the time, not the height: a heavy frog falls no faster, but it leaves later."
    )
    typed = [first, second, question, "Draw a lily pad as SVG, 64 × 64"]
    return build, chat, typed


def sprite_sheet() -> Codex:
    """TRAE CLI, which writes rollouts as Codex does."""
    s = Codex("sprite-sheet", GAME, "2026-11-15 20:05", model="gemini-3-pro")
    assert isinstance(s.records[0], dict)
    s.records[0]["payload"]["model_provider"] = "trae"
    s.prompt("Pack assets/frog/*.png into one sprite sheet.", wait=0)
    s.step(
        "Eight frames of 32 × 32: a row of 256 × 32.",
        s.run("montage assets/frog/*.png -tile 8x1 -geometry +0+0 assets/frog.png", ""),
        s.run("identify assets/frog.png", "assets/frog.png PNG 256x32 8-bit sRGB 3.1KB\n"),
    )
    s.answer("`assets/frog.png` holds the eight frames in one row, 3.1 KB instead of 11.")
    return s
