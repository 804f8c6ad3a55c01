// What kubo answers to a peer made by hand, whose every word is the test's: our exchange counts on it.

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { RawPeer } from '../lib/host.mjs'
import { Kubo, buildKubo, whyNoKubo } from '../lib/kubo.mjs'

/** Too long to be sent to who only asks whether it is there; and short enough for that. */
const LONG = 5000
const SHORT = 20
/** Blocks are at most so long, by the specification. */
const BLOCK_BYTES_MAX = 2 << 20
/** What kubo remembers of a peer's wants, and reads of one message. */
const WANTS_MAX = 1024

let folder
let kubo
let files = 0

function file(bytes) {
  const name = path.join(folder, `file-${files++}`)
  writeFileSync(name, bytes)
  return name
}

/** Kubo has these blocks from now on; their names. */
async function putAll(blocks) {
  const cids = await kubo.command(['block', 'put', '--cid-codec=raw', ...blocks.map(file)])
  assert.deepEqual(cids.split('\n').sort(), blocks.map(nameOf).sort())
  return blocks.map(nameOf)
}

/** A block of so many bytes that kubo has. */
const put = async (bytes) => (await putAll([randomBytes(bytes)]))[0]

/** The name of a raw block. */
const nameOf = (block) => cid([0x12, 0x20], createHash('sha256').update(block).digest())

/** The name of a block that nobody has. */
const missing = () => nameOf(randomBytes(LONG))

/** The text of a CID of version 1 and raw bytes. */
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

/** It answers still. */
async function isWell(raw) {
  const fence = await put(LONG)
  await raw.want('block', fence)
  const heard = await raw.hear(fence)
  assert.ok(heard.blocks.includes(fence))
  return heard
}

describe('kubo, of which a peer wants something', { skip: whyNoKubo }, () => {
  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'raw-'))
    await buildKubo()
    kubo = await Kubo.start()
  })
  after(async () => {
    await kubo?.stop()
    if (folder) rmSync(folder, { recursive: true, force: true })
  })

  it('answers a question by have, a small block, dont-have, or silence', async (test) => {
    const raw = await peer(test)
    for (const kind of ['have', 'have?']) {
      const [long, short] = [await put(LONG), await put(SHORT)]
      await raw.want(kind, long)
      assert.deepEqual(await raw.hear(long), { haves: [long], dont_haves: [], blocks: [], bytes: 0 })
      await raw.want(kind, short)
      assert.deepEqual(await raw.hear(short), { haves: [], dont_haves: [], blocks: [short], bytes: SHORT })
    }
    const [told, silent] = [missing(), missing()]
    await raw.want('have?', silent)
    await raw.want('have', told)
    const { dont_haves } = await raw.hear(told)
    // What is said now comes behind an answer that should not have been.
    const later = await isWell(raw)
    assert.deepEqual([...dont_haves, ...later.dont_haves], [told])
  })

  it('sends what comes later to who waits, and not to who does not any more', async (test) => {
    const raw = await peer(test)
    const [waited, cancelled] = [randomBytes(LONG), randomBytes(LONG)]
    await raw.want('block', nameOf(waited), nameOf(cancelled))
    await raw.hear(nameOf(cancelled))
    await raw.cancel(nameOf(cancelled))
    await isWell(raw)
    await putAll([cancelled])
    await putAll([waited])
    const { blocks } = await raw.hear(nameOf(waited))
    const later = await isWell(raw)
    assert.ok(blocks.includes(nameOf(waited)))
    assert.ok(![...blocks, ...later.blocks].includes(nameOf(cancelled)))
  })

  for (const version of ['1.1.0', '1.0.0']) {
    it(`gives blocks to who speaks ${version} and knows of nothing else`, async (test) => {
      const raw = await peer(test, version)
      // In 1.0 a block says nothing of its name, which is of version 0.
      const long = await kubo.add(file(randomBytes(LONG)))
      await raw.want('block?', missing(), long)
      assert.deepEqual(await raw.hear(long).then(({ bytes, ...names }) => names), { haves: [], dont_haves: [], blocks: [long] })
    })
  }

  it('sends a block as long as blocks may be', async (test) => {
    const raw = await peer(test)
    const largest = await put(BLOCK_BYTES_MAX)
    await raw.want('block', largest)
    assert.deepEqual(await raw.hear(largest), { haves: [], dont_haves: [], blocks: [largest], bytes: BLOCK_BYTES_MAX })
  })

  it('ends the stream on which a message is too long, and nothing else', async (test) => {
    const raw = await peer(test)
    await isWell(raw)
    await raw.tell('overlong')
    await isWell(raw)
  })

  it('reads many messages on one stream', async (test) => {
    const raw = await peer(test)
    const cids = await putAll(Array.from({ length: 100 }, () => randomBytes(LONG)))
    for (const cid of cids) await raw.want('block', cid)
    const { blocks } = await raw.count(cids.length)
    assert.deepEqual(blocks.sort(), cids.sort(), 'each came once')
  })

  it('reads no more of a message than it remembers of a peer, and serves on', async (test) => {
    const raw = await peer(test)
    const wants = Array.from({ length: WANTS_MAX + 1 }, missing)
    await raw.want('have', ...wants)
    const { dont_haves } = await raw.count(WANTS_MAX)
    await raw.cancel(...wants)
    const later = await isWell(raw)
    assert.equal(new Set([...dont_haves, ...later.dont_haves]).size, WANTS_MAX)
  })

  it('passes a want for what a name says by itself over, and reads the others', async (test) => {
    const raw = await peer(test)
    const [identity, long] = [cid([0, 5], Buffer.from('hello')), await put(LONG)]
    await raw.want('block', identity, long)
    const { haves, dont_haves, blocks } = await raw.hear(long)
    const later = await isWell(raw)
    assert.deepEqual([...haves, ...dont_haves, ...later.haves, ...later.dont_haves], [])
    assert.ok(blocks.includes(long) && ![...blocks, ...later.blocks].includes(identity))
  })

  it('says that it lacks the empty block that it has, which is why we ask nobody for it', async (test) => {
    const raw = await peer(test)
    const [empty] = await putAll([Buffer.alloc(0)])
    await raw.want('block', empty)
    // It should be the block; kubo takes a length of nothing for one that it does not know.
    assert.deepEqual(await raw.hear(empty), { haves: [], dont_haves: [empty], blocks: [], bytes: 0 })
  })

  it('takes a file from who answers so slowly that it loses patience', async (test) => {
    const raw = await peer(test)
    const content = randomBytes(120_000)
    const { cid } = await raw.tell('give', file(content), 10_000, 250)
    assert.deepEqual(await kubo.cat(cid), content)
  })
})
