// Several who look at one page, and what they can do without the one who shared it.

import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'

import { until } from '../lib/waiting.mjs'
import { arrive, serve } from './people.mjs'
import { generated } from './things.mjs'

const MIB = 1024 * 1024
const TRANSFER_MS = 240_000
const VIEWERS = 4
const BLOCKS = 24
/** Blocks of what not all has left its sharer of, and the share at which they are left alone. */
const LONG = 32
const AWAY_AT = 0.6

const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
after(() => rm(folder, { recursive: true }))

/** A file on disk: a large one takes a browser's remote control too long. */
async function film(bytes) {
  const to = path.join(folder, `film-${bytes}.bin`)
  await writeFile(to, generated(bytes))
  return { files: [to] }
}

const panelOf = (person) => person.tab.getByRole('region', { name: 'How this page travels' })

async function looksCloser(person) {
  await person.tab.getByRole('button', { name: 'How it travels' }).click({ timeout: TRANSFER_MS })
  await panelOf(person).getByText('Where its blocks are').waitFor({ timeout: TRANSFER_MS })
}

/** How many of its blocks a tab has, as its panel tells. */
async function blocksOf(person) {
  const label = await panelOf(person).getByRole('img').first().getAttribute('aria-label')
  return Number(label.match(/\d+/g)[1])
}

test('who shares closes at three fifths, when the others together have all of it: everyone finishes', async (t) => {
  // Slowly, so that there is a time when everyone has a part.
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': MIB } })
  const sharer = await arrive(t, server)
  const link = await sharer.light(await film(BLOCKS * MIB))
  await looksCloser(sharer)
  const viewers = []
  for (let i = 0; i < VIEWERS; i++) viewers.push(await arrive(t, server))
  await Promise.all(viewers.map((viewer) => viewer.goTo(link)))
  await Promise.all(viewers.map(looksCloser))
  // Until then the sharer is told that some block's last copy is its own.
  await panelOf(sharer).getByText(/^(The rarest .* in \d+ tabs|Every block is in)/).waitFor({ timeout: TRANSFER_MS })
  const here = () => Promise.all(viewers.map(blocksOf))
  const share = (blocks) => blocks.reduce((sum, each) => sum + each) / (VIEWERS * (BLOCKS + 1))
  const shown = await until(async () => {
    const blocks = await here()
    return share(blocks) >= AWAY_AT ? blocks : null
  }, 'three fifths are with the viewers', TRANSFER_MS)
  t.diagnostic(`of ${BLOCKS + 1} blocks they have ${shown.join(', ')}`)
  assert(shown.some((blocks) => blocks < BLOCKS + 1), 'all of them had it already')
  await sharer.leave()
  await Promise.all(viewers.map((viewer) => viewer.holdsIt(TRANSFER_MS)))
  await until(async () => (await panelOf(viewers[0]).getByText(`Every block is in ${VIEWERS} tabs.`).count()) === 1, 'all have all')
})

test('who shares closes at three fifths, when the others have no more: everyone sees what is missing, and finishes when it is back', async (t) => {
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': MIB } })
  const sharer = await arrive(t, server)
  const long = await film(LONG * MIB)
  const link = await sharer.light(long)
  await looksCloser(sharer)
  const viewers = [await arrive(t, server), await arrive(t, server)]
  await Promise.all(viewers.map((viewer) => viewer.goTo(link)))
  await Promise.all(viewers.map(looksCloser))
  // What has left it is not the last copy any more.
  const last = panelOf(sharer).getByText(/^The last copy of \d+ blocks is in this tab/)
  await until(async () => {
    const text = (await last.count()) === 1 ? await last.textContent() : null
    return text !== null && Number(text.match(/\d+/)[0]) <= (1 - AWAY_AT) * (LONG + 1)
  }, 'three fifths of it have left', TRANSFER_MS)
  await sharer.leave()

  const missing = (viewer) => panelOf(viewer).getByText(/^\d+ blocks are with nobody who is here: number/).first()
  await Promise.all(viewers.map((viewer) => missing(viewer).waitFor({ timeout: TRANSFER_MS })))
  // When they have shared with each other what there is, they lack the same.
  const [ours, theirs] = await until(async () => {
    const told = await Promise.all(viewers.map((viewer) => missing(viewer).textContent()))
    const blocks = await Promise.all(viewers.map(blocksOf))
    const lacks = Number(told[0].match(/\d+/)[0])
    return told[0] === told[1] && blocks.every((each) => each + lacks === LONG + 1) ? told : null
  }, 'both lack the same blocks and have all others', TRANSFER_MS)
  t.diagnostic(ours)
  assert.equal(ours, theirs)
  const again = await arrive(t, server)
  await again.light(long)
  await Promise.all(viewers.map((viewer) => viewer.holdsIt(TRANSFER_MS)))
  for (const viewer of viewers) assert.equal(await panelOf(viewer).locator('.missing').count(), 0)
})
