"""`examine` finds planted defects, all of them and no others."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.corpus.vocabularies import train_tokenizer
from gpt1.inspection.doctor import examine
from gpt1.inspection.page import draw_page

WORDS = [
    "river",
    "stone",
    "cloud",
    "table",
    "green",
    "quick",
    "silent",
    "window",
    "garden",
    "letter",
    "copper",
    "winter",
]

Write = Callable[[str, str | bytes], str]


def prose(seed: int, words: int = 300) -> str:
    """Made-up sentences, the same for the same seed, one paragraph a line."""
    draw = random.Random(seed)
    sentences = [" ".join(draw.choices(WORDS, k=10)).capitalize() + "." for _ in range(words // 10)]
    return "\n".join(" ".join(sentences[begin : begin + 5]) for begin in range(0, len(sentences), 5)) + "\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str | bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write_file


def keys(report: dict[str, Any]) -> list[str]:
    return [finding["key"] for finding in report["findings"]]


def test_sizes_are_those_of_the_files(write: Write) -> None:
    texts = [prose(1), prose(2, 600), "Größe\nno newline at the end"]
    paths = [write(f"{number}.txt", text) for number, text in enumerate(texts)]
    report = examine([*paths, write("empty.txt", "")], workers=1)
    assert report["text"] == {
        "documents": 3,
        "empty_documents": 1,
        "left_out_documents": {},
        "bytes": sum(len(text.encode()) for text in texts),
        "characters": sum(map(len, texts)),
        "lines": sum(len(text.splitlines()) for text in texts),
        "words": sum(len(text.split()) for text in texts),
    }
    assert report["sources"]["files"] == 4
    assert report["sources"]["bytes_on_disk"] == report["text"]["bytes"]
    assert report["tokens"] is report["leakage"] is None


def test_sound_text_has_no_findings_but_its_size(write: Write) -> None:
    report = examine([write("a.txt", prose(1)), write("b.txt", prose(2))], workers=1)
    assert keys(report) == ["little"]
    assert report["odd_characters"] == []
    report["text"]["words"] = 10**9
    report["findings"] = []
    assert "nothing wrong found" in draw_page(report)


def test_left_out_files_are_named(write: Write, tmp_path: Path) -> None:
    write("text/a.txt", prose(1))
    write("text/picture.png", b"\x89PNG")
    sources = examine([tmp_path / "text"], workers=1)["sources"]
    assert sources["left_out"] == 1
    assert sources["left_out_first"][0]["source"].endswith("picture.png")


def test_histogram_counts_documents_by_powers_of_two(write: Write) -> None:
    lengths = [1, 2, 3, 4, 7, 8, 100]
    path = write("a.txt", "\n".join(" ".join(["word"] * words) + f" n{words}" for words in [n - 1 for n in lengths]))
    report = examine([path], document="line", workers=1)["lengths"]
    assert [bin["documents"] for bin in report["histogram"]] == [1, 2, 2, 1, 0, 0, 1]
    assert report["histogram"][2] == {"from_words": 4, "to_words": 7, "documents": 2}
    assert (report["shortest_words"], report["median_words"], report["longest_words"]) == (1, 4, 100)
    assert report["shortest"]["position"] == "line 1"
    assert report["longest"]["position"] == "line 7"


def test_mojibake_is_counted_by_lines_and_shown_with_its_place(write: Write) -> None:
    good = "A naïve café – “quoted”, as it should be"
    bad = "She said â€œhelloâ€\x9d and left the cafÃ©"
    other = "another cafÃ©"
    report = examine(
        [write("a.txt", "\n".join([good, bad, good, bad, prose(3), other])), write("b.txt", prose(4))], workers=1
    )
    damage = report["damage"]
    assert damage["mojibake_lines"] == 3
    first, second = damage["mojibake_first"]
    assert first["source"].endswith("a.txt")
    assert first["position"] == "line 2"
    assert first["before"] == bad
    assert first["after"] == "She said “hello” and left the café"
    assert second["position"] == f"line {5 + len(prose(3).splitlines()) + 1}"
    assert "mojibake" in keys(report)


def test_characters_in_parts_are_counted_by_lines(write: Write) -> None:
    lines = ["정말 재미있게 본 영화", unicodedata.normalize("NFD", "정말 재미있게 본 영화"), "café", "cafe\u0301"]
    report = examine([write("a.txt", "\n".join(lines)), write("b.txt", prose(3))], workers=1)
    assert report["damage"]["lines_in_parts"] == 2
    assert "in-parts" in keys(report)
    assert "in-parts" not in keys(examine([write("b.txt", lines[0])], workers=1))


def test_mojibake_in_a_table_is_placed_by_its_row(write: Write) -> None:
    rows = [{"text": prose(1)}, {"text": "first line\nthe cafÃ© again and again"}]
    report = examine([write("a.jsonl", "\n".join(map(json.dumps, rows)))], workers=1)
    assert report["damage"]["mojibake_first"][0]["position"] == "line 2"


def test_characters_that_are_damage_are_counted_by_kind(write: Write) -> None:
    text = "lost \ufffd\ufffd bell \x07 mark \ufeff zero\u200bwidth soft\u00adhyphen\u00ad private \ue000 "
    text += "&amp; &amp; &#39; <p class='x'>tag</p> a < b &nothing; R&D;"
    damage = examine([write("a.txt", prose(1) + text)], workers=1)["damage"]
    assert damage["replacement_characters"] == 2
    assert damage["control_characters"] == 1
    assert damage["byte_order_marks"] == 1
    assert damage["invisible_characters"] == 3
    assert damage["private_characters"] == 1
    assert damage["html_entities_most"] == {"&amp;": 2, "&#39;": 1}
    assert damage["html_tags"] == 2


def test_odd_characters_come_with_code_point_and_name(write: Write) -> None:
    odd = examine([write("a.txt", prose(1) + "é" * 5 + "_" * 3 + "\x07" + "ok.")], workers=1)["odd_characters"]
    assert [(row["code_point"], row["name"], row["count"]) for row in odd] == [
        ("U+00E9", "LATIN SMALL LETTER E WITH ACUTE", 5),
        ("U+005F", "LOW LINE", 3),
        ("U+0007", "(no name)", 1),
    ]


def test_duplicates_exact_and_near_are_told_apart(write: Write) -> None:
    original = prose(1, 600)
    nearly = original.replace("river", "brook", 2)
    texts = {"1.txt": original, "2.txt": prose(2), "3.txt": original, "4.txt": nearly, "5.txt": prose(3)}
    report = examine([write(name, text) for name, text in texts.items()], workers=1)
    duplicates = report["duplicates"]
    assert duplicates["exact_documents"] == 1
    assert duplicates["near_documents"] == 1
    repeated = len(original.encode()) + len(nearly.encode())
    assert duplicates["share_of_bytes"] == pytest.approx(repeated / report["text"]["bytes"])
    pairs = [
        (row["kind"], row["document"]["source"][-5:], row["repeats"]["source"][-5:]) for row in duplicates["examples"]
    ]
    assert pairs == [("exact", "3.txt", "1.txt"), ("near", "4.txt", "1.txt")]


def test_faults_are_counted_by_reason_and_cost_only_their_own_documents(write: Write) -> None:
    lines = [b"a good first line of text", b"a bad \xff byte", b"a good third line", b"another \xfe one"]
    report = examine(
        [write("a.txt", b"\n".join(lines)), write("b.txt.gz", b"not an archive")], workers=1, document="line"
    )
    faults = report["faults"]
    assert faults["by_reason"] == {"damaged": 1, "undecodable": 2}
    assert faults["first"][0]["position"] == "line 2"
    assert "0xff" in faults["first"][0]["message"]
    assert report["text"]["documents"] == 2
    assert keys(report)[0] == "unreadable"


def test_hard_wrapped_documents_are_recognised(write: Write) -> None:
    words = prose(5, 600).lower().split()
    wrapped = "\n".join(" ".join(words[begin : begin + 10]) for begin in range(0, len(words), 10))
    report = examine([write("wrapped.txt", wrapped), write("b.txt", prose(2))], workers=1)
    assert report["wrapped_documents"] == 1
    assert "wrapped" in keys(report)


def test_tokens_are_those_that_prepare_would_write(write: Write, tmp_path: Path) -> None:
    from gpt1.corpus.prepare import prepare

    paths = [write("a.txt", prose(1)), write("b.txt", prose(2) + "odd ☃☃ and Ж here\n")]
    tokenizer = train_tokenizer(paths[:1], "words", 50, tmp_path / "tokenizer.json", workers=1)
    report = examine(paths, tokenizer=tmp_path / "tokenizer.json", workers=1)
    corpus = prepare(paths, tokenizer, tmp_path / "corpus", valid=0.0, workers=1)
    train = corpus["splits"]["train"]
    tokens = report["tokens"]
    assert tokens["tokens"] == train["tokens"]
    assert tokens["unknown_tokens"] == train["unknown_tokens"]
    assert tokens["bytes_per_token"] == pytest.approx(train["bytes"] / train["tokens"])
    assert tokens["paper_batches_per_epoch"] == pytest.approx(train["tokens"] / (64 * 512))
    counts = {row["character"]: row["count"] for row in tokens["unknown_characters"]}
    assert counts["☃"] == 2
    assert counts["ж"] == 1
    assert sum(counts.values()) == tokens["unknown_tokens"]


def test_a_bytes_tokenizer_knows_everything(write: Write, tmp_path: Path) -> None:
    path = write("a.txt", prose(1) + "odd ☃")
    tokenizer = train_tokenizer([path], "bytes", 20, workers=1)
    tokens = examine([path], tokenizer=tokenizer, workers=1)["tokens"]
    assert tokens["unknown_tokens"] == 0
    assert tokens["unknown_characters"] == []


def test_the_report_is_the_same_for_one_worker_and_two(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt1.corpus.batches.BATCH_CHARACTERS", 3_000)
    texts = [prose(number) + "cafÃ© ☃ &amp;\n" for number in (1, 2, 3, 1, 4)]
    paths = [write(f"{number}.txt", text) for number, text in enumerate(texts)]
    task = write("task.jsonl", json.dumps({"text": prose(3), "label": "0"}) + "\n")
    one, two = (examine(paths, against=[task], workers=workers) for workers in (1, 2))
    assert one == two
    assert one["damage"]["mojibake_lines"] == 5
    assert one["duplicates"]["exact_documents"] == 1
    assert json.loads(json.dumps(one)) == one


def test_a_long_document_is_one_document_with_right_line_numbers(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt1.corpus.batches.BATCH_CHARACTERS", 500_000)
    text = "\n".join(prose(number, 50).replace("\n", " ") for number in range(6_500)) + "\nthe cafÃ© at the end\n"
    assert len(text) > 2_000_000
    report = examine([write("long.txt", text)], workers=1)
    assert report["text"]["documents"] == 1
    assert report["text"]["lines"] == 6_501
    assert report["text"]["words"] == len(text.split())
    assert report["damage"]["mojibake_first"][0]["position"] == "line 6501"


def test_text_without_text_is_an_error(write: Write, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"there is no text to examine in what was read \(1 file\): all of it is empty"
    ):
        examine([write("empty.txt", " \n \n")], workers=1)
    with pytest.raises(InputError, match="0xff"):
        examine([write("bad.txt", b"\xff\xff")], workers=1)
    with pytest.raises(InputError, match="does not exist"):
        examine([tmp_path / "nowhere"], workers=1)


def test_choices_that_do_not_fit_are_refused(write: Write) -> None:
    with pytest.raises(SettingError, match="unknown kind of document 'chapter'"):
        examine([write("a.txt", prose(1))], document="chapter", workers=1)
