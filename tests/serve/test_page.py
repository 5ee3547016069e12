"""The page at `/`, used in a real browser as people use it: with a mouse, with a keyboard, on a phone, in the dark."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from gpt1.inference.predicting import predict_rows
from gpt1.inference.run import load_run
from gpt1.pretraining.pretrain import pretrain
from gpt1.serve.page import PAGE
from gpt1.tasks.catalog import CATALOGUE
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import SMALL_RUN
from tests.inference.tools import make_run
from tests.serve.tools import serving

CHROMIUM = os.environ.get("GPT1_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
VIEWS = ("classify", "complete", "next", "attention", "endings")
SIZES = {"phone": 380, "desktop": 1400}
THEMES = ("light", "dark")
HANGS = 120_000  # milliseconds, which only end a test that would hang for ever
expect.set_options(timeout=HANGS)


@pytest.fixture(scope="module")
def address(trained: Path, taught: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Runs of every sort behind one server: one that writes, one with tasks of every shape, scores, an LSTM."""
    folder = tmp_path_factory.mktemp("page")
    scorer = make_run(folder / "scorer", _tokenizer(trained), CATALOGUE["stsb"])
    small = [change for change in SMALL_RUN if not change.startswith(("shape.layers", "shape.heads"))]
    pretrain(
        "tiny",
        corpus,
        folder / "lstm",
        changes=[*small, "shape.kind=lstm", "shape.layers=1", "shape.units=16"],
        device="cpu",
    )
    runs = (f"writer={trained}", str(taught), str(scorer), str(folder / "lstm"))
    with serving(*runs) as client:
        yield str(client.base_url)


def _tokenizer(run: Path) -> Tokenizer:
    return load_run(run, device="cpu").tokenizer


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here; apt install chromium, or name one in GPT1_CHROMIUM")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@contextmanager
def opened(browser: Browser, address: str, **settings: Any) -> Iterator[Page]:
    """Open the page; nothing may be said in its console, and nothing asked of anybody but the server."""
    context = browser.new_context(**settings)
    context.set_default_timeout(HANGS)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if not request.url.startswith(address) else None)
    page.goto(address)
    yield page
    context.close()
    assert said == []


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with opened(browser, address) as made:
        yield made


def use(page: Page, run: str, view: str) -> None:
    page.select_option("#run", run)
    page.click(f"#tab-{view}")


def send(page: Page, view: str) -> None:
    page.click(f"#{view} button[type=submit]")
    expect(page.locator(f"#{view} form")).to_have_attribute("aria-busy", "false")


def shares(page: Page, view: str) -> dict[str, str]:
    """Return the rows of a view's bars: names and figures."""
    rows = page.locator(f"#{view} tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td.number").inner_text() for row in rows}


# ---- what it answers ----


def test_texts_pairs_and_choices_have_their_fields_and_get_the_runs_own_answers(page: Page, taught: Path) -> None:
    run = load_run(taught, device="cpu")
    answers = ["a key", "a hat", "a cat", "nothing"]
    asked: dict[str, dict[str, Any]] = {
        "moods": {"text": "Ann lost a key"},
        "rte": {"a": "It rains.", "b": "It is wet."},
        "race": {"context": "Ann lost a key.", "question": "What?", "choices": answers},
    }
    use(page, "taught", "classify")
    for task, row in asked.items():
        page.select_option("#task", task)
        boxes = [text for value in row.values() for text in (value if isinstance(value, list) else [value])]
        fields = page.locator("#classify .fields textarea")
        expect(fields).to_have_count(len(boxes))
        for place, text in enumerate(boxes):
            fields.nth(place).fill(text)
        send(page, "classify")
        (wanted,) = run.predict([row], task=task)
        names = dict(enumerate(answers)) if task == "race" else {}
        found = shares(page, "classify")
        told = {names.get(int(key), key) if names else key: share for key, share in wanted["probabilities"].items()}
        assert found.keys() == told.keys()
        for name, share in told.items():
            assert float(found[name].strip("<% ")) == pytest.approx(100 * share, abs=0.51)
        best = page.locator("#classify tr.best th").inner_text()
        assert best == (answers[wanted["prediction"]] if names else wanted["prediction"])


def test_the_words_of_a_text_are_marked_with_what_they_speak_for_as_they_stand(page: Page, taught: Path) -> None:
    text = "<b>Ann</b> 👍🏽 lost\n  the KÖLN key…  "
    run = load_run(taught, device="cpu")
    use(page, "taught", "classify")
    page.select_option("#task", "moods")
    page.locator("#classify .fields textarea").fill(text)
    send(page, "classify")
    page.click("#classify .why button")
    tokens = page.locator("#classify .why .reading .token")
    expect(tokens.first).to_be_visible()
    (found,) = predict_rows(run, [text], task="moods", explain=True, notice=lambda message: None)
    words = found["explanation"][0]["words"]  # type: ignore[index]
    assert tokens.all_inner_texts() == [word["word"] for word in words]
    assert page.locator("#classify .why .text").evaluate("one => one.textContent").rstrip("\n") == text
    for token, word in zip(tokens.all(), words, strict=True):
        sign = "−" if word["weight"] < 0 else "+"
        assert re.fullmatch(rf"{re.escape(word['word'])}, [+−]\d+\.\d\d", str(token.get_attribute("aria-label")))
        look = str(token.get_attribute("class"))
        assert ("for" in look.split()) <= (sign == "+")
        assert ("against" in look.split()) <= (sign == "−")
    tokens.first.focus()
    page.keyboard.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    expect(page.locator("#classify .why .detail p")).to_contain_text(f"“{words[1]['word']}”")


def test_every_task_begins_with_an_example_that_can_be_sent(page: Page) -> None:
    use(page, "taught", "classify")
    for task in ("moods", "rte", "mrpc", "race"):
        page.select_option("#task", task)
        send(page, "classify")
        expect(page.locator("#classify tr.best")).to_have_count(1)


def test_a_text_whose_end_is_not_read_is_told_of(page: Page) -> None:
    use(page, "taught", "classify")
    page.select_option("#task", "moods")
    for text, told in (("Ann lost a key. " * 30, 1), ("Ann", 0)):
        page.fill("#field-text", text)
        send(page, "classify")
        expect(page.get_by_text("The end was not read")).to_have_count(told)


def test_a_score_is_shown_as_a_number_of_its_range(page: Page) -> None:
    use(page, "scorer", "classify")
    send(page, "classify")
    expect(page.locator("#classify caption")).to_have_text("A number from 0 to 5")
    assert 0 <= float(shares(page, "classify")["score"]) <= 5


def test_a_completion_is_the_runs_and_each_token_tells_what_else_was_likely(page: Page, trained: Path) -> None:
    use(page, "writer", "complete")
    page.fill("#prompt", "Ann sold")
    page.fill("#tokens", "12")
    page.fill("#seed", "3")
    send(page, "complete")
    run = load_run(trained, device="cpu")
    (wanted,) = run.generate_batch(
        ["Ann sold"], max_new_tokens=12, temperature=0.8, top_k=None, top_p=1.0, seed=3, top_logprobs=6
    )
    shown = page.locator("#complete .text").inner_text().replace("↵", "")
    assert shown.split() == f"Ann sold{wanted.text}".split()
    tokens = page.locator(".token:visible")
    expect(tokens).to_have_count(12)
    for place in (0, 5):
        tokens.nth(place).hover()
        found = list(shares(page, "complete"))
        spelled = [run.tokenizer.spell(id) for id, _ in wanted.weighed[place].likeliest]
        assert [name.rstrip("…") for name in found[:6]] == [name.strip() or "↵ new line" for name in spelled]
        expect(page.locator("#complete tr.best")).to_have_count(1)


@pytest.mark.parametrize("size", SIZES)
def test_what_a_token_tells_is_in_sight_however_long_the_text_is(browser: Browser, address: str, size: str) -> None:
    with opened(browser, address, viewport={"width": SIZES[size], "height": 700}) as page:
        use(page, "writer", "complete")
        page.fill("#tokens", "256")
        page.fill("#seed", "1")
        send(page, "complete")
        tokens, told = page.locator("#complete .token"), page.locator("#complete .detail")
        for token in (tokens.nth(150), tokens.last):
            token.click()
            expect(told).to_be_in_viewport(ratio=0.99)
        page.keyboard.press("Home")
        for _ in range(100):
            page.keyboard.press("ArrowRight")
        expect(told).to_be_in_viewport(ratio=0.99)
        assert tokens.nth(100).evaluate(UNCOVERED)


# Whether an element is what is seen where it stands.
UNCOVERED = """(element) => {
  const [box] = element.getClientRects();
  return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2) === element;
}"""


def test_the_next_words_are_a_table_and_choosing_one_goes_on_with_it(page: Page) -> None:
    use(page, "writer", "next")
    page.fill("#begun", "Ann couldn't")
    send(page, "next")
    words = page.locator("#next button.word")
    expect(page.locator("#next tbody tr")).to_have_count(20)
    chosen = next(word for word in words.all() if word.inner_text().isalpha())
    text = chosen.inner_text()
    chosen.click()
    expect(page.locator("#next caption")).to_have_text(f"After “Ann couldn't {text}”")
    assert page.input_value("#begun") == f"Ann couldn't {text}"
    expect(words.first).to_be_focused()


def test_a_chosen_sign_stands_directly_behind_the_word_before_it(page: Page) -> None:
    likeliest = {". ": -0.1, "'s ": -2.5, "cat ": -5.0, "qu": -6.0}
    choice = {"logprobs": {"tokens": ["."], "token_logprobs": [-0.1], "top_logprobs": [likeliest]}}
    page.route("**/v1/completions", lambda route: route.fulfill(json={"choices": [choice]}))
    use(page, "writer", "next")
    for name, longer in ((".", "Ann."), ("'s", "Ann's"), ("cat", "Ann cat")):
        page.fill("#begun", "Ann")
        send(page, "next")
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.locator("#begun")).to_have_value(longer)
    expect(page.locator("#next button.word")).to_have_count(3)


def test_attention_is_shown_for_each_head_of_each_layer(page: Page, trained: Path) -> None:
    use(page, "writer", "attention")
    page.fill("#seen", "Ann sold a hat")
    send(page, "attention")
    heads = page.locator("#attention .heads button")
    expect(heads).to_have_count(2)
    page.select_option("#layer", "2")
    expect(page.locator("#attention .found > p").first).to_contain_text("Layer 2")
    heads.nth(1).click()
    expect(heads.nth(1)).to_have_attribute("aria-pressed", "true")
    found = load_run(trained, device="cpu").attention("Ann sold a hat", layer=2)
    tokens = page.locator(".token:visible")
    expect(tokens).to_have_count(len(found.ids))
    tokens.last.click()
    told = [float(figure.strip("<% ")) for figure in shares(page, "attention").values()]
    most = sorted(100 * found.weights[1, -1], reverse=True)[: len(told)]
    assert told == pytest.approx(most, abs=0.51)


def test_the_likelier_ending_comes_first(page: Page, trained: Path) -> None:
    use(page, "writer", "endings")
    page.fill("#story", "Ann sold")
    page.fill("#ending-1", "zebra quux vortex.")
    page.fill("#ending-2", "a silver key.")
    page.get_by_role("button", name="Add an ending").click()
    page.keyboard.type("nothing.")
    send(page, "endings")
    scored = load_run(trained, device="cpu").score(
        [" zebra quux vortex.", " a silver key.", " nothing."], after="Ann sold"
    )
    order = sorted(range(3), key=lambda place: -float(scored[place].mean or 0))
    named = [f"Ending {place + 1}" for place in order]
    assert [label.get_attribute("aria-label") for label in page.get_by_role("listbox").all()] == named
    expect(page.locator("#endings .tag")).to_have_text([f"{named[0]}, the likeliest", *named[1:]])
    assert order[0] != 0


def test_an_added_ending_can_be_removed_and_one_left_empty_is_left_out(page: Page) -> None:
    use(page, "writer", "endings")
    for text in ("a hat.", "", "a cat."):
        page.get_by_role("button", name="Add an ending").click()
        page.keyboard.type(text)
    page.get_by_role("button", name="Remove ending 3").click()
    expect(page.locator("#endings label")).to_have_text(["Text before", *(f"Ending {place}" for place in range(1, 5))])
    assert [page.input_value(f"#ending-{place}") for place in (3, 4)] == ["", "a cat."]
    send(page, "endings")
    listed = page.get_by_role("listbox")
    assert sorted(str(one.get_attribute("aria-label")) for one in listed.all()) == ["Ending 1", "Ending 2", "Ending 4"]


# ---- what it cannot ----


def test_what_a_run_cannot_do_is_told_in_place_of_its_form(page: Page) -> None:
    use(page, "writer", "classify")
    expect(page.locator("#classify .note")).to_contain_text("has learned no task yet")
    expect(page.locator("#classify .note")).to_contain_text("Complete, Next, Attention and Endings work")
    expect(page.locator("#classify form")).to_be_hidden()
    use(page, "lstm", "classify")
    expect(page.locator("#classify .note")).to_contain_text("Complete, Next and Endings work")
    use(page, "lstm", "attention")
    expect(page.locator("#attention .note")).to_contain_text("is an LSTM")
    use(page, "writer", "attention")
    expect(page.locator("#attention .note")).to_be_hidden()
    use(page, "lstm", "complete")
    send(page, "complete")
    expect(page.locator(".token:visible").first).to_be_visible()


def test_a_refusal_is_told_in_the_servers_words(browser: Browser, address: str) -> None:
    context = browser.new_context()
    context.set_default_timeout(HANGS)
    page = context.new_page()
    page.goto(address)
    use(page, "writer", "attention")
    expect(page.locator("#attention .lead")).to_contain_text("At most 16 tokens.")
    page.fill("#seen", "Ann " * 40)
    send(page, "attention")
    expect(page.locator("#attention .state")).to_contain_text("attention is shown of at most 16")
    page.route("**/v1/completions", lambda route: route.abort())
    use(page, "writer", "complete")
    send(page, "complete")
    expect(page.locator("#complete .state")).to_have_text("The server does not answer. Is it still running?")
    context.close()


def test_with_a_token_the_page_asks_for_it(browser: Browser, trained: Path) -> None:
    with serving(f"writer={trained}", token="sesame") as client:
        context = browser.new_context()
        context.set_default_timeout(HANGS)
        page = context.new_page()
        page.goto(str(client.base_url))
        door = page.get_by_role("dialog")
        expect(door).to_be_visible()
        page.keyboard.press("Escape")
        expect(door).to_be_visible()
        for token, opens in (("simsim", False), ("sesame", True)):
            page.keyboard.type(token)  # in place of the wrong one
            page.keyboard.press("Enter")
            expect(door.get_by_role("alert")).to_be_visible(visible=not opens)
            expect(door).to_be_visible(visible=not opens)
        send(page, "complete")
        expect(page.locator(".token:visible").first).to_be_visible()
        page.reload()
        expect(page.locator("#about")).to_contain_text("pre-trained")
        context.close()


# ---- how it feels ----


def test_everything_can_be_done_with_a_keyboard_alone(page: Page) -> None:
    page.locator("#run").focus()
    page.keyboard.press("Tab")
    for view in ("next", "attention", "endings", "classify", "complete"):  # round and round
        page.keyboard.press("ArrowRight")
        expect(page.locator(f"#tab-{view}")).to_be_focused()
        expect(page.locator(f"#{view}")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#classify")).to_be_visible()
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    expect(page.locator("#prompt")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("the cat")
    page.keyboard.press("Control+Enter")
    tokens = page.locator(".token:visible")
    expect(tokens).to_have_count(40)
    for _ in range(5):  # the other fields, the button, then the text that was written
        page.keyboard.press("Tab")
    expect(tokens.first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    expect(tokens.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("End")
    expect(tokens.last).to_be_focused()


def test_the_last_answer_is_marked_as_old_while_the_next_is_awaited(page: Page) -> None:
    use(page, "writer", "next")
    send(page, "next")
    held: list[Route] = []
    page.route("**/v1/completions", lambda route: held.append(route))
    found = page.locator("#next .found")
    with page.expect_request("**/v1/completions"):
        page.click("#next button[type=submit]")
    expect(found).to_have_attribute("aria-busy", "true")
    expect(found).to_have_css("opacity", "0.5")
    held[0].continue_()
    expect(found).to_have_attribute("aria-busy", "false")
    expect(found).to_have_css("opacity", "1")


def test_letters_that_printers_join_stay_tokens_of_their_own(page: Page) -> None:
    use(page, "writer", "attention")
    page.fill("#seen", "fl fi ffl")
    send(page, "attention")
    spans = page.locator("#attention .token").all()
    assert {"f", "l", "i"} <= {span.inner_text() for span in spans}
    assert all(box and box["width"] > 0 for box in (span.bounding_box() for span in spans))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_every_view_can_be_read_on_every_screen(browser: Browser, address: str, size: str, theme: str) -> None:
    width = SIZES[size]
    with opened(browser, address, viewport={"width": width, "height": 800}, color_scheme=theme) as page:
        use(page, "taught", "classify")
        page.select_option("#task", "race")
        for place, box in enumerate(page.locator("#classify .fields textarea").all()):
            box.fill("a very long answer " * 9 + str(place))
        for view in VIEWS:
            page.click(f"#tab-{view}")
            send(page, view)
            expect(page.locator(f"#{view} .found > *").first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
            assert page.evaluate(CONTRASTS) == [], view


@pytest.mark.parametrize("width", [320, 380])
def test_a_narrow_screen_has_every_tab_in_sight_and_names_above_their_bars(
    browser: Browser, address: str, width: int
) -> None:
    with opened(browser, address, viewport={"width": width, "height": 800}) as page:
        for tab in page.get_by_role("tab").all():
            expect(tab).to_be_in_viewport(ratio=0.99)
        use(page, "writer", "next")
        send(page, "next")
        name, bar = page.locator("#next th").first.bounding_box(), page.locator("#next .bar").first.bounding_box()
        assert name
        assert bar
        assert name["y"] + name["height"] <= bar["y"]


# Every piece of visible text against the colours behind it: what is below WCAG's AA, and by how much.
CONTRASTS = """() => {
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = numbers(color).slice(0, 3).map((x) => x / 255)
      .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if ((numbers(color)[3] ?? 1) > 0) return color;
    }
    throw new Error("nothing is behind it");
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest("noscript, script")) continue;
    const style = getComputedStyle(node);
    const [one, other] = [light(style.color), light(behind(node))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (contrast < (large ? 3 : 4.5)) poor.push(`${walker.currentNode.textContent.trim()}: ${contrast.toFixed(2)}`);
  }
  return poor;
}"""


def test_every_colour_of_a_token_can_be_read(page: Page) -> None:
    use(page, "writer", "complete")
    send(page, "complete")
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        for kind in ("odd", "look"):
            for step in range(5):
                page.locator(".token").evaluate_all(
                    "(tokens, name) => tokens.forEach(token => { token.className = `token ${name}` })", f"{kind}-{step}"
                )
                assert page.evaluate(CONTRASTS) == [], (theme, kind, step)


@pytest.mark.parametrize("theme", THEMES)
def test_the_colours_of_likelier_and_unlikelier_tokens_can_be_told_apart(
    browser: Browser, address: str, theme: str
) -> None:
    with opened(browser, address, color_scheme=theme) as page:
        use(page, "writer", "complete")
        send(page, "complete")
        colours = page.locator("#complete .legend i").evaluate_all(
            "(steps) => steps.map((step) => getComputedStyle(step).backgroundColor)"
        )
        card = page.locator("#complete .found").evaluate("(found) => getComputedStyle(found).backgroundColor")
        lights = [_light(colour) for colour in (card, *colours[1:])]  # the first step has no colour of its own
        for one, other in pairwise(lights):
            assert (max(one, other) + 0.05) / (min(one, other) + 0.05) > 1.1


def _light(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG defines it."""
    shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


# ---- what it is made of ----


def test_the_page_lets_nothing_in_from_elsewhere(address: str) -> None:
    for path, (_, kind) in PAGE.items():
        answer = httpx.get(f"{address}{path}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kind
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not re.findall(r"(?:src|href)=[\"'](?!/page/|/openapi)|https?://(?!www\.w3\.org/2000/svg)", answer.text)
    assert httpx.get(f"{address}/page/other.js").status_code == 404
    assert httpx.get(f"{address}/page/../app.py").status_code == 404
