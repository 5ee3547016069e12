import gzip

import pytest

from gpt1.base.errors import FileError, InputError, SettingError
from gpt1.tasks.sentences import LABELS_FIELDS, Sentence, WordFile, labelled_only, words_shape


def read(path, text, **settings):
    path.write_text(text, encoding="utf-8")
    file = WordFile(path, **settings)
    return list(file.sentences()), file


@pytest.fixture
def conll(tmp_path):
    return tmp_path / "names.conll"


def test_a_column_file_is_sentences_between_empty_lines(conll):
    found, file = read(
        conll, "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n  \nPeter NNP I-NP B-PER\n"
    )
    assert found == [
        Sentence(("EU", "rejects"), ("B-ORG", "O"), (3, 4)),
        Sentence(("Peter",), ("B-PER",), (8,)),
    ]
    assert file.notices() == [
        f"{conll}: column 1 of 4 is the word, 4 its label",
        f"{conll}: left out: 1 line that begins with -DOCSTART-",
    ]


def test_columns_may_be_named_by_their_numbers(conll):
    found, _ = read(conll, "1\tEU\tB-ORG\tNNP\n", columns={"tokens": "2", "label": "3"})
    assert found == [Sentence(("EU",), ("B-ORG",), (1,))]


def test_tabs_part_words_that_have_blanks(conll):
    found, _ = read(conll, "New York\tB-LOC\n")
    assert found == [Sentence(("New York",), ("B-LOC",), (1,))]


def test_comments_are_lines_before_a_sentence_with_other_columns_than_words(conll):
    found, file = read(conll, "# a name\nJo B-PER\n# O\n\n# 1 2 3\n# O\n")
    assert found == [
        Sentence(("Jo", "#"), ("B-PER", "O"), (2, 3)),
        Sentence(("#",), ("O",), (6,)),
    ]
    assert file.left_out == {"comments": 2}


def test_windows_line_ends_and_a_byte_order_mark_are_no_part_of_words(conll):
    conll.write_bytes("\ufeffJo O\r\nAl O\r\n\r\nEd O\r\n".encode())
    assert [one.words for one in WordFile(conll).sentences()] == [("Jo", "Al"), ("Ed",)]


def test_a_file_may_be_packed(tmp_path):
    path = tmp_path / "names.conll.gz"
    path.write_bytes(gzip.compress(b"Jo B-PER\n"))
    assert list(WordFile(path).sentences()) == [Sentence(("Jo",), ("B-PER",), (1,))]


UNIVERSAL = """# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tVBP\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tPRP\t_\t1\tobj\t_\t_
2.1\tfue\tser\tAUX\t_\t_\t_\t_\t_\t_
3\tmar\tmar\tNOUN\tNN\t_\t1\tobl\t_\t_

"""


def test_universal_dependencies_give_forms_and_their_parts_of_speech(tmp_path):
    path = tmp_path / "es.conllu"
    found, file = read(path, UNIVERSAL)
    assert found == [Sentence(("vamos", "nos", "mar"), ("VERB", "PRON", "NOUN"), (4, 5, 7))]
    assert file.notices()[0] == f"{path}: CoNLL-U: FORM is the word, UPOS its label"
    assert file.left_out == {"comments": 2, "ranges": 1, "empty nodes": 1}
    (other,), _ = read(path, UNIVERSAL, columns={"label": "xpos"})
    assert other.labels == ("VBP", "PRP", "NN")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Jo O\nAl\n", "line 2: 1 column, and the first word has 2"),
        ("Jo O\nAl B O\n", "line 2: 3 columns, and the first word has 2"),
        ("Jo\tO\n\tO\n", "line 2: column 1, the word, is empty"),
        ("Jo\tO\nAl\t\n", "line 2: the label is empty"),
        ("Jo\tO\nAl\tB PER\n", "line 2: the label 'B PER' has a blank in it"),
    ],
)
def test_a_fault_is_told_with_its_line_and_costs_one_sentence(conll, text, said):
    found, _ = read(conll, f"{text}rest O O\n\nEd{chr(9) if chr(9) in text else ' '}O\n")
    fault, other = found
    assert isinstance(fault, FileError)
    assert str(fault).startswith(f"{conll}, {said}")
    assert other.words == ("Ed",)


def test_words_without_labels_are_read_but_not_learned_from(conll):
    found, _ = read(conll, "Jo\nAl\n\nEd\n")
    assert [one.labels for one in found] == [None, None]
    told = [str(one) for one in labelled_only(found, conll)]
    assert told[1] == f"{conll}, line 4: the words have no labels; each word needs one"


def test_a_file_without_empty_lines_is_no_sentence(conll):
    (fault,), _ = read(conll, "a O\n" * 5_001)
    assert str(fault) == f"{conll}, line 5001: a sentence of more than 5,000 words; an empty line ends a sentence"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"label": "7"}, "has no column '7'; a column is named by its number"),
        ({"label": "1"}, "column 1 cannot be the word and its label"),
        ({"text": "1"}, "unknown role of a column 'text'"),
    ],
)
def test_columns_that_cannot_be_are_refused(conll, columns, said):
    with pytest.raises(SettingError, match=said):
        read(conll, "Jo O\n", columns=columns)


def test_universal_dependencies_have_ten_columns_and_a_label(tmp_path):
    path = tmp_path / "es.conllu"
    with pytest.raises(FileError, match=r"line 1: 2 columns, and CoNLL-U has ten"):
        read(path, "Jo\tO\n")
    (fault,), _ = read(path, "1\tJo\t_\t_\t_\t_\t_\t_\t_\t_\n")
    assert str(fault) == f"{path}, line 1: the word 'Jo' has no UPOS"


@pytest.mark.parametrize("name", LABELS_FIELDS)
def test_lists_of_words_and_labels_are_sentences(tmp_path, name):
    path = tmp_path / "names.jsonl"
    found, _ = read(
        path, f'{{"tokens": ["Jo", "left"], "{name}": ["B-PER", "O"]}}\n\n{{"tokens": ["Ed"], "{name}": [3]}}\n'
    )
    assert found == [Sentence(("Jo", "left"), ("B-PER", "O"), (1, 1)), Sentence(("Ed",), ("3",), (3,))]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"tokens": ["a", "b"], "labels": ["O"]}', "line 2: 2 words and 1 label"),
        ('{"tokens": "a b", "labels": ["O"]}', "line 2: 'tokens' holds 'a b', expected a list, a word an entry"),
        ('{"tokens": ["a", 3], "labels": ["O", "O"]}', "line 2: 'tokens' holds 3, expected words"),
        ('{"tokens": ["a", " "], "labels": ["O", "O"]}', "line 2: 'tokens' holds ' ', expected words"),
        ('{"tokens": ["a"], "labels": [null]}', "line 2: 'labels' holds None, expected labels"),
        ('{"tokens": ["a"], "labels": ["B PER"]}', "line 2: the label 'B PER' has a blank in it"),
        ('{"tokens": [], "labels": []}', "line 2: 'tokens' is empty"),
        ('{"tokens": ["\\ud800"], "labels": ["O"]}', "line 2: "),
        ("[1, 2]", "line 2: "),
    ],
)
def test_a_fault_of_a_list_is_told_with_its_line(tmp_path, line, said):
    path = tmp_path / "names.jsonl"
    good = '{"tokens": ["Jo"], "labels": ["O"]}'
    (_, fault, other), _ = read(path, f"{good}\n{line}\n{good}\n")
    assert str(fault).startswith(f"{path}, {said}")
    assert other.words == ("Jo",)


def test_two_columns_that_may_hold_the_labels_are_asked_about(tmp_path):
    path = tmp_path / "names.jsonl"
    line = '{"tokens": ["Jo"], "ner_tags": ["B-PER"], "pos_tags": ["NNP"]}\n'
    with pytest.raises(SettingError, match="which column has the labels, ner_tags or pos_tags"):
        read(path, line)
    (found,), _ = read(path, line, columns={"label": "pos_tags"})
    assert found.labels == ("NNP",)


def test_the_name_of_a_file_or_a_setting_says_that_words_are_labelled(tmp_path):
    assert words_shape("names.conll", None) == words_shape("x.conllu.xz", "tokens") == "tokens"
    assert words_shape("reviews.jsonl", None) is None
    assert words_shape("reviews.jsonl", "tokens-once") == "tokens-once"
    with pytest.raises(SettingError, match="unknown shape 'token'; did you mean 'tokens'"):
        words_shape("names.conll", "token")
    with pytest.raises(InputError, match=r"names.csv cannot hold a label for each word; such files are .conll"):
        words_shape("names.csv", "tokens")
