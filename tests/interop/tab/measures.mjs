// Measures of one tab with very many and very large files. Each measure starts a server and its browsers, and returns figures.

import { createHash } from 'node:crypto'
import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { openTab, STEP_MS } from './tab-driver.mjs'

/** The factor by which a processor is slowed down, and the heap limit of a tab. */
const SLOWER = 4
const HEAP_MIB = 512

/** 10,000 files are dropped and lit: the seconds until they can be lit, and until the page is there. */
export function lightFiles({ count = 10_000, profiles = '' } = {}) {
  return withServer(async (server) => {
    const folder = folderOfFiles(count, 1000)
    const tab = await openTab(server)
    await openHome(tab)
    const result = await tab.profiled(profiles, 'light', () => dropAndLight(tab, folder, count))
    await tab.close()
    return result
  })
}

/** The same on a slow processor: the tasks of the page's thread. */
export function lightOnSlowProcessor({ count = 10_000, profiles = '' } = {}) {
  return withServer(async (server) => {
    const folder = folderOfFiles(count, 1000)
    const tab = await openTab(server)
    await openHome(tab)
    await tab.slowDown(SLOWER)
    const work = () => tab.profiled(profiles, 'light-slow', () => dropAndLight(tab, folder, count))
    const { result, tasks } = await tab.tasksDuring(work)
    await tab.close()
    return { ...result, tasks }
  })
}

/** A page of 2,000 small files is saved as a zip by a tab that has it open. */
export function saveZip({ count = 2000, profiles = '' } = {}) {
  return withServer(async (server) => {
    const { tab: holder, link } = await share(server, folderOfFiles(count, 2000))
    const tab = await openTab(server)
    const { person } = tab
    await person.goTo(link)
    await person.waitUntilComplete(STEP_MS)
    const result = await tab.profiled(profiles, 'zip', async () => {
      const saved = person.tab.waitForEvent('download')
      const thread = await tab.threadSeconds()
      const started = performance.now()
      await tab.press('Save all as zip')
      const file = await (await saved).path()
      return { seconds: secondsSince(started), thread: (await tab.threadSeconds()) - thread, bytes: statSync(file).size }
    })
    await Promise.all([tab.close(), holder.close()])
    return result
  })
}

/** A large page is loaded by a tab with a heap limit. */
export function loadWithLittleMemory({ bytes = 300_000_000, profiles = '' } = {}) {
  return withServer(async (server) => {
    const { tab: holder, link } = await share(server, largeFile(bytes))
    const tab = await openTab(server, { flags: [`--js-flags=--max-old-space-size=${HEAP_MIB}`] })
    const heap = tab.watchHeap()
    const seconds = await tab.profiled(profiles, 'large', async () => {
      const started = performance.now()
      await tab.person.goTo(link)
      await tab.person.waitUntilComplete(4 * STEP_MS)
      return secondsSince(started)
    })
    heap.stop()
    await Promise.all([tab.close(), holder.close()])
    return { seconds, peak: heap.peak }
  })
}

/** A page arrives in a tab on a slow processor: the tasks of the page's thread. */
export function loadOnSlowProcessor({ bytes = 50_000_000, profiles = '' } = {}) {
  return withServer(async (server) => {
    const { tab: holder, link } = await share(server, largeFile(bytes))
    const tab = await openTab(server)
    await openHome(tab)
    await tab.slowDown(SLOWER)
    const work = () =>
      tab.profiled(profiles, 'arrive-slow', async () => {
        const started = performance.now()
        await tab.person.goTo(link)
        await tab.person.waitUntilComplete(2 * STEP_MS)
        return secondsSince(started)
      })
    const { result: seconds, tasks } = await tab.tasksDuring(work)
    await Promise.all([tab.close(), holder.close()])
    return { seconds, tasks }
  })
}

/** Drops a folder, lights it, and waits for its list. */
async function dropAndLight(tab, folder, count) {
  const { person } = tab
  const thread = await tab.threadSeconds()
  const started = performance.now()
  await tab.drop([folder])
  await person.tab.getByRole('list', { name: 'Files' }).waitFor({ timeout: STEP_MS })
  await waitUntil(() => person.tab.getByRole('button', { name: 'Light this page' }).isEnabled(), 'it can be lit', STEP_MS)
  const picked = secondsSince(started)
  await tab.press('Light this page')
  await waitUntilLit(tab)
  await person.waitForText(new RegExp(`${count.toLocaleString('en').replace(',', ',?')} files`), STEP_MS)
  return { seconds: secondsSince(started), picked, thread: (await tab.threadSeconds()) - thread }
}

/** Shares a file or a folder from a tab of its own. */
async function share(server, place) {
  const tab = await openTab(server)
  await openHome(tab)
  await tab.drop([place])
  await tab.person.waitForText(path.basename(place))
  await tab.press('Light this page')
  await waitUntilLit(tab)
  return { tab, link: tab.person.tab.url() }
}

async function openHome({ person }) {
  await person.goTo('/')
  await person.waitForText('Up to')
}

async function waitUntilLit({ person }) {
  await person.tab.locator('.status-panel.held').waitFor({ timeout: STEP_MS })
}

/** Runs `work` with a server, and stops it. */
async function withServer(work) {
  const server = await startWatchfire({ settings: { 'server.drain_period': '100ms' } })
  try {
    return await work(server)
  } finally {
    server.kill()
  }
}

/** A folder of this number of small files; returns its path. */
function folderOfFiles(count, bytes) {
  const folder = path.join(newFolder(), 'album')
  mkdirSync(folder)
  for (let i = 0; i < count; i++) writeFileSync(path.join(folder, `file ${String(i).padStart(5, '0')}.dat`), noise(bytes, `file ${i}`))
  return folder
}

/** A file of this size; returns its path. */
function largeFile(bytes) {
  const file = path.join(newFolder(), 'large.bin')
  const piece = 1 << 20
  for (let at = 0; at < bytes; at += piece) writeFileSync(file, noise(Math.min(piece, bytes - at), `piece ${at}`), { flag: 'a' })
  return file
}

/** Bytes that do not compress, the same in each run. */
const noise = (length, name) => createHash('shake256', { outputLength: length }).update(name).digest()

const secondsSince = (at) => (performance.now() - at) / 1000
