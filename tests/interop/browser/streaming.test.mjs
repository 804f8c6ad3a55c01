// Media that plays while it loads. It measures times, so it runs alone.

import assert from 'node:assert/strict'
import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { waitUntil } from '../lib/deadlines.mjs'
import { skipWithout } from '../lib/engines/index.mjs'
import { skipInShortRun } from '../lib/whole.mjs'
import { blocksOf } from './bitswap-messages.mjs'
import { makeWebm } from './webm.mjs'
import { newVisitor, WAIT_MS, WINDOWS, startServer, newVisitors } from './page-driver.mjs'
import { honestHolder, joinPage, LimitedHolder } from './raw-peer.mjs'
import { file, generated, noise, wav } from './fixtures.mjs'
import { seek, startPlaying } from './playback.mjs'

const OUT = fileURLToPath(new URL('../out', import.meta.url))
const MIB = 1 << 20
const STARTS_WITHIN_MS = 1500
const SEEKS_WITHIN_MS = 1000
/** Time for a new visitor to see a page of one block, on an idle machine. */
const A_BLOCK_MS = 500
/** A video of 40 blocks, of which one second is smaller than a block. */
const FILM = { seconds: 60, bytesPerSecond: 700_000 }

test('a video plays within 1.5 s of opening, with at most a tenth of it loaded, and seeks to parts that are not loaded', {
  skip: skipWithout('init-scripts'),
}, async (t) => {
  const server = await startServer(t)
  const maker = await newVisitor(t, server)
  const film = await makeWebm(maker, FILM)
  const { root, blocks } = blocksOf(film)
  const tenth = Math.floor(blocks.size / 10)
  t.diagnostic(`a film of ${(film.length / 1e6).toFixed(1)} MB in ${blocks.size} blocks`)
  const { visitor, holder, slowdown } = await retry(3, async (isLast) => {
    const slowdown = await slowdownOf(t, server)
    const holder = new LimitedHolder(blocks, tenth)
    const peer = await joinPage(t, server, root, 'all', holder.answer)
    const visitor = await newVisitor(t, server)
    await autoplay(visitor)
    await visitor.goTo(`/p/${root}#filename=film.webm`)
    const took = await timeOf(visitor, 'playing')
    t.diagnostic(`it plays after ${took} ms with ${holder.sent} of ${blocks.size} blocks sent`)
    assert(holder.sent <= blocks.size / 10)
    if (took < STARTS_WITHIN_MS * slowdown) return { visitor, holder, slowdown }
    await Promise.all([visitor.leave(), peer.leave()])
    assert(!isLast, `it took ${took} ms`)
  })
  const video = visitor.tab.locator('video')
  assert(Math.abs((await video.evaluate(({ duration }) => duration)) - FILM.seconds) < 1)

  await retry(4, async (isLast, i) => {
    const second = [45, 20, 57, 33][i]
    const ms = await whileSending(holder, () => video.evaluate(seek, second))
    t.diagnostic(`seeking to ${second} s took ${Math.round(ms)} ms, ${holder.sent} blocks sent`)
    if (ms < SEEKS_WITHIN_MS * slowdown) return true
    assert(!isLast, `seeking to ${second} s took ${Math.round(ms)} ms`)
  })
  await visitor.waitForText('It plays while the rest loads.')

  holder.allow(Infinity)
  await visitor.waitUntilComplete(60_000)
  assert(await video.evaluate(({ error }) => error === null), 'playback failed when the rest arrived')
  assert.deepEqual(await readFile(await visitor.saveFile('film.webm')), film)
  visitor.assertNoPageErrors()
})

test('audio of tens of megabytes plays and seeks while it loads', async (t) => {
  const server = await startServer(t)
  const slowdown = await slowdownOf(t, server)
  const sound = wav(noise(30 * MIB), { rate: 48_000, channels: 2, bits: 16 })
  const { root, blocks } = blocksOf(sound)
  const holder = new LimitedHolder(blocks, 5)
  await joinPage(t, server, root, 'all', holder.answer)
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=tide.wav`)
  const audio = visitor.tab.locator('audio')
  await audio.evaluate(startPlaying)
  const { duration } = await audio.evaluate(({ duration }) => ({ duration }))
  await retry(3, async (isLast, i) => {
    const ms = await whileSending(holder, () => audio.evaluate(seek, duration * [0.8, 0.4, 0.6][i]))
    t.diagnostic(`seeking took ${Math.round(ms)} ms, with ${holder.sent} of ${blocks.size} blocks sent`)
    if (ms < SEEKS_WITHIN_MS * slowdown) return true
    assert(!isLast, `it took ${Math.round(ms)} ms`)
  })
  visitor.assertNoPageErrors()
})

test('a video in a folder can be chosen and plays while the folder loads', async (t) => {
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  const film = await makeWebm(sharer, { seconds: 10, bytesPerSecond: 400_000 })
  const files = [file('one.webm', film), file('notes.bin', generated(8 * MIB)), file('two.webm', film.subarray(0))]
  const link = await sharer.sharePage({ files })
  await visitor.goTo(`${link}#file=two.webm`)
  await visitor.tab.locator('video').evaluate(startPlaying)
  await visitor.waitUntilComplete(60_000)
  for (const person of [sharer, visitor]) person.assertNoPageErrors()
})

test('a video without a name is recognised by its first bytes, and plays while it loads', async (t) => {
  const server = await startServer(t)
  const maker = await newVisitor(t, server)
  const { root, blocks } = blocksOf(await makeWebm(maker, { seconds: 30, bytesPerSecond: 500_000 }))
  const holder = new LimitedHolder(blocks, 8)
  await joinPage(t, server, root, 'all', holder.answer)
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}`)
  await visitor.tab.locator('video[src^="/stream/"]').evaluate(startPlaying)
  assert(holder.sent <= 8)
  visitor.assertNoPageErrors()
})

test('without a service worker a video plays once it has loaded, and the page says why', {
  skip: skipWithout('init-scripts') || skipInShortRun,
}, async (t) => {
  const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': 2 * MIB } })
  const sharer = await newVisitor(t, server)
  const film = await makeWebm(sharer, { seconds: 12, bytesPerSecond: 700_000 })
  const link = await sharer.sharePage({ files: [file('film.webm', film)] })
  const visitor = await newVisitor(t, server)
  // As at an address in a local network: no HTTPS, so no service workers and no hashing by the browser.
  await visitor.tab.addInitScript(() => {
    Object.defineProperty(Navigator.prototype, 'serviceWorker', { value: undefined })
    Object.defineProperty(globalThis, 'isSecureContext', { value: false })
  })
  await visitor.goTo(link)
  await visitor.waitForText('address with HTTPS')
  await visitor.tab.locator('video').evaluate(startPlaying)
  assert.match(await visitor.tab.locator('video').getAttribute('src'), /^blob:/)
  assert.deepEqual(await readFile(await visitor.saveFile('film.webm')), film)
  visitor.assertNoPageErrors()
})

test('the loaded parts of a video are shown below it, in a wide and a narrow window, in both themes', {
  skip: skipWithout('media') || skipInShortRun,
}, async (t) => {
  await mkdir(OUT, { recursive: true })
  const server = await startServer(t)
  const maker = await newVisitor(t, server)
  const { root, blocks } = blocksOf(await makeWebm(maker, { seconds: 40, bytesPerSecond: 500_000 }))
  for (const { shape, viewport, colorScheme } of WINDOWS) {
    const holder = new LimitedHolder(blocks, 7)
    const peer = await joinPage(t, server, root, 'all', holder.answer)
    const visitor = await newVisitor(t, server, { viewport, colorScheme })
    await visitor.goTo(`/p/${root}#filename=film.webm`)
    await visitor.tab.locator('video').evaluate(startPlaying)
    // Slowly, so that the rest is still missing when a busy machine takes seconds to seek.
    await whileSending(holder, () => visitor.tab.locator('video').evaluate(seek, 25), 400)
    await visitor.tab.locator('video').evaluate((video) => video.pause())
    await visitor.waitForText('It plays while the rest loads.')
    await visitor.tab.screenshot({ path: path.join(OUT, `film-${shape}-${colorScheme}.png`), animations: 'disabled' })
    visitor.assertNoPageErrors()
    await visitor.leave()
    await peer.leave()
  }
})

/** Lets a holder send a block of 1 MB every `ms`, until `happens` resolves. */
async function whileSending(holder, happens, ms = 40) {
  const giving = setInterval(() => holder.allow(1), ms)
  try {
    return await happens()
  } finally {
    clearInterval(giving)
    holder.allow(0)
  }
}

/** The first result of `attempt` that is not undefined. A busy machine may need several attempts. */
async function retry(times, attempt) {
  for (let i = 0; i < times; i += 1) {
    const answer = await attempt(i === times - 1, i)
    if (answer !== undefined) return answer
  }
}

/** Starts each player as soon as it exists, and records its events and the time when the text of one block is visible. */
function autoplay({ tab }) {
  return tab.addInitScript(() => {
    const timings = {}
    globalThis.timings = timings
    const note = (what) => (timings[what] ??= Math.round(performance.now()))
    for (const what of ['loadstart', 'loadedmetadata', 'canplay', 'playing']) addEventListener(what, () => note(what), true)
    new MutationObserver(() => {
      /** @type {HTMLMediaElement | null} */
      const player = document.querySelector('video, audio')
      if (player !== null && timings.player === undefined) {
        note('player')
        player.muted = true
        void player.play()
      }
      if (document.body?.textContent.includes('One block of text.')) note('text')
    }).observe(document, { childList: true, subtree: true, characterData: true })
  })
}

/** Milliseconds from opening to an event. */
function timeOf({ tab }, what) {
  return waitUntil(() => tab.evaluate((what) => globalThis.timings?.[what], what), `the event ${what}`, WAIT_MS)
}

/** The slowdown of a busy machine, at least 1. The limits in seconds are for an idle one. */
async function slowdownOf(t, server) {
  const { root, blocks } = blocksOf(Buffer.alloc(MIB, 'One block of text.\n'))
  const peer = await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  const isTimed = !('init-scripts' in visitor.engine.lacks)
  if (isTimed) await autoplay(visitor)
  const began = performance.now()
  await visitor.goTo(`/p/${root}#filename=text.txt`)
  if (!isTimed) await visitor.waitForText('One block of text.')
  const took = isTimed ? await timeOf(visitor, 'text') : Math.round(performance.now() - began)
  await Promise.all([visitor.leave(), peer.leave()])
  t.diagnostic(`a page of one block is visible after ${took} ms`)
  return Math.max(1, took / A_BLOCK_MS)
}
