"use strict";
// The page: what is shown, its theme, and drawing it again when either changes.

const DATA = JSON.parse(document.getElementById("data").textContent);
const distinct = (key) => [...new Set(DATA.rows.map((row) => row[key]))];
const STATE = {
  flow: distinct("flow")[0],
  data: distinct("data").find(known) ?? null,
  hidden: new Set(),
  sort: "",
  descending: false,
};

/** A flow by name, and what is behind a process. */
function flow_title(flow) {
  const process = DATA.processes[flow?.split(" ")[0]];
  return process ? `${flow} (${process})` : flow ?? "no synthesis";
}

/** A flow by name, with the node of a process. */
function node_of(flow) {
  const process = DATA.processes[flow?.split(" ")[0]];
  return process ? `${flow} (${process.split(":")[0]})` : flow ?? "no synthesis";
}

/** The rows of the chosen flow and data; a unit without accuracy is there on all data. */
function shown_rows() {
  return DATA.rows.filter((row) => row.flow === STATE.flow
    && (row.data === STATE.data || row.data === null)
    && !hidden({ format: row.format ?? "other", family: row.family }));
}

function draw() {
  const rows = shown_rows();
  draw_answers();
  draw_table(rows);
  draw_pictures();
  const length = rows.find((row) => known(row.length))?.length;
  document.getElementById("shown").textContent = [flow_title(STATE.flow),
    STATE.data && `${STATE.data} data`, length && `dot products of ${length}`]
    .filter(Boolean).join("; ");
}

const THEMES = { auto: "theme: as the system", light: "theme: light", dark: "theme: dark" };
const WISH = matchMedia("(prefers-color-scheme: dark)");

/** `light` or `dark`: the switch's, or else the system's. */
function theme() {
  return document.documentElement.dataset.theme ?? (WISH.matches ? "dark" : "light");
}

function theme_switch() {
  const names = Object.keys(THEMES);
  const button = element("button", { id: "theme", onclick: () => {
    const next = names[(names.indexOf(button.dataset.now) + 1) % names.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    button.dataset.now = next;
    button.textContent = THEMES[next];
    draw_pictures();
  }, "data-now": "auto" }, THEMES.auto);
  WISH.addEventListener("change", draw_pictures);
  return button;
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

/** Buttons that hide and show; they are a legend too. */
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
  const families = Object.keys(DATA.symbols).filter((f) => distinct("family").includes(f))
    .map((f) => [f, symbol(DATA.symbols[f], DATA.other)]);
  document.getElementById("controls").append(...[
    choice("Process", "flow", distinct("flow"), flow_title),
    choice("Data", "data", distinct("data").filter(known)),
    toggles("Formats", formats),
    toggles("Accumulators", families),
    theme_switch(),
  ].filter(Boolean));
}

function texts() {
  const units = distinct("unit").length;
  document.getElementById("about").textContent = `${units} units; ${DATA.made_by}; ${DATA.date}.`;
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
