// Received blocks are stored on the browser's disk: they survive a reload, and are removed with the page.

import assert from 'node:assert/strict'
import { mkdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'

import { BY_RELAY_ONLY, launchWithProfile } from '../lib/chromium.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { skipWithout } from '../lib/engines/index.mjs'
import { newFolder } from '../lib/folders.mjs'
import { ageClosedTabs, bytesOnDisk, filesOnDisk } from './browser-storage.mjs'
import { addressOf, newVisitor, WAIT_MS, PageDriver, startServer, newVisitors } from './page-driver.mjs'
import { generated } from './fixtures.mjs'
import { sha256 } from '../lib/hashes.mjs'

const MIB = 1024 * 1024
const FILM = generated(24 * MIB)
/** Bytes of blocks that a reload may lose: those in transit, and those of the last half second. */
const LOST_BYTES_MAX = 8 * MIB

const folder = newFolder()
const film = { files: [path.join(folder, 'film.bin')] }
await writeFile(film.files[0], FILM)

test('a reload keeps the stored blocks and requests only the rest', { skip: skipWithout('disk') }, async (t) => {
  const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': 4 * MIB } })
  const [holder, visitor] = await newVisitors(t, server, 2)
  await visitor.goTo(await holder.sharePage(film))
  await visitor.waitForText(/[56]\d% · /)
  await visitor.tab.reload()
  await visitor.waitUntilComplete()
  const relayed = await server.metric('watchfire_pages_relayed_bytes_total')
  t.diagnostic(`${(relayed / MIB).toFixed(1)} MiB were relayed for a page of 24 MiB`)
  assert(relayed < 24 * MIB + LOST_BYTES_MAX, `${relayed} bytes were relayed`)
  assert.equal(sha256(await readFile(await visitor.saveFile('film.bin'))), sha256(FILM))
  for (const person of [holder, visitor]) person.assertNoPageErrors()
})

test('blocks stored before a reload are served to others, even though their first holder has left', {
  skip: skipWithout('disk'),
}, async (t) => {
  const [holder, visitor, late] = await newVisitors(t, await startServer(t), 3)
  const link = await holder.sharePage(film)
  await visitor.goTo(link)
  await visitor.waitUntilComplete()
  await waitUntil(async () => (await bytesOnDisk(visitor)) > 24 * MIB, 'the whole page is on disk', WAIT_MS)
  await holder.leave()
  await visitor.tab.reload()
  await visitor.waitUntilComplete()
  await late.goTo(link)
  await late.waitUntilComplete()
  assert.equal(sha256(await readFile(await late.saveFile('film.bin'))), sha256(FILM))
})

test('a block that was damaged on disk is fetched again and never shown', { skip: skipWithout('disk') }, async (t) => {
  const server = await startServer(t)
  const [holder, visitor] = await newVisitors(t, server, 2)
  await visitor.goTo(await holder.sharePage(film))
  await visitor.waitUntilComplete()
  await waitUntil(async () => (await bytesOnDisk(visitor)) > 24 * MIB, 'the whole page is on disk', WAIT_MS)
  const before = await server.metric('watchfire_pages_relayed_bytes_total')
  await visitor.tab.evaluate(async () => {
    const firstIn = async (folder) => (await folder.values().next()).value
    const page = await firstIn(await firstIn(await firstIn(await navigator.storage.getDirectory())))
    // The folder lists its files in any order, and the block of one of them is the small root.
    const sizes = new Map()
    for await (const each of page.values()) sizes.set(each, (await each.getFile()).size)
    const [batch] = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a))
    const writable = await batch.createWritable({ keepExistingData: true })
    // The last bytes of the file belong to a leaf.
    await writable.write({ type: 'write', position: (await batch.getFile()).size - 3, data: new Uint8Array([0, 0, 0]) })
    await writable.close()
  })
  await visitor.tab.reload()
  await visitor.waitUntilComplete()
  assert.equal(sha256(await readFile(await visitor.saveFile('film.bin'))), sha256(FILM))
  const again = (await server.metric('watchfire_pages_relayed_bytes_total')) - before
  assert(again > MIB && again < 2 * MIB, `${again} bytes were transferred again`)
})

test('a page that is no longer shared is removed from disk at once, and that of another tab is not', {
  skip: skipWithout('disk'),
}, async (t) => {
  const [holder, one] = await newVisitors(t, await startServer(t), 2)
  const link = await holder.sharePage(film)
  const two = await one.openAnotherTab()
  for (const person of [one, two]) {
    await person.goTo(link)
    await person.waitUntilComplete()
  }
  await waitUntil(async () => (await bytesOnDisk(one)) > 48 * MIB, 'each tab has its own', WAIT_MS)
  await one.tab.getByRole('link', { name: 'Watchfire' }).click()
  await one.tab.getByRole('button', { name: /^Stop sharing/ }).click()
  await waitUntil(async () => (await bytesOnDisk(two)) < 25 * MIB, 'one is removed', WAIT_MS)
  assert.equal(sha256(await readFile(await two.saveFile('film.bin'))), sha256(FILM))
})

test('blocks of a closed tab are removed by the next page of the site, one minute later', { skip: skipWithout('disk') }, async (t) => {
  const [holder, visitor] = await newVisitors(t, await startServer(t), 2)
  await visitor.goTo(await holder.sharePage(film))
  await visitor.waitUntilComplete()
  const other = await visitor.openAnotherTab()
  await waitUntil(async () => (await bytesOnDisk(visitor)) > 24 * MIB, 'the whole page is on disk', WAIT_MS)
  await visitor.leave()

  await other.goTo('/')
  await waitUntil(() => ageClosedTabs(other), 'the tab has left', WAIT_MS)
  await other.tab.reload()
  await waitUntil(async () => (await filesOnDisk(other)).length === 0, 'nothing is left', WAIT_MS)
})

test('without disk access the browser keeps the page in memory and shows a notice', { skip: skipWithout('devtools') }, async (t) => {
  const server = await startServer(t)
  const profile = newFolder()
  await mkdir(path.join(profile, 'Default'))
  // As with a browser setting that lets sites store nothing.
  const preferences = { profile: { default_content_setting_values: { cookies: 2 } } }
  await writeFile(path.join(profile, 'Default', 'Preferences'), JSON.stringify(preferences))
  const context = await launchWithProfile(profile, BY_RELAY_ONLY)
  t.after(() => context.close())
  const holder = await newVisitor(t, server)
  const visitor = await PageDriver.inContext(server, context)
  await visitor.goTo(await holder.sharePage(film))
  await visitor.waitUntilComplete()
  const denied = await visitor.tab.evaluate(() =>
    navigator.storage.getDirectory().then(
      () => 'given',
      ({ name }) => name,
    ),
  )
  assert.equal(denied, 'SecurityError', 'the browser allows disk access')
  await visitor.waitForText(/gives this site no disk space.*kept in memory, up to 512 MiB/)
  assert.equal(sha256(await readFile(await visitor.saveFile('film.bin'))), sha256(FILM))
})

test('a full disk is reported, and the page still loads', { skip: skipWithout('devtools') }, async (t) => {
  const server = await startServer(t)
  const [holder, visitor] = await newVisitors(t, server, 2)
  await visitor.goTo('/')
  const devtools = await visitor.tab.context().newCDPSession(visitor.tab)
  await devtools.send('Storage.overrideQuotaForOrigin', { origin: addressOf(server), quotaSize: 12 * MIB })
  await visitor.goTo(await holder.sharePage(film))
  await visitor.waitUntilComplete()
  await visitor.waitForText(/The disk space that this browser gives this site is full/)
  assert((await bytesOnDisk(visitor)) < 12 * MIB)
  assert.equal(sha256(await readFile(await visitor.saveFile('film.bin'))), sha256(FILM))
})

test('a shared file that changes on disk is reported and withdrawn, and no wrong byte is sent', async (t) => {
  const server = await startServer(t)
  const [one, two] = [path.join(folder, 'changed.bin'), path.join(folder, 'notes.txt')]
  await writeFile(one, FILM)
  await writeFile(two, 'These stay.')
  const [holder, visitor] = await newVisitors(t, server, 2)
  const link = await holder.sharePage({ files: [one, two] })
  // The same size and time but other bytes, which only the hash reveals.
  const wrong = Buffer.from(FILM)
  wrong[5 * MIB] ^= 1
  const { atime, mtime } = await stat(one)
  await writeFile(one, wrong)
  await utimes(one, atime, mtime)
  await visitor.goTo(link)
  await holder.waitForText(/"changed\.bin" was changed or removed after it was shared/)
  await holder.waitForStatus(/^Nobody has /)
  // The title follows after the next paint.
  await waitUntil(async () => (await holder.tab.title()).startsWith('Unavailable: '), 'the title says it', WAIT_MS)
  await visitor.waitForText('The last person who had it has left')
  assert.equal(await visitor.tab.getByText('wrong bytes').count(), 0)
})
