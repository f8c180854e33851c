// The list of runs: what is chosen and what can be done with it.
"use strict";

(() => {
  const form = document.getElementById("chosen");
  if (!form) return;
  const words = document.getElementById("bulk-words");
  const compare = document.getElementById("compare-chosen");
  const cancel = document.getElementById("cancel-chosen");

  const chosen = () => [...form.elements].filter((field) => field.name === "run" && field.checked);
  const many = (count) => (count === 1 ? "1 run" : `${count} runs`);

  const hint = (count) => {
    if (!count) return "Choose two to six runs to compare them.";
    if (count === 1) return "1 run chosen; choose one more to compare it.";
    return count > 6 ? `${count} runs chosen; six at most can be compared.` : `${count} runs chosen.`;
  };
  const update = () => {
    const found = chosen();
    words.textContent = hint(found.length);
    compare.disabled = found.length < 2 || found.length > 6;
    cancel.disabled = !found.some((field) => field.dataset.active !== undefined);
  };

  const refresh = () => window.htmx.ajax("GET", location.pathname + location.search, { target: "#runs", select: "#runs", swap: "outerMorph" });

  cancel.addEventListener("click", async () => {
    const runs = chosen().filter((field) => field.dataset.active !== undefined).map((field) => field.value);
    const question = runs.length === 1 ? `Cancel ${runs[0]}? It cannot be continued.` : `Cancel ${runs.length} runs? They cannot be continued: ${runs.join(", ")}.`;
    if (!(await window.ddlp.ask(question, `Cancel ${many(runs.length)}`))) return;
    try {
      const reply = await fetch("/api/v1/runs/cancel", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ runs }) });
      const answer = await reply.json().catch(() => ({}));
      if (!reply.ok) return window.ddlp.notify(answer.detail ?? `The server answered ${reply.status}.`);
      const ended = answer.filter((one) => one.cancelled).map((one) => one.run);
      answer.filter((one) => !one.cancelled).forEach((one) => window.ddlp.notify(one.reason));
      if (ended.length) window.ddlp.notify(`${many(ended.length)} cancelled.`, "good");
      chosen().filter((field) => ended.includes(field.value)).forEach((field) => { field.checked = false; });
    } catch {
      window.ddlp.notify("The server does not answer; try again when it is back.");
    }
    await refresh();
    update();
  });

  document.addEventListener("htmx:after:swap", update);
  document.addEventListener("change", (event) => { if (event.target.form === form) update(); });
  update();
})();
