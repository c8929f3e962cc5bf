// The conversation page works without this. It adds an outline
// that follows the reading, subagents in place, buttons to unfold all, and keys.

const transcript = document.getElementById("c-transcript");
const outline = document.getElementById("c-outline");

// ---- Subagents in place

async function load(details) {
  const place = details.querySelector(".c-nested");
  const address = details.dataset.href;
  delete details.dataset.href;
  if (!address) return;
  try {
    const answer = await fetch(address, { credentials: "same-origin" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fragment = page.querySelector(".c-fragment");
    if (fragment) {
      place.replaceChildren(document.adoptNode(fragment));
      crystalTimes.localize(place);
      watch(place);
    }
  } catch {
    // the link to its page stays
  }
}

function watch(root) {
  for (const details of root.querySelectorAll("details[data-href]")) {
    details.addEventListener("toggle", () => details.open && load(details));
  }
}
watch(transcript);

// ---- Unfold what a link leads to, also where the browser does not

function reveal() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let fold = target.closest("details:not([open])"); fold; ) {
    fold.open = true;
    fold = fold.parentElement.closest("details:not([open])");
  }
  target.scrollIntoView();
}
addEventListener("hashchange", reveal);
reveal();

// ---- The outline

const wide = matchMedia("(min-width: 1100px)");
const setOutline = () => (outline.open = wide.matches);
wide.addEventListener("change", setOutline);
setOutline();
for (const link of outline.querySelectorAll("a")) {
  link.addEventListener("click", () => wide.matches || (outline.open = false));
}

const prompts = [...transcript.querySelectorAll("[data-prompt]")];
const links = new Map(
  [...outline.querySelectorAll('a[href^="#"]')].map((link) => [link.hash.slice(1), link])
);
let current = null;
function follow() {
  let last = null;
  for (const prompt of prompts) {
    if (prompt.offsetParent === null) continue;
    if (prompt.getBoundingClientRect().top > innerHeight * 0.35) break;
    last = prompt;
  }
  const link = last && links.get(last.id);
  if (link === current) return;
  current?.removeAttribute("aria-current");
  current = link;
  current?.setAttribute("aria-current", "location");
  if (current && wide.matches) {
    const box = outline.getBoundingClientRect();
    const place = current.getBoundingClientRect();
    if (place.top < box.top + 40 || place.bottom > box.bottom - 40) {
      outline.scrollTop += place.top - box.top - box.height / 2;
    }
  }
}
let waiting = false;
addEventListener(
  "scroll",
  () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      follow();
    });
  },
  { passive: true }
);
follow();

// ---- Fold and unfold all

const FOLDS = "details.c-call, details.c-thinking, details.c-fold, details.c-run";
function toggleAll() {
  const folds = [...transcript.querySelectorAll(FOLDS)];
  const open = folds.some((fold) => !fold.open);
  for (const fold of folds) fold.open = open;
  button.textContent = open ? "Fold all" : "Unfold all";
}
const button = document.createElement("button");
button.type = "button";
button.className = "c-chip c-unfold";
button.textContent = "Unfold all";
button.addEventListener("click", toggleAll);
transcript.querySelector(".c-filters").append(button);
addEventListener("beforeprint", () => {
  for (const fold of transcript.querySelectorAll("details.c-run")) fold.open = true;
});

// ---- Keys

const KEYS = [
  ["j", "Next prompt"],
  ["k", "Previous prompt"],
  ["n", "Next conversation"],
  ["p", "Previous conversation"],
  ["s", "Search in this conversation"],
  ["e", "Fold or unfold all"],
  ["?", "This help"],
];

function step(forward) {
  const shown = prompts.filter((prompt) => prompt.offsetParent !== null);
  const tops = shown.map((prompt) => prompt.getBoundingClientRect().top);
  // From the prompt that the last key led to, while it is in sight: at the end of a page the window
  // stays where it is. Else from the upper edge of the window.
  const last = shown.findIndex((prompt) => prompt.contains(document.activeElement));
  const edge = 16;
  let index = forward
    ? tops.findIndex((top) => top > edge)
    : tops.findLastIndex((top) => top < -edge);
  if (last >= 0 && tops[last] > -edge && tops[last] < innerHeight) {
    index = forward ? last + 1 : last - 1;
  }
  if (shown[index]) {
    shown[index].scrollIntoView();
    shown[index].querySelector(".c-permalink")?.focus({ preventScroll: true });
    return;
  }
  const page = document.querySelector(`link[rel="${forward ? "next" : "prev"}"]`);
  if (page) location.href = page.href;
}

const help = document.createElement("dialog");
help.className = "c-help";
help.setAttribute("aria-label", "Keys");
const list = document.createElement("dl");
for (const [key, meaning] of KEYS) {
  const term = document.createElement("dt");
  const kbd = document.createElement("kbd");
  kbd.textContent = key;
  term.append(kbd);
  const text = document.createElement("dd");
  text.textContent = meaning;
  list.append(term, text);
}
const close = document.createElement("form");
close.method = "dialog";
const closer = document.createElement("button");
closer.type = "submit";
closer.className = "c-plain";
closer.textContent = "Close";
close.append(closer);
help.append(list, close);
document.querySelector(".c-main").append(help);

const actions = {
  j: () => step(true),
  k: () => step(false),
  n: () => document.getElementById("c-later")?.click(),
  p: () => document.getElementById("c-earlier")?.click(),
  s: () => document.getElementById("c-q").focus(),
  e: toggleAll,
  "?": () => (help.open ? help.close() : help.showModal()),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest?.("input:not([type=radio]), textarea, select, [contenteditable]")) return;
  if (document.querySelector("dialog[open]") && event.key !== "?") return;
  const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
  if (action) {
    event.preventDefault();
    action();
  }
});
const hint = document.createElement("button");
hint.type = "button";
hint.className = "c-chip c-keys";
hint.append("Keys ", Object.assign(document.createElement("kbd"), { textContent: "?" }));
hint.addEventListener("click", actions["?"]);
transcript.querySelector(".c-filters").append(hint);
