// The actions of people on a live page.

import { WAIT_MS } from '../page-driver.mjs'

/** Begins a live page with these words as its first entry; returns its link. */
export async function beginLive(person, title, words) {
  await person.goTo('/')
  await person.tab.getByRole('switch', { name: 'Live' }).check()
  await person.tab.getByRole('textbox', { name: 'Title of the page' }).fill(title)
  await person.compose({ text: words, as: 'Text' })
  await person.tab.getByRole('button', { name: 'Light this page' }).click()
  await person.tab.getByRole('heading', { name: title, level: 1 }).waitFor()
  return person.sharedLink()
}

/** Adds a text to the page. */
export async function add(person, words, as = 'Text') {
  const form = person.tab.getByRole('form', { name: 'Add to this page' })
  await form.getByText(as, { exact: true }).click()
  await form.getByRole('textbox', { name: 'Next entry' }).fill(words)
  await form.getByRole('button', { name: 'Add entry' }).click()
}

const entriesOf = ({ tab }) => tab.getByRole('list', { name: 'Entries, the newest first' }).locator(':scope > li')

/** The text of each entry, the newest first, once there are `count`. */
export async function wordsOf(person, count) {
  await entriesOf(person)
    .nth(count - 1)
    .waitFor({ timeout: WAIT_MS })
  await person.tab.locator('.feed .fetching').first().waitFor({ state: 'detached', timeout: WAIT_MS })
  const words = await person.tab.locator('.feed > li .words, .feed > li .prose').allTextContents()
  return words.map((each) => each.trim())
}

/** The form with which the publisher adds entries. */
export const formOf = ({ tab }) => tab.getByRole('form', { name: 'Add to this page' })

/** A copy of the visitor's tab, with its address and its session storage, as *Duplicate tab* makes it. */
export async function duplicate(person) {
  const copy = await person.openAnotherTab()
  await copy.leave()
  const opened = person.tab.waitForEvent('popup')
  await person.tab.evaluate(() => void window.open(location.href))
  copy.tab = await opened
  return copy
}

/** The number of keys of live pages that the browser has stored. */
export function keysOf({ tab }) {
  return tab.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const opening = indexedDB.open('watchfire-keys')
        opening.onerror = () => reject(opening.error)
        opening.onupgradeneeded = () => opening.transaction.abort()
        opening.onsuccess = () => {
          const counting = opening.result.transaction('keys').objectStore('keys').count()
          counting.onsuccess = () => resolve(counting.result)
          opening.result.close()
        }
      }),
  )
}
