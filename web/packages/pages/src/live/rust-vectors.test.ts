import { describe, expect, test, vi } from 'vitest'
import { type Bytes, type Cid, parseCid } from '../content/index.ts'
import { fromHex, readVectors } from '../../test/vectors.ts'
import { type Block, decodeBeginning, encodeBeginning } from './beginning.ts'
import { decodeEntry, encodeEntry, type Entry } from './entry.ts'
import { LiveError } from './error.ts'
import { type Head, signHead, verifyHead } from './head.ts'
import { History, type SignEntry } from './history.ts'
import { inScript, newSigningKey, type SigningKey, verifySignature } from './signing.ts'

interface Refused {
  why: string
  hex: string
  error: string
}

interface Vectors {
  seed: string
  key: string
  beginning: { title: string; time_ms: number; cid: string; hex: string }
  entries: {
    number: number
    time_ms: number
    form: Entry['form']
    name: string
    content: string
    content_bytes: number
    cid: string
    hex: string
  }[]
  heads: string[]
  other_branch: { from: number; nodes: { cid: string; hex: string }[]; head: string }
  refused_beginnings: Refused[]
  refused_entries: Refused[]
  refused_heads: Refused[]
}

const vectors = readVectors<Vectors>('live/pages.json')
const PAGE = parseCid(vectors.beginning.cid)
const KEY = fromHex(vectors.key)
const BEGINNING = { key: KEY, timeMs: vectors.beginning.time_ms, title: vectors.beginning.title }

const blockOf = ({ cid, hex }: { cid: string; hex: string }): Block => ({ cid: parseCid(cid), bytes: fromHex(hex) })
const blocks = new Map([...vectors.entries, ...vectors.other_branch.nodes].map((node) => [node.cid, blockOf(node)]))
const newHistory = () => new History(PAGE, BEGINNING)
const headOf = (hex: string): Promise<Head> => verifyHead(fromHex(hex), PAGE, KEY)
const head = (number: number): Promise<Head> => headOf(vectors.heads[number - 1] ?? '')
const signWith =
  (key: SigningKey): SignEntry =>
  (number, { cid }) =>
    signHead(key, PAGE, number, cid)
const otherHead = (): Promise<Head> => headOf(vectors.other_branch.head)
const numbers = (history: History): number[] => history.entries.map(({ number }) => number)
const upTo = (number: number): number[] => Array.from({ length: number }, (_, i) => i + 1)

/** Fetches all missing nodes. Returns the number of rounds. */
function load(history: History): number {
  let rounds = 0
  for (let missing: Cid[] = history.missing; missing.length > 0; missing = history.missing) {
    rounds += 1
    for (const cid of missing) {
      const block = blocks.get(cid.text)
      if (block === undefined) throw new Error(`there is no block ${cid.text}`)
      history.insert(block)
    }
  }
  return rounds
}

describe('the format of live pages', () => {
  test('nodes and heads have the bytes of the vectors', async () => {
    const key = await inScript(fromHex(vectors.seed))
    expect(key.public).toEqual(KEY)
    expect((await encodeBeginning(BEGINNING)).bytes).toEqual(fromHex(vectors.beginning.hex))
    expect((await encodeBeginning(BEGINNING)).cid.text).toBe(PAGE.text)
    expect(decodeBeginning(fromHex(vectors.beginning.hex))).toEqual(BEGINNING)

    const history = newHistory()
    for (const [i, vector] of vectors.entries.entries()) {
      const { time_ms: timeMs, form, name, content_bytes: contentBytes } = vector
      const content = parseCid(vector.content)
      const { block, head } = await history.append(signWith(key), { timeMs, form, name, content, contentBytes })
      expect(block).toEqual(blockOf(vector))
      expect(head.bytes).toEqual(fromHex(vectors.heads[i] ?? ''))
      expect(await encodeEntry(decodeEntry(block.bytes))).toEqual(block)
      expect(await verifyHead(head.bytes, PAGE, KEY)).toEqual(head)
    }
    expect(history.isComplete).toBe(true)
  })

  test.each(vectors.refused_beginnings)('a beginning is refused: $why', ({ hex, error }) => {
    expect(problemOf(() => decodeBeginning(fromHex(hex)))).toBe(error)
  })

  test.each(vectors.refused_entries)('an entry is refused: $why', ({ hex, error }) => {
    expect(problemOf(() => decodeEntry(fromHex(hex)))).toBe(error)
  })

  test.each(vectors.refused_heads)('a head is refused: $why', async ({ hex, error }) => {
    await expect(headOf(hex)).rejects.toMatchObject({ problem: error })
  })

  test('the browser and the script make and verify the same signatures', async () => {
    const bytes = new Uint8Array([1, 2, 3]) as Bytes
    for (const key of [await newSigningKey(), await inScript(crypto.getRandomValues(new Uint8Array(32)))]) {
      const signature = await key.sign(bytes)
      expect(await verifySignature(key.public, signature, bytes)).toBe(true)
      expect(await verifySignature(key.public, signature, new Uint8Array([1, 2, 4]))).toBe(false)
      vi.resetModules()
      vi.stubGlobal('crypto', { getRandomValues: (of: Bytes) => of })
      const withoutEd25519 = await import('./signing.ts')
      expect(await withoutEd25519.verifySignature(key.public, signature, bytes)).toBe(true)
      expect(await withoutEd25519.verifySignature(new Uint8Array(32).fill(0xff), signature, bytes)).toBe(false)
      vi.unstubAllGlobals()
    }
  })

  test('a signature is not called invalid when the code that verifies it does not load', async () => {
    const bytes = new Uint8Array([1, 2, 3])
    const key = await newSigningKey()
    const signature = await key.sign(bytes)
    vi.resetModules()
    vi.stubGlobal('crypto', { getRandomValues: (of: Bytes) => of })
    vi.doMock('@noble/curves/ed25519.js', () => Promise.reject(new Error('no network')))
    const { verifySignature: verifyInScript } = await import('./signing.ts')
    await expect(verifyInScript(key.public, signature, bytes)).rejects.toThrow()
    vi.doUnmock('@noble/curves/ed25519.js')
    vi.unstubAllGlobals()
  })
})

describe('the history of a live page', () => {
  test('a late reader finds all entries from one head', async () => {
    const history = newHistory()
    expect(history.offer(await head(9))).toBe('newer')
    // Entry 2 comes last: 9, then 7, then 3, then 2.
    expect(load(history)).toBe(4)
    expect(history.isComplete).toBe(true)
    expect(numbers(history)).toEqual(upTo(9))
    expect(history.offer(await head(9))).toBe('same')
    expect(history.offer(await head(4))).toBe('older')
    const { bytes } = await head(4)
    const other = bytes.slice()
    other.set([bytes[60]! ^ 1], 60)
    expect([bytes, other, (await head(9)).bytes].map((each) => history.isOld(each))).toEqual([true, false, false])
  })

  test('a reader follows each head and catches up after a gap', async () => {
    const history = newHistory()
    for (const number of [1, 2, 7, 9]) {
      expect(history.offer(await head(number))).toBe('newer')
      load(history)
      expect([history.last, history.isComplete]).toEqual([number, true])
    }
  })

  test('heads may overtake the blocks of earlier ones', async () => {
    const history = newHistory()
    for (const number of [2, 3, 5, 6, 9]) {
      expect(history.offer(await head(number))).toBe('newer')
      expect(history.offer(await head(1))).toBe('older')
      const block = blocks.get(history.missing[0]?.text ?? '')
      if (block !== undefined) history.insert(block)
      expect(history.heads.map((known) => known.number)).toEqual([number])
    }
    load(history)
    expect(numbers(history)).toEqual(upTo(9))
  })

  test.each([9, 6, 5])('a key that is used twice splits the page of a reader with %i entries where the branches differ', async (known) => {
    const history = newHistory()
    history.offer(await head(known))
    load(history)
    expect(history.offer(await otherHead())).toBe('newer')
    load(history)
    expect(history.split?.number).toBe(vectors.other_branch.from)
    expect(history.split?.otherHead.bytes).toEqual(fromHex(vectors.other_branch.head))
    expect(numbers(history)).toEqual(upTo(known))
    expect(history.heads).toHaveLength(2)
    expect(history.offer(await head(8))).toBe('split')
    expect(history.last).toBe(known)
  })

  test('a head of a known number splits the page', async () => {
    const history = newHistory()
    history.offer(await otherHead())
    load(history)
    expect(history.offer(await head(9))).toBe('split')
    load(history)
    expect(history.split?.number).toBe(vectors.other_branch.from)
  })

  test('a reader that has only the common part sees no split', async () => {
    const history = newHistory()
    history.offer(await head(4))
    load(history)
    history.offer(await otherHead())
    load(history)
    expect([history.split, history.last]).toEqual([null, 11])
  })

  test('an invalid node ends the page before it until a newer head comes', async () => {
    const key = await inScript(fromHex(vectors.seed))
    const history = newHistory()
    history.offer(await head(2))
    load(history)
    const bad: Block = { cid: PAGE, bytes: fromHex(vectors.beginning.hex) }
    expect(history.offer(await signHead(key, PAGE, 3, PAGE))).toBe('newer')
    expect(() => history.insert(bad)).toThrow(LiveError)
    expect([history.last, history.missing.length]).toEqual([2, 0])

    const fresh = newHistory()
    fresh.offer(await signHead(key, PAGE, 3, PAGE))
    expect(() => fresh.insert(bad)).toThrow(LiveError)
    expect([fresh.invalid, fresh.missing.length, fresh.isComplete]).toEqual([3, 0, false])
    expect(fresh.offer(await head(9))).toBe('newer')
    load(fresh)
    expect(fresh.isComplete).toBe(true)
    expect(fresh.insert(bad)).toBe(false)
  })

  test('two entries that are appended at the same time do not share a number', async () => {
    const key = await newSigningKey()
    const history = new History(PAGE, { ...BEGINNING, key: key.public })
    const content = parseCid(vectors.entries[0]?.content ?? '')
    const fresh = { timeMs: 0, form: 'text', name: '', content, contentBytes: 1 } as const
    const both = await Promise.allSettled([history.append(signWith(key), fresh), history.append(signWith(key), fresh)])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(history.last).toBe(1)
  })
})

function problemOf(decode: () => unknown): string | undefined {
  try {
    decode()
  } catch (error) {
    return error instanceof LiveError ? error.problem : String(error)
  }
  return undefined
}
