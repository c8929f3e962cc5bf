// The list of conversations and the search of a static site. Opened from a disk, a page may not fetch:
// what it needs comes as scripts that call crystalData(). Texts are only ever set as text.

(() => {
  "use strict";

  const place = document.querySelector("[data-version]");
  const { root, version, zone } = place.dataset;
  const PAGE = 20;
  const MOST_ROWS = 200;
  const MOST_SHARDS = 60;

  // ---- Data

  const asked = new Map();
  const waiting = new Map();
  window.crystalData = (name, data) => waiting.get(name)?.(data);

  function load(name) {
    if (!asked.has(name)) {
      asked.set(
        name,
        new Promise((resolve, reject) => {
          const script = document.createElement("script");
          waiting.set(name, (data) => {
            waiting.delete(name);
            script.remove();
            resolve(data);
          });
          script.src = `${root}data/${name}.js?${version}`;
          script.addEventListener("error", () => {
            asked.delete(name);
            reject(new Error(name));
          });
          document.head.append(script);
        }),
      );
    }
    return asked.get(name);
  }

  // ---- What is written

  function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children.filter((child) => child !== "" && child != null));
    return made;
  }

  function when(timestamp) {
    const time = new Date(timestamp);
    if (!timestamp || Number.isNaN(time.getTime())) return "";
    const title = `${timestamp.slice(0, 10)} ${timestamp.slice(11, 19)} UTC`;
    return element("time", { dateTime: timestamp, title, textContent: crystalTimes.text(time) });
  }

  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  function line(all, row) {
    const [id, name, colour] = all.sources[row.source];
    const source = element("span", { className: `c-source c-source-${colour}`, textContent: name || id });
    return element(
      "p",
      { className: "s-meta" },
      row.kind === "main" ? "" : element("span", { className: "c-badge", textContent: row.kind }),
      source,
      row.project < 0 ? "" : element("span", { textContent: all.projects[row.project] }),
      row.model < 0 ? "" : element("span", { textContent: all.models[row.model] }),
      when(row.started),
      element("span", { className: "c-number", textContent: row.counts }),
    );
  }

  const pageOf = (folder, page = 1) =>
    `${root}conversations/${folder}/${page > 1 ? `page-${page}` : "index"}.html`;

  function listed(all, row) {
    const link = element("a", { className: "s-open", href: pageOf(row.folder), textContent: row.title });
    return element("li", { className: "s-hit s-title" }, link, line(all, row));
  }

  let conversations = null;
  async function allConversations() {
    if (!conversations) {
      const data = await load("conversations");
      const rows = data.rows.map((values) =>
        Object.fromEntries(data.columns.map((column, index) => [column, values[index]])),
      );
      conversations = { ...data, rows };
    }
    return conversations;
  }

  // ---- Filters, the same in the list and in the search

  const form = document.querySelector("#x-filter, #x-search");
  const fields = [...form.querySelectorAll("input[name], select[name]")];
  const count = document.getElementById("x-count");
  const parameters = new URLSearchParams(location.search);
  for (const field of fields) {
    const value = parameters.get(field.name);
    if (value !== null) field.value = value;
  }
  const given = (name) => fields.find((field) => field.name === name)?.value.trim() ?? "";

  function remember() {
    const query = new URLSearchParams();
    for (const field of fields) if (field.value.trim()) query.set(field.name, field.value.trim());
    if (parameters.get("in")) query.set("in", parameters.get("in"));
    const tail = query.toString();
    try {
      history.replaceState(null, "", tail ? `?${tail}` : location.pathname);
    } catch {
      // from a disk some browsers do not allow it: the address stays as it was
    }
  }

  // The day of a moment where the conversations were imported, which is what charts count by
  const day = (timestamp) =>
    timestamp ? new Date(Date.parse(timestamp) + zone * 60000).toISOString().slice(0, 10) : "";

  function filter(all) {
    const source = given("source");
    const project = given("project");
    const model = given("model");
    const from = given("from");
    const to = given("to");
    const folder = parameters.get("in");
    return (row) =>
      (!source || all.sources[row.source][0] === source) &&
      (!project || all.projects[row.project] === project) &&
      (!model || all.models[row.model] === model) &&
      (!from || (row.started && day(row.ended || row.started) >= from)) &&
      (!to || (row.started && day(row.started) <= to)) &&
      (!folder || row.folder === folder);
  }
  const filtered = () => fields.some((field) => field.name !== "q" && field.value.trim());

  // ---- The list

  const list = document.getElementById("x-list");
  async function startList() {
    const panel = form.closest("details");
    panel.hidden = false;
    panel.open = filtered() || matchMedia("(min-width: 40rem)").matches;
    const pages = document.getElementById("x-pages");
    const clear = form.querySelector(".x-clear");
    const before = [...list.children];
    const said = count.textContent;
    let shown = MOST_ROWS;
    async function show() {
      document.querySelector(".x-more")?.remove();
      clear.hidden = !filtered();
      if (pages) pages.hidden = filtered();
      if (!filtered()) {
        list.replaceChildren(...before);
        count.textContent = said;
        return;
      }
      const all = await allConversations();
      const words = fold(given("title").normalize("NFC")).split(/\s+/u).filter(Boolean);
      const wanted = filter(all);
      const rows = all.rows.filter(
        (row) =>
          row.listed &&
          wanted(row) &&
          words.every((word) => fold(row.title.normalize("NFC")).includes(word)),
      );
      list.replaceChildren(...rows.slice(0, shown).map((row) => listed(all, row)));
      list.hidden = !rows.length;
      count.textContent = `${plural(rows.length, "conversation")} of ${all.rows
        .filter((row) => row.listed)
        .length.toLocaleString("en")}`;
      if (rows.length > shown) more(list, () => { shown += MOST_ROWS; show(); });
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => {
      shown = MOST_ROWS;
      remember();
      show();
    });
    form.addEventListener("reset", () => {
      for (const field of fields) field.value = "";
      list.hidden = false;
      remember();
      setTimeout(show);
    });
    if (filtered()) await show();
  }

  function more(after, action) {
    const button = element("button", { type: "button", className: "x-more", textContent: "Show more" });
    button.addEventListener("click", () => {
      button.remove();
      action();
    });
    after.after(button);
  }

  // ---- Words

  const folded = new Map();
  // Lower case without diacritics; every character keeps its length, so that places stay places
  function fold(text) {
    if (/^[\0-\x7f]*$/.test(text)) return text.toLowerCase();
    let made = "";
    for (const character of text) {
      let known = folded.get(character);
      if (known === undefined) {
        known = character;
        if (character.codePointAt(0) < 0x2000) {
          const parts = [...character.normalize("NFD")];
          if (parts.slice(1).every((part) => /\p{M}/u.test(part))) known = parts[0];
        }
        const lower = known.toLowerCase();
        known = [...lower].length === 1 && lower.length === character.length ? lower : character;
        folded.set(character, known);
      }
      made += known;
    }
    return made;
  }

  const WORD = "\\p{L}\\p{N}";
  const escaped = (text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

  // Words, "phrases", prefixes*, -exclusions, and CJK text: each a term with what the index is asked
  function parse(text, about) {
    const cjk = `[${about.cjk}]`;
    const piece = new RegExp(`${cjk}+|(?:(?!${cjk})[${WORD}])+`, "gu");
    const border = new RegExp(`(?<=${cjk})(?!${cjk})|(?<!${cjk})(?=${cjk})`, "u");
    const found = { wanted: [], unwanted: [] };
    for (const [, minus, phrase, star, bare] of text
      .slice(0, 1000)
      .matchAll(/(-(?=[^\s-]))?(?:["“„«]([^"”“»]*)["”“»]?(\*)?|([^\s"“„«]+))/gu)) {
      const whole = phrase ?? bare;
      const prefix = Boolean(star) || (bare ?? "").endsWith("*");
      // 修复bug finds 修复 bug, too
      const parts = minus || phrase !== undefined ? [whole] : whole.split(border);
      parts.forEach((part, index) => {
        const made = term(part, prefix && index === parts.length - 1, cjk, piece, about);
        if (made) (minus ? found.unwanted : found.wanted).push(made);
      });
    }
    found.wanted.splice(24);
    return found;
  }

  function term(text, prefix, cjk, piece, about) {
    const pieces = fold(text.normalize("NFC")).match(piece);
    if (!pieces) return null;
    const isCjk = new RegExp(`^${cjk}`, "u");
    const keys = [];
    let pattern = "";
    let exact = pieces.length === 1;
    pieces.forEach((part, index) => {
      const here = isCjk.test(part);
      const last = index === pieces.length - 1;
      if (index) pattern += here || isCjk.test(pieces[index - 1]) ? `[^${WORD}]*` : `[^${WORD}]+`;
      else if (!here) pattern += `(?:(?<![${WORD}])|(?<=${cjk}))`;
      pattern += escaped(part);
      if (last && !here) pattern += prefix ? `(?:(?!${cjk})[${WORD}])*` : `(?:(?![${WORD}])|(?=${cjk}))`;
      if (here) {
        const characters = [...part];
        if (characters.length === 1) keys.push({ key: part });
        for (let at = 0; at + 1 < characters.length; at += 1) {
          keys.push({ key: characters[at] + characters[at + 1] });
        }
        if (characters.length > 2) exact = false;
      } else {
        // a word is cut in the index: what is longer is found by its beginning
        const characters = [...part];
        if (characters.length > about.longest) exact = false;
        keys.push({ key: characters.slice(0, about.longest).join(""), prefix: prefix && last });
      }
    });
    return { keys, pattern, exact };
  }

  // ---- The index

  function decode(written, digits) {
    const numbers = [];
    let last = -1;
    let value = 0;
    let scale = 1;
    for (let at = 0; at < written.length; at += 1) {
      const digit = digits.get(written[at]);
      value += (digit % 32) * scale;
      if (digit >= 32) {
        scale *= 32;
      } else {
        last += value + 1;
        numbers.push(last);
        value = 0;
        scale = 1;
      }
    }
    return numbers;
  }

  let digits = null;
  const notes = new Set();
  async function numbersOf({ key, prefix }, about) {
    digits ??= new Map([...about.digits].map((digit, value) => [digit, value]));
    let shard = above(about.terms, key) - 1;
    if (shard < 0) {
      if (!prefix) return [];
      shard = 0;
    }
    const found = [];
    for (let read = 0; shard < about.terms.length; shard += 1, read += 1) {
      if (read && !(prefix && about.terms[shard].startsWith(key))) break;
      if (read >= MOST_SHARDS) {
        notes.add(`More words begin with “${key}” than were looked for.`);
        break;
      }
      const terms = await load(`terms-${shard}`);
      for (let at = 0; at < terms.length; at += 2) {
        if (terms[at] === key || (prefix && terms[at].startsWith(key))) {
          found.push(decode(terms[at + 1], digits));
        }
      }
    }
    if (found.length < 2) return found[0] ?? [];
    return [...new Set(found.flat())].sort((a, b) => a - b);
  }

  // The first place in an ascending list that is above a value
  function above(values, value) {
    let low = 0;
    let high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] > value) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  async function numbersOfTerm(wanted, about) {
    let found = null;
    for (const key of wanted.keys) {
      const numbers = await numbersOf(key, about);
      const those = new Set(numbers);
      found = found === null ? numbers : found.filter((number) => those.has(number));
      if (!found.length) return found;
    }
    return found;
  }

  // ---- The search

  const results = document.getElementById("x-results");
  let current = 0;

  function passage(text, expression) {
    const plain = fold(text);
    let start = plain.search(expression);
    start = start > 80 ? text.indexOf(" ", start - 80) + 1 || start : 0;
    if (start > plain.search(expression) && start) start = plain.search(expression);
    const end = Math.min(text.length, start + 280);
    const made = element("span", { className: "s-passage" }, start ? "… " : "");
    let at = start;
    expression.lastIndex = 0;
    for (const match of plain.slice(start, end).matchAll(expression)) {
      if (!match[0]) continue;
      const begin = start + match.index;
      made.append(text.slice(at, begin));
      at = begin + match[0].length;
      made.append(element("mark", { textContent: text.slice(begin, at) }));
    }
    made.append(text.slice(at, end), end < text.length ? " …" : "");
    return made;
  }

  function hit(entry, expression, href, kind) {
    const [, , timestamp, label, , text] = entry;
    const meta = element(
      "span",
      { className: "s-meta" },
      element("span", { className: "s-label", textContent: label }),
      when(timestamp),
    );
    const body = passage(text, expression);
    const further = body.querySelector("mark")
      ? ""
      : element("span", { className: "s-meta", textContent: "The words stand further down in this long message." });
    const link = element("a", { className: "s-open", href }, meta, body, further);
    const css = { p: "person", m: "model" }[kind] ?? "other";
    return element("li", { className: `s-hit s-kind-${css}` }, link);
  }

  async function search() {
    const run = ++current;
    const stale = () => run !== current;
    results.replaceChildren();
    document.querySelector(".x-more")?.remove();
    notes.clear();
    const typed = given("q");
    if (!typed) {
      count.textContent = "";
      return;
    }
    count.textContent = "Searching …";
    const [about, all] = await Promise.all([load("terms"), allConversations()]);
    const { wanted, unwanted } = parse(typed, about);
    if (stale()) return;
    if (!wanted.length) {
      count.textContent = "Type a word to look for.";
      return;
    }
    let numbers = null;
    for (const one of wanted) {
      const found = await numbersOfTerm(one, about);
      const those = numbers && new Set(found);
      numbers = numbers ? numbers.filter((number) => those.has(number)) : found;
    }
    for (const one of unwanted.filter((other) => other.exact)) {
      const those = new Set(await numbersOfTerm(one, about));
      numbers = numbers.filter((number) => !those.has(number));
    }
    const firsts = all.rows.map((row) => row.first);
    const rowOf = (number) => all.rows[above(firsts, number) - 1];
    const passes = filter(all);
    const by = given("by");
    numbers = numbers.filter(
      (number) => (!by || about.kinds[number] === by) && passes(rowOf(number)),
    );
    if (stale()) return;

    const expression = new RegExp(wanted.map((one) => `(?:${one.pattern})`).join("|"), "gu");
    const checks = [...wanted.map((one) => [one, true]), ...unwanted.map((one) => [one, false])]
      .filter(([one]) => !one.exact)
      .map(([one, present]) => [new RegExp(one.pattern, "u"), present]);
    // A text that was cut may hold the phrase further down
    const holds = (entry) =>
      checks.every(
        ([check, present]) => check.test(fold(entry[5])) === present || (present && !entry[4]),
      );

    const titled = by ? [] : all.rows.filter((row) => {
      const title = fold(row.title.normalize("NFC"));
      return (
        passes(row) &&
        wanted.every((one) => new RegExp(one.pattern, "u").test(title)) &&
        !unwanted.some((one) => new RegExp(one.pattern, "u").test(title))
      );
    });
    if (titled.length) {
      const shown = titled.slice(0, 8).map((row) => listed(all, row));
      const block = element(
        "section",
        { className: "s-block s-titles" },
        element("h2", { textContent: "Titles" }),
        element("ol", { className: "s-list" }, ...shown),
      );
      results.append(block);
    }
    const block = element("section", { className: "s-block s-messages" });
    results.append(block);

    let at = 0;
    let total = 0;
    let group = null;
    let groupRow = null;
    async function next() {
      let added = 0;
      while (at < numbers.length && added < PAGE) {
        const number = numbers[at];
        const shard = above(about.texts, number) - 1;
        const entry = (await load(`texts-${shard}`))[number - about.texts[shard]];
        if (stale()) return;
        at += 1;
        if (!holds(entry)) continue;
        const row = rowOf(number);
        if (row !== groupRow) {
          groupRow = row;
          group = element("ol", { className: "s-list" });
          const title = element("a", { href: pageOf(row.folder), textContent: row.title });
          block.append(
            element(
              "article",
              { className: "s-group" },
              element("header", {}, element("h3", {}, title), line(all, row)),
              group,
            ),
          );
        }
        group.append(hit(entry, expression, `${pageOf(row.folder, entry[1])}#${entry[0]}`, about.kinds[number]));
        added += 1;
        total += 1;
      }
      const whole = !checks.length || at >= numbers.length;
      const sum = checks.length ? total : numbers.length;
      const said = numbers.length && (sum || !whole)
        ? `${whole ? "" : "At least "}${plural(sum, "message")}`
        : "No message holds all of these words. Fewer words, or the beginning of one with a *, find more.";
      const only = parameters.get("in") ? ` in “${rowsIn(all)}”` : "";
      count.textContent = [said + only, ...notes].join(" ");
      if (parameters.get("in")) {
        const everywhere = element("a", { href: `search.html?q=${encodeURIComponent(typed)}`, textContent: "Search all conversations" });
        count.append(" ", everywhere);
      }
      if (at < numbers.length) more(results, next);
    }
    await next();
  }
  const rowsIn = (all) => all.rows.find((row) => row.folder === parameters.get("in"))?.title ?? "?";

  function startSearch() {
    const failed = () => {
      count.textContent = "A part of the index could not be loaded. Is the folder data/ beside this page complete?";
    };
    const go = () => search().catch(failed);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      remember();
      go();
    });
    form.addEventListener("change", (event) => {
      if (event.target.name !== "q") {
        remember();
        go();
      }
    });
    form.querySelector("details").open = filtered() || matchMedia("(min-width: 40rem)").matches;
    if (given("q")) go();
  }

  // ---- Keys: / goes to the box

  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select")) return;
    event.preventDefault();
    document.getElementById("x-q")?.focus();
  });

  if (results) startSearch();
  else if (list) startList();
})();
