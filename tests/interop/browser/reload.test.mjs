// Pages survive a reload of their last tab, and its crash: those that were made in it and those that were received.

import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { skipWithout } from '../lib/engines/index.mjs'
import { newFolder } from '../lib/folders.mjs'
import { sha256 } from '../lib/hashes.mjs'
import { ageClosedTabs, bytesOnDisk, filesOnDisk } from './browser-storage.mjs'
import { generated } from './fixtures.mjs'
import { newVisitor, newVisitors, startServer, WAIT_MS } from './page-driver.mjs'

const MIB = 1024 * 1024
const WORDS = 'A text of forty-two bytes, or nearly so.'
const LAST = 'You are the last one. Close this tab and it is gone.'

const folder = newFolder()
const fileOf = async (name, bytes) => {
  const place = path.join(folder, name)
  await writeFile(place, generated(bytes))
  return place
}
const small = await fileOf('small.bin', 110 * 1024)
const large = await fileOf('large.bin', 21 * MIB)

test('an author reloads a text, a file and a private page that nobody else has, and others load them', {
  skip: skipWithout('disk'),
}, async (t) => {
  const server = await startServer(t)
  const [author, late] = await newVisitors(t, server, 2)
  for (const make of [
    () => author.sharePage({ text: WORDS }),
    () => author.sharePage({ files: [small] }),
    () => author.sharePrivately({ text: 'Secret words' }),
  ]) {
    const link = await make()
    for (let n = 0; n < 2; n++) {
      await author.tab.reload()
      await author.waitUntilComplete()
    }
    assert.equal(await author.sharedLink(), link)
    await late.goTo(link)
    await late.waitUntilComplete()
    await late.tab.goto('about:blank')
  }
  for (const person of [author, late]) person.assertNoPageErrors()
})

test('the last reader of a small page is told, reloads it, and others load it', { skip: skipWithout('disk') }, async (t) => {
  const [author, reader, late] = await newVisitors(t, await startServer(t), 3)
  const link = await author.sharePage({ files: [small] })
  await reader.goTo(link)
  await reader.waitUntilComplete()
  await waitUntil(async () => (await bytesOnDisk(reader)) > 100 * 1024, 'the page is on disk', WAIT_MS)
  assert.equal(await reader.tab.getByText(LAST).count(), 0)
  await author.leave()
  await reader.waitForText(LAST)
  await reader.tab.getByRole('button', { name: 'Share', exact: true }).click()
  await reader.tab.getByRole('button', { name: 'Copied', exact: true }).waitFor()
  await reader.tab.reload()
  await reader.waitForText(LAST)
  await late.goTo(link)
  await late.waitUntilComplete()
  await reader.waitForTextGone(LAST)
  assert.equal(sha256(await readFile(await late.saveFile('small.bin'))), sha256(await readFile(small)))
})

test('pages of several tabs that are reloaded at the same time stay apart, and each tab keeps those that it does not show', {
  skip: skipWithout('disk'),
}, async (t) => {
  const [one] = await newVisitors(t, await startServer(t), 1)
  const two = await one.openAnotherTab()
  const links = [await one.sharePage({ text: 'First of one' }), await two.sharePage({ text: 'First of two' })]
  await one.tab.getByRole('link', { name: 'Watchfire' }).click()
  await one.compose({ text: 'Second of one' })
  await one.tab.getByRole('button', { name: 'Light this page' }).click()
  await one.waitForText('2 pages open in this tab')
  await waitUntil(async () => (await filesOnDisk(one)).length === 3, 'all pages are on disk', WAIT_MS)
  await Promise.all([one.tab.reload(), two.tab.reload()])
  await one.waitForText('Second of one')
  await one.waitForText('2 pages open in this tab')
  await two.waitForText('First of two')
  const late = await newVisitor(t, { port: new URL(links[0]).port })
  await late.goTo(links[0])
  await late.waitForText('First of one')
})

test('a page of 21 MiB says before that a reload ends it, and its author reads until when it was here', async (t) => {
  const [author] = await newVisitors(t, await startServer(t), 1)
  await author.sharePage({ files: [large] })
  await author.waitForText(/too large for a copy in this browser.*a reload of this tab ends it/)
  await author.tab.reload()
  await author.waitForText(/You had large\.bin in this tab until/)
  await author.waitForText('Add the same files again')
  assert.equal(await author.tab.getByText('the person who sent you the link').count(), 0)
})

test('a browser without room for a page says so before, and gives back its text after a reload', {
  skip: skipWithout('init-scripts'),
}, async (t) => {
  const author = await newVisitor(t, await startServer(t))
  await author.tab.addInitScript(() => {
    // As in a private window of some browsers.
    navigator.storage.getDirectory = () => Promise.reject(new DOMException('', 'SecurityError'))
  })
  const link = await author.sharePage({ text: WORDS })
  await author.waitForText(/no place for a copy of this page.*a reload of this tab ends it/)
  await author.tab.reload()
  await author.waitForText(/in this tab until/)
  await author.waitForText(WORDS)
  await author.tab.getByRole('button', { name: 'Back to the editor' }).click()
  await author.tab.getByRole('button', { name: 'Light this page' }).click()
  assert.equal(await author.sharedLink(), link)
})

test('a page survives the crash of its tab, also when another tab of the site is open', { skip: skipWithout('devtools') }, async (t) => {
  const [author, late] = await newVisitors(t, await startServer(t), 2)
  const link = await author.sharePage({ files: [small] })
  const other = await author.openAnotherTab()
  await other.goTo('/')
  const devtools = await author.tab.context().newCDPSession(author.tab)
  const crashed = author.tab.waitForEvent('crash')
  devtools.send('Page.crash').catch(() => undefined)
  await crashed
  // Later than the minute in which a tab that was closed could return.
  await other.tab.reload()
  await waitUntil(() => ageClosedTabs(other), 'the other tab has found it', WAIT_MS)
  await other.tab.reload()
  await other.tab.getByRole('button', { name: 'Light this page' }).waitFor()
  await late.goTo(link)
  await late.waitForText('Waiting for somebody who has small.bin')
  await devtools.send('Page.reload')
  await late.waitUntilComplete()
})
