"use strict";
// Numbers, and elements of HTML and SVG.

const SVG = "http://www.w3.org/2000/svg";

/** A number of the data: null, a number, or the text "inf". */
const value = (x) => (x === "inf" ? Infinity : x);
const known = (x) => x !== null && x !== undefined;
const whole = (x) => Math.round(x).toLocaleString("en-US");
const decibels = (x) => (!known(x) ? "" : x === Infinity ? "exact" : x.toFixed(1));

/** An SQNR of the data, with its unit. */
const sqnr = (x) => (value(x) === Infinity ? "no error" : known(x) ? `${decibels(x)} dB` : "no SQNR");

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
