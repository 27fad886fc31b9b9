// Requests that change something: a submission, and cancelling one.

import { csrfToken, page } from "./page.js";

/** What the server refused, and why. `status` 0: it could not be reached. */
export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {{code?: string, message?: string, hint?: string}} error of the API
   * @param {number} wait seconds, of Retry-After
   */
  constructor(status, error, wait) {
    super([error.message, error.hint].filter(Boolean).join("; "));
    this.status = status;
    this.code = error.code ?? "";
    this.wait = wait;
  }
}

/** Seconds that Retry-After asks to wait: a number, or a date. @param {string | null} value */
function seconds(value) {
  const found = value && /^\d+$/.test(value) ? Number(value) : (Date.parse(value ?? "") - Date.now()) / 1000;
  return Number.isFinite(found) ? Math.min(Math.max(Math.ceil(found), 1), 3600) : 0;
}

/** @param {string} url @param {RequestInit} request @returns {Promise<any>} @throws {Refusal} */
async function post(url, request) {
  const headers = { ...request.headers, "X-CSRF-Token": csrfToken(), Accept: "application/json" };
  const unreachable = () => { throw new Refusal(0, {}, 0); };
  const response = await fetch(url, { method: "POST", ...request, headers }).catch(unreachable);
  const body = await response.json().catch(() => null);
  if (response.ok && body) return body;
  throw new Refusal(response.status, body?.error ?? {}, seconds(response.headers.get("Retry-After")));
}

/** @returns {string} so that a request that is sent twice counts once */
export const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * @param {{kind: "run" | "submit", source: string, name: string, device?: string}} submission
 * @param {string} key of newKey()
 * @returns {Promise<{id: string, url: string, events_url: string, state: string}>}
 */
export function submit(submission, key) {
  const { problem, dtype, variant } = page;
  const body = JSON.stringify({ problem, dtype, variant, ...submission });
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  return post(page.submissions_url, { body, headers });
}

/** @param {string} id */
export const cancel = (id) => post(`${page.submissions_url}/${encodeURIComponent(id)}/cancel`, {});

/**
 * @param {string} report the address of a submission's page
 * @returns {Promise<{fits: string, url: string, instead_of: string} | null>} null: there is none, or it cannot be had
 */
export const advised = (report) =>
  fetch(`${report}/advice`).then((response) => (response.ok ? response.json() : null)).catch(() => null);
