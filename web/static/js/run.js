// What HTML cannot draw of a run: its charts, and its progress in the title.
"use strict";

(() => {
  const live = document.getElementById("live");
  if (!live) return;

  const charts = [
    { place: "chart", figure: "images_per_s", unit: "", nothing: 0, lines: [
      { key: "csd", label: "CSD on top of CPU", colour: "--csd", fill: "--csd", on: "cpu" }, { key: "cpu", label: "CPU", colour: "--cpu", fill: "--cpu" }, { key: "trainer", label: "trainer", colour: "--ink", dash: [4, 4] }] },
    { place: "watts", figure: "watts", unit: "W", nothing: null, lines: [
      { key: "cpu", label: "CPU", colour: "--cpu" }, { key: "csd", label: "CSD", colour: "--csd" }, { key: "gpu", label: "GPUs", colour: "--transfer" }, { key: "dram", label: "memory", colour: "--read" }] },
  ].map((chart) => {
    const data = [[], ...chart.lines.map(() => [])];
    return { ...chart, data, plot: window.ddlp.chart(document.getElementById(chart.place), { lines: chart.lines, unit: chart.unit, data }) };
  });

  const keep = 1000;
  const add = (chart, at, values) => {
    const times = chart.data[0];
    if (times.length && at <= times[times.length - 1]) return;
    times.push(at);
    // A line that stands on another one shows the two together.
    const height = (line) => (line.on ? (values[line.key] ?? 0) + (values[line.on] ?? 0) : values[line.key] ?? chart.nothing);
    chart.lines.forEach((line, i) => chart.data[i + 1].push(height(line)));
    if (times.length > keep) chart.data.forEach((column) => column.shift());
  };

  const fill = (chart, series) => {
    const rows = new Map();
    chart.lines.forEach(({ key }) => (series[key]?.at ?? []).forEach((at, i) => {
      rows.set(at, { ...rows.get(at), [key]: series[key][chart.figure][i] });
    }));
    [...rows.keys()].sort((a, b) => a - b).forEach((at) => add(chart, at, rows.get(at)));
    chart.plot.setData(chart.data);
  };

  fetch(live.dataset.series).then((answer) => answer.json()).then((series) => charts.forEach((chart) => fill(chart, series))).catch(() => {});

  // A run that is over has nothing more to say: when the server ends the stream, it is not asked for again.
  const stream = document.getElementById("stream");
  let over = false;
  stream?.addEventListener("over", () => { over = true; });
  stream?.addEventListener("htmx:sse:before:connection", (event) => { if (over) event.preventDefault(); });
  stream?.addEventListener("figures", (event) => {
    const figures = JSON.parse(event.detail.data);
    document.title = document.title.replace(/^\d+ %/, `${figures.percent} %`);
    window.ddlp.wordTimes();
    if (figures.at === null) return;
    charts.forEach((chart) => { add(chart, figures.at, figures[chart.figure]); chart.plot.setData(chart.data); });
  });
  stream?.addEventListener("htmx:response:error", () => window.ddlp.notify("This page does not update: the server has too many live pages open. Close some, then load it again."));
})();
