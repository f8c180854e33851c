// Times in the reader's own zone; "3 min ago" stays true while the page is open, the exact time is in the title.
"use strict";

(() => {
  const short = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

  const ago = (at) => {
    const s = Math.round((Date.now() - at) / 1000);
    const [words, future] = [Math.abs(s), s < -1];
    const said = words < 60 ? `${words} s` : words < 3600 ? `${Math.floor(words / 60)} min`
      : words < 86400 ? `${Math.floor(words / 3600)} h ${Math.floor(words / 60) % 60} min` : `${Math.floor(words / 86400)} d`;
    return future ? `in ${said}` : `${said} ago`;
  };
  const word = (element) => {
    const at = new Date(element.dateTime);
    const words = { ago: () => ago(at), clock: () => clock.format(at), at: () => short.format(at), exact: () => exact.format(at) };
    const said = (words[element.dataset.as] ?? words.at)();
    if (element.textContent !== said) element.textContent = said;
    if (!element.dataset.worded) { element.title = exact.format(at); element.dataset.worded = "1"; }
  };
  const all = (root = document) => root.querySelectorAll("time[data-as]").forEach(word);

  all();
  document.addEventListener("htmx:after:swap", () => all());
  setInterval(() => { if (!document.hidden) all(); }, 5000);
  window.ddlp.wordTimes = all;
})();
