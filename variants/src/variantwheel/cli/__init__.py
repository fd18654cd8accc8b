"""The maintainer's verbs, found through the entry points `variantwheel.verbs`."""
