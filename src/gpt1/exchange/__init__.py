"""Doors: weights and vocabularies of OpenAI's release and of transformers in, transformers and ONNX out."""
