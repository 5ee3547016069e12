// Labels: the fields of a task, and how likely a fine-tuned run finds each answer.

import { ask } from "./asking.js";
import { bars, element, percent } from "./drawing.js";
import { reasons } from "./explaining.js";

export const path = "classify";

export function refusal(run) {
  if (Object.keys(run.tasks).length) return null;
  return `“${run.id}” is pre-trained and has learned no task yet, so it cannot classify. `
    + `The command “gpt1 finetune” teaches it one; Complete, Next${run.attention ? ", Attention" : ""} and Endings work with it as it is.`;
}

export function prepare(panel, run) {
  const [choice, fields] = [panel.querySelector("#task"), panel.querySelector(".fields")];
  choice.replaceChildren(...Object.keys(run.tasks).map((name) => new Option(name)));
  panel.querySelector(".task").hidden = choice.options.length < 2;
  const show = () => {
    const task = run.tasks[choice.value];
    if (!task) return;
    const title = panel.querySelector(".title");
    title.textContent = task.title;
    title.hidden = task.title === choice.value;
    fields.replaceChildren(...inputs(task));
    panel.querySelector(".found").replaceChildren();
  };
  choice.onchange = show;
  show();
}

// Texts to begin with: one for each field, and choices as many as there may be.
const EXAMPLES = {
  text: ["A good story about a baker who got a cake and was happy."],
  pair: ["Ann is reading a book in the garden.", "Ann is outside."],
  story: ["Ann lost her key in the snow. It was getting dark.", "She could not open the door.", "She ate the moon."],
  question: ["Ann lost her key in the snow.", "What did Ann lose?", "a key", "a hat", "a book", "a dog"],
  pronoun: ["The cup did not fit into the box because it was too big.", "it", "the cup", "the box"],
};

function example(task) {
  if (!task.choices) return task.fields.length > 1 ? EXAMPLES.pair : EXAMPLES.text;
  return EXAMPLES[task.fields.length < 3 ? "story" : task.fields[1] === "pronoun" ? "pronoun" : "question"];
}

function inputs(task) {
  const [last, texts] = [task.fields.length - 1, example(task)];
  return task.fields.flatMap((name, place) => {
    if (!task.choices || place < last) return [input(name, "", texts[place], task.fields.length > 2 || task.choices ? 2 : 4)];
    return Array.from({ length: task.choices }, (_, at) => input(name, ` ${at + 1}`, texts[last + at], 1));
  });
}

// What columns are called, where their name alone says little.
const CALLED = { a: "First text", b: "Second text", choices: "Choice" };

function input(column, number, text, rows) {
  const [id, label] = [`field-${column}${number}`.replaceAll(/\s/g, "-"), (CALLED[column] ?? column[0].toUpperCase() + column.slice(1)) + number];
  const box = element("textarea", { id, rows, value: text ?? "", required: true });
  box.dataset.column = column;
  return element("div", { className: "field" }, element("label", { htmlFor: id }, label), box);
}

export async function answer(panel, run) {
  const name = panel.querySelector("#task").value;
  const task = run.tasks[name];
  const row = {};
  for (const box of panel.querySelectorAll(".fields textarea")) {
    const column = box.dataset.column;
    if (task.choices && column === task.fields.at(-1)) (row[column] ??= []).push(box.value);
    else row[column] = box.value;
  }
  const asked = { model: run.id, task: name, input: row };
  const { data: [found] } = await ask("/v1/classify", asked);
  if (found.spans) return [...marked(row[task.fields[0]], found.spans), ...asRead(found, run)];
  const called = naming(row[task.fields.at(-1)]);
  const shown = task.score_range ? score(found.label, task.score_range) : shares(found, called);
  return [shown, ...asRead(found, run), reasons(asked, task, called)];
}

function asRead(found, run) {
  const notes = [];
  if (found.truncated) notes.push(`The end was not read: this run reads ${run.context} tokens.`);
  if (found.notice) notes.push(`${found.notice[0].toUpperCase()}${found.notice.slice(1)}.`);
  else if (found.unknown_tokens) notes.push(`Not understood: ${found.unknown_tokens} of ${found.tokens} tokens.`);
  return notes.map((note) => element("p", {}, note));
}

function score(value, [low, high]) {
  return bars(`A number from ${low} to ${high}`,
    [{ name: "score", share: (value - low) / (high - low), text: Number(value).toFixed(2), best: true }]);
}

// The answers to choices are named by their place; people know them by their text.
function naming(choices) {
  return Array.isArray(choices) ? (key) => choices[Number(key)] : (key) => key;
}

// Colours of labels, in the order in which they come; each label is written too.
const COLOURS = ["look-3", "odd-2", "look-1", "odd-4", "look-4", "odd-1"];

// A text as it is, its labelled stretches marked; places count characters, of which some are two units of a string here.
function marked(text, spans) {
  const [characters, labels] = [[...text], [...new Set(spans.map(({ label }) => label))]];
  const parts = [];
  let done = 0;
  for (const { label, start, end, confidence } of spans) {
    const colour = COLOURS[labels.indexOf(label) % COLOURS.length];
    const words = characters.slice(start, end).join("");
    const told = element("small", {}, ` ${label}`);
    parts.push(characters.slice(done, start).join(""), element("mark", { className: colour, title: `${percent(confidence)} sure` }, words, told));
    done = end;
  }
  parts.push(characters.slice(done).join(""));
  const count = spans.length ? "What the run finds in the text" : "The run finds nothing in the text";
  return [element("h3", {}, count), element("p", { className: "marked" }, ...parts)];
}

function shares(found, named) {
  const given = found.labels ?? [String(found.label)];
  const rows = Object.entries(found.probabilities).map(([key, share]) => ({ name: named(key), share, best: given.includes(key) }));
  const title = !found.labels ? "How likely the run finds each answer"
    : given.length ? `It gives ${given.join(", ")}; how likely it finds each label` : "It gives no label; how likely it finds each";
  return bars(title, rows.sort((one, other) => other.share - one.share));
}
