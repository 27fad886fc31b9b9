"""The online softmax of one row, tile by tile: its numbers, its drawings, and its page."""
