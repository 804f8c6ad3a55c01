// Waits with a timeout, and an error that names the event that did not happen.

import { clearTimeout, setTimeout } from 'node:timers'
import { setTimeout as pause } from 'node:timers/promises'

/** Timeout for immediate events, on a machine that may be very busy. */
export const SOON_MS = 15_000

/** Resolves like the promise, or rejects after `ms` with an error that names `what`. */
export async function withTimeout(promise, what, ms = SOON_MS) {
  const late = new Error(`timed out after ${ms} ms: ${what}`)
  let timer
  const deadline = new Promise((_, reject) => {
    timer = setTimeout(() => reject(late), ms)
  })
  try {
    return await Promise.race([promise, deadline])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Polls until the result is truthy, for state that changes without an event.
 * @param {() => any} condition
 * @param {string | (() => string)} what named in the error; a function names the state at that moment
 */
export async function waitUntil(condition, what, ms = SOON_MS) {
  const end = performance.now() + ms
  for (;;) {
    const result = await condition()
    if (result) return result
    if (performance.now() > end) throw new Error(`timed out after ${ms} ms: ${typeof what === 'function' ? what() : what}`)
    await pause(10)
  }
}

/** Items in order of arrival, taken one at a time. */
export class Inbox {
  /** Every item that has arrived. */
  all = []
  #taken = 0
  #waiting = new Set()

  put = (item) => {
    this.all.push(item)
    for (const wake of this.#waiting) wake()
  }

  /**
   * The next item for which `wanted` is true; earlier ones are skipped.
   * @param {(item: any) => unknown} [wanted]
   * @returns {Promise<any>}
   */
  async next(wanted = () => true, what = wanted.toString(), ms = SOON_MS) {
    const found = () => {
      while (this.#taken < this.all.length) {
        const item = this.all[this.#taken++]
        if (wanted(item)) return [item]
      }
      return undefined
    }
    const [item] = found() ?? (await this.#arrival(found, what, ms))
    return item
  }

  /** The next `count` items. */
  async take(count, what = `${count} items`, ms = SOON_MS) {
    const items = []
    for (let index = 0; index < count; index++) {
      items.push(await this.next(() => true, `${what}, got ${index}`, ms))
    }
    return items
  }

  async #arrival(found, what, ms) {
    let wake
    const arrival = new Promise((resolve) => {
      wake = () => {
        const item = found()
        if (!item) return
        this.#waiting.delete(wake) // Later items are for the next caller.
        resolve(item)
      }
      this.#waiting.add(wake)
    })
    try {
      return await withTimeout(arrival, what, ms)
    } finally {
      this.#waiting.delete(wake)
    }
  }
}
