"use strict";
// The page: what is shown, and drawing it again when that changes.

const DATA = JSON.parse(document.getElementById("data").textContent);
const distinct = (key) => [...new Set(DATA.rows.map((row) => row[key]))];
const STATE = {
  flow: distinct("flow")[0],
  data: distinct("data").find(known) ?? null,
  quality: "own",
  hidden: new Set(),
  sort: "",
  descending: false,
};

/** A flow by name, and what is behind a process. */
function flow_title(flow) {
  const process = DATA.processes[flow?.split(" ")[0]];
  return process ? `${flow} (${process})` : flow ?? "no synthesis";
}

/** The rows of the chosen flow and data; a unit without accuracy is there on all data. */
function shown_rows() {
  return DATA.rows.filter((row) => row.flow === STATE.flow
    && (row.data === STATE.data || row.data === null)
    && !STATE.hidden.has(row.format ?? "other") && !STATE.hidden.has(row.family));
}

function draw() {
  const rows = shown_rows();
  const put = (name, chart) => document.getElementById(`plot-${name}`).replaceChildren(chart);
  const good = rows.filter((row) => row.status !== "failed");
  put("front", front_chart(good, STATE.quality));
  put("delay", delay_chart(good));
  put("bits", bits_chart(good));
  put("length", length_chart(good));
  put("sections", sections_chart(good));
  put("roofline", roofline_chart());
  draw_answers(rows);
  draw_table(rows);
  captions(rows);
}

function captions(rows) {
  const timed = rows.some((row) => known(row.delay_ps));
  const text = (name, content) => { document.getElementById(name).textContent = content; };
  text("caption-front", STATE.quality === "total"
    ? "Lines: the Pareto front of all units with equal lanes and stages."
    : "Lines: the Pareto front of each format, of units with equal lanes and stages.");
  text("caption-delay", (timed ? "" : "Depth ranks units; it does not predict time. ")
    + "Lines join the same unit at other pipeline depths or delay targets.");
  const length = rows.find((row) => known(row.length))?.length;
  text("shown", [flow_title(STATE.flow), STATE.data && `${STATE.data} data`,
    length && `dot products of ${length}`].filter(Boolean).join("; "));
}

function choice(name, key, options, texts = (x) => x) {
  if (options.length < 2) return null;
  const list = element("select", { id: `choose-${key}`, onchange: (event) => {
    STATE[key] = options[event.target.selectedIndex];
    draw();
  } }, ...options.map((option) => element("option", {}, texts(option))));
  list.selectedIndex = options.indexOf(STATE[key]);
  return element("label", {}, name, list);
}

/** Buttons that hide and show; they are the legend too. */
function toggles(name, entries) {
  if (entries.length < 2) return null;
  return element("span", { class: "group" }, name, ...entries.map(([key, picture]) => {
    const button = element("button", { "aria-pressed": "true", onclick: () => {
      const hide = !STATE.hidden.has(key);
      STATE.hidden[hide ? "add" : "delete"](key);
      button.setAttribute("aria-pressed", String(!hide));
      draw();
    } }, picture, key);
    return button;
  }));
}

function controls() {
  const formats = distinct("format").map((f) => [f ?? "other",
    element("span", { class: "key", style: `background:${DATA.formats[f] ?? DATA.other}` })]);
  const families = Object.keys(SYMBOLS).filter((f) => distinct("family").includes(f)).map((f) => {
    const picture = shape("svg", { viewBox: "-8 -8 16 16" });
    picture.append(shape("path", { d: SYMBOLS[f], fill: "#57606a" }));
    return [f, picture];
  });
  const qualities = { own: "of the accumulator", total: "with the format" };
  document.getElementById("controls").append(...[
    choice("Process", "flow", distinct("flow"), flow_title),
    choice("Data", "data", distinct("data").filter(known)),
    choice("SQNR", "quality", Object.keys(qualities), (q) => qualities[q]),
    toggles("Formats", formats),
    toggles("Accumulators", families),
  ].filter(Boolean));
}

function texts() {
  const units = distinct("unit").length;
  document.getElementById("about").textContent =
    `${units} units; ${DATA.made_by}; ${DATA.date}.`;
  document.getElementById("footer").textContent =
    `Made by ${DATA.made_by}; results of ${DATA.date}.`;
  document.getElementById("notes").append(...DATA.notes.map((note) => element("li", {}, note)));
  const failed = new Map(DATA.rows.filter((row) => row.status !== "ok")
    .map((row) => [`${row.unit}, ${row.flow}: ${row.status}${row.error ? `, ${row.error}` : ""}`, row]));
  document.getElementById("failures").hidden = !failed.size;
  document.getElementById("failure-list").append(...[...failed.keys()].map((text) => element("li", {}, text)));
}

controls();
texts();
draw();
