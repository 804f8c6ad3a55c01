import { describe, expect, it } from 'vitest'
import { cidOf, encodeCid, MessageWriter, parseCid, RAW, type Cid } from '../content/index.ts'
import { decodeVarint } from '../content/varint.ts'
import { fromHex, readVectors } from '../../test/vectors.ts'
import { MessageError, decodeMessage, encodeMessage, ENTRIES_MAX, encodedLength, receiveMessage, type Message } from './index.ts'

const v0 = parseCid('QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH')
const v1 = parseCid('bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku')
const nothing: Message = { full: false, wants: [], presences: [], pendingBytes: 0 }
const want = (cid: Cid) => ({ cid, kind: 'block', cancel: false, priority: 1, sendDontHave: true }) as const
const blake3 = Uint8Array.of(1, RAW, 0x1e, 32, ...new Uint8Array(32))

describe('a Bitswap message', () => {
  it('decodes to what was encoded', () => {
    const message: Message = {
      full: true,
      wants: [
        want(v0),
        { cid: v1, kind: 'have', cancel: false, priority: 2 ** 31 - 1, sendDontHave: false },
        { cid: v1, kind: 'block', cancel: true, priority: 0, sendDontHave: false },
        { cid: v1, kind: 'block', cancel: false, priority: -5, sendDontHave: false },
      ],
      presences: [
        { cid: v0, hasBlock: true },
        { cid: v1, hasBlock: false },
      ],
      pendingBytes: 70_000,
    }
    const decoded = decodeMessage(encodeMessage(message, [{ cid: v1, data: Uint8Array.of(1, 2, 3) }]))
    expect(decoded).toMatchObject(message)
    expect(decoded.blocks).toEqual([{ prefix: { version: 1, codec: 0x55, hash: 0x12, digestLength: 32 }, data: Uint8Array.of(1, 2, 3) }])
  })

  it('encodes to the same bytes as boxo', () => {
    // Wantlist{Entry{block: CID, priority: 1, sendDontHave: true}}, then presence DONT_HAVE and pendingBytes 5.
    const text = '01551220e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    const expected = `0a2c0a2a0a24${text}1001280122280a24${text}10012805`
    const message = { ...nothing, wants: [want(v1)], presences: [{ cid: v1, hasBlock: false }], pendingBytes: 5 }
    expect(encodeMessage(message)).toEqual(fromHex(expected))
  })

  it('has a wantlist even without wants', () => {
    expect([...encodeMessage(nothing)]).toEqual([0x0a, 0x00])
  })

  it('of Bitswap 1.0 carries blocks without prefixes', () => {
    const bytes = new MessageWriter().bytes(2, Uint8Array.of(7)).finish()
    expect(decodeMessage(bytes).blocks).toMatchObject([{ prefix: { version: 0, codec: 0x70 }, data: { 0: 7 } }])
  })

  it('may name the span of a trace, which others skip', () => {
    const span = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`
    const bytes = encodeMessage({ ...nothing, wants: [want(v1)] }, [], span)
    const plain = encodeMessage({ ...nothing, wants: [want(v1)] })
    // Field 1000 of bytes: a key of two bytes, the length, the text.
    expect([...bytes.subarray(plain.length)]).toEqual([0xc2, 0x3e, 55, ...new TextEncoder().encode(span)])
    expect(decodeMessage(bytes)).toEqual(decodeMessage(plain))
  })

  it('may have unknown fields', () => {
    const entry = new MessageWriter().bytes(1, encodeCid(v1)).bytes(9, Uint8Array.of(1)).uint(10, 5)
    const bytes = new MessageWriter().message(1, new MessageWriter().message(1, entry).uint(7, 1)).uint(99, 3).finish()
    expect(decodeMessage(bytes).wants).toMatchObject([{ cid: v1 }])
  })

  it('may use hash functions that cannot be checked, and such entries are skipped', () => {
    const entry = new MessageWriter().bytes(1, blake3)
    const bytes = new MessageWriter().message(1, new MessageWriter().message(1, entry)).message(4, entry).finish()
    expect(decodeMessage(bytes)).toMatchObject({ wants: [], presences: [], skippedEntries: 2 })
  })

  it('is read up to a maximum number of entries', async () => {
    const cids = await Promise.all(Array.from({ length: ENTRIES_MAX + 5 }, (_, i) => cidOf(RAW, Uint8Array.of(i, i >> 8))))
    const bytes = encodeMessage({ ...nothing, wants: cids.map(want), presences: cids.map((cid) => ({ cid, hasBlock: true })) })
    const decoded = decodeMessage(bytes)
    expect([decoded.wants.length, decoded.presences.length, decoded.skippedEntries]).toEqual([ENTRIES_MAX, ENTRIES_MAX, 10])
  })

  it('is rejected if it or one of its blocks is too long', () => {
    expect(() => decodeMessage(new Uint8Array((4 << 20) + 1))).toThrow(/4194305 bytes/)
    const block = encodeMessage(nothing, [{ cid: v1, data: new Uint8Array((2 << 20) + 1) }])
    expect(() => decodeMessage(block)).toThrow(MessageError)
  })

  it.each(['0a', '0a05', '0a020a00', '2200', '1a00', '1a0412021202', '28ffffffffffffffffffffff', '0801', '07', '0a0100'])(
    'cut or bent is refused: %s',
    (hex) => {
      expect(() => decodeMessage(fromHex(hex))).toThrow(MessageError)
    },
  )

  it('made of random bytes is decoded or rejected, and never crashes', () => {
    let seed = 42
    const byte = () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
      return (seed >> 16) & 255
    }
    const good = encodeMessage({ ...nothing, wants: [want(v0)], presences: [{ cid: v1, hasBlock: true }] }, [
      { cid: v1, data: Uint8Array.of(1, 2) },
    ])
    for (let i = 0; i < 5000; i++) {
      const bytes = i % 2 === 0 ? Uint8Array.from({ length: byte() % 80 }, byte) : good.slice()
      if (i % 2 === 1) bytes[byte() % bytes.length] = byte()
      try {
        decodeMessage(bytes)
      } catch (error) {
        expect(error).toBeInstanceOf(MessageError)
      }
    }
  })
})

describe('messages recorded from boxo', () => {
  interface Vectors {
    readonly messages: readonly { readonly name: string; readonly bitswap_1_2?: string; readonly bitswap_1_0?: string }[]
  }
  const { messages } = readVectors<Vectors>('bitswap_messages.json')

  it.each(messages)('$name decodes, and encodes to the same length', async ({ bitswap_1_2: theirs }) => {
    if (theirs === undefined) return
    const framed = fromHex(theirs)
    // After their length prefix, as on a stream.
    const { value: length, next } = decodeVarint(framed, 0)
    expect(framed.length).toBe(next + length)
    const { message, blocks, skippedEntries, skippedBlocks } = await receiveMessage(framed.subarray(next))
    expect(skippedEntries + skippedBlocks).toBe(0)
    const ours = encodeMessage(message, blocks)
    expect(ours.length).toBe(length)
    expect(encodedLength(message, blocks)).toBe(length)
    expect((await receiveMessage(ours)).message).toEqual(message)
  })

  it.each(messages)('$name of Bitswap 1.0 has the same blocks as in 1.2', async ({ bitswap_1_0: theirs, bitswap_1_2: newer }) => {
    if (theirs === undefined || newer === undefined) return
    const read = async (hex: string) => {
      const framed = fromHex(hex)
      return (await receiveMessage(framed.subarray(decodeVarint(framed, 0).next))).blocks.map(({ data }) => data)
    }
    expect(await read(theirs)).toEqual(await read(newer))
  })
})
