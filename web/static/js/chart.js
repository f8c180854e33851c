// Lines over time with uPlot: colours from the page's variables, redrawn when theme or width change.
"use strict";

(() => {
  const colour = (name) => {
    const probe = document.createElement("i");
    probe.hidden = true;
    document.body.append(probe);
    probe.style.color = `var(${name})`;
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "compact" });

  // lines: [{label, colour: "--cpu", dash?, fill?, point?}]; unit is shown at each tick; time: "clock" or "seconds".
  const make = (place, { lines, unit, time = "clock", data }) => {
    let plot = null;
    let shown = data;
    const options = () => {
      const soft = colour("--soft");
      const axis = { stroke: soft, font: `${0.8 * rem()}px system-ui`, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      return {
        width: place.clientWidth, height: place.clientHeight, legend: { show: false }, cursor: { show: false }, ms: 1e-3,
        scales: { x: { time: time === "clock" }, y: { range: (_, __, most) => [0, Math.max(1, (most ?? 0) * 1.1)] } },
        axes: [
          { ...axis, space: 6 * rem(), values: (_, ticks) => ticks.map((s) => (time === "clock" ? clock.format(1000 * s) : `${s} s`)) },
          { ...axis, size: 4.7 * rem(), values: (_, ticks) => ticks.map((value) => `${number.format(value)}${unit ? ` ${unit}` : ""}`) },
        ],
        series: [{}, ...lines.map((line) => ({
          label: line.label, stroke: colour(line.colour), width: 2, dash: line.dash, points: { show: line.point ?? false }, spanGaps: true,
          fill: line.fill ? colour(line.fill) : undefined,
        }))],
      };
    };
    const draw = () => {
      plot?.destroy();
      plot = new uPlot(options(), shown, place);
    };
    draw();
    document.addEventListener("ddlp:theme", draw);
    new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: place.clientHeight })).observe(place);
    const setData = (next) => {
      shown = next;
      place.dataset.points = next[0].length;
      if (!document.hidden) plot.setData(next);
    };
    return { setData };
  };

  window.ddlp.chart = make;
})();
