// Records a walk through the app: each step with what a person did, and what they were told or what had the focus.

import assert from 'node:assert/strict'

import { checkAccessibility, describeResult } from '../../lib/accessibility.mjs'

/** Notes the texts that live regions announce. Of the texts of one region, the last counts. */
export function noteAnnouncements(context) {
  return context.addInitScript(() => {
    window.announced = new Map()
    const live = '[role=status], [role=alert], [aria-live=polite], [aria-live=assertive]'
    const texts = new WeakMap()
    const look = () => {
      for (const region of document.querySelectorAll(live)) {
        const text = region.textContent.replaceAll(/\s+/g, ' ').trim()
        if (text === '' || texts.get(region) === text || region.parentElement?.closest(live)) continue
        texts.set(region, text)
        window.announced.delete(region)
        window.announced.set(region, text)
      }
    }
    new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true })
  })
}

/** One walk: its title, and its steps as Markdown. */
export class Walk {
  #lines = []

  constructor(title, about) {
    this.#lines.push(`## ${title}`, '', about, '')
  }

  /** Adds a step; `details` are what the person hears, or where the focus is. */
  step(action, details) {
    this.#lines.push(`${action}`, '', '```text', ...details.map(withoutPort), '```', '')
  }

  /** Asserts that axe finds nothing on the page. */
  async check({ tab }, where) {
    const { violations } = await checkAccessibility(tab)
    assert.deepEqual(violations.map(describeResult), [], `axe finds nothing on ${where}`)
  }

  toString() {
    return this.#lines.join('\n')
  }
}

/** The texts that were announced since the last call. */
export function takeAnnounced({ tab }) {
  return tab.evaluate(() => {
    const texts = [...window.announced.values()]
    window.announced.clear()
    return texts
  })
}

function withoutPort(line) {
  return line.replaceAll(/http:\/\/localhost:\d+/g, 'https://watchfire.example')
}
