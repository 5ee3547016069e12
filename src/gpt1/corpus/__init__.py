"""From folders of text to shards of tokens."""
