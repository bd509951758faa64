"use strict";
// The table of all units, sortable.

const STAR = { front: "★", near: "≈" };

/** A row with an area that met its target. */
const met = (row) => row.area && row.status === "ok";

function columns(rows) {
  const unit = rows.find((row) => row.area_unit)?.area_unit ?? "";
  const smallest = Math.min(...rows.filter(met).map((row) => row.area));
  const all = [
    { name: "all", text: true, of: (r) => r.pareto_total ?? "", show: (x) => STAR[x] ?? "",
      title: "Pareto-optimal in area and SQNR with format, among all formats" },
    { name: "fmt", text: true, of: (r) => r.pareto_format ?? "", show: (x) => STAR[x] ?? "",
      title: "Pareto-optimal in area and SQNR of the accumulator, within the format" },
    { name: "format", text: true, main: true, of: (r) => r.format ?? "", key: true },
    { name: "accumulator", text: true, main: true, of: (r) => r.name },
    { name: "lanes", of: (r) => r.lanes, show: whole },
    { name: "stages", main: true, of: (r) => r.stages, show: whole },
    { name: "target", of: (r) => r.target },
    { name: `area (${unit})`, main: true, of: (r) => r.area, show: whole },
    { name: "NAND2", of: (r) => (r.area_unit === "NAND2" ? null : r.area_nand2), show: whole },
    { name: "× smallest", of: (r) => (met(r) ? r.area / smallest : null), show: (x) => x.toFixed(2) },
    { name: "flip-flops", of: (r) => r.flipflops, show: whole },
    { name: "carry", of: (r) => r.carry, show: whole },
    { name: "DSP", of: (r) => r.dsp, show: whole },
    { name: "depth", of: (r) => r.depth, show: whole },
    { name: "delay (ps)", of: (r) => r.delay_ps, show: whole },
    { name: "Fmax (MHz)", of: (r) => r.fmax_mhz, show: whole },
    { name: "energy proxy", of: (r) => r.energy, show: whole,
      title: "What one product of two elements switches: NAND2 equivalents of area, or fJ" },
    { name: "SQNR, accumulator", of: (r) => value(r.sqnr_accumulator_db), show: decibels },
    { name: "SQNR, with format", main: true, of: (r) => value(r.sqnr_total_db), show: decibels },
    { name: "bias", of: (r) => r.bias, show: (x) => x.toExponential(1) },
    { name: "exact", of: (r) => r.exact_fraction, show: (x) => `${Math.round(100 * x)}%` },
    { name: "encoder", of: (r) => r.encoder_mean, show: similarity,
      title: "Mean cosine similarity of sentences' embeddings to float32's, format and accumulator" },
    { name: "encoder, least", of: (r) => r.encoder_min, show: similarity,
      title: "The smallest of these similarities" },
    { name: "encoder, format", of: (r) => r.encoder_format_mean, show: similarity,
      title: "Their mean with the format's own error only" },
    { name: "error / bound", of: (r) => r.bound_ratio, show: (x) => x.toPrecision(2) },
    { name: "saturated", of: (r) => r.saturated || null, show: whole },
    { name: "status", text: true, of: (r) => (r.status === "ok" ? "" : r.status) },
  ];
  return all.filter((c) => rows.some((r) => known(c.of(r)) && c.of(r) !== ""));
}

/** Unknown values last, whichever way the others run. */
function compare_values(a, b, descending) {
  const [no_a, no_b] = [!known(a) || a === "", !known(b) || b === ""];
  if (no_a || no_b) return no_a - no_b;
  const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a === b ? 0 : a - b;
  return descending ? -order : order;
}

/** Text stands to the left; what is no key is left out of a narrow page. */
const style = (c) => [c.text && "text", !c.main && "rest"].filter(Boolean).join(" ") || false;

function draw_table(rows) {
  const shown = columns(rows);
  const by = shown.find((c) => c.name === STATE.sort) ?? shown.find((c) => c.name.startsWith("area")) ?? shown[0];
  if (!by) return document.getElementById("table").replaceChildren();
  const ordered = [...rows].sort((a, b) => compare_values(by.of(a), by.of(b), STATE.descending));
  const sort = (column) => {
    STATE.descending = by === column ? !STATE.descending : false;
    STATE.sort = column.name;
    draw_table(rows);
  };
  const head = shown.map((c) => element("th", {
    class: style(c), scope: "col", title: c.title, tabindex: 0,
    "aria-sort": c === by ? (STATE.descending ? "descending" : "ascending") : false,
    onclick: () => sort(c),
    onkeydown: (event) => event.key === "Enter" && sort(c),
  }, c.name));
  const body = ordered.map((row) => {
    const best = row.pareto_total === "front";
    const cells = shown.map((c) => {
      const x = c.of(row);
      const text = known(x) ? (c.show ?? String)(x) : "";
      const key = c.key && text && element("span", { class: "key", style: `background:${colour(row)}` });
      return element("td", { class: style(c) }, key || null, text);
    });
    const line = element("tr", { class: row.status !== "ok" ? "failed" : best && "best" }, ...cells);
    attach(line, row);
    return line;
  });
  document.getElementById("table").replaceChildren(
    element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
}
