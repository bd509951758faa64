"use strict";
// What to build: a card for each format.

const KEY = "no visible loss";

function draw_answers() {
  const here = DATA.answers.filter((a) => a.flow === STATE.flow && a.data === STATE.data
    && !STATE.hidden.has(a.format));
  document.getElementById("answers").hidden = !here.length;
  const rows = new Map(DATA.rows.filter((r) => r.flow === STATE.flow && r.data === STATE.data)
    .map((r) => [identity(r), r]));
  const find = (answer, wish) => answer.units[wish] && rows.get(answer.identities[wish]);
  document.getElementById("answer-cards").replaceChildren(...here.map((answer) => {
    const best = find(answer, KEY);
    const reference = find(answer, "exact")?.area;
    const size = (row, with_unit = true) => {
      const ratio = reference ? `, ${(row.area / reference).toFixed(2)} × exact` : "";
      return `${whole(row.area)}${with_unit ? ` ${row.area_unit}` : ""}${ratio}`;
    };
    const head = element("h3", {},
      element("span", { class: "key", style: `background:${DATA.formats[answer.format]}` }),
      answer.format);
    const unit = best?.area_unit ?? find(answer, "smallest")?.area_unit;
    const about = element("p", { class: "hint" }, [variant(answer), node_of(answer.flow),
      unit && `areas in ${unit}`, `${answer.data} data`].filter(Boolean).join("; "));
    const first = best
      ? element("p", { class: "first" }, element("b", {}, best.name), element("span", {}, size(best)))
      : element("p", { class: "first" }, element("b", {}, "none measured"));
    if (best) {
      const quality = `SQNR: ${sqnr(best.sqnr_accumulator_db)} of the accumulator alone, `
        + `${sqnr(best.sqnr_total_db)} with the format's error`;
      first.append(element("span", {}, quality));
      attach(first, best);
    }
    const lines = DATA.wishes.map(([wish, meaning]) => {
      const row = find(answer, wish), beyond = answer.unmeasured[wish];
      if (!row && !beyond) return null;
      const end = beyond && element("small", {}, `† not measured: ${beyond.join(", ")}`);
      const line = element("div", { class: wish === KEY ? "wish chosen" : "wish", title: meaning },
        element("span", {}, wish),
        element("span", {}, row ? element("b", {}, row.name) : "–",
          row ? element("small", {}, `${size(row, false)}, ${sqnr(row.sqnr_accumulator_db)}`) : "",
          end || null));
      if (row) attach(line, row);
      return line;
    }).filter(Boolean);
    return element("article", {}, head, about, element("p", { class: "hint" },
      "The smallest that adds no visible loss:"), first, ...lines);
  }));
}
