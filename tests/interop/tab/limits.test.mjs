// Folders that are too much for one tab: it says so, nothing is lost, and it stays usable.

import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

import { drop } from '../browser/dropped-files.mjs'
import { newVisitor, startServer } from '../browser/page-driver.mjs'
import { newFolder } from '../lib/folders.mjs'

/** Longest wait for a step, on a machine that may be very busy. */
const STEP_MS = 240_000
/** The most that a page may have. */
const FILES_MAX = 65_536
/** The most that one drop may add. */
const DROPPED_MAX = 20_000

test('more files than a page may have are refused with the limit, and the draft stays', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.waitForText('Up to')
  await person.compose({ text: 'The words beside the files.' })
  await person.tab.locator('input[type=file]').evaluate((picker, count) => {
    const picked = new DataTransfer()
    for (let i = 0; i < count; i++) picked.items.add(new File([`${i}`], `${i}.txt`))
    const input = /** @type {HTMLInputElement} */ (picker)
    input.files = picked.files
    input.dispatchEvent(new Event('change', { bubbles: true }))
  }, FILES_MAX)
  const files = person.tab.getByRole('list', { name: 'Files' })
  await files.waitFor({ timeout: STEP_MS })
  await person.tab.getByRole('button', { name: 'Light this page' }).click({ timeout: STEP_MS })
  await person.tab
    .getByRole('alert')
    .getByText(/more than 65,536 (entries|blocks)/)
    .waitFor({ timeout: STEP_MS })
  assert.equal(await person.tab.getByRole('textbox', { name: 'Text of the page' }).inputValue(), 'The words beside the files.')
  assert.equal(await files.locator('li').count(), 51, 'the first fifty files, and how many more there are')
  person.assertNoPageErrors()
})

test('a dropped folder of 100,000 empty files: the first are added, and the person learns how to share all', async (t) => {
  const place = path.join(newFolder(t), 'empty')
  for (let i = 0; i < 100; i++) {
    const folder = path.join(place, `part ${i}`)
    mkdirSync(folder, { recursive: true })
    for (let n = 0; n < 1000; n++) writeFileSync(path.join(folder, `${n}.txt`), '')
  }
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.waitForText('Up to')
  await drop(person, [place])
  await person.waitForText('Only the first 20,000 files were added. Share a larger folder in a terminal, with “watchfire share”.', STEP_MS)
  await person.tab.getByRole('button', { name: 'Light this page' }).click({ timeout: STEP_MS })
  await person.waitUntilComplete(STEP_MS)
  await person.waitForText(`${DROPPED_MAX.toLocaleString('en')} files`, STEP_MS)
  await assertIsUsable(person)
  person.assertNoPageErrors()
})

/** Goes on to the home page, and writes. */
async function assertIsUsable(person) {
  await person.tab.getByRole('link', { name: 'Watchfire' }).click()
  const box = person.tab.getByRole('textbox', { name: 'Text of the page' })
  await box.fill('Still here.')
  await person.waitForText('Still here.')
}
