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

  // Times below a minute show seconds: ticks that are closer than a second would repeat their label.
  const minute = 60;
  const hour = 60 * minute;
  const apart = [1, 2, 5, 10, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, 24 * hour, 48 * hour, 168 * hour];
  const shortest = { clock: 10, seconds: 2 };

  const between = (sorted) => sorted.slice(1).map((at, i) => at - sorted[i]);
  const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

  // Where a line is silent: two readings lie more than three times further apart than those before or after them.
  const silences = (at, step) => {
    const gaps = between(at);
    return gaps.flatMap((gap, i) => {
      const around = [gaps.slice(Math.max(0, i - 4), i), gaps.slice(i + 1, i + 5)].filter((some) => some.length);
      const usual = Math.max(step, ...around.map(median));
      return gap > 3 * usual ? [[at[i], at[i + 1]]] : [];
    });
  };

  // lines: [{at, values}], each with its own times. The table that uPlot draws of them: `undefined` where only other lines have a reading, which is drawn across;
  // null in silences, where nothing is known and nothing is drawn.
  const table = (lines) => {
    const moments = new Set(lines.flatMap(({ at }) => at));
    const gaps = between([...moments].sort((a, b) => a - b));
    const step = gaps.length ? Math.min(...gaps) : 1;
    const silent = lines.map(({ at }) => silences(at, step));
    silent.flat().forEach(([from]) => moments.add(from + step));
    const times = [...moments].sort((a, b) => a - b);
    const columns = lines.map(({ at, values }, line) => {
      const known = new Map(at.map((time, i) => [time, values[i]]));
      const rest = [...silent[line]];
      return times.map((time) => {
        if (known.has(time)) return known.get(time);
        while (rest.length && rest[0][1] <= time) rest.shift();
        return rest.length && rest[0][0] < time ? null : undefined;
      });
    });
    return [times, ...columns];
  };

  // Readings with silence on both sides that are too narrow for a line are drawn as points.
  const narrowest = 4;
  const lonely = (plot, line) => {
    const [times, values] = [plot.data[0], plot.data[line]];
    const pieces = [[]];
    values.forEach((value, i) => {
      if (value === null) pieces.push([]);
      else if (value !== undefined) pieces.at(-1).push(i);
    });
    const width = (piece) => plot.valToPos(times[piece.at(-1)], "x") - plot.valToPos(times[piece[0]], "x");
    return pieces.filter((piece) => piece.length && width(piece) < narrowest).flat();
  };

  // lines: [{label, colour: "--cpu", dash?, fill?}]; unit is shown at each tick; time: "clock" or "seconds".
  const make = (place, { lines, unit, time = "clock", data }) => {
    let plot = null;
    let shown = data;
    const options = () => {
      const soft = colour("--soft");
      const axis = { stroke: soft, font: `${0.8 * rem()}px system-ui`, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      return {
        width: place.clientWidth, height: place.clientHeight, legend: { show: false }, cursor: { show: false }, ms: 1e-3,
        scales: {
          x: { time: time === "clock", range: (_, first, last) => [first, first === null ? null : Math.max(last, first + shortest[time])] },
          y: { range: (_, __, most) => [0, most > 0 ? 1.1 * most : 1] },
        },
        axes: [
          { ...axis, space: 6 * rem(), incrs: apart, values: (_, ticks) => ticks.map((s) => (time === "clock" ? clock.format(1000 * s) : `${s} s`)) },
          { ...axis, size: 4.7 * rem(), values: (_, ticks) => ticks.map((value) => `${number.format(value)}${unit ? ` ${unit}` : ""}`) },
        ],
        series: [{}, ...lines.map((line) => ({
          label: line.label, stroke: colour(line.colour), width: 2, dash: line.dash, spanGaps: false,
          points: { show: false, filter: lonely, size: 6, fill: colour(line.colour) },
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
  window.ddlp.table = table;
})();
