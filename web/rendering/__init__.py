"""Texts -> HTML: statements in Markdown, source code, and the difference of two sources.

Whatever comes in, what goes out is safe to put into a page: escaped, control characters shown as `\\x1b`, without style
attributes or scripts, and bounded in size. The colours are those of static/statement.css.
"""
