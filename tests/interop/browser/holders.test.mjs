// The holders that a visitor requests blocks from, and holders that send wrong bytes or never reply.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { blocksOf, blockMessage, wantMessage } from './bitswap-messages.mjs'
import { newVisitor, startServer } from './page-driver.mjs'
import { honestHolder, joinPage, lyingHolder, onceHolder, silentHolder } from './raw-peer.mjs'
import { generated } from './fixtures.mjs'

const FILM = generated(24 * 1_048_576)

test('visitors who come together get blocks from each other too', async (t) => {
  const server = await startServer(t, {
    settings: { 'limits.relay_bytes_per_second_per_peer': 8_388_608, 'limits.blocks_in_flight_max': 4 },
  })
  const { root, blocks } = blocksOf(FILM)
  const holder = await joinPage(t, server, root, 'all', onceHolder(blocks))
  const visitors = [await newVisitor(t, server), await newVisitor(t, server), await newVisitor(t, server)]
  await Promise.all(visitors.map((visitor) => visitor.goTo(`/p/${root}#filename=film.bin`)))
  await Promise.all(visitors.map((visitor) => visitor.waitUntilComplete()))
  await holder.whenSent()
  assert.equal(holder.blocksSent, blocks.size, 'the holder sent each block once')
})

test('invalid messages are dropped without an effect on others', async (t) => {
  const server = await startServer(t)
  const { root, blocks } = blocksOf(generated(3_000_000))
  const vandal = await joinPage(t, server, root, 'some', silentHolder())
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  const { peer } = await vandal.joined.next()
  const to = Buffer.from(peer, 'hex')
  const segment = (id, offset, total, content = '') => {
    const head = Buffer.alloc(12)
    for (const [at, value] of [id, offset, total].entries()) head.writeUInt32BE(value, at * 4)
    return Buffer.concat([to, head, Buffer.from(content)])
  }
  const nonsense = [
    to,
    Buffer.concat([to, Buffer.alloc(5)]),
    segment(1, 0, 0),
    segment(2, 0, 0xffffffff, 'x'),
    segment(3, 0xffffffff, 0xffffffff, 'x'),
    segment(4, 10, 5, 'xxxxx'),
    segment(5, 0, 1, 'too much'),
    segment(6, 0, 8, '\xff\xff\xff\xff\xff\xff\xff\xff'),
    segment(7, 0, 5, '\x0a\x7fabc'),
    segment(8, 0, 2, '\x1a\x00'),
    ...Array.from({ length: 200 }, (_, n) => segment(1000 + n, 0, 4_000_000, 'begun and never ended')),
  ]
  for (const frame of nonsense) await vandal.relay(frame)
  await vandal.sendMessage(to, blockMessage([...blocks.values()].map(({ cid }) => ({ cid, bytes: Buffer.alloc(9) }))))
  await vandal.sendMessage(to, wantMessage([...blocks.values()].map(({ cid }) => cid)))

  await joinPage(t, server, root, 'all', honestHolder(blocks))
  await visitor.waitUntilComplete()
  visitor.assertNoPageErrors()
})

test('a browser with the whole page serves the blocks that are requested', async (t) => {
  const server = await startServer(t)
  const { root, blocks } = blocksOf(generated(3_000_000))
  const first = await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}`)
  await visitor.waitUntilComplete()
  await waitUntil(() => first.counts.all.some(({ holders }) => holders === 2), 'the visitor is a holder')
  await first.leave()

  const next = await newVisitor(t, server)
  await next.goTo(`/p/${root}`)
  await next.waitUntilComplete()
})

test('a large page arrives completely although one of its two holders sends wrong bytes', async (t) => {
  const server = await startServer(t)
  const { root, blocks } = blocksOf(FILM)
  await joinPage(t, server, root, 'all', lyingHolder())
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  await visitor.waitUntilComplete()
})

test('a large page arrives completely although one of its two holders never replies', async (t) => {
  const server = await startServer(t)
  const { root, blocks } = blocksOf(FILM)
  await joinPage(t, server, root, 'all', silentHolder())
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  await visitor.waitUntilComplete()
})

test('a large page arrives although one of its two holders sends every block slowly', async (t) => {
  const server = await startServer(t)
  const { root, blocks } = blocksOf(FILM)
  const slow = trickle(await joinPage(t, server, root, 'all', honestHolder(blocks)))
  const fast = await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  await visitor.waitUntilComplete()
  t.diagnostic(`of ${blocks.size} blocks, the slow holder sent ${slow.blocksSent} and the other ${fast.blocksSent}`)
  assert(slow.wantsReceived.length > 0, 'the slow holder was asked')
  assert(slow.blocksSent <= blocks.size / 4, `the page waited for ${slow.blocksSent} blocks of the slow holder`)
  visitor.assertNoPageErrors()
})

test('a page arrives from an only holder that sends it slowly, and is sent once', async (t) => {
  const server = await startServer(t)
  // It takes longer than a holder may be silent.
  const { root, blocks } = blocksOf(generated(200_000))
  const slow = trickle(await joinPage(t, server, root, 'all', honestHolder(blocks)))
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=film.bin`)
  await visitor.waitUntilComplete()
  await slow.whenSent()
  assert.equal(slow.blocksSent, 1)
  visitor.assertNoPageErrors()
})

/** Makes a peer send a block of 1 MiB in half a minute, a piece at a time, so that it is never silent. */
function trickle(peer) {
  return Object.assign(peer, { segmentBytes: 8192, pauseMs: 250 })
}
