// What the views draw with: elements, shares as bars, and texts whose tokens can be walked through.

export function element(name, properties = {}, ...children) {
  const { share, ...rest } = properties;
  const made = Object.assign(document.createElement(name), rest);
  if (share !== undefined) made.style.setProperty("--share", `${100 * share}%`);
  made.append(...children);
  return made;
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

// Rows of { name, share, text?, best?, against? }; a name is a text or an element.
export function bars(caption, rows) {
  const body = rows.map(({ name, share, text, best, against }) =>
    element("tr", { className: best ? "best" : against ? "against" : "" },
      element("th", { scope: "row" }, name),
      element("td", {}, element("div", { className: "bar" }, element("i", { share }))),
      element("td", { className: "number" }, text ?? percent(share))));
  return element("table", {}, element("caption", {}, caption), element("tbody", {}, ...body));
}

// Four strengths of a colour and none: the first whose condition holds.
const ODD = [0.5, 0.2, 0.05, 0.01];
const LOOK = [0.03, 0.1, 0.25, 0.5];

export function oddness(probability) {
  const step = ODD.findIndex((least) => probability >= least);
  return `odd-${step < 0 ? ODD.length : step}`;
}

export function lookStrength(share) {
  return `look-${LOOK.filter((least) => share >= least).length}`;
}

export function oddLegend() {
  const words = ["≥ 50 %", "≥ 20 %", "≥ 5 %", "≥ 1 %", "< 1 %"];
  return element("ul", { className: "legend" }, ...words.map((word, step) =>
    element("li", {}, element("i", { className: `odd-${step}` }), word)));
}

// Blanks before a token stand between the tokens' colours. What would not be seen is shown by a sign: a new line, or a
// token that is no whole character.
function blanksBefore(text) {
  return text.trim() ? text.slice(0, text.length - text.trimStart().length) : "";
}

function shown(text) {
  if (text.trim()) return text.trimStart();
  return text ? text.replaceAll("\n", "↵\n") : "·";
}

// A text and what its chosen token tells, which stays in sight however long the text is.
export function reading(detail, ...parts) {
  return element("div", { className: "reading" }, element("p", { className: "text", dir: "auto" }, ...parts), detail);
}

// Texts as the tokens they are made of: hovered, tapped or walked through with the arrow keys.
export function tokenList(label, tokens, look, choose) {
  const spans = tokens.map((token) =>
    element("span", { className: `token ${look(token)}`, tabIndex: -1, role: "option", ariaSelected: "false" }, shown(token.text)));
  spans[0].tabIndex = 0;
  const parts = spans.flatMap((span, place) => [blanksBefore(tokens[place].text), span]);
  const list = element("span", { role: "listbox", ariaLabel: label, ariaOrientation: "horizontal" }, ...parts);
  const select = (place) => {
    spans.forEach((span, at) => {
      span.ariaSelected = String(at === place);
      span.tabIndex = at === place ? 0 : -1;
    });
    choose(place, spans);
  };
  spans.forEach((span, place) => {
    for (const event of ["mouseenter", "focus", "click"]) span.addEventListener(event, () => select(place));
  });
  list.addEventListener("keydown", (event) => {
    const at = spans.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: spans.length - 1 }[event.key];
    if (to === undefined || !spans[to]) return;
    event.preventDefault();
    spans[to].focus();
  });
  return { list, select };
}
