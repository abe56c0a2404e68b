"""Language models of vendors, each through the vendor's own SDK, which is imported when a model is opened."""
