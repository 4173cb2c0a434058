"""A small deterministic chat model for demonstrations and tests: no key, no network, English only."""
