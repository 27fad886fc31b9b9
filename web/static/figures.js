// Numbers as people read them.

/** @param {number} seconds */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0.001) return `${Number((seconds * 1e6).toPrecision(3))} µs`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

/** The worst error over its limit. @param {number | string | null | undefined} ratio "NaN" and "Infinity" are names */
export function ratio(ratio) {
  if (ratio === null || ratio === undefined) return "–";
  const number = Number(ratio);
  if (!Number.isFinite(number)) return String(ratio);
  if (number < 0.001) return number ? "< 0.001" : "0";
  return number < 10 ? number.toFixed(3) : Number(number.toPrecision(3)).toString();
}

/** @param {number | null | undefined} score */
export const score = (score) => (typeof score === "number" ? score.toFixed(1) : "–");
