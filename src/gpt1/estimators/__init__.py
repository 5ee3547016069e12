"""The scikit-learn front: a pre-trained run as an estimator that learns from labelled texts or pairs of them."""

from gpt1.estimators.embedder import GPTEmbedder
from gpt1.estimators.estimators import GPTClassifier, GPTRegressor

__all__ = ["GPTClassifier", "GPTEmbedder", "GPTRegressor"]
