// Datasette 0.65 closes every <details> of a page that a click is outside of, for the sake of its
// menus. What a reader unfolded stays open: it is opened again before the page is painted.

const main = document.getElementById("crystal-main");
let open = [];

function remember() {
  open = [...main.querySelectorAll("details[open]")];
}
addEventListener("click", remember, true);
// once more, after what a click did in the page and before Datasette hears of it
main.addEventListener("click", remember);
document.addEventListener("click", () => {
  for (const details of open) details.open = true;
});
