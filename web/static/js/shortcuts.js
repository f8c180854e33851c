// Keys: a letter does something, g and a letter goes somewhere; ? shows them all.
"use strict";

(() => {
  const go = (address) => () => location.assign(address);
  const press = (selector) => () => document.querySelector(selector)?.click();
  const keys = [
    ["g r", "go to the runs", go("/")],
    ["g d", "go to the datasets", go("/datasets")],
    ["g v", "go to the devices", go("/devices")],
    ["g a", "go to the audit log", go("/audit")],
    ["g k", "go to the keys", go("/keys")],
    ["n", "make a new run", go("/runs/new")],
    ["/", "search", () => document.getElementById("search")?.focus(), "#search"],
    ["p", "pause or resume this run", press("[data-key=p]"), "#live"],
    ["c", "clone this run", press("[data-key=c]"), "[data-key=c]"],
    ["t", "light or dark", press("#theme")],
    ["?", "show this", () => document.getElementById("help").showModal()],
    ["Esc", "close what is open", () => {}],
  ].filter(([, , , needs]) => !needs || document.querySelector(needs));

  const rows = keys.map(([key, words]) => {
    const row = document.createElement("tr");
    const name = document.createElement("th");
    name.scope = "row";
    key.split(" ").forEach((part) => { const cap = document.createElement("kbd"); cap.textContent = part; name.append(cap, " "); });
    const said = document.createElement("td");
    said.textContent = words;
    row.append(name, said);
    return row;
  });
  document.getElementById("shortcuts").replaceChildren(...rows);
  document.getElementById("show-help").addEventListener("click", () => document.getElementById("help").showModal());

  let before = "";
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const pressed = before ? `${before} ${event.key}` : event.key;
    const found = keys.find(([key]) => key === pressed);
    before = event.key === "g" && !before ? "g" : "";
    if (before) setTimeout(() => { before = ""; }, 1500);
    if (!found) return;
    event.preventDefault();
    found[2]();
  });
})();
