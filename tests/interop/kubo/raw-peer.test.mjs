// The replies of kubo to a hand-written peer. Our exchange depends on this behaviour.

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { RawPeer } from '../lib/libp2p-host.mjs'
import { Kubo, buildKubo, whyNoKubo } from '../lib/kubo.mjs'

/** Blocks around the size at which kubo replies to a want-have with the block itself. */
const LONG = 5000
const SHORT = 20
/** Largest block, by the specification. */
const BLOCK_BYTES_MAX = 2 << 20
/** Wants that kubo remembers per peer, and reads from one message. */
const WANTS_MAX = 1024

const folder = newFolder()
let kubo
let files = 0

function file(bytes) {
  const name = path.join(folder, `file-${files++}`)
  writeFileSync(name, bytes)
  return name
}

/** Adds these blocks to kubo; returns their CIDs. */
async function putAll(blocks) {
  const cids = await kubo.command(['block', 'put', '--cid-codec=raw', ...blocks.map(file)])
  assert.deepEqual(cids.split('\n').sort(), blocks.map(nameOf).sort())
  return blocks.map(nameOf)
}

/** Adds a block of that many bytes to kubo. */
const put = async (bytes) => (await putAll([randomBytes(bytes)]))[0]

/** The CID of a raw block. */
const nameOf = (block) => cid([0x12, 0x20], createHash('sha256').update(block).digest())

/** The CID of a block that no peer has. */
const missing = () => nameOf(randomBytes(LONG))

/** The text of a CID of version 1 with the raw codec. */
function cid(hash, digest) {
  const bits = [1, 0x55, ...hash, ...digest].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const digits = bits.match(/.{1,5}/g).map((digit) => parseInt(digit.padEnd(5, '0'), 2))
  return `b${digits.map((digit) => 'abcdefghijklmnopqrstuvwxyz234567'[digit]).join('')}`
}

async function peer(test, ...version) {
  const peer = await RawPeer.start(kubo.address, ...version)
  test.after(() => peer.stop())
  return peer
}

/** Asserts that kubo still replies. */
async function assertReplies(raw) {
  const marker = await put(LONG)
  await raw.want('block', marker)
  const received = await raw.receiveUntil(marker)
  assert.ok(received.blocks.includes(marker))
  return received
}

describe('kubo, with a hand-written peer', { skip: whyNoKubo }, () => {
  before(async () => {
    await buildKubo()
    kubo = await Kubo.start()
  })
  after(() => kubo?.stop())

  it('replies to a want with have, a small block, dont-have, or nothing', async (test) => {
    const raw = await peer(test)
    for (const kind of ['have', 'have?']) {
      const [long, short] = [await put(LONG), await put(SHORT)]
      await raw.want(kind, long)
      assert.deepEqual(await raw.receiveUntil(long), { haves: [long], dont_haves: [], blocks: [], bytes: 0 })
      await raw.want(kind, short)
      assert.deepEqual(await raw.receiveUntil(short), { haves: [], dont_haves: [], blocks: [short], bytes: SHORT })
    }
    const [denied, unanswered] = [missing(), missing()]
    await raw.want('have?', unanswered)
    await raw.want('have', denied)
    const { dont_haves } = await raw.receiveUntil(denied)
    // A reply to this request would arrive after any unexpected earlier reply.
    const later = await assertReplies(raw)
    assert.deepEqual([...dont_haves, ...later.dont_haves], [denied])
  })

  it('sends a late block to a peer that still wants it, and not after a cancel', async (test) => {
    const raw = await peer(test)
    const [waited, cancelled] = [randomBytes(LONG), randomBytes(LONG)]
    await raw.want('block', nameOf(waited), nameOf(cancelled))
    await raw.receiveUntil(nameOf(cancelled))
    await raw.cancel(nameOf(cancelled))
    await assertReplies(raw)
    await putAll([cancelled])
    await putAll([waited])
    const { blocks } = await raw.receiveUntil(nameOf(waited))
    const later = await assertReplies(raw)
    assert.ok(blocks.includes(nameOf(waited)))
    assert.ok(![...blocks, ...later.blocks].includes(nameOf(cancelled)))
  })

  for (const version of ['1.1.0', '1.0.0']) {
    it(`sends blocks to a peer that supports only ${version}`, async (test) => {
      const raw = await peer(test, version)
      // In Bitswap 1.0 a block carries no CID prefix, and its CID has version 0.
      const long = await kubo.add(file(randomBytes(LONG)))
      await raw.want('block?', missing(), long)
      assert.deepEqual(await raw.receiveUntil(long).then(({ bytes, ...names }) => names), { haves: [], dont_haves: [], blocks: [long] })
    })
  }

  it('sends a block of the largest size', async (test) => {
    const raw = await peer(test)
    const largest = await put(BLOCK_BYTES_MAX)
    await raw.want('block', largest)
    assert.deepEqual(await raw.receiveUntil(largest), { haves: [], dont_haves: [], blocks: [largest], bytes: BLOCK_BYTES_MAX })
  })

  it('resets the stream of an oversized message, and no other', async (test) => {
    const raw = await peer(test)
    await assertReplies(raw)
    await raw.command('send-oversized')
    await assertReplies(raw)
  })

  it('reads many messages on one stream', async (test) => {
    const raw = await peer(test)
    const cids = await putAll(Array.from({ length: 100 }, () => randomBytes(LONG)))
    for (const cid of cids) await raw.want('block', cid)
    const { blocks } = await raw.count(cids.length)
    assert.deepEqual(blocks.sort(), cids.sort(), 'each block arrived once')
  })

  it('reads at most its limit of wants from a message, and keeps serving', async (test) => {
    const raw = await peer(test)
    const wants = Array.from({ length: WANTS_MAX + 1 }, missing)
    await raw.want('have', ...wants)
    const { dont_haves } = await raw.count(WANTS_MAX)
    await raw.cancel(...wants)
    const later = await assertReplies(raw)
    assert.equal(new Set([...dont_haves, ...later.dont_haves]).size, WANTS_MAX)
  })

  it('skips a want for an identity CID, and reads the others', async (test) => {
    const raw = await peer(test)
    const [identity, long] = [cid([0, 5], Buffer.from('hello')), await put(LONG)]
    await raw.want('block', identity, long)
    const { haves, dont_haves, blocks } = await raw.receiveUntil(long)
    const later = await assertReplies(raw)
    assert.deepEqual([...haves, ...dont_haves, ...later.haves, ...later.dont_haves], [])
    assert.ok(blocks.includes(long) && ![...blocks, ...later.blocks].includes(identity))
  })

  it('answers dont-have for the empty block that it has, so our exchange never requests it', async (test) => {
    const raw = await peer(test)
    const [empty] = await putAll([Buffer.alloc(0)])
    await raw.want('block', empty)
    // The correct reply is the block; kubo treats a length of zero as unknown.
    assert.deepEqual(await raw.receiveUntil(empty), { haves: [], dont_haves: [empty], blocks: [], bytes: 0 })
  })

  it('fetches a file from a peer that is slower than its own timeouts', async (test) => {
    const raw = await peer(test)
    const content = randomBytes(120_000)
    const { cid } = await raw.command('serve', file(content), 10_000, 250)
    assert.deepEqual(await kubo.cat(cid), content)
  })
})
