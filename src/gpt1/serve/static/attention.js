// Attention: each head of a layer as a small picture, and the text with what one of its tokens takes from the others.

import { ask } from "./asking.js";
import { bars, element, lookStrength, percent, reading, tokenList } from "./drawing.js";

const SHOWN = 6; // tokens that are looked at most
const BLUE = [59, 130, 214]; // stands out on light and dark

export const path = "attention";

export function refusal(run) {
  if (run.attention) return null;
  return `“${run.id}” is an LSTM: it carries one state from token to token, and has no attention to show.`;
}

export function prepare(panel, run, again) {
  panel.querySelector(".most").textContent = `At most ${run.attention.tokens} tokens.`;
  const layer = panel.querySelector("#layer");
  layer.replaceChildren(...Array.from({ length: run.attention?.layers ?? 0 }, (_, at) => new Option(at + 1)));
  layer.onchange = () => { if (panel.querySelector(".found").childElementCount) again(); };
}

export async function answer(panel, run) {
  const layer = Number(panel.querySelector("#layer").value);
  const found = await ask("/v1/attention", { model: run.id, input: panel.querySelector("#seen").value, layer });
  const detail = element("div", { className: "detail", ariaLive: "polite" });
  const tokens = found.tokens.map((text) => ({ text }));
  const shown = { head: 0, place: tokens.length - 1 };
  const { list, select } = tokenList("Tokens of the text", tokens, () => "look-0", (place, spans) => {
    shown.place = place;
    const row = found.weights[shown.head][place];
    spans.forEach((span, at) => { span.className = `token ${lookStrength(row[at] ?? 0)}`; });
    detail.replaceChildren(lookedAt(found.tokens, row, shown));
  });
  const heads = pictures(found.weights, (head) => {
    shown.head = head;
    select(shown.place);
  });
  heads.firstElementChild.click();
  const caption = element("p", { className: "muted" }, `Layer ${layer}: a row of a picture is a token, a column one it looks at. Choose a head.`);
  return [caption, heads, reading(detail, list)];
}

function lookedAt(tokens, row, { head, place }) {
  const most = row.map((share, at) => ({ share, at })).sort((one, other) => other.share - one.share).slice(0, SHOWN);
  const name = (at) => `${tokens[at].trim() || "·"}${at === place ? " (itself)" : ""}`;
  return bars(`In head ${head + 1}, “${tokens[place].trim() || "·"}” (token ${place + 1}) takes most from`,
    most.map(({ share, at }) => ({ name: name(at), share, text: percent(share) })));
}

function pictures(weights, choose) {
  const buttons = weights.map((rows, head) => {
    const canvas = element("canvas", { width: rows.length, height: rows.length, ariaHidden: "true" });
    paint(canvas, rows);
    const button = element("button", { type: "button", ariaPressed: "false" }, canvas, `head ${head + 1}`);
    button.addEventListener("click", () => {
      for (const other of buttons) other.ariaPressed = String(other === button);
      choose(head);
    });
    return button;
  });
  return element("div", { className: "heads", role: "group", ariaLabel: "Heads" }, ...buttons);
}

function paint(canvas, rows) {
  const image = new ImageData(rows.length, rows.length);
  rows.forEach((row, y) => row.forEach((share, x) => {
    image.data.set([...BLUE, 255 * Math.sqrt(share)], 4 * (y * rows.length + x)); // the root shows small shares too
  }));
  canvas.getContext("2d").putImageData(image, 0, 0);
}
