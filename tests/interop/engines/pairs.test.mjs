// Two browsers of different engines, or of one, pass pages to each other: directly when both have WebRTC, otherwise by relay.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { areConnected, newDirectVisitor } from '../browser/direct-connections.mjs'
import { film, openPanel, panelOf } from '../browser/films.mjs'
import { file, picture } from '../browser/fixtures.mjs'
import { startServer } from '../browser/page-driver.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { ENGINES } from '../lib/engines/index.mjs'

const MIB = 1 << 20
const FILM_BYTES = 6 * MIB
const TRANSFER_MS = 90_000
const NO_WEBRTC = 'This browser has no WebRTC, so everything goes through the server.'
/** Slow enough that a direct connection is up before the page is loaded. */
const NARROW = { 'limits.relay_bytes_per_second_per_peer': MIB }

const engines = Object.values(ENGINES)
const pairs = engines.flatMap((one, index) => engines.slice(index).map((other) => [one, other]))

for (const [one, other] of pairs) {
  const skip = one.whyMissing() ?? other.whyMissing() ?? false
  const isDirect = one.canConnectDirectly && other.canConnectDirectly
  const path = isDirect ? 'directly' : 'by relay'
  test(`${one.title} and ${other.title} pass pages to each other ${path}`, { skip }, async (t) => {
    const server = await startServer(t, { settings: isDirect ? NARROW : {} })
    const a = await newDirectVisitor(t, server, { engine: one })
    const b = await newDirectVisitor(t, server, { engine: other })
    // Another film each way: a browser keeps the one that it has shared.
    const ways = [
      [a, b],
      [b, a],
    ]
    for (const [way, [from, to]] of ways.entries()) {
      const bytes = FILM_BYTES + way
      const names = `${from.engine.title} to ${to.engine.title}`
      await passText(from, to)
      const ms = await passFilm(server, from, to, isDirect, bytes)
      t.diagnostic(`${names}: ${(bytes / MIB / (ms / 1000)).toFixed(1)} MiB per second ${path}`)
    }
    for (const person of [a, b]) person.assertNoPageErrors()
  })
}

/** Passes a page of a text and a picture. */
async function passText(from, to) {
  const words = `Written in ${from.engine.title} for ${to.engine.title}.`
  const link = await from.sharePage({
    text: `# Hello\n\n${words}\n\n![cat](cat.png)\n`,
    files: [file('cat.png', picture(64, 48), 'image/png')],
  })
  await to.goTo(link)
  await to.waitForText(words)
  assert.deepEqual(await to.waitForPicture('cat'), [64, 48])
}

/** Passes a large file over the path that both have, and returns the milliseconds. */
async function passFilm(server, from, to, isDirect, bytes) {
  const relayed = () => server.metric('watchfire_pages_relayed_bytes_total')
  const link = await from.sharePage(await film(bytes))
  const before = await relayed()
  const began = performance.now()
  await to.goTo(link)
  if (isDirect) await waitUntil(() => areConnected(from, to), 'a direct connection', TRANSFER_MS)
  await to.waitUntilComplete(TRANSFER_MS)
  const ms = performance.now() - began
  if (!isDirect) await assertReasonShown(from, to)
  const byRelay = (await relayed()) - before
  if (isDirect) assert(byRelay < bytes, `all of ${byRelay} bytes were relayed although there was a direct connection`)
  else assert(byRelay >= bytes, `only ${byRelay} of ${bytes} bytes were relayed`)
  return ms
}

/** A browser without WebRTC says so on the page. */
async function assertReasonShown(...people) {
  for (const person of people.filter(({ engine }) => !engine.canConnectDirectly)) {
    await openPanel(person)
    await panelOf(person).getByText(NO_WEBRTC).first().waitFor()
  }
}
