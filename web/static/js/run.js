// What HTML cannot draw of a run: its charts, and its progress in the title.
"use strict";

(() => {
  const live = document.getElementById("live");
  if (!live) return;

  const charts = [
    { place: "chart", figure: "images_per_s", unit: "", stacked: true, lines: [
      { key: "csd", label: "CSD on top of CPU", colour: "--csd", fill: "--csd", on: "cpu" }, { key: "cpu", label: "CPU", colour: "--cpu", fill: "--cpu" }, { key: "trainer", label: "trainer", colour: "--ink", dash: [4, 4] }] },
    { place: "watts", figure: "watts", unit: "W", stacked: false, lines: [
      { key: "cpu", label: "CPU", colour: "--cpu" }, { key: "csd", label: "CSD", colour: "--csd" }, { key: "gpu", label: "GPUs", colour: "--transfer" }, { key: "dram", label: "memory", colour: "--read" }] },
  ].map((chart) => ({ ...chart, readings: chart.lines.map(() => ({ at: [], values: [], some: false })) }));
  // A side that made nothing has no line along the bottom.
  const drawn = (chart) => window.ddlp.table(chart.readings.map((reading, i) => (chart.lines[i].fill && !reading.some ? { at: [], values: [] } : reading)));
  charts.forEach((chart) => { chart.plot = window.ddlp.chart(document.getElementById(chart.place), { lines: chart.lines, unit: chart.unit, data: drawn(chart) }); });

  // What one moment shows. Where something was made or taken, whoever made nothing made 0 images; watts that nobody read are not 0 W.
  const add = (chart, at, values) => chart.lines.forEach((line, i) => {
    const reading = chart.readings[i];
    const value = values[line.key] ?? (chart.stacked ? 0 : undefined);
    if (value === undefined || at <= (reading.at.at(-1) ?? 0)) return;
    reading.at.push(at);
    reading.some ||= value > 0;
    // A line that stands on another one shows the two together.
    reading.values.push(line.on ? value + (values[line.on] ?? 0) : value);
  });

  const fill = (chart, series) => {
    chart.readings.forEach((reading) => { reading.at = []; reading.values = []; reading.some = false; });
    const rows = new Map();
    chart.lines.forEach(({ key }) => (series[key]?.at ?? []).forEach((at, i) => {
      const value = series[key][chart.figure][i];
      if (value !== null) rows.set(at, { ...rows.get(at), [key]: value });
    }));
    [...rows.keys()].sort((a, b) => a - b).forEach((at) => add(chart, at, rows.get(at)));
  };
  const draw = () => charts.forEach((chart) => chart.plot.setData(drawn(chart)));

  // The whole run, as the server keeps it; what comes live meanwhile waits, and is put behind it. It is asked for again when the
  // page was cut off, so that nothing is drawn across what it missed, and when it has so many points that they can be thinned out.
  const [points, most] = [600, 1200];
  let meanwhile = null;
  const show = (figures) => charts.forEach((chart) => add(chart, figures.at, figures[chart.figure]));
  const load = async () => {
    if (meanwhile) return;
    meanwhile = [];
    try {
      const answer = await fetch(`${live.dataset.series}?points=${points}`);
      const series = await answer.json();
      if (answer.ok) charts.forEach((chart) => fill(chart, series));
    } catch { /* the live points are drawn all the same */ }
    meanwhile.forEach(show);
    meanwhile = null;
    draw();
  };
  load();

  const stream = document.getElementById("stream");
  if (!stream) return;
  stream.addEventListener("figures", (event) => {
    const figures = JSON.parse(event.detail.data);
    document.title = document.title.replace(/^\d+ %/, `${figures.percent} %`);
    window.ddlp.wordTimes();
    window.ddlp.settle();
    if (figures.at === null) return;
    if (meanwhile) return meanwhile.push(figures);
    show(figures);
    if (charts[0].readings[0].at.length > most) load();
    else draw();
  });

  // A run that is over has nothing more to say: when the server ends the stream, it is not asked for again.
  let over = false;
  let connected = false;
  stream.addEventListener("over", () => { over = true; });
  stream.addEventListener("htmx:sse:before:connection", (event) => { if (over) event.preventDefault(); });
  stream.addEventListener("htmx:sse:after:connection", () => {
    if (connected) load();
    connected = true;
  });
  // A first try that fails is made again; later ones are htmx's own affair.
  const again = () => { if (!connected) setTimeout(() => window.htmx.trigger(stream, "again"), 3000); };
  stream.addEventListener("htmx:error", again);
  stream.addEventListener("htmx:response:error", (event) => {
    const status = event.detail?.ctx?.response?.status;
    if (status === 503) window.ddlp.notify("This page does not update yet: the server has too many live pages open. It tries again; close some.");
    if (!status || status >= 500) again();
  });
})();
