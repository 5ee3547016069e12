// Texts that go on: what the run writes, how likely it found each token, and what else it might have written.

import { ask } from "./asking.js";
import { bars, element, oddLegend, oddness, percent, reading, tokenList } from "./drawing.js";

const SHOWN = 6; // alternatives of a token
const LISTED = 20; // tokens that may come next

const value = (panel, id) => panel.querySelector(`#${id}`).value;

export const complete = {
  path: "complete",
  refusal: () => null,
  prepare() {},
  async answer(panel, run) {
    const seed = value(panel, "seed");
    const { choices: [choice] } = await ask("/v1/completions", {
      model: run.id,
      prompt: value(panel, "prompt"),
      max_tokens: Number(value(panel, "tokens")),
      temperature: Number(value(panel, "temperature")),
      ...(seed && { seed: Number(seed) }),
      logprobs: SHOWN,
    });
    return written(value(panel, "prompt"), choice.logprobs, run.tokenizer);
  },
};

function written(prompt, { tokens: texts, token_logprobs: logs, top_logprobs: likeliest }, kind) {
  const tokens = texts.map((text, place) => ({ text, probability: Math.exp(logs[place]) }));
  const detail = element("div", { className: "detail", ariaLive: "polite" });
  const { list, select } = tokenList("Tokens that were written", tokens, (token) => oddness(token.probability), (place) => {
    const { text, probability } = tokens[place];
    const rows = sorted(likeliest[place]).map(([name, log]) => ({ name: spelled(name, kind), share: Math.exp(log), best: log === logs[place] }));
    if (!rows.some((row) => row.best)) rows.push({ name: text.trim() || "·", share: probability, best: true });
    detail.replaceChildren(bars(`“${text.trim() || "·"}” was ${percent(probability)} likely; the likeliest here were`, rows));
  });
  if (tokens.length) select(0);
  const given = element("span", { className: "given" }, prompt);
  return [oddLegend(), reading(detail, given, list)];
}

// An object would have what looks like a number first.
function sorted(likeliest) {
  return Object.entries(likeliest).sort(([, one], [, other]) => other - one);
}

// A token for people: blanks and new lines are seen, and so is that a word goes on.
function spelled(name, kind) {
  if (!name.trim()) return name.includes("\n") ? "↵ new line" : "␣ blank";
  return kind === "words" && !name.endsWith(" ") ? `${name}…` : name.trim();
}

export const next = {
  path: "next",
  refusal: () => null,
  prepare() {},
  async answer(panel, run, again) {
    const box = panel.querySelector("#begun");
    const { choices: [choice] } = await ask("/v1/completions",
      { model: run.id, prompt: box.value, max_tokens: 1, temperature: 0, logprobs: LISTED });
    const goOn = (longer) => {
      box.value = longer;
      again();
    };
    const rows = sorted(choice.logprobs.top_logprobs[0]).map(([name, log], place) => {
      const [longer, text] = [continued(box.value, name, run.tokenizer), spelled(name, run.tokenizer)];
      const word = () => element("button", { type: "button", className: "word", title: "Go on with this", onclick: () => goOn(longer) }, text);
      return { name: longer === null ? text : word(), share: Math.exp(log), best: place === 0 };
    });
    return [bars(box.value.trim() ? `After “${ending(box.value)}”` : "At the beginning of a text", rows)];
  },
};

function ending(text) {
  const words = text.trim().split(/\s+/);
  return words.length > 6 ? `… ${words.slice(-6).join(" ")}` : words.join(" ");
}

// Tokens of words that stand directly behind the word before them.
const JOINED = /^(?:[,!?;:)\]}%]|\.+|n't|'(?:s|ll|re|ve|d|m))$/;

// The text with a token behind it, or null where the text alone could not tell that it goes on inside a word.
function continued(text, name, kind) {
  if (name === "\n") return `${text.trimEnd()}\n`;
  if (kind === "bytes") return name.startsWith("bytes:") ? null : text + name;
  if (!name.endsWith(" ")) return null;
  const word = name.trim();
  return `${text}${!text || /\s$/.test(text) || JOINED.test(word) ? "" : " "}${word}`;
}
