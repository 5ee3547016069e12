"""Text to ids and back: the paper's tokenizer, a byte-level one, and training a vocabulary for either."""

# What other rooms may import of this one's modules.
OFFERS = {
    "chunks": ["Ids", "Offsets", "number_chunks"],
    "cleaning": ["TAME", "clean", "repaired", "to_utf8"],
    "language": ["Language", "look_at_language"],
    "normal_form": ["TO_WHOLE", "is_in_parts"],
    "pieces": ["LIMIT", "pieces"],
    "spans": ["Span", "owners", "split_words", "without", "word_spans"],
    "specials": ["SPECIALS", "special_ids"],
    "splitting": ["Splitter"],
    "streaming": ["TextStream"],
    "synonyms": ["Synonyms", "Tokens", "WordEdges", "read_synonyms", "word_edges"],
    "tokenizer": [
        "FILE_NAME",
        "FORMAT",
        "KINDS",
        "Tokenizer",
        "Vocabulary",
        "joints_before",
        "load_tokenizer",
        "new_tokenizer",
        "tokenizer_target",
    ],
    "training": ["CHARACTERS", "WordCounter", "import_tokenizer", "train_bytes", "train_words"],
    "unknowns": ["in_numbers", "is_told", "text_notice"],
    "words": ["UNKNOWN", "WORD_END"],
}
