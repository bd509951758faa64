"use strict";
// Numbers, scales and SVG elements.

const SVG = "http://www.w3.org/2000/svg";

/** A number of the data: null, a number, or the text "inf". */
const value = (x) => (x === "inf" ? Infinity : x);
const known = (x) => x !== null && x !== undefined;
const whole = (x) => Math.round(x).toLocaleString("en-US");
const decibels = (x) => (!known(x) ? "" : x === Infinity ? "exact" : x.toFixed(1));

const similarity = (x) => x.toFixed(4);

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, content] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), content);
    else if (content !== false && known(content)) node.setAttribute(key, content);
  }
  node.append(...children.filter(known));
  return node;
}

function shape(name, attributes = {}, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, content] of Object.entries(attributes)) node.setAttribute(key, content);
  if (text !== undefined) node.textContent = text;
  return node;
}

/** Round steps for about `count` ticks in [low, high]. */
function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  return multiples(step, low, high);
}

function multiples(step, low, high) {
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step + 0);
  return found;
}

/** A scale of small integers. */
function counting(low, high, start, end) {
  const scale = linear(low - 0.5, high + 0.5, start, end);
  return Object.assign(scale, { ticks: () => multiples(Math.ceil((high - low + 1) / 14), low, high) });
}

function linear(low, high, start, end) {
  const span = high - low || 1;
  const scale = (x) => start + ((x - low) / span) * (end - start);
  return Object.assign(scale, { ticks: (count) => ticks(low, high, count) });
}

/** Powers of two, for lengths; also areas that differ by far. */
function logarithmic(low, high, start, end, base = 2) {
  const [a, b] = [Math.log(low), Math.log(high)];
  const scale = (x) => start + ((Math.log(x) - a) / (b - a || 1)) * (end - start);
  const powers = () => {
    const found = [];
    const [first, last] = [Math.ceil(a / Math.log(base) - 1e-9), b / Math.log(base) + 1e-9];
    const step = Math.max(1, Math.ceil((last - first) / 9));
    for (let i = first; i <= last; i += step) found.push(base ** i);
    return found;
  };
  return Object.assign(scale, { ticks: powers });
}

/** A scale from zero, or a logarithmic one where values differ by more than 20 times. */
function area_scale(values, start, end) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (high / low > 20) return logarithmic(low / 1.3, high * 1.3, start, end);
  return linear(0, high * 1.06, start, end);
}

/** Where an infinite SQNR stands: above all others. */
function ceiling(values) {
  const finite = values.filter((x) => Number.isFinite(x));
  return Math.max(...(finite.length ? finite : [100])) * 1.06 + 4;
}

/** An SVG with axes. `x` and `y`: {scale, label, format, count}. */
function frame(width, height, margin, x, y) {
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const [left, right] = [margin.left, width - margin.right];
  const [top, bottom] = [margin.top, height - margin.bottom];
  for (const at of y.scale.ticks(y.count ?? 6)) {
    const position = y.scale(at);
    svg.append(shape("line", { class: "grid", x1: left, x2: right, y1: position, y2: position }));
    svg.append(shape("text", { x: left - 7, y: position + 4, "text-anchor": "end" },
      (y.format ?? whole)(at)));
  }
  for (const at of x.scale.ticks(x.count ?? 6)) {
    const position = x.scale(at);
    svg.append(shape("line", { class: "grid", x1: position, x2: position, y1: top, y2: bottom }));
    svg.append(shape("text", { x: position, y: bottom + 17, "text-anchor": "middle" },
      (x.format ?? whole)(at)));
  }
  svg.append(shape("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  svg.append(shape("text", { class: "title", x: (left + right) / 2, y: bottom + 36,
    "text-anchor": "middle" }, x.label));
  svg.append(shape("text", { class: "title", "text-anchor": "middle",
    transform: `translate(${margin.left - 60} ${(top + bottom) / 2}) rotate(-90)` }, y.label));
  return svg;
}
