import { describe, expect, it } from 'vitest'
import { base36, base58 } from './base.ts'
import {
  cidOf,
  cidOfBlock,
  DAG_PB,
  decodeCid,
  decodePrefix,
  encodeCid,
  encodePrefix,
  IDENTITY,
  inlineBytes,
  makeCid,
  parseCid,
  RAW,
  SHA2_256,
} from './cid.ts'
import { ContentError } from './error.ts'
import { sha256InBrowser, sha256InScript } from './sha256.ts'
import { fromHex, readVectors } from '../../test/vectors.ts'

const V0 = 'QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH'
const V1 = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'

const forms = readVectors<{
  accepted: { about: string; text: string; canonical?: string; hex: string; codec: string }[]
  refused: { about: string; text?: string; hex?: string }[]
}>('cid_forms.json')

describe('a CID', () => {
  it('is parsed and written in its text form', () => {
    for (const text of [V0, V1]) {
      const cid = parseCid(text)
      expect(cid.text).toBe(text)
      expect(decodeCid(encodeCid(cid)).text).toBe(text)
    }
    expect(parseCid(V0)).toMatchObject({ version: 0, codec: DAG_PB, hash: SHA2_256 })
    expect(parseCid(V1)).toMatchObject({ version: 1, codec: RAW, hash: SHA2_256 })
  })

  it('of version 0 and of version 1 identify the same block', () => {
    const v0 = parseCid(V0)
    const v1 = makeCid(1, v0.codec, v0.hash, v0.digest)
    expect(v1.key).toBe(v0.key)
    expect(v1.text).not.toBe(v0.text)
  })

  it.each(forms.accepted)('may be $about', ({ text, canonical, hex, codec }) => {
    // Numbers are exact up to 2^53. No codec in use is larger.
    if (BigInt(codec) > BigInt(Number.MAX_SAFE_INTEGER)) {
      expect(() => parseCid(text)).toThrow(ContentError)
      return
    }
    expect(parseCid(text).text).toBe(canonical ?? text)
    expect(encodeCid(parseCid(text))).toEqual(fromHex(hex))
    expect(decodeCid(fromHex(hex)).text).toBe(canonical ?? text)
  })

  it.each(forms.refused)('is not $about', ({ text, hex }) => {
    if (text !== undefined) expect(() => parseCid(text)).toThrow(ContentError)
    if (hex !== undefined) expect(() => decodeCid(fromHex(hex))).toThrow(ContentError)
  })

  it('is not confused with an inherited property', () => {
    for (const text of ['constructor', 'b__proto__']) expect(() => parseCid(text)).toThrow(ContentError)
  })

  it('has no letters of other scripts in any base', () => {
    const bytes = encodeCid(parseCid(V1))
    const texts = [V0, V1, V1.toUpperCase(), `k${base36.encode(bytes)}`, `z${base58.encode(bytes)}`]
    for (const letter of ['\u0100', '\u4e16', '\u0435', '\u017f', '\u212a', '\u{1f525}']) {
      for (const text of texts) {
        const changed = text.slice(0, 20) + letter + text.slice(20 + letter.length)
        expect(() => parseCid(changed), changed).toThrow(ContentError)
      }
    }
  })

  it('keeps its prefix when encoded, with version 0 as in boxo', () => {
    expect([...encodePrefix(parseCid(V0))]).toEqual([0x00, 0x70, 0x12, 0x20])
    expect([...encodePrefix(parseCid(V1))]).toEqual([0x01, 0x55, 0x12, 0x20])
    expect(() => decodePrefix(Uint8Array.of(1, 0x55, 0x12))).toThrow(ContentError)
    expect(() => decodePrefix(Uint8Array.of(1, 0x55, 0x12, 0x20, 0))).toThrow(ContentError)
    expect(() => decodePrefix(Uint8Array.of(2, 0x55, 0x12, 0x20))).toThrow(ContentError)
  })

  it('of a received block is the hash of its bytes', async () => {
    const bytes = new TextEncoder().encode('watchfire')
    const cid = await cidOf(RAW, bytes)
    expect((await cidOfBlock(decodePrefix(encodePrefix(cid)), bytes)).key).toBe(cid.key)
    const prefix = { version: 1, codec: RAW, hash: 0x1e, digestLength: 32 } as const
    await expect(cidOfBlock(prefix, bytes)).rejects.toThrow(ContentError)
  })

  it('of no bytes or of the identity hash contains its block', () => {
    expect(inlineBytes(parseCid(V1))).toEqual(new Uint8Array())
    expect(inlineBytes(makeCid(1, RAW, IDENTITY, Uint8Array.of(1, 2)))).toEqual(Uint8Array.of(1, 2))
    expect(inlineBytes(parseCid(V0))).toBeNull()
  })
})

describe('SHA-256 without WebCrypto', () => {
  it('gives the same hash as WebCrypto', async () => {
    for (const size of [0, 1, 63, 64, 65, 100_000]) {
      const bytes = new Uint8Array(size).fill(7)
      expect(await sha256InScript(bytes)).toEqual(await sha256InBrowser(bytes))
    }
  })
})
