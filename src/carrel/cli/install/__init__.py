"""Server entries in the configurations of applications: ``install`` and ``import``."""
