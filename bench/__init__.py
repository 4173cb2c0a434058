"""Figures, each as a ratio beside a peer or a floor in the same run."""
