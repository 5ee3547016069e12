"""Doors: weights and vocabularies of OpenAI's release and of transformers in, transformers and ONNX out."""

# What other rooms may import of this one's modules.
OFFERS = {
    "importing": ["import_openai", "import_transformers"],
    "rewording": ["Ways", "reword_table"],
    "to_compact": ["export_compact"],
    "to_onnx": ["export_onnx"],
    "to_transformers": ["export_transformers"],
    "tokenizer_diff": ["compare_with_transformers", "comparison_blocks"],
}
