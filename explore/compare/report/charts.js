"use strict";
// The plots. Each takes the rows shown and gives an SVG, or a line that says why there is none.

const WIDTH = 600, HEIGHT = 400;
const MARGIN = { left: 76, right: 18, top: 14, bottom: 46 };
const RIGHT = WIDTH - MARGIN.right, BOTTOM = HEIGHT - MARGIN.bottom;

const empty = (text) => element("p", { class: "empty" }, text);
const own = (row) => value(row.sqnr_accumulator_db);
const total = (row) => value(row.sqnr_total_db);

function path(svg, points, attributes) {
  const d = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  svg.append(shape("path", { d, fill: "none", ...attributes }));
}

/** A vertical scale for SQNRs; infinite ones stand on a line of their own at the top. */
function decibel_scale(values) {
  const top = ceiling(values);
  const exact = values.includes(Infinity);
  const finite = values.filter(Number.isFinite);
  const low = Math.min(0, ...finite);
  const scale = linear(low, exact ? top * 1.03 : Math.max(...finite, 1) * 1.06, BOTTOM, MARGIN.top);
  const ticks = scale.ticks;
  scale.ticks = (count) => ticks(count).filter((t) => !exact || t < top - 6);
  return { scale, at: (x) => scale(Math.min(x, top)), exact: exact ? scale(top) : null };
}

function exact_line(svg, y) {
  if (y === null) return;
  svg.append(shape("line", { x1: MARGIN.left, x2: RIGHT, y1: y, y2: y, stroke: "#8b949e",
    "stroke-dasharray": "2 3" }));
  svg.append(shape("text", { x: MARGIN.left - 7, y: y + 4, "text-anchor": "end" }, "exact"));
}

/** Rows by the text that `key` gives. */
function groups(rows, key) {
  const found = new Map();
  for (const row of rows) {
    const name = key(row);
    found.set(name, [...(found.get(name) ?? []), row]);
  }
  return [...found.values()];
}

function front_chart(rows, quality) {
  const measure = quality === "total" ? total : own;
  const shown = rows.filter((row) => row.area && known(measure(row)));
  if (!shown.length) return empty("Needs synthesis and data.");
  const x = area_scale(shown.map((row) => row.area), MARGIN.left, RIGHT);
  const y = decibel_scale(shown.map(measure));
  const svg = frame(WIDTH, HEIGHT, MARGIN, { scale: x, label: `area (${shown[0].area_unit})` },
    { scale: y.scale, label: quality === "total" ? "SQNR, with format (dB)" : "SQNR, accumulator (dB)" });
  exact_line(svg, y.exact);
  const column = quality === "total" ? "pareto_total" : "pareto_format";
  const best = shown.filter((row) => row[column] === "front");
  const peers = (row) => `${variant(row)} ${quality === "total" ? "" : row.format}`;
  for (const members of groups(best, peers)) {
    members.sort((a, b) => a.area - b.area || measure(a) - measure(b));
    const steps = members.flatMap((row, i) => {
      const point = [x(row.area), y.at(measure(row))];
      return i ? [[point[0], y.at(measure(members[i - 1]))], point] : [point];
    });
    const stroke = quality === "total" ? "#8b949e" : colour(members[0]);
    path(svg, steps, { stroke, "stroke-width": 1.5, opacity: 0.75 });
  }
  for (const row of shown) mark(svg, row, x(row.area), y.at(measure(row)));
  const points = (best.length ? best : shown).map((row) => [x(row.area), y.at(measure(row)), row.name]);
  labels(svg, points, WIDTH);
  return svg;
}

function delay_chart(rows) {
  const timed = rows.some((row) => known(row.delay_ps));
  const delay = (row) => (timed ? row.delay_ps : row.depth);
  const shown = rows.filter((row) => row.area && delay(row));
  if (!shown.length) return empty("Needs a flow that tells depth or delay.");
  const low = Math.min(...shown.map(delay)), high = Math.max(...shown.map(delay));
  const room = (high - low || high) * 0.08;
  const x = linear(Math.max(0, low - room), high + room, MARGIN.left, RIGHT);
  const y = area_scale(shown.map((row) => row.area), BOTTOM, MARGIN.top);
  const svg = frame(WIDTH, HEIGHT, MARGIN,
    { scale: x, label: timed ? "longest path (ps)" : "longest path (gates)" },
    { scale: y, label: `area (${shown[0].area_unit})` });
  for (const members of groups(shown, (row) => `${row.format} ${row.name} ${row.lanes}`)) {
    members.sort((a, b) => delay(a) - delay(b));
    path(svg, members.map((row) => [x(delay(row)), y(row.area)]),
      { stroke: colour(members[0]), opacity: 0.6 });
  }
  for (const row of shown) mark(svg, row, x(delay(row)), y(row.area));
  labels(svg, shown.map((row) => [x(delay(row)), y(row.area), row.name]), WIDTH);
  return svg;
}

function bits_chart(rows) {
  const bits = (row) => {
    const found = /^(?:aligned|fused):(\d+)$/.exec(row.accumulator ?? "");
    return found ? Number(found[1]) : null;
  };
  const shown = rows.filter((row) => bits(row) !== null && known(own(row)));
  if (!shown.length) return empty("Needs aligned or fused accumulators, and data.");
  const all = shown.map(bits);
  const x = counting(Math.min(...all), Math.max(...all), MARGIN.left, RIGHT);
  const limits = groups(shown, (row) => row.format).map(([row]) => [row, value(row.sqnr_format_db)]);
  const y = decibel_scale([...shown.map(own), ...limits.map(([, limit]) => limit)].filter(known));
  const svg = frame(WIDTH, HEIGHT, MARGIN,
    { scale: x, label: "fraction bits F" },
    { scale: y.scale, label: "SQNR, accumulator (dB)" });
  exact_line(svg, y.exact);
  slope(svg, shown, bits, x, y);
  const finite = limits.filter(([, limit]) => Number.isFinite(limit));
  for (const [row, limit] of finite) {
    path(svg, [[MARGIN.left, y.at(limit)], [RIGHT, y.at(limit)]],
      { stroke: colour(row), "stroke-dasharray": "2 4" });
  }
  end_labels(svg, finite.map(([row, limit]) => [RIGHT - 92, y.at(limit) - 8, `${row.format}'s own error`, colour(row)]));
  for (const members of groups(shown, (row) => `${row.format} ${row.family} ${variant(row)}`)) {
    members.sort((a, b) => bits(a) - bits(b));
    const dashed = members[0].family === "fused" ? { "stroke-dasharray": "6 4" } : {};
    path(svg, members.map((row) => [x(bits(row)), y.at(own(row))]),
      { stroke: colour(members[0]), "stroke-width": 1.5, ...dashed });
  }
  for (const row of shown) mark(svg, row, x(bits(row)), y.at(own(row)));
  return svg;
}

/** A grey line of 6.02 dB per bit below the points. */
function slope(svg, rows, bits, x, y) {
  const finite = rows.filter((row) => Number.isFinite(own(row)));
  if (finite.length < 2) return;
  const first = Math.min(...finite.map(bits)), last = Math.max(...finite.map(bits));
  const offset = Math.min(...finite.map((row) => own(row) - bits(row) * 6.0206)) - 4;
  const line = [first, last].map((b) => [b, b * 6.0206 + offset]).filter(([, db]) => db > 0);
  path(svg, line.map(([b, db]) => [x(b), y.scale(db)]), { stroke: "#b6bec7", "stroke-dasharray": "6 4" });
}

function length_chart(rows) {
  const shown = groups(rows.filter((row) => row.lengths.length > 1),
    (row) => `${row.format} ${row.name} ${row.lanes}`).map(([row]) => row);
  if (!shown.length) return empty("Needs dot products of several lengths.");
  const points = (row) => row.lengths.map((a) => [a.length, value(a.sqnr_accumulator_db)]);
  const lengths = shown.flatMap((row) => points(row).map(([length]) => length));
  const x = logarithmic(Math.min(...lengths), Math.max(...lengths), MARGIN.left + 10, RIGHT - 84);
  const y = decibel_scale(shown.flatMap((row) => points(row).map(([, db]) => db)));
  const svg = frame(WIDTH, HEIGHT, MARGIN, { scale: x, label: "length of the dot product" },
    { scale: y.scale, label: "SQNR, accumulator (dB)" });
  exact_line(svg, y.exact);
  const ends = [];
  for (const row of shown) {
    const at = points(row).map(([length, db]) => [x(length), y.at(db)]);
    path(svg, at, { stroke: colour(row), "stroke-width": 1.2, opacity: 0.8 });
    for (const [px, py] of at) mark(svg, row, px, py);
    ends.push([...at.at(-1), row.name, colour(row)]);
  }
  end_labels(svg, ends);
  return svg;
}

function sections_chart(rows) {
  const shown = rows.filter((row) => Object.keys(row.areas).length);
  if (!shown.length) return empty("Needs synthesis that keeps the sections apart.");
  shown.sort((a, b) => a.area - b.area);
  const sum = (row) => Object.values(row.areas).reduce((a, b) => a + b, 0);
  const bar = 20, width = 1200, top = 34;
  const height = top + bar * shown.length + 46;
  const margin = { left: 230, right: 60, top, bottom: 46 };
  const x = linear(0, Math.max(...shown.map(sum)) * 1.02, margin.left, width - margin.right);
  const nothing = Object.assign(() => 0, { ticks: () => [] });
  const svg = frame(width, height, margin, { scale: x, label: `area (${shown[0].area_unit})`, count: 10 },
    { scale: nothing, label: "" });
  const used = Object.entries(DATA.sections).filter(([name]) => shown.some((row) => row.areas[name]));
  let left = margin.left;
  for (const [name, fill] of used) {
    svg.append(shape("rect", { x: left, y: 6, width: 12, height: 12, rx: 2, fill }));
    svg.append(shape("text", { x: left + 17, y: 16 }, name));
    left += 34 + name.length * 6.6;
  }
  const several = new Set(shown.map(variant)).size > 1;
  shown.forEach((row, i) => {
    const group = shape("g", { class: "bar", tabindex: 0, role: "button", "aria-label": row.unit });
    const y = top + i * bar + 3;
    let at = 0;
    for (const [name, fill] of used) {
      const area = row.areas[name] ?? 0;
      if (!area) continue;
      const rect = { x: x(at), y, width: x(at + area) - x(at), height: bar - 5, fill };
      const node = shape("rect", rect);
      node.append(shape("title", {}, `${name}: ${whole(area)} (${Math.round((100 * area) / sum(row))}%)`));
      group.append(node);
      at += area;
    }
    const name = [row.format, row.name, several && known(row.lanes) && `x${row.lanes} s${row.stages}`, several && row.target].filter(Boolean).join(" ");
    group.append(shape("text", { x: margin.left - 8, y: y + 12, "text-anchor": "end" }, name));
    group.append(shape("text", { x: x(at) + 6, y: y + 12 }, whole(row.area)));
    attach(group, row);
    svg.append(group);
  });
  return svg;
}

/** Matrix units: what they compute in a cycle against what they compute for each byte. */
function roofline_chart() {
  const { units, bandwidths, shapes } = DATA.roofline;
  const shown = units.filter((unit) => !STATE.hidden.has(unit.format));
  if (!shown.length) return empty("Needs units of float results.");
  const width = 1200, margin = { left: 76, right: 250, top: 14, bottom: 46 };
  const right = width - margin.right;
  const all = shown.flatMap((unit) => unit.jobs.map((job) => job.intensity));
  const low = Math.min(...all) / 3, high = Math.max(...all) * 3;
  const top = Math.max(...shown.map((unit) => unit.peak));
  const bottom = Math.min(...bandwidths) * low;
  const x = logarithmic(low, high, margin.left, right);
  const y = logarithmic(bottom, top * 1.6, BOTTOM, margin.top);
  const svg = frame(width, HEIGHT, margin, { scale: x, label: "products / byte of all streams" },
    { scale: y, label: "products / cycle" });
  const roof = (bytes, peak) => {
    const knee = Math.min(Math.max(peak / bytes, low), high);
    return [low, knee, high].map((at) => [x(at), y(Math.min(peak, bytes * at))]);
  };
  const ends = [];
  for (const bytes of bandwidths) {
    const points = roof(bytes, top);
    path(svg, points, { stroke: "#8b949e", "stroke-dasharray": "2 4" });
    svg.append(shape("text", { x: points[0][0] + 4, y: points[0][1] - 6 }, `${bytes} bytes/cycle`));
  }
  const symbols = Object.values(SYMBOLS);
  for (const unit of shown) {
    const fill = colour(unit);
    path(svg, roof(unit.width, unit.peak), { stroke: fill, "stroke-width": 1.5 });
    ends.push([right, y(Math.min(unit.peak, unit.width * high)),
      `${unit.name}, ${unit.width} bytes/cycle`, fill]);
    unit.jobs.forEach((job, i) => {
      for (const bytes of [...bandwidths, unit.width]) {
        const products = Math.min(unit.peak * job.filled, bytes * job.intensity);
        const node = shape("path", { d: symbols[i % symbols.length], fill,
          transform: `translate(${x(job.intensity)} ${y(products)})` });
        node.append(shape("title", {}, `${unit.name}, ${shapes[i]}, ${bytes} bytes/cycle: `
          + `${whole(products)} products/cycle`));
        svg.append(node);
      }
    });
  }
  end_labels(svg, ends);
  shapes.forEach((name, i) => {
    const at = HEIGHT - margin.bottom - 18 * (shapes.length - i);
    svg.append(shape("path", { d: symbols[i % symbols.length], fill: "#57606a",
      transform: `translate(${right + 20} ${at - 4})` }));
    svg.append(shape("text", { x: right + 32, y: at }, name));
  });
  return svg;
}
