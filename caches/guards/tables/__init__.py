"""The words that guards know: plain tables, made for this project, without code that reads a text."""
