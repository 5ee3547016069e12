// Endings compared: the one whose tokens have the higher mean log-probability after the text before them.

import { ask } from "./asking.js";
import { element, oddLegend, oddness, percent, tokenList } from "./drawing.js";

const FIRST = ["She could not open the door.", "She ate the moon."];
const MOST = 6;

export const path = "endings";
export const refusal = () => null;

export function prepare(panel) {
  const [fields, add] = [panel.querySelector(".fields"), panel.querySelector(".add")];
  if (fields.childElementCount) return;
  const append = (text) => {
    const number = fields.childElementCount + 1;
    const box = element("textarea", { id: `ending-${number}`, rows: 1, required: number <= FIRST.length, value: text });
    fields.append(element("div", { className: "field" }, element("label", { htmlFor: box.id }, `Ending ${number}`), box));
    add.hidden = number >= MOST;
    return box;
  };
  FIRST.forEach(append);
  add.onclick = () => append("").focus();
}

export async function answer(panel, run) {
  const endings = [...panel.querySelectorAll(".fields textarea")].map((box) => box.value.trim()).filter(Boolean);
  const { data } = await ask("/v1/score", {
    model: run.id,
    after: panel.querySelector("#story").value.trimEnd(),
    input: endings.map((ending) => ` ${ending}`), // a word of its own, also where blanks belong to tokens
  });
  const order = data.filter((one) => one.mean !== null).sort((one, other) => other.mean - one.mean);
  return [oddLegend(), ...order.map((one, rank) => card(one, rank === 0))];
}

function card({ index, tokens, log_probabilities: logs, mean }, best) {
  const listed = tokens.map((text, place) => ({ text, probability: logs[place] === null ? 1 : Math.exp(logs[place]) }));
  const said = element("p", { className: "muted", ariaLive: "polite" }, "\u00a0");
  const { list } = tokenList(`Ending ${index + 1}`, listed, (token) => oddness(token.probability), (place) => {
    said.textContent = `“${listed[place].text.trim()}” was ${logs[place] === null ? "not scored" : `${percent(listed[place].probability)} likely`}.`;
  });
  const head = element("p", {}, element("span", { className: best ? "tag" : "muted" }, best ? "Likelier: " : "Less likely: "),
    `mean log-probability ${mean.toFixed(2).replace("-", "−")} a token, perplexity ${Math.exp(-mean).toLocaleString("en", { maximumSignificantDigits: 3 })}`);
  return element("div", { className: "ending" }, head, element("p", { className: "text", dir: "auto" }, list), said);
}
