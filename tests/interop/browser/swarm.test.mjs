// Several visitors of one page exchange its blocks without the peer that shared it.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { skipInShortRun } from '../lib/whole.mjs'
import { newVisitor, startServer } from './page-driver.mjs'
import { film, openPanel, panelOf } from './films.mjs'

const MIB = 1024 * 1024
const TRANSFER_MS = 240_000
const VIEWERS = 4
const BLOCKS = 24
/** Blocks of the page that the viewers get only in part, and the share at which the sharer leaves. */
const LONG_BLOCKS = 20
const LEAVE_AT = 0.6

/** The number of blocks that a tab has, from its panel. */
async function blocksOf(person) {
  const label = await panelOf(person).getByRole('img').first().getAttribute('aria-label')
  return Number(label.match(/\d+/g)[1])
}

test('when the sharer closes at three fifths and the others together have every block, all of them finish', {
  skip: skipInShortRun,
}, async (t) => {
  // Slow enough that each viewer has only a part when its panel is open, on a busy machine too.
  const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': (MIB * 3) / 4 } })
  const sharer = await newVisitor(t, server)
  const link = await sharer.sharePage(await film(BLOCKS * MIB))
  await openPanel(sharer, { timeout: TRANSFER_MS })
  const viewers = []
  for (let i = 0; i < VIEWERS; i++) viewers.push(await newVisitor(t, server))
  await Promise.all(viewers.map((viewer) => viewer.goTo(link)))
  await Promise.all(viewers.map(openPanel))
  // Until then the sharer's panel shows that it has the last copy of some block.
  await panelOf(sharer)
    .getByText(/^(The rarest .* in \d+ tabs|Every block is in)/)
    .waitFor({ timeout: TRANSFER_MS })
  const here = () => Promise.all(viewers.map(blocksOf))
  const share = (blocks) => blocks.reduce((sum, each) => sum + each) / (VIEWERS * (BLOCKS + 1))
  const shown = await waitUntil(
    async () => {
      const blocks = await here()
      return share(blocks) >= LEAVE_AT ? blocks : null
    },
    'three fifths are with the viewers',
    TRANSFER_MS,
  )
  t.diagnostic(`of ${BLOCKS + 1} blocks, the viewers have ${shown.join(', ')}`)
  assert(
    shown.some((blocks) => blocks < BLOCKS + 1),
    'all viewers had the whole page already',
  )
  await sharer.leave()
  await Promise.all(viewers.map((viewer) => viewer.waitUntilComplete(TRANSFER_MS)))
  await waitUntil(
    async () => (await panelOf(viewers[0]).getByText(`Every block is in ${VIEWERS} tabs.`).count()) === 1,
    'all viewers have the whole page',
  )
})

test('when the sharer closes and blocks are missing, all viewers see which, and finish when it is back', async (t) => {
  const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': MIB } })
  const sharer = await newVisitor(t, server)
  const long = await film(LONG_BLOCKS * MIB)
  const link = await sharer.sharePage(long)
  await openPanel(sharer, { timeout: TRANSFER_MS })
  const viewers = [await newVisitor(t, server), await newVisitor(t, server)]
  await Promise.all(viewers.map((viewer) => viewer.goTo(link)))
  await Promise.all(viewers.map(openPanel))
  // Blocks that were sent are no longer the last copy.
  const last = panelOf(sharer).getByText(/^The last copy of \d+ blocks is in this tab/)
  await waitUntil(
    async () => {
      const text = (await last.count()) === 1 ? await last.textContent() : null
      return text !== null && Number(text.match(/\d+/)[0]) <= (1 - LEAVE_AT) * (LONG_BLOCKS + 1)
    },
    'three fifths of it have left',
    TRANSFER_MS,
  )
  await sharer.leave()

  const missing = (viewer) =>
    panelOf(viewer)
      .getByText(/^\d+ blocks are missing, nobody here has them: number/)
      .first()
  await Promise.all(viewers.map((viewer) => missing(viewer).waitFor({ timeout: TRANSFER_MS })))
  // When they have exchanged all blocks, they lack the same ones.
  const [ours, theirs] = await waitUntil(
    async () => {
      const texts = await Promise.all(viewers.map((viewer) => missing(viewer).textContent()))
      const blocks = await Promise.all(viewers.map(blocksOf))
      const lacks = Number(texts[0].match(/\d+/)[0])
      return texts[0] === texts[1] && blocks.every((each) => each + lacks === LONG_BLOCKS + 1) ? texts : null
    },
    'both lack the same blocks and have all others',
    TRANSFER_MS,
  )
  t.diagnostic(ours)
  assert.equal(ours, theirs)
  const again = await newVisitor(t, server)
  await again.sharePage(long)
  await Promise.all(viewers.map((viewer) => viewer.waitUntilComplete(TRANSFER_MS)))
  for (const viewer of viewers) assert.equal(await panelOf(viewer).locator('.missing').count(), 0)
})
