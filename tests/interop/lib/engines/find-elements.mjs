// Finds elements as Playwright's locators do, inside a page. Roles and names come from DOM Testing Library.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const library = readFileSync(createRequire(import.meta.url).resolve('@testing-library/dom/dist/@testing-library/dom.umd.min.js'), 'utf8')

/** The body of a function that puts the library and `find` into a page. */
export const INSTALL = `const exports = {}, module = { exports }
${library}
window['__watchfireTest'] = { library: exports, isVisible: ${isVisible}, matches: ${matches}, step: ${step}, find: ${find} }`

/** True if the element takes space and is not hidden. Runs in the page. */
function isVisible(element) {
  const { width, height } = element.getBoundingClientRect()
  if (element.ownerDocument.defaultView.getComputedStyle(element).display === 'contents') {
    return [...element.children].some((child) => window['__watchfireTest'].isVisible(child))
  }
  return width > 0 && height > 0 && element.checkVisibility({ visibilityProperty: true })
}

/** Whether a text has these words: a substring in any case, all of it in the same case, or a pattern. Runs in the page. */
function matches(text, { words, exact, pattern, flags }) {
  const flat = text.replaceAll(/\s+/g, ' ').trim()
  if (pattern !== undefined) return new RegExp(pattern, flags).test(flat)
  return exact ? flat === words : flat.toLowerCase().includes(words.replaceAll(/\s+/g, ' ').trim().toLowerCase())
}

/** The elements below one element that a step of a locator finds. Runs in the page. */
function step(from, { by, value, wanted }) {
  const { library, matches } = window['__watchfireTest']
  const fits = (text) => matches(text ?? '', wanted)
  if (by === 'css') return [...from.querySelectorAll(value)]
  if (by === 'role') {
    const name = wanted === null ? {} : { name: fits }
    return library.queryAllByRole(from, value, name)
  }
  if (by === 'label') return library.queryAllByLabelText(from, (text) => fits(text))
  if (by === 'alt') return [...from.querySelectorAll('[alt]')].filter((each) => fits(each.getAttribute('alt')))
  // The smallest elements with this text; as in Playwright, the element itself is one of them.
  const all = [from, ...from.querySelectorAll('*')].filter((each) => !each.matches('script, style, noscript, head, head *'))
  const textOf = (each) => (each.matches('input[type=button], input[type=submit]') ? each.value : each.textContent)
  const having = new Set(all.filter((each) => fits(textOf(each))))
  return [...having].filter((each) => ![...each.children].some((child) => having.has(child)))
}

/** All elements that a locator finds, in the order of the document. Runs in the page. */
function find(steps) {
  // An element of a hostile page may have the name of a member of its document, which then hides that member.
  let found = [Reflect.get(Document.prototype, 'documentElement', document)]
  for (const each of steps) {
    if (each.by === 'nth') {
      found = found.slice(each.value, each.value + 1)
      continue
    }
    if (each.by === 'visible') {
      found = found.filter(window['__watchfireTest'].isVisible)
      continue
    }
    if (each.by === 'has-text') {
      found = found.filter((element) => window['__watchfireTest'].matches(element.textContent, each.wanted))
      continue
    }
    found = [...new Set(found.flatMap((from) => window['__watchfireTest'].step(from, each)))]
    found.sort((a, b) => (a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1))
  }
  return found
}
