"""The offline model at landing pages: sentences about a page to edits of it."""
