"use strict";
// Marks of units: symbols, labels, hovering, and the details of one unit.

const SYMBOLS = {
  exact: "M0-6L6 0L0 6L-6 0Z",
  int32: "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
  aligned: "M0-5A5 5 0 1 1 0 5A5 5 0 1 1 0-5Z",
  fused: "M-4.6-4.6H4.6V4.6H-4.6Z",
  fixed: "M0-5.8L5.6 4.4H-5.6Z",
  float32: "M0 5.8L5.6-4.4H-5.6Z",
  preset: "M0-7L1.8-2.2L6.7-2.2L2.7.9L4.1 5.7L0 2.9L-4.1 5.7L-2.7.9L-6.7-2.2L-1.8-2.2Z",
  other: "M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
};

const identity = (row) => `${row.flow}|${row.target}|${row.unit}`;
const variant = (row) => `${row.lanes} lanes, ${row.stages} stages${row.target ? `, ${row.target}` : ""}`;
const colour = (row) => DATA.formats[row.format] ?? DATA.other;

/** A symbol at (x, y) that shows its row when hovered, focused or clicked. */
function mark(svg, row, x, y) {
  const node = shape("path", {
    class: "mark", d: SYMBOLS[row.family], fill: colour(row), transform: `translate(${x} ${y})`,
    tabindex: 0, role: "button", "aria-label": `${row.format ?? ""} ${row.name}`,
  });
  attach(node, row);
  svg.append(node);
  return node;
}

function attach(node, row) {
  node.dataset.unit = identity(row);
  node.addEventListener("mousemove", (event) => hover(row, event.clientX, event.clientY));
  node.addEventListener("mouseleave", leave);
  node.addEventListener("focus", () => {
    const box = node.getBoundingClientRect();
    hover(row, box.right, box.bottom);
  });
  node.addEventListener("blur", leave);
  node.addEventListener("click", () => select(row));
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); select(row); }
  });
}

function highlight(unit) {
  for (const node of document.querySelectorAll("[data-unit]")) {
    node.classList.toggle("hot", node.dataset.unit === unit);
  }
}

function hover(row, x, y) {
  const tip = document.getElementById("tip");
  if (tip.dataset.unit !== identity(row) || tip.hidden) {
    tip.dataset.unit = identity(row);
    tip.replaceChildren(...description(row), element("code", {}, row.command ?? ""));
    highlight(identity(row));
  }
  tip.hidden = false;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = `${Math.max(8, x + 16 + width > innerWidth ? x - width - 16 : x + 16)}px`;
  tip.style.top = `${Math.max(8, Math.min(y + 16, innerHeight - height - 8))}px`;
}

function leave() {
  document.getElementById("tip").hidden = true;
  highlight(document.getElementById("details").dataset.unit);
}

/** Name and numbers of a row. */
function description(row) {
  const lines = [
    ["synthesis", row.flow && [row.flow, row.target && `within ${row.target}`].filter(Boolean).join(" ")],
    ["area", known(row.area) && `${whole(row.area)} ${row.area_unit}`],
    ["flip-flops", known(row.flipflops) && whole(row.flipflops)],
    ["carry, DSP", known(row.dsp) && `${row.carry}, ${row.dsp}`],
    ["depth", known(row.depth) && `${whole(row.depth)} gates`],
    ["longest path", known(row.delay_ps) && `${whole(row.delay_ps)} ps`],
    ["energy proxy", known(row.energy) && `${whole(row.energy)} ${row.energy_unit} a product`],
    ["clock", known(row.fmax_mhz) && `${whole(row.fmax_mhz)} MHz`],
    ["latency, interval", known(row.latency) && `${row.latency}, ${row.interval} cycles`],
    [`SQNR at ${row.length}, ${row.data}`, known(row.sqnr_total_db) &&
      `${decibels(value(row.sqnr_accumulator_db))} dB, with format ` +
      `${decibels(value(row.sqnr_total_db))} dB`],
    [`encoder, sentences: ${row.encoder_sentences}`, known(row.encoder_mean) &&
      `${similarity(row.encoder_mean)}, least ${similarity(row.encoder_min)}, ` +
      `format alone ${similarity(row.encoder_format_mean)}`],
    ["largest error / bound", known(row.bound_ratio) && row.bound_ratio.toPrecision(2)],
    ["exact results", known(row.exact_fraction) && `${(100 * row.exact_fraction).toFixed(0)}%`],
    ["saturated", row.saturated ? `${row.saturated} of ${row.count}` : false],
    ["status", row.status !== "ok" && `${row.status}: ${row.error ?? ""}`],
  ];
  const table = element("table");
  for (const [name, text] of lines) {
    if (text) table.append(element("tr", {}, element("td", {}, name), element("td", { class: "text" }, text)));
  }
  return [element("b", {}, row.unit), table];
}

function select(row) {
  const details = document.getElementById("details");
  details.dataset.unit = identity(row);
  const close = element("button", { onclick: () => {
    details.hidden = true;
    delete details.dataset.unit;
    highlight(undefined);
  }, "aria-label": "close" }, "×");
  const [name, table] = description(row);
  details.replaceChildren(element("div", { class: "bar" }, name, close), table,
    ...command("Measure it again", row.command), ...command("Write its Verilog", row.verilog));
  details.hidden = false;
  document.getElementById("tip").hidden = true;
  highlight(identity(row));
}

function command(title, text) {
  if (!text) return [];
  const copy = element("button", { onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code); // a page without clipboard access
      copy.textContent = "selected";
    }
  } }, "copy");
  const code = element("code", {}, text);
  return [element("div", { class: "bar" }, title, copy), code];
}

/** Labels beside points [x, y, text]; one that would cover another is left out. */
function labels(svg, points, right) {
  const taken = points.map(([x, y]) => [x - 6, y - 6, x + 6, y + 6]);
  const free = (box) => taken.every((t) => box[2] < t[0] || box[0] > t[2] || box[3] < t[1] || box[1] > t[3]);
  for (const [x, y, text] of points) {
    const width = text.length * 6.1;
    const places = [[x + 9, y - 6], [x + 9, y + 14], [x - width - 9, y - 6], [x - width - 9, y + 14],
      [x - width / 2, y - 11], [x - width / 2, y + 20]];
    for (const [left, base] of places) {
      const box = [left, base - 10, left + width, base + 2];
      if (box[0] >= MARGIN.left && box[2] <= right && free(box)) {
        taken.push(box);
        svg.append(shape("text", { class: "label", x: left, y: base }, text));
        break;
      }
    }
  }
}

/** Labels [x, y, text, colour] to the right of where lines end, pushed apart; those without room are left out. */
function end_labels(svg, ends) {
  const step = 11.5;
  const named = new Map(ends.map((end) => [`${end[2]} ${end[3]}`, end]));
  const sorted = [...named.values()].sort((a, b) => a[1] - b[1]);
  const places = sorted.map(([, y]) => y);
  for (let round = 0; round < 60; round++) {
    for (let i = 1; i < places.length; i++) {
      const close = step - (places[i] - places[i - 1]);
      if (close > 0) { places[i] += close / 2; places[i - 1] -= close / 2; }
    }
  }
  sorted.forEach(([x, y, text, fill], i) => {
    if (Math.abs(places[i] - y) > 6 * step) return;
    svg.append(shape("text", { class: "label", x: x + 10, y: places[i] + 4,
      style: `fill:${fill}` }, text));
  });
}
