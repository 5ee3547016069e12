"""Linear models beside the network: counted words, and who of the two answers."""

# What other rooms may import of this one's modules.
OFFERS = {
    "ensemble": ["ALONE", "Weights", "choose_members", "judging_thresholds", "own_thresholds", "pool"],
    "files": ["Ensemble", "ensemble_files", "read_ensembles", "write_words"],
    "tagger": ["NAME", "WordTagger"],
    "words": ["Texts", "VERSION", "WordModel", "answer_by_words", "encoded_texts", "learn_words"],
}
