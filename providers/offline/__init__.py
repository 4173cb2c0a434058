"""The deterministic chat model: rules over arbitrary input, no key, no network; one file per workflow."""
