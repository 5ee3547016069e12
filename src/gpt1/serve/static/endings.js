// Endings compared: the one whose tokens have the higher mean log-probability after the text before them.

import { ask } from "./asking.js";
import { element, oddLegend, oddness, percent, tokenList } from "./drawing.js";

const FIRST = ["She was sad and went home.", "Home sad she and went was."]; // any run that reads English tells them apart
const MOST = 6;

export const path = "endings";
export const refusal = () => null;

export function prepare(panel) {
  const [fields, add] = [panel.querySelector(".fields"), panel.querySelector(".add")];
  if (fields.childElementCount) return;
  const append = (value) => {
    const required = fields.childElementCount < FIRST.length;
    const [label, box] = [element("label"), element("textarea", { rows: 1, required, value })];
    const field = element("div", { className: "field ending-field" }, label, box);
    const remove = element("button", { type: "button", className: "plain", textContent: "Remove" });
    remove.onclick = () => {
      field.remove();
      number(fields, add);
      add.focus();
    };
    if (!required) field.append(remove);
    fields.append(field);
    number(fields, add);
    return box;
  };
  FIRST.forEach(append);
  add.onclick = () => append("").focus();
}

// The fields are known by their places, which change when one is removed.
function number(fields, add) {
  [...fields.children].forEach((field, place) => {
    const [label, box, remove] = field.children;
    label.htmlFor = box.id = `ending-${place + 1}`;
    label.textContent = `Ending ${place + 1}`;
    if (remove) remove.ariaLabel = `Remove ending ${place + 1}`;
  });
  add.hidden = fields.childElementCount >= MOST;
}

export async function answer(panel, run) {
  const boxes = [...panel.querySelectorAll(".fields textarea")];
  const endings = boxes.map((box, place) => ({ name: `Ending ${place + 1}`, text: box.value.trim() })).filter(({ text }) => text);
  const { data } = await ask("/v1/score", {
    model: run.id,
    after: panel.querySelector("#story").value.trimEnd(),
    input: endings.map(({ text }) => ` ${text}`), // a word of its own, also where blanks belong to tokens
  });
  const order = data.filter((one) => one.mean !== null).sort((one, other) => other.mean - one.mean);
  const best = order.length > 2 ? "likeliest" : "likelier";
  return [oddLegend(), ...order.map((one, rank) => card(endings[one.index].name, one, rank === 0 && best))];
}

function card(name, { tokens, log_probabilities: logs, mean }, best) {
  const listed = tokens.map((text, place) => ({ text, probability: logs[place] === null ? 1 : Math.exp(logs[place]) }));
  const said = element("p", { className: "muted", ariaLive: "polite" }, "\u00a0");
  const { list } = tokenList(name, listed, (token) => oddness(token.probability), (place) => {
    said.textContent = `“${listed[place].text.trim()}” was ${logs[place] === null ? "not scored" : `${percent(listed[place].probability)} likely`}.`;
  });
  const head = element("p", {}, element("span", { className: "tag" }, best ? `${name}, the ${best}` : name),
    element("span", { className: "muted" }, `mean log-probability ${mean.toFixed(2).replace("-", "−")} a token, perplexity ${Math.exp(-mean).toLocaleString("en", { maximumSignificantDigits: 3 })}`));
  return element("div", { className: "ending" }, head, element("p", { className: "text", dir: "auto" }, list), said);
}
