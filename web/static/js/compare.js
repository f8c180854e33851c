// The curves of several runs over one another, each from its own start.
"use strict";

(() => {
  const runs = [...document.querySelectorAll("#compared [data-run]")].map((item) => item.dataset);
  const dashes = { 1: undefined, 2: [8, 4], 3: [2, 3], 4: [10, 3, 2, 3], 5: [14, 6], 6: [4, 4] };
  const working = ["cpu", "csd", "dram", "gpu"];

  // Watts are those of all that worked together; images are what trainers took.
  const curve = (series, started, figure) => {
    const sums = new Map();
    (figure === "watts" ? working : ["trainer"]).forEach((source) => (series[source]?.at ?? []).forEach((at, i) => {
      const [sum, value] = [sums.get(at) ?? 0, series[source][figure][i]];
      sums.set(at, sum === null || value === null ? null : sum + value);
    }));
    // What is unknown in part is unknown, and no line along the bottom. What was made before the start is in the figures, not in the curve.
    const first = started === undefined ? Math.min(...sums.keys()) : Math.floor(Number(started));
    const times = [...sums.keys()].filter((at) => sums.get(at) !== null && at >= first).sort((a, b) => a - b);
    return { at: times.map((at) => at - first), values: times.map((at) => sums.get(at)) };
  };

  const draw = (place, all) => {
    const { figure, unit } = place.dataset;
    // Watts that nobody knows are no line along the bottom.
    const known = (run) => figure !== "watts" || run.unmetered === undefined;
    const drawn = all.map((series, i) => ({ run: runs[i], line: curve(series, runs[i].started, figure) })).filter(({ run, line }) => line.at.length && known(run));
    if (!drawn.length) {
      place.classList.remove("chart");
      place.textContent = "Nothing to draw yet.";
      return;
    }
    const lines = drawn.map(({ run }) => ({ label: run.run, colour: `--run-${run.number}`, dash: dashes[run.number] }));
    window.ddlp.chart(place, { lines, unit, time: "seconds", data: window.ddlp.table(drawn.map(({ line }) => line)) });
  };

  const series = async ({ run }) => {
    const reply = await fetch(`/api/v1/runs/${encodeURIComponent(run)}/series`);
    if (!reply.ok) throw new Error(`the server answered ${reply.status}`);
    return reply.json();
  };

  Promise.all(runs.map(series))
    .then((all) => document.querySelectorAll("[data-figure]").forEach((place) => draw(place, all)))
    .catch(() => window.ddlp.notify("The curves could not be loaded; load the page again."));
})();
