// The page at work: which run, which view, who may ask; a view says what it cannot show, asks, and draws.

import { Refused, ask, keepToken } from "./asking.js";
import * as attention from "./attention.js";
import * as classify from "./classify.js";
import { complete, next } from "./complete.js";
import * as endings from "./endings.js";

const views = [classify, complete, next, attention, endings];
const choice = document.querySelector("#run");
const door = document.querySelector("#door");
const trouble = document.querySelector("#trouble");
const tabs = [...document.querySelectorAll("[role=tab]")];
const runs = new Map();

const panelOf = (view) => document.getElementById(view.path);

function show(tab) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.ariaSelected = String(chosen);
    other.tabIndex = chosen ? 0 : -1;
    document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
  }
  history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`);
}

function startTabs() {
  tabs.forEach((tab, place) => {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: -1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const chosen = tabs.at(to % tabs.length);
      show(chosen);
      chosen.focus();
    });
  });
}

function startForm(view) {
  const panel = panelOf(view);
  const form = panel.querySelector("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    question(view, panel, form);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
}

async function question(view, panel, form) {
  if (form.ariaBusy === "true") return;
  const [run, state, found] = [runs.get(choice.value), panel.querySelector(".state"), panel.querySelector(".found")];
  form.ariaBusy = found.ariaBusy = "true";
  state.className = "state muted";
  state.textContent = "asking …";
  try {
    const drawn = await view.answer(panel, run, () => form.requestSubmit());
    if (run === runs.get(choice.value)) put(found, drawn);
    state.textContent = "";
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    state.className = "state error";
    state.textContent = error.message;
    if (error.status === 401) openDoor();
  } finally {
    form.ariaBusy = found.ariaBusy = "false";
  }
}

// Who chose something of the last answer by its button goes on from the first one of the new answer.
function put(found, drawn) {
  const chosen = found.contains(document.activeElement);
  found.replaceChildren(...drawn);
  if (chosen) found.querySelector("button")?.focus();
}

function useRun() {
  const run = runs.get(choice.value);
  const size = run.attention ? `${run.attention.layers} layers, ${run.attention.heads} heads` : "LSTM";
  const learned = Object.keys(run.tasks).join(", ");
  document.querySelector("#about").textContent = `${learned ? `fine-tuned on ${learned}` : "pre-trained"} · ${size} · context of ${run.context} tokens`;
  for (const view of views) {
    const panel = panelOf(view);
    const [form, note] = [panel.querySelector("form"), panel.querySelector(".note")];
    const why = view.refusal(run);
    note.textContent = why ?? "";
    note.hidden = !why;
    form.hidden = Boolean(why);
    panel.querySelector(".state").textContent = "";
    panel.querySelector(".found").replaceChildren();
    if (!why) view.prepare(panel, run, () => form.requestSubmit());
  }
}

async function loadRuns() {
  const { data } = await ask("/v1/models");
  runs.clear();
  for (const run of data) runs.set(run.id, run);
  choice.replaceChildren(...data.map((run) => new Option(run.id)));
  useRun();
  const wanted = tabs.find((tab) => `#${tab.getAttribute("aria-controls")}` === location.hash);
  const first = Object.keys(data[0].tasks).length ? "tab-classify" : "tab-complete";
  show(wanted ?? document.getElementById(first));
}

function openDoor() {
  if (!door.open) door.showModal();
}

function startDoor() {
  const [wrong, token] = [door.querySelector(".error"), door.querySelector("#token")];
  door.addEventListener("cancel", (event) => event.preventDefault()); // there is nothing behind it without a token
  door.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    keepToken(token.value);
    await start();
    wrong.textContent = "The server does not know this token.";
    wrong.hidden = !door.open;
    if (door.open) token.select(); // what is typed now replaces it
  });
}

async function start() {
  try {
    await loadRuns();
    door.close();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) return openDoor();
    trouble.textContent = error.message;
    trouble.hidden = false;
  }
}

startTabs();
startDoor();
views.forEach(startForm);
choice.addEventListener("change", useRun);
start();
