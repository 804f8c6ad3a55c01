// What is received lies on the browser's own disk: it outlives a reload, and not the page.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'

import { BY_RELAY_ONLY, launchWithProfile } from '../lib/chromium.mjs'
import { until } from '../lib/waiting.mjs'
import { aMinuteLater, bytesOnDisk, filesOnDisk } from './disk.mjs'
import { addressOf, arrive, PATIENCE_MS, Person, serve } from './people.mjs'
import { generated } from './things.mjs'

const MIB = 1024 * 1024
const FILM = generated(24 * MIB)
/** What a reload may cost: blocks that were on their way, and those of the last half second. */
const CUT_BYTES_MAX = 8 * MIB

const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
after(() => rm(folder, { recursive: true }))
const film = { files: [path.join(folder, 'film.bin')] }
await writeFile(film.files[0], FILM)

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')

test('a reload goes on from the blocks that are here, and asks only for the rest', async (t) => {
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': 4 * MIB } })
  const [holder, visitor] = [await arrive(t, server), await arrive(t, server)]
  await visitor.goTo(await holder.light(film))
  await visitor.sees(/[56]\d% · /)
  await visitor.tab.reload()
  await visitor.holdsIt()
  const relayed = await server.metric('watchfire_pages_relayed_bytes_total')
  t.diagnostic(`${(relayed / MIB).toFixed(1)} MiB were relayed for a page of 24 MiB`)
  assert(relayed < 24 * MIB + CUT_BYTES_MAX, `${relayed} bytes were relayed`)
  assert.equal(sha256(await readFile(await visitor.saves('film.bin'))), sha256(FILM))
  for (const person of [holder, visitor]) person.hasNoComplaints()
})

test('what came before a reload is served to others, though its first holder has gone', async (t) => {
  const server = await serve(t)
  const [holder, visitor, late] = [await arrive(t, server), await arrive(t, server), await arrive(t, server)]
  const link = await holder.light(film)
  await visitor.goTo(link)
  await visitor.holdsIt()
  await until(async () => (await bytesOnDisk(visitor)) > 24 * MIB, 'all of it is on disk', PATIENCE_MS)
  await holder.leave()
  await visitor.tab.reload()
  await visitor.holdsIt()
  await late.goTo(link)
  await late.holdsIt()
  assert.equal(sha256(await readFile(await late.saves('film.bin'))), sha256(FILM))
})

test('a block that was damaged on disk meanwhile is fetched again, and never shown', async (t) => {
  const server = await serve(t)
  const [holder, visitor] = [await arrive(t, server), await arrive(t, server)]
  await visitor.goTo(await holder.light(film))
  await visitor.holdsIt()
  await until(async () => (await bytesOnDisk(visitor)) > 24 * MIB, 'all of it is on disk', PATIENCE_MS)
  const before = await server.metric('watchfire_pages_relayed_bytes_total')
  await visitor.tab.evaluate(async () => {
    const firstIn = async (folder) => (await folder.values().next()).value
    const page = await firstIn(await firstIn(await firstIn(await navigator.storage.getDirectory())))
    const batch = await firstIn(page)
    const writable = await batch.createWritable({ keepExistingData: true })
    // Its last bytes are those of a block.
    await writable.write({ type: 'write', position: (await batch.getFile()).size - 3, data: new Uint8Array([0, 0, 0]) })
    await writable.close()
  })
  await visitor.tab.reload()
  await visitor.holdsIt()
  assert.equal(sha256(await readFile(await visitor.saves('film.bin'))), sha256(FILM))
  const again = (await server.metric('watchfire_pages_relayed_bytes_total')) - before
  assert(again > MIB && again < 2 * MIB, `${again} bytes came again`)
})

test('a page that is let go of is removed from the disk at once, and one of another tab is not', async (t) => {
  const server = await serve(t)
  const [holder, one] = [await arrive(t, server), await arrive(t, server)]
  const link = await holder.light(film)
  const two = await one.withAnotherTab()
  for (const person of [one, two]) {
    await person.goTo(link)
    await person.holdsIt()
  }
  await until(async () => (await bytesOnDisk(one)) > 48 * MIB, 'each tab has its own', PATIENCE_MS)
  await one.tab.getByRole('link', { name: 'Watchfire' }).click()
  await one.tab.getByRole('button', { name: /^Let go of/ }).click()
  await until(async () => (await bytesOnDisk(two)) < 25 * MIB, 'one is removed', PATIENCE_MS)
  assert.equal(sha256(await readFile(await two.saves('film.bin'))), sha256(FILM))
})

test('what a closed tab leaves is removed by the next page of the site, a minute later', async (t) => {
  const server = await serve(t)
  const [holder, visitor] = [await arrive(t, server), await arrive(t, server)]
  await visitor.goTo(await holder.light(film))
  await visitor.holdsIt()
  const other = await visitor.withAnotherTab()
  await until(async () => (await bytesOnDisk(visitor)) > 24 * MIB, 'all of it is on disk', PATIENCE_MS)
  await visitor.leave()

  await other.goTo('/')
  await until(() => aMinuteLater(other), 'the tab has left', PATIENCE_MS)
  await other.tab.reload()
  await until(async () => (await filesOnDisk(other)).length === 0, 'nothing is left', PATIENCE_MS)
})

test('a browser that denies us its disk keeps the page in memory and says so', async (t) => {
  const server = await serve(t)
  const profile = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
  t.after(() => rm(profile, { recursive: true, maxRetries: 5 }))
  await mkdir(path.join(profile, 'Default'))
  // As someone has it who lets sites store nothing.
  const preferences = { profile: { default_content_setting_values: { cookies: 2 } } }
  await writeFile(path.join(profile, 'Default', 'Preferences'), JSON.stringify(preferences))
  const context = await launchWithProfile(profile, BY_RELAY_ONLY)
  t.after(() => context.close())
  const holder = await arrive(t, server)
  const visitor = await Person.inContext(server, context)
  await visitor.goTo(await holder.light(film))
  await visitor.holdsIt()
  const denied = await visitor.tab.evaluate(() => navigator.storage.getDirectory().then(() => 'given', ({ name }) => name))
  assert.equal(denied, 'SecurityError', 'the disk is denied indeed')
  await visitor.sees(/lends this site no place on its disk.*kept in memory, up to 512 MiB/)
  assert.equal(sha256(await readFile(await visitor.saves('film.bin'))), sha256(FILM))
})

test('a disk that gets full is told of, and the page comes all the same', async (t) => {
  const server = await serve(t)
  const [holder, visitor] = [await arrive(t, server), await arrive(t, server)]
  await visitor.goTo('/')
  const devtools = await visitor.tab.context().newCDPSession(visitor.tab)
  await devtools.send('Storage.overrideQuotaForOrigin', { origin: addressOf(server), quotaSize: 12 * MIB })
  await visitor.goTo(await holder.light(film))
  await visitor.holdsIt()
  await visitor.sees(/The disk space that this browser lends this site is full/)
  assert((await bytesOnDisk(visitor)) < 12 * MIB)
  assert.equal(sha256(await readFile(await visitor.saves('film.bin'))), sha256(FILM))
})

test('a shared file that changes on disk is told of and withdrawn, and no wrong byte leaves', async (t) => {
  const server = await serve(t)
  const [one, two] = [path.join(folder, 'changed.bin'), path.join(folder, 'notes.txt')]
  await writeFile(one, FILM)
  await writeFile(two, 'These stay.')
  const [holder, visitor] = [await arrive(t, server), await arrive(t, server)]
  const link = await holder.light({ files: [one, two] })
  // The same size and time, other bytes: what only its hash tells.
  const wrong = Buffer.from(FILM)
  wrong[5 * MIB] ^= 1
  const { atime, mtime } = await stat(one)
  await writeFile(one, wrong)
  await utimes(one, atime, mtime)
  await visitor.goTo(link)
  await holder.sees(/"changed\.bin" has changed or gone since it was shared/)
  await visitor.sees('The last one who had it has left')
  assert.equal(await visitor.tab.getByText('wrong bytes').count(), 0)
})
