from pathlib import Path

from gpt1.documents.table import table_blocks
from gpt1.documents.terminal import render
from gpt1.inspection.table import examine_table
from gpt1.tasks.checking import TableReport
from gpt1.text.tokenizer import Tokenizer


def examine(path: Path, text: str, tokenizer: Tokenizer, **how: object) -> TableReport:
    path.write_text(text)
    tokenizer.save(path.with_name("tokenizer.json"), overwrite=True)
    return examine_table(path, tokenizer=path.parent, context=16, **how)


def found(report: TableReport) -> dict[str, tuple[str, list[int]]]:
    return {one.key: (one.what, one.rows) for one in report.findings}


GOOD = "".join(f"Ann{place} B-PER\nsold O\nnothing O\n\n" for place in range(110))
PLACES = "".join(f"Tom{place} B-LOC\nwas O\n\n" for place in range(100))


def test_a_sound_file_is_fit_and_its_spans_are_told(tmp_path: Path, bytes_tokenizer: Tokenizer) -> None:
    report = examine(tmp_path / "names.conll", GOOD + PLACES, bytes_tokenizer)
    assert (report.is_fit, report.rows, report.words, report.scheme) == (True, 210, (530, 3, 3), "BIO")
    assert report.labels == {"PER": 110, "LOC": 100}
    assert report.findings == []


def test_all_that_is_wrong_is_told_at_once_with_its_lines(tmp_path: Path, bytes_tokenizer: Tokenizer) -> None:
    twice = "Ann B-PER\nlost O\n\n" * 2
    text = f"Ann B-PER\nsold\n\nTom B-PER X\n\n{twice}Ann O\nlost O\n\nthe O\nHill I-LOC\n"
    report = examine(tmp_path / "names.conll", text, bytes_tokenizer)
    assert not report.is_fit
    told = found(report)
    assert told["bad-sentences"] == ("2 sentences that cannot be used", [2, 4])
    assert told["loose-labels"] == ("1 label that BIO does not allow there", [16])
    assert told["duplicates"] == ("1 sentence with words and labels of an earlier one", [9])
    assert told["two-labels"] == ("1 sentence with words of an earlier one, and other labels", [12])
    assert told["rare-labels"][0] == "2 labels of fewer than 5 spans: 'PER' (2), 'LOC' (1)"
    assert examine(tmp_path / "names.conll", text, bytes_tokenizer, skip_bad=True).is_fit


def test_a_file_in_which_nothing_can_be_used_is_not_fit(tmp_path: Path, bytes_tokenizer: Tokenizer) -> None:
    assert "no-rows" in found(examine(tmp_path / "names.conll", "Ann\n\nTom\n", bytes_tokenizer))
    assert "one-label" in found(examine(tmp_path / "names.conll", "Ann O\nTom O\n", bytes_tokenizer))


def test_a_file_that_cannot_be_read_to_its_end_says_where(tmp_path: Path, bytes_tokenizer: Tokenizer) -> None:
    path = tmp_path / "names.conll"
    path.write_bytes(b"Ann B-PER\nsold O\n\nAnn\xe9 O\n")
    bytes_tokenizer.save(tmp_path / "tokenizer.json")
    report = examine_table(path, tokenizer=tmp_path, context=16)
    assert "the byte 0xe9 is not utf-8 text" in found(report)["undecodable"][0] + report.findings[0].advice


def test_long_sentences_are_read_in_windows_and_that_is_told(tmp_path: Path, bytes_tokenizer: Tokenizer) -> None:
    long = "".join(f"Ann{place} B-PER\n" for place in range(30))
    report = examine(tmp_path / "names.conll", f"{GOOD}{PLACES}\n{long}", bytes_tokenizer)
    assert report.tokens is not None
    assert (report.tokens.long_rows > 0, report.tokens.windows > 5, report.tokens.cut_rows) == (True, True, 0)
    lines = render(table_blocks(report), width=100, is_terminal=False)
    assert "windows of whole words" in lines
    assert "spans (BIO)" in lines


def test_characters_that_the_vocabulary_does_not_have_are_told(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    report = examine(
        tmp_path / "tags.jsonl", '{"tokens": ["日本", "だ"], "labels": ["N", "V"]}\n', words_tokenizer, shape="tokens"
    )
    (one,) = [one for one in report.findings if one.key == "unknown-tokens"]
    assert one.stops
