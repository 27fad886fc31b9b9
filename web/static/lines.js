// Where a line of the judged text is in the text as it is now.

/** @param {string[]} before @param {string[]} after @param {number} most */
function commonStart(before, after, most) {
  let count = 0;
  while (count < most && before[count] === after[count]) count += 1;
  return count;
}

/**
 * The line's number now: as before the first edit, shifted behind the last one, null in between.
 * @param {number} line 1-based, of the judged text
 * @param {string} judged
 * @param {string} current
 * @returns {number | null}
 */
export function relocate(line, judged, current) {
  if (judged === current) return line;
  const before = judged.split("\n");
  const after = current.split("\n");
  const shorter = Math.min(before.length, after.length);
  const start = commonStart(before, after, shorter);
  if (line <= start) return line;
  const end = commonStart(before.toReversed(), after.toReversed(), shorter - start);
  return line > before.length - end ? line + after.length - before.length : null;
}
