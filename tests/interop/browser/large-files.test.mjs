// Shared content passes through the server without accumulating there.

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'

import { BY_RELAY_ONLY, launchWithProfile } from '../lib/chromium.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { skipWithout } from '../lib/engines/index.mjs'
import { newFolder } from '../lib/folders.mjs'
import { bytesOnDisk } from './browser-storage.mjs'
import { newVisitor, PageDriver, startServer } from './page-driver.mjs'
import { sha256OfFile } from '../lib/hashes.mjs'

/** `make soak` sends two gigabytes. */
const FILE_BYTES = Number(process.env.LARGE_BYTES ?? 120_000_000)
const GROWTH_BYTES_MAX = 16 * 1024 * 1024
/** Memory that either tab may use: less than this file, and the same for larger ones. A tab uses some 65 MB. */
const HEAP_BYTES_MAX = Math.min(200_000_000, FILE_BYTES * 0.85)
const TRANSFER_MS = 90_000 + FILE_BYTES / 1_000
const SAMPLE_MS = 50
const HEAP_SAMPLE_MS = 250

test('a large file passes from one person to another without accumulating in the server or in a tab', {
  skip: skipWithout('devtools'),
}, async (t) => {
  const folder = newFolder()
  const original = path.join(folder, 'film.bin')
  await pipeline(noise(FILE_BYTES), createWriteStream(original))

  const server = await startServer(t, { settings: { 'limits.page_bytes_max': 2 * FILE_BYTES } })
  const holder = await newVisitor(t, server)
  // A browser without a profile keeps in memory what others keep on disk, and has a smaller quota.
  const context = await launchWithProfile(path.join(folder, 'profile'), BY_RELAY_ONLY)
  t.after(() => context.close())
  const visitor = await PageDriver.inContext(server, context)
  // The file picker would ask for a place; the service worker does not.
  await visitor.tab.addInitScript(() => delete globalThis.showSaveFilePicker)
  await visitor.goTo('/')
  const shared = performance.now()
  await holder.goTo('/')
  const heaps = [await heapOf(t, holder), await heapOf(t, visitor)]
  await holder.compose({ files: [original] })
  await holder.tab.getByRole('button', { name: 'Light this page' }).click()
  await holder.waitUntilComplete(TRANSFER_MS)
  const link = await holder.sharedLink()
  t.diagnostic(`hashed and shared in ${seconds(shared)} s`)

  const before = server.residentBytes()
  let peak = before
  const sampling = setInterval(() => (peak = Math.max(peak, server.residentBytes())), SAMPLE_MS)
  t.after(() => clearInterval(sampling))
  const opened = performance.now()
  await visitor.goTo(link)
  await visitor.waitUntilComplete(TRANSFER_MS)
  const took = seconds(opened)
  const onDisk = await bytesOnDisk(visitor)
  clearInterval(sampling)

  const relayed = await server.metric('watchfire_pages_relayed_bytes_total')
  t.diagnostic(`passed in ${took} s, ${(FILE_BYTES / 1e6 / took).toFixed(1)} MB/s`)
  t.diagnostic(`server: ${mib(before)} MiB before, ${mib(peak)} MiB at its peak, ${relayed} bytes relayed`)
  const [holderPeak, visitorPeak] = heaps.map(({ peak }) => peak)
  t.diagnostic(`heap at its peak: ${mib(holderPeak)} MiB in the sharing tab, ${mib(visitorPeak)} MiB in the opening tab`)
  t.diagnostic(`on the disk of the visitor: ${mib(onDisk)} MiB`)
  assert(Math.max(holderPeak, visitorPeak) < HEAP_BYTES_MAX, 'a tab has the file in memory')
  assert(onDisk > FILE_BYTES * 0.9, 'the file is not on disk')
  assert(peak - before < GROWTH_BYTES_MAX, `the server grew by ${mib(peak - before)} MiB`)
  assert(relayed < FILE_BYTES * 1.05, `${relayed} bytes were relayed for a file of ${FILE_BYTES}`)

  const [given, got] = await Promise.all([sha256OfFile(original), visitor.saveFile('film.bin').then(sha256OfFile)])
  assert.equal(got, given, 'the saved file differs from the shared one')

  await waitUntil(async () => (await bytesOnDisk(visitor)) > FILE_BYTES, 'the whole file is on disk', TRANSFER_MS)
  const reloaded = performance.now()
  await visitor.tab.reload()
  await visitor.waitUntilComplete(TRANSFER_MS)
  t.diagnostic(`hashed again and held ${seconds(reloaded)} s after a reload`)
  const again = (await server.metric('watchfire_pages_relayed_bytes_total')) - relayed
  assert(again < 1_000_000, `${again} bytes were transferred again after a reload`)
  for (const person of [holder, visitor]) person.assertNoPageErrors()
})

/** Records the peak heap of a tab from now on: objects, and the buffers that belong to them. */
async function heapOf(t, person) {
  const devtools = await person.tab.context().newCDPSession(person.tab)
  const heap = { peak: 0 }
  const sample = async () => {
    const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = await devtools.send('Runtime.getHeapUsage')
    heap.peak = Math.max(heap.peak, usedSize + embedderHeapUsedSize + backingStorageSize)
  }
  const sampling = setInterval(() => sample().catch(() => {}), HEAP_SAMPLE_MS)
  t.after(() => clearInterval(sampling))
  await sample()
  return heap
}

/** Bytes that do not compress, the same in each run. */
function* noise(length) {
  for (let at = 0, n = 0; at < length; n += 1) {
    const block = createHash('shake256', { outputLength: 1_000_000 }).update(`block ${n}`).digest()
    yield block.subarray(0, length - at)
    at += block.length
  }
}

function seconds(since) {
  return Number(((performance.now() - since) / 1000).toFixed(1))
}

function mib(bytes) {
  return (bytes / 1024 / 1024).toFixed(1)
}
