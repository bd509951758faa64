"use strict";
// Pictures: the Vega-Lite descriptions of DATA, each panel as wide as there is room.

/** Bindings of what is on the page, to be let go when it is drawn again. */
const VIEWS = [];

const hidden = (value) => STATE.hidden.has(value.format) || STATE.hidden.has(value.family);

/** A panel without the values that are hidden; null when nothing is left of it. */
function reduced(panel) {
  if (panel.usermeta && hidden(panel.usermeta)) return null;
  const layer = panel.layer.map((one) => (
    { ...one, data: { values: one.data.values.filter((value) => !hidden(value)) } }));
  const marks = (layers) => layers.filter((one) => one.encoding.color)
    .reduce((sum, one) => sum + one.data.values.length, 0);
  if (marks(panel.layer) && !marks(layer)) return null;
  return { ...panel, layer: layer.filter((one) => one.data.values.length) };
}

/** The same panel as a part of the page: without its title, as wide as its place. */
function placed({ title, ...panel }, height) {
  return {
    ...panel, height, width: "container", autosize: { type: "fit-x", contains: "padding" },
    config: { ...DATA.themes[theme()], background: null },
  };
}

async function put(place, panel, height) {
  const options = { actions: false, renderer: "svg", ast: true, tooltip: false };
  const bound = await vegaEmbed(place, placed(panel, height), options);
  VIEWS.push(bound);
  const row_of = (item) => item?.datum?.unit
    && DATA.rows.find((row) => row.identity === item.datum.unit
      && (row.data === STATE.data || row.data === null));
  const say = (event, item) => {
    const row = row_of(item);
    if (row) hover(row, event.clientX, event.clientY, item.datum.text);
    else leave();
  };
  bound.view.addEventListener("mousemove", say);
  bound.view.addEventListener("mouseout", leave);
  bound.view.addEventListener("click", (event, item) => { if (row_of(item)) select(row_of(item)); });
}

function symbol(d, fill) {
  const picture = shape("svg", { viewBox: "-1.3 -1.3 2.6 2.6", "aria-hidden": "true" });
  picture.append(shape("path", { d, fill }));
  return picture;
}

function legend(entries) {
  return element("p", { class: "legend" }, ...entries.map((entry) =>
    element("span", {}, symbol(entry.shape, entry.colour), entry.label)));
}

/** Drawing again while a drawing is under way replaces it. */
let drawing = 0;

async function draw_pictures() {
  const mine = ++drawing;
  VIEWS.splice(0).forEach((bound) => bound.finalize());
  const here = DATA.pictures.filter((p) => [STATE.flow, null].includes(p.flow)
    && [STATE.data, null].includes(p.data));
  const todo = [];
  const figures = here.map((picture) => {
    const panels = element("div", { class: "panels", style: `--columns: ${picture.columns}` });
    picture.panels.forEach((panel, i) => {
      const less = reduced(panel);
      if (!less) return;
      const place = element("div", { class: "view", role: "img",
        "aria-label": `${picture.title}, ${panel.title}` });
      panels.append(element("div", { class: "panel" }, element("h3", {}, panel.title), place));
      todo.push([place, less, picture.heights[i]]);
    });
    if (!panels.children.length) return null;
    return element("figure", {}, element("h2", {}, picture.title), panels, legend(picture.legend),
      element("figcaption", {}, picture.caption));
  });
  document.getElementById("pictures").replaceChildren(...figures.filter(Boolean));
  for (const [place, panel, height] of todo) {
    if (mine !== drawing) return;
    await put(place, panel, height);
  }
  document.documentElement.dataset.drawn = drawing;
}
