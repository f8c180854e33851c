// The theme that the reader chose, if any; else the system's.
"use strict";

(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const chosen = stored();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  root.classList.add("with-script");

  document.addEventListener("click", (click) => {
    if (!click.target.closest("#theme")) return;
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* then it lasts as long as the page */ }
    document.dispatchEvent(new CustomEvent("ddlp:theme"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("ddlp:theme")));
})();
