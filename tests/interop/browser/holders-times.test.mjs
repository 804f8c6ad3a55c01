// The time until a visitor requests a block from another holder, and the shares of holders that are equally fast.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { blocksOf } from './bitswap-messages.mjs'
import { newVisitor, cidOf, startServer, WAIT_MS } from './page-driver.mjs'
import { honestHolder, joinPage, LimitedHolder, lyingHolder, silentHolder } from './raw-peer.mjs'
import { file, generated } from './fixtures.mjs'
import { openingTime, slowdownOf } from './pace.mjs'

/** A request moves to another holder within one second, and then the block has to arrive. Times are for an idle machine. */
const FALLBACK_MS = 2_000
/** The time in which the uplink of a holder sends one block. */
const BLOCK_INTERVAL_MS = 250

for (const [what, behaviour] of Object.entries({ 'sends wrong bytes': lyingHolder, 'never replies': silentHolder })) {
  test(`when a holder ${what}, another gets the request within one second`, async (t) => {
    const server = await startServer(t)
    const words = Buffer.from('The truth, and nothing else.\n')
    const { root } = blocksOf(words)
    const bad = [
      await joinPage(t, server, root, 'all', behaviour()),
      await joinPage(t, server, root, 'all', behaviour()),
      await joinPage(t, server, root, 'all', behaviour()),
    ]
    const honestOne = await newVisitor(t, server)
    assert.equal(cidOf(await honestOne.sharePage({ files: [file('truth.txt', words)] })), root)

    const visitor = await newVisitor(t, server)
    const slowdown = await slowdownOf(t, server, visitor)
    const took = await openingTime(visitor, `/p/${root}#filename=truth.txt`, 'The truth, and nothing else.')
    const requested = bad.filter(({ wantsReceived }) => wantsReceived.length > 0).length
    t.diagnostic(`${requested} of 3 bad holders got a request; it took ${Math.round(took)} ms`)
    assert(took < slowdown * (1_000 + FALLBACK_MS * Math.max(1, requested)), `it took ${took} ms`)
    assert.equal(await visitor.tab.getByText('not the requested bytes').count(), 0)
  })

  test(`when the only holder ${what}, nothing is shown until another holder comes`, async (t) => {
    const server = await startServer(t)
    const words = Buffer.from('Late but true.\n')
    const { root, blocks } = blocksOf(words)
    const bad = await joinPage(t, server, root, 'all', behaviour())
    const visitor = await newVisitor(t, server)
    const slowdown = await slowdownOf(t, server, visitor)
    await visitor.goTo(`/p/${root}#filename=truth.txt`)
    await waitUntil(() => bad.wantsReceived.length > 0, 'the holder gets a request')

    await joinPage(t, server, root, 'all', honestHolder(blocks))
    const came = performance.now()
    await visitor.waitForText('Late but true.')
    const took = performance.now() - came
    t.diagnostic(`it took ${Math.round(took)} ms`)
    assert(took < slowdown * FALLBACK_MS, `it took ${took} ms`)
    assert.equal(await visitor.tab.getByText('not the requested bytes').count(), 0)
  })
}

test('a visitor spreads its requests over all holders', async (t) => {
  const server = await startServer(t)
  const { root, blocks } = blocksOf(generated(24 * 1_048_576))
  // Both have the same uplink, so that their shares do not depend on which of them this machine runs first.
  const holders = [new LimitedHolder(blocks, 1), new LimitedHolder(blocks, 1)]
  for (const holder of holders) await joinPage(t, server, root, 'all', holder.answer)
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  // The first to answer may be asked for much before the other is known.
  await waitUntil(() => holders.every(({ sent }) => sent > 0), 'each holder is asked for a block', WAIT_MS)
  let allowed = 1
  const uplinks = setInterval(() => {
    allowed += 1
    for (const holder of holders) holder.allow(allowed - holder.sent)
  }, BLOCK_INTERVAL_MS)
  t.after(() => clearInterval(uplinks))
  await visitor.waitUntilComplete()

  const sent = holders.map((holder) => holder.sent)
  const all = sent.reduce((sum, count) => sum + count)
  t.diagnostic(`${blocks.size} blocks, sent ${sent.join(' and ')}`)
  for (const count of sent) assert(count >= blocks.size / 4, `one holder sent only ${count} of ${all}`)
  assert(all <= blocks.size * 1.25, `${all} blocks were sent for a page of ${blocks.size}`)
})
