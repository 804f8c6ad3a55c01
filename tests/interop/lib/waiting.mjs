// Waiting for what must happen, with a deadline and a name for what did not.

import { setTimeout as pause } from 'node:timers/promises'

/** How long anything may take that should be immediate, on a machine that has much else to do. */
export const SOON_MS = 15_000

/** The promise's own end, or an error that says what was waited for in vain. */
export async function within(promise, what, ms = SOON_MS) {
  const late = new Error(`waited ${ms} ms in vain: ${what}`)
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

/** Ask again and again until the answer is true-like; for what sends no event when it changes. */
export async function until(question, what, ms = SOON_MS) {
  const end = performance.now() + ms
  for (;;) {
    const answer = await question()
    if (answer) return answer
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`)
    await pause(10)
  }
}

/** What arrives, in order, taken one by one. */
export class Inbox {
  /** Everything that ever arrived. */
  all = []
  #taken = 0
  #waiting = new Set()

  put = (item) => {
    this.all.push(item)
    for (const wake of this.#waiting) wake()
  }

  /** The next item, or with a `wanted` the next for which that is true; what is before it is skipped. */
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
        this.#waiting.delete(wake) // What comes next is for the next to ask.
        resolve(item)
      }
      this.#waiting.add(wake)
    })
    try {
      return await within(arrival, what, ms)
    } finally {
      this.#waiting.delete(wake)
    }
  }
}
