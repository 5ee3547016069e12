"""Corpus, model and loop put together: what a network reads before it has seen a label."""

# What other rooms may import of this one's modules.
OFFERS = {
    "distill": ["distill_text"],
    "measure": ["SPLIT", "corpus_of", "measure_corpus", "measure_text", "window_losses"],
    "objective": ["text_loss"],
    "pretrain": ["pretrain"],
    "stream": ["TokenStream", "validation_text"],
    "windows": ["Windows", "validation_windows"],
}
