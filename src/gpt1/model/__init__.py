"""Networks and nothing but networks: the paper's Transformer, its modern variants, its LSTM, and their loss."""

from gpt1.model.classifier import Classifier, HeadShape, WindowPacking, build_classifier
from gpt1.model.dropout import DropoutKey, dropout_key
from gpt1.model.for_inference import prepare_for_inference, quantize_int8
from gpt1.model.kv_cache import CacheStep, KVCache
from gpt1.model.loss import linear_cross_entropy, linear_divergence, token_losses
from gpt1.model.network import Model, attention_weights, build_model, read, require_causal
from gpt1.model.packing import Packing, pack

__all__ = [
    "CacheStep",
    "Classifier",
    "DropoutKey",
    "HeadShape",
    "KVCache",
    "Model",
    "Packing",
    "WindowPacking",
    "attention_weights",
    "build_classifier",
    "build_model",
    "dropout_key",
    "linear_cross_entropy",
    "linear_divergence",
    "pack",
    "prepare_for_inference",
    "quantize_int8",
    "read",
    "require_causal",
    "token_losses",
]

# What other rooms may import of this one's modules.
OFFERS = {
    "attention": ["SHORT"],
    "classifier": ["head_name"],
    "costs": [
        "FEED_FORWARD",
        "PROJECTIONS",
        "Parameters",
        "SCORES",
        "count_parameters",
        "flops_per_token",
        "layer_flops_per_token",
        "product_weights",
        "recurrent_flops_per_token",
    ],
    "cuda_graphs": ["Pass", "Recorder"],
    "fusing": ["fuses"],
    "kernels.adam": ["fused_update"],
    "kernels.decode": ["Decoder", "next_state", "why_not"],
    "layers": ["LAYER_EPSILON", "adding_in_products"],
    "loss": ["CPU_LOGITS", "CUDA_LOGITS"],
    "transformer": ["why_not_fused"],
}
