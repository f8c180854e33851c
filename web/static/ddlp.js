// The little that HTML cannot do: the chart of a run, its buttons, its bad samples, and a word when the server is away.
"use strict";

(() => {
  const live = document.getElementById("live");
  if (!live) return;
  const run = live.dataset.run;
  const offline = document.getElementById("offline");

  const post = (action, body) => fetch(`/api/v1/runs/${run}/${action}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });

  // Buttons. They are replaced with every message, so the listener sits on what stays.
  live.addEventListener("click", async (click) => {
    const button = click.target.closest("button[data-action]");
    if (!button) return;
    const action = button.dataset.action;
    if (action === "cancel" && !window.confirm(`Cancel ${run}? It cannot be continued.`)) return;
    button.disabled = true;
    const answer = await post(action, {});
    if (!answer.ok) window.alert((await answer.json()).detail);
  });

  const strategy = document.getElementById("strategy");
  strategy?.addEventListener("change", async () => {
    const answer = await post("strategy", { strategy: strategy.value });
    if (!answer.ok) window.alert((await answer.json()).detail);
  });

  // Connection.
  live.addEventListener("htmx:sse:error", () => { offline.hidden = false; });
  live.addEventListener("htmx:sse:after:connection", () => { offline.hidden = true; });
  let over = false;

  // Bad samples: read again when there are more of them, until that succeeds.
  const bad = document.getElementById("bad");
  let wanted = bad.dataset.count;
  let reading = false;
  const readBad = async () => {
    if (reading) return;
    reading = true;
    while (bad.dataset.count !== wanted) {
      const count = wanted;
      try {
        const answer = await fetch(bad.dataset.source);
        if (!answer.ok) throw new Error(answer.statusText);
        bad.innerHTML = await answer.text();
        bad.dataset.count = count;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 2000));
      }
    }
    reading = false;
  };
  const showBad = (count) => { wanted = String(count); readBad(); };
  const show = ({ percent, bad: count }) => {
    document.title = document.title.replace(/^\d+ %/, `${percent} %`);
    showBad(count);
  };
  live.addEventListener("over", (event) => { over = true; strategy?.closest("tr").remove(); show(JSON.parse(event.detail.data)); });
  live.addEventListener("htmx:sse:before:connection", (event) => { if (over) event.preventDefault(); });

  // Chart.
  const place = document.getElementById("chart");
  const keys = ["cpu", "csd", "trainer"];
  const data = [[], [], [], []];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = () => ({ stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } });
  const line = (label, name, dash) => ({ label, stroke: colour(name), width: 2, dash, points: { show: false }, spanGaps: true });
  const chart = new uPlot({
    width: place.clientWidth, height: 180, legend: { show: false }, cursor: { show: false },
    scales: { y: { range: (_, __, max) => [0, Math.max(10, max * 1.1)] } },
    axes: [axis(), { ...axis(), size: 56 }],
    series: [{}, line("CPU", "--cpu"), line("CSD", "--csd"), line("trainer", "--soft", [4, 4])],
  }, data, place);
  new ResizeObserver(() => chart.setSize({ width: place.clientWidth, height: 180 })).observe(place);

  const keep = 1000;
  const add = (at, values) => {
    if (data[0].length && at <= data[0][data[0].length - 1]) return;
    data[0].push(at);
    keys.forEach((key, i) => data[i + 1].push(values[key] ?? null));
    if (data[0].length > keep) data.forEach((column) => column.shift());
  };

  fetch(place.dataset.series).then((answer) => answer.json()).then((series) => {
    const rows = new Map();
    keys.forEach((key) => (series[key]?.at ?? []).forEach((at, i) => {
      rows.set(at, { ...rows.get(at), [key]: series[key].images_per_s[i] });
    }));
    [...rows.keys()].sort((a, b) => a - b).forEach((at) => add(at, rows.get(at)));
    chart.setData(data);
  });

  live.addEventListener("rates", (event) => {
    const rates = JSON.parse(event.detail.data);
    add(rates.at, rates);
    chart.setData(data);
    show(rates);
  });
})();
