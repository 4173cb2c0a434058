"""The deterministic chat model: real rules over arbitrary input, no key and no network; one file per workflow."""
