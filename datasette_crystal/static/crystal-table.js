// On the messages table of Datasette 0.65: the way to our search with the same words. The address is
// made from that of the page, so that it holds behind any base_url.

const typed = new URLSearchParams(location.search).get("_search");
const form = document.querySelector("form.filters");
const database = location.pathname.replace(/\/messages(\.[a-z]+)?\/?$/, "");

if (typed && form && database !== location.pathname) {
  const notice = document.createElement("p");
  const link = document.createElement("a");
  notice.className = "crystal-notice";
  link.href = `${database}/-/crystal/search?q=${encodeURIComponent(typed.slice(0, 1000))}`;
  link.textContent = "Search conversations";
  notice.append(
    "Datasette’s box looks for whole words in messages. ",
    link,
    " finds parts of Chinese, Japanese and Korean text, titles and tool calls, too.",
  );
  form.after(notice);
}
