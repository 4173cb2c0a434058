"""The workflows, one file each."""
