"""``datasette crystal publish``, thin over :mod:`.publish`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from .cli import echo, printable, table

_REPEAT = " May be repeated."


@click.command(name="publish", short_help="A redacted part of a database, to show to others.")
@click.argument("database", type=click.Path(dir_okay=False))
@click.argument("out", type=click.Path(dir_okay=False))
@click.option(
    "-c",
    "--conversation",
    "conversations",
    multiple=True,
    metavar="[SOURCE/]ID",
    help="This conversation, by the id that its tool gives it." + _REPEAT,
)
@click.option(
    "-p",
    "--project",
    "projects",
    multiple=True,
    metavar="NAME",
    help="Conversations of this project, by name or path." + _REPEAT,
)
@click.option(
    "-s",
    "--source",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="Conversations of this source, such as codex." + _REPEAT,
)
@click.option("--since", metavar="DATE", help="Conversations that began on this day or later.")
@click.option("--until", metavar="DATE", help="Conversations that began on this day or earlier.")
@click.option(
    "--where",
    metavar="SQL",
    help="Conversations for which this SQL is true, such as \"title like '%parser%'\".",
)
@click.option(
    "-x",
    "--exclude",
    "excluded",
    multiple=True,
    metavar="[SOURCE/]ID",
    help="Leave this conversation out." + _REPEAT,
)
@click.option("--no-thinking", is_flag=True, help="Leave out what the models thought.")
@click.option("--no-tool-output", is_flag=True, help="Leave out what tools and commands answered.")
@click.option(
    "--attachments",
    is_flag=True,
    help="Also publish images and files that came with messages. Nobody looks into pictures.",
)
@click.option(
    "--redact",
    "words",
    multiple=True,
    metavar="WORD",
    help="Also replace this wherever it stands: a customer, a code name." + _REPEAT,
)
@click.option(
    "--keep",
    multiple=True,
    metavar="TEXT",
    help="Leave this name, address or value as it is: a false alarm." + _REPEAT,
)
@click.option(
    "--rules",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Your own rules for secrets, beside the built-in ones.",
)
@click.option("--no-redact", is_flag=True, help="Redact nothing and check nothing.")
@click.option(
    "--static",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Also write the conversations as plain HTML into this directory.",
)
@click.option("--title", metavar="TEXT", help="What metadata.yml and the HTML pages are called.")
@click.option(
    "--report", type=click.Path(dir_okay=False), metavar="FILE", help="Write the report as JSON."
)
@click.option(
    "--dry-run", is_flag=True, help="Only tell what would be replaced; leave nothing behind."
)
@click.option("--force", is_flag=True, help="Overwrite an earlier publication.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 128),
    metavar="N",
    help="Work in N processes. Default: as many as there are processors.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but problems.")
def publish_command(
    database: str,
    out: str,
    conversations: tuple[str, ...],
    projects: tuple[str, ...],
    sources: tuple[str, ...],
    since: str | None,
    until: str | None,
    where: str | None,
    excluded: tuple[str, ...],
    no_thinking: bool,
    no_tool_output: bool,
    attachments: bool,
    words: tuple[str, ...],
    keep: tuple[str, ...],
    rules: str | None,
    no_redact: bool,
    static: str | None,
    title: str | None,
    report: str | None,
    dry_run: bool,
    force: bool,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Write a part of DATABASE to OUT, a new crystal database that can be shown to others.

    Secrets become [secret:kind:fingerprint]; home directories, user names, host names and e-mail
    addresses become placeholders such as user-1, in every text. OUT has no trace of what was not
    chosen. It is checked byte by byte before it is put in place; when anything is found in it, nothing
    is published and the exit code is 1. DATABASE is only read.

    Conversations are chosen by the options, all of which must fit; without any, all are published.
    Their subagents come along. Read docs/publishing.md for what redaction cannot know.

    \b
    Examples:
      datasette crystal publish crystal.db shop.db --project shop
      datasette crystal publish crystal.db talk.db -c codex/0199a213-81c0-7800-8aa1-bbab2a035a53
      datasette crystal publish crystal.db week.db --since 2026-11-23 --redact Acme --dry-run
    """
    from .publish import Options, PublishError, Selection, publish
    from .secret_rules import RULES, RuleError, load_rules

    for option, value in (
        ("--static", static),
        ("--report", report),
        ("--rules", rules),
        ("--title", title),
    ):
        if value is not None and not value.strip():
            raise click.UsageError(f"{option} is empty")
    try:
        own = tuple(load_rules(Path(rules))) if rules else ()
    except (RuleError, OSError) as error:
        raise click.BadParameter(printable(error), param_hint="--rules") from None
    options = Options(
        thinking=not no_thinking,
        tool_output=not no_tool_output,
        attachments=attachments,
        redact=not no_redact,
        rules=(*RULES, *own),
        words=words,
        keep=keep,
        dry_run=dry_run,
        force=force,
        static=Path(static) if static else None,
        title=title,
        jobs=jobs or os.cpu_count() or 1,
    )
    if no_redact:
        echo(
            "Nothing is redacted (--no-redact): secrets, names and paths stay as they are.",
            err=True,
        )
        if words or rules:
            raise click.UsageError("--redact and --rules do nothing with --no-redact")
    steps = _Steps() if not quiet and sys.stderr.isatty() else None
    try:
        result = publish(
            database,
            out,
            Selection(conversations, projects, sources, since, until, where, excluded),
            options,
            steps.show if steps else None,
        )
    except PublishError as error:
        raise click.ClickException(printable(error)) from None
    except KeyboardInterrupt:
        echo(err=True)
        echo("Stopped. Nothing was published.", err=True)
        raise SystemExit(130) from None
    finally:
        if steps:
            steps.clear()
    if report:
        try:
            Path(report).write_text(json.dumps(result.as_json(), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise click.ClickException(printable(f"{report}: {error.strerror}")) from None
    for note in result.notes:
        echo(printable(note), err=True)
    if result.found:
        _print_found(result)
        sys.exit(1)
    if not quiet:
        _print_report(result, out, static, dry_run)


class _Steps:
    """What is being done, on one line of standard error."""

    def show(self, step: str) -> None:
        self.clear()
        click.echo(f"{step} ...", nl=False, err=True)

    def clear(self) -> None:
        click.echo("\r\x1b[K", nl=False, err=True)


def _print_found(result: Any) -> None:
    rows: list[list[Any]] = [["Found in", "What", "Times"]]
    rows += [[where, kind, count] for (where, kind), count in sorted(result.found.items())]
    echo("Not published: the check of what was written still found something.", err=True)
    echo()
    table(rows, right={2})
    echo()
    names = sorted({name for names in result.conversations.values() for name in names})
    for name in names[:10]:
        title = result.titles.get(name)
        echo(f"In {printable(name)}" + (f": {printable(title)}" if title else ""))
    if len(names) > 10:
        echo(f"and in {len(names) - 10} more; --report FILE lists them all.")
    if names:
        echo()
    echo(
        "`datasette crystal scan` shows what looks like a secret in the database. Then leave the\n"
        "conversation out (--exclude ID), or what holds it (--no-tool-output, no --attachments), or\n"
        "replace it (--redact TEXT); if it is no secret at all, let it stay (--keep TEXT)."
    )


def _print_report(result: Any, out: str, static: str | None, dry_run: bool) -> None:
    counts = result.rows
    echo(
        f"{counts['conversations']:,} of {result.conversations_in_source:,} conversations, "
        f"{counts['messages']:,} messages, {counts['tool_calls']:,} tool calls."
    )
    if result.left_out:
        parts = [f"{what} of {count:,} rows" for what, count in sorted(result.left_out.items())]
        echo(f"Left out: {', '.join(parts)}.")
    if result.replaced:
        rows: list[list[Any]] = [["Replaced in", "What", "Times"]]
        rows += [
            [where, kind, f"{count:,}"] for (where, kind), count in sorted(result.replaced.items())
        ]
        echo()
        table(rows, right={2})
    elif result.verified:
        echo("There was nothing to replace.")
    echo()
    if result.verified:
        echo("Checked byte by byte: none of it is left.")
    if dry_run:
        echo("Nothing was written (--dry-run).")
        return
    echo(f"Wrote {printable(out)} ({_size(result.size)}).")
    if result.metadata:
        echo(f"Wrote {printable(result.metadata)}.")
    if static:
        echo(f"Wrote {result.static_files:,} files into {printable(static)}.")
    echo("Read through it before you show it: redaction can't know what is confidential.")


def _size(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB" if size >= 100_000 else f"{size / 1000:,.0f} KB"
