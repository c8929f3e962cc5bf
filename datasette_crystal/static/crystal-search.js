// Keys of the search page: / goes to the box, j and k from hit to hit; Enter opens, as on any link.

const box = document.querySelector("#s-q");
const hits = [...document.querySelectorAll(".s-open")];

document.body.classList.add("s-keyboard");

function typing(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

function move(step) {
  const at = hits.indexOf(document.activeElement);
  const to = at < 0 && step < 0 ? -1 : at + step;
  if (to < 0) {
    box.focus();
    box.select();
  } else if (hits[to]) {
    hits[to].focus();
    hits[to].scrollIntoView({ block: "nearest" });
  }
}

// Before Datasette, whose own menu listens to / as well
window.addEventListener(
  "keydown",
  (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape" && event.target === box && hits.length) {
      hits[0].focus();
    } else if (event.key === "ArrowDown" && event.target === box && hits.length) {
      hits[0].focus();
    } else if (typing(event.target)) {
      return;
    } else if (event.key === "/") {
      box.focus();
      box.select();
    } else if (event.key === "j") {
      move(1);
    } else if (event.key === "k") {
      move(-1);
    } else {
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  true,
);

// Addresses without what was left empty
const form = document.querySelector(".s-form");
const fields = [...form.querySelectorAll("input[name], select[name]")];
form.addEventListener("submit", () => {
  for (const field of fields) field.disabled = field !== box && !field.value;
});
window.addEventListener("pageshow", () => {
  for (const field of fields) field.disabled = false;
});
