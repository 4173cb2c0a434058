"""Landing pages: elements, edits, styles and rendering."""
