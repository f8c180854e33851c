// The list of runs: what is chosen and what can be done with it.
"use strict";

(() => {
  const form = document.getElementById("chosen");
  if (!form) return;
  const words = document.getElementById("bulk-words");
  const compare = document.getElementById("compare-chosen");
  const cancel = document.getElementById("cancel-chosen");
  const clear = document.getElementById("clear-chosen");

  // By name, with whether it can be cancelled: what is chosen stays so when the list is sorted, filtered or turned over.
  const kept = () => { try { return JSON.parse(sessionStorage.getItem("chosen") ?? "[]"); } catch { return []; } };
  const chosen = new Map(kept());
  const keep = () => { try { sessionStorage.setItem("chosen", JSON.stringify([...chosen])); } catch { /* then it lasts as long as the page */ } };
  const boxes = () => [...form.elements].filter((field) => field.name === "run" && field.type === "checkbox");
  const many = (count) => (count === 1 ? "1 run" : `${count} runs`);

  const hint = (unseen) => {
    const count = chosen.size;
    if (!count) return "Select two to six runs to compare them.";
    const elsewhere = unseen ? `, ${unseen} of them not on this page` : "";
    if (count === 1) return `1 run selected${unseen ? ", not on this page" : ""}. Select one more to compare it.`;
    return count > 6 ? `${count} runs selected${elsewhere}. At most six can be compared.` : `${count} runs selected${elsewhere}.`;
  };
  const update = () => {
    const seen = boxes();
    seen.forEach((box) => {
      box.checked = chosen.has(box.value);
      if (box.checked) chosen.set(box.value, box.dataset.active !== undefined);
    });
    const unseen = [...chosen.keys()].filter((name) => !seen.some((box) => box.value === name));
    form.replaceChildren(...unseen.map((name) => Object.assign(document.createElement("input"), { type: "hidden", name: "run", value: name })));
    words.textContent = hint(unseen.length);
    compare.disabled = chosen.size < 2 || chosen.size > 6;
    cancel.disabled = ![...chosen.values()].some((active) => active);
    clear.hidden = !chosen.size;
    keep();
  };
  const choose = (box, is) => (is ? chosen.set(box.value, box.dataset.active !== undefined) : chosen.delete(box.value));

  const refresh = () => window.htmx.ajax("GET", location.pathname + location.search, { target: "#runs", select: "#runs", swap: "outerMorph" });

  cancel.addEventListener("click", async () => {
    const runs = [...chosen].filter(([, active]) => active).map(([name]) => name);
    const question = runs.length === 1 ? `Cancel ${runs[0]}? It cannot be continued.` : `Cancel ${runs.length} runs? They cannot be continued: ${runs.join(", ")}.`;
    if (!(await window.ddlp.ask(question, `Cancel ${many(runs.length)}`))) return;
    try {
      const reply = await fetch("/api/v1/runs/cancel", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ runs }) });
      const answer = await reply.json().catch(() => ({}));
      if (!reply.ok) return window.ddlp.notify(answer.detail ?? `The server answered ${reply.status}.`);
      const ended = answer.filter((one) => one.cancelled).map((one) => one.run);
      answer.filter((one) => !one.cancelled).forEach((one) => window.ddlp.notify(one.reason));
      if (ended.length) window.ddlp.notify(`${many(ended.length)} cancelled.`, "good");
      ended.forEach((name) => chosen.delete(name));
    } catch {
      window.ddlp.notify("The server does not answer; try again when it is back.");
    }
    await refresh();
    update();
  });

  clear.addEventListener("click", () => { chosen.clear(); update(); });

  // With Shift, all between this row and the one before are set alike.
  let before = null;
  document.addEventListener("click", (click) => {
    const box = click.target;
    if (box.form !== form || box.type !== "checkbox") return;
    const all = boxes();
    const [from, to] = [all.findIndex((one) => one.value === before), all.indexOf(box)].sort((a, b) => a - b);
    const range = click.shiftKey && from >= 0 ? all.slice(from, to + 1) : [box];
    range.forEach((one) => choose(one, box.checked));
    before = box.value;
    update();
  });
  document.addEventListener("htmx:after:swap", update);
  update();
})();
