// Times of the reader: every <time data-time> says when it was in the time zone of the browser, in
// one format on all pages: 3 Nov 2026, 14:05. Without this script they say UTC.

globalThis.crystalTimes = (() => {
  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  const two = (number) => String(number).padStart(2, "0");

  function text(time, form) {
    const clock = `${two(time.getHours())}:${two(time.getMinutes())}`;
    const day = `${time.getDate()} ${MONTHS[time.getMonth()]} ${time.getFullYear()}`;
    return form === "short" ? clock : `${day}, ${clock}`;
  }

  function localize(root) {
    for (const element of root.querySelectorAll("time[data-time]")) {
      const time = new Date(element.dateTime);
      if (!Number.isNaN(time.getTime())) element.textContent = text(time, element.dataset.time);
    }
  }

  localize(document);
  return { localize, text };
})();
