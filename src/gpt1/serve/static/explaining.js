// Why an answer was given: the words of the texts in the colours of what they speak for, each with its weight.

import { Refused, ask } from "./asking.js";
import { bars, element, reading, tokenList } from "./drawing.js";

const FELT = [0.02, 0.25, 0.5, 0.75]; // of the greatest weight, from which on a word has the next stronger colour
const SHOWN = 6; // words that are told most of

// A button that asks once more, for reasons, and what it finds.
export function reasons(asked, task, called) {
  const place = element("div", { className: "why", ariaLive: "polite" });
  const button = element("button", { type: "button", className: "plain" }, "Why?");
  button.addEventListener("click", async () => {
    button.disabled = true;
    button.textContent = "asking …";
    place.replaceChildren(...await found(asked, task, called));
  });
  place.append(element("p", { className: "actions" }, button));
  return place;
}

async function found(asked, task, called) {
  try {
    const { data: [{ explanation }] } = await ask("/v1/classify", { ...asked, explain: true });
    if (!explanation.length) return [element("p", {}, "No label was given, so there is nothing to explain.")];
    return explanation.flatMap((one) => drawn(one, asked.input, task, called));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return [element("p", { className: "error", role: "alert" }, error.message)];
  }
}

function drawn({ label, words, unread }, row, task, called) {
  const most = Math.max(...words.map(({ weight }) => Math.abs(weight)), Number.MIN_VALUE);
  const fields = [...new Set(words.map(({ field }) => field))];
  const what = label === null ? "the score" : `“${called(label)}”`;
  const chosen = element("p", { className: "muted", ariaLive: "polite" }, "Point at a word, or walk with the arrow keys, for its weight.");
  const detail = element("div", { className: "detail" }, strongest(words, most, what, label), chosen);
  const choose = ({ word, weight }) => { chosen.textContent = `“${word}” ${signed(weight)}`; };
  const parts = fields.flatMap((field) => {
    const own = words.filter((word) => word.field === field);
    return [...(fields.length > 1 ? [element("span", { className: "given" }, `${field}: `)] : []),
      ...marked(row[field], own, most, choose), "\n"];
  });
  const left = unread ? [element("p", {}, `${unread} words at the end were not read, and have no weight.`)] : [];
  const title = label === null ? "What raises the score, and what lowers it" : `What speaks for ${what}, and what against it`;
  return [element("h3", {}, title), legend(label), reading(detail, ...parts), ...left];
}

// A text as it is, its words marked; places count characters, of which some are two units of a string here.
function marked(text, words, most, choose) {
  const characters = [...text];
  let done = 0;
  const tokens = words.map((word) => {
    const shown = characters.slice(done, word.end).join("");
    done = word.end;
    return { ...word, text: shown };
  });
  const { list } = tokenList(`Words of ${words[0].field}`, tokens, (word) => look(word.weight, most), (place) => choose(words[place]));
  list.querySelectorAll(".token").forEach((token, place) => {
    const { word, weight } = words[place];
    token.ariaLabel = `${word}, ${signed(weight)}`;
  });
  return [list, element("span", { className: "given" }, characters.slice(done).join(""))];
}

function look(weight, most) {
  const strength = FELT.filter((least) => Math.abs(weight) >= least * most && weight !== 0).length;
  if (!strength) return "";
  return weight > 0 ? `for look-${strength}` : `against odd-${strength}`;
}

function legend(label) {
  const entry = (look, word) => element("li", {}, element("span", { className: `token ${look}` }, "word"), ` ${word}`);
  const [up, down] = label === null ? ["raises it", "lowers it"] : ["speaks for it", "speaks against it"];
  return element("ul", { className: "legend" }, entry("for look-3", up), entry("against odd-3", down));
}

function strongest(words, most, what, label) {
  const ordered = [...words].sort((one, other) => Math.abs(other.weight) - Math.abs(one.weight)).slice(0, SHOWN);
  const caption = label === null ? "How far the score falls without the word"
    : `How far the log-odds of ${what} fall without the word`;
  return bars(caption, ordered.map(({ word, weight }) =>
    ({ name: word, share: Math.abs(weight) / most, text: signed(weight), against: weight < 0 })));
}

function signed(weight) {
  return `${weight < 0 ? "−" : "+"}${Math.abs(weight).toFixed(2)}`;
}
