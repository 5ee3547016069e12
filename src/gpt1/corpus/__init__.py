"""From folders of text to shards of tokens."""

# What other rooms may import of this one's modules.
OFFERS = {
    "assembly": ["Documents", "Parts"],
    "batches": ["Meter", "announce", "in_batches", "read_batch", "read_positions"],
    "documents": ["DocumentPart", "Fault", "Found", "HUB", "TEXTS", "TextSource", "find_sources", "read_parts"],
    "duplicates": ["DIGEST_BYTES", "SketchIndex", "digest", "find_exact", "sketch"],
    "manifest": ["CORPUS_FILE", "CorpusManifest", "read_corpus", "shards_of", "sums_of"],
    "pages": ["LeftOutCounts", "by_reason"],
    "prepare": ["cutting_for", "describe", "prepare", "prepare_part"],
    "shards": ["CheckedIds", "Shard", "open_shard", "verify_shard"],
    "status": ["describe_status", "read_status"],
    "unwrap": ["HARD_WRAPPED", "STRETCH", "looks_wrapped"],
    "vocabularies": ["train_tokenizer"],
}
