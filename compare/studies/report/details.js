"use strict";
// What a mark or a line of a table tells of its unit: hovering, and the details of one unit.

const identity = (row) => row.identity;
const variant = (row) => [`${row.lanes} lanes`, known(row.stages) && `${row.stages} stages`, row.target]
  .filter(Boolean).join(", ");
const colour = (row) => DATA.formats[row.format] ?? DATA.other;

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

/** `part`: what of a unit the mark is, as a section. */
function hover(row, x, y, part) {
  const tip = document.getElementById("tip");
  if (tip.dataset.unit !== identity(row) || tip.dataset.part !== part || tip.hidden) {
    tip.dataset.unit = identity(row);
    tip.dataset.part = part;
    tip.replaceChildren(...description(row, part), element("code", {}, row.command ?? ""));
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
function description(row, part) {
  const lines = [
    [part, known(row.areas[part]) && `${whole(row.areas[part])} ${row.area_unit}`],
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
    ...command("Measure it again", row.command), ...command("Write its Verilog", row.verilog),
    ...command("Synthesise dot.v the same way", row.synthesis));
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
