import { describe, expect, test } from 'vitest'
import type { Bytes } from '../content/index.ts'
import { ContentError, inOneTask, isSameBytes, parseCid, RAW, readFile } from '../content/index.ts'
import { pattern } from '../../test/pattern.ts'
import type { Entry, Listing, PageSession, PageState } from '../swarm/index.ts'
import { newKey, readKey, writeKey } from './key.ts'
import { DecryptedContent, readWhole, type Ciphertext } from './decrypted-content.ts'
import { PlaintextContent } from './plaintext-content.ts'
import { publishPrivate } from './publish.ts'
import { ReadablePage } from './readable-page.ts'

const MIB = 1 << 20
const text = (words: string) => new Blob([words])
const bytesOf = async (blob: Blob) => new Uint8Array(await blob.arrayBuffer())

async function keyOf(key: string): Promise<Bytes> {
  const read = readKey(key)
  if (read === null) throw new Error('a key')
  return read
}

/** All blocks of a publication as bytes, as another peer has them. */
async function ciphertextOf(publication: Awaited<ReturnType<typeof publishPrivate>>): Promise<Blob> {
  const leaves: Bytes[] = []
  const { store, root } = publication
  const visit = async (cid: ReturnType<typeof parseCid>): Promise<void> => {
    if (cid.codec === RAW) {
      leaves.push(await store.read(cid))
      return
    }
    const { decodeFsNode } = await import('../content/unixfs.ts')
    const node = decodeFsNode(cid, await store.read(cid))
    if (node.kind !== 'file') throw new Error('a file')
    for (const child of node.children) await visit(child.cid)
  }
  await visit(parseCid(root))
  return new Blob(leaves)
}

function sealed(blob: Blob, ranges: [number, number][] = []): Ciphertext {
  return {
    size: blob.size,
    read: (from, to) => {
      ranges.push([from, to])
      return blob.slice(from, to).stream()
    },
    present: (parts) => Array.from({ length: parts }, () => true),
  }
}

/** A page received from another peer. */
class Held implements PageSession {
  readonly root = 'a page'
  phase: PageState['phase'] = 'loading'
  readonly #blob: Blob
  readonly #listing: Listing
  #tell: (state: PageState) => void = () => {}
  isClosed = false

  constructor(blob: Blob, files: readonly Entry[] = [{ path: '', size: blob.size, complete: true }]) {
    this.#blob = blob
    this.#listing = { files, links: 0, hasNames: true, isFinal: true }
  }

  get state(): PageState {
    return { phase: this.phase } as PageState
  }

  subscribe(listener: (state: PageState) => void) {
    this.#tell = listener
    listener(this.state)
    return () => {}
  }

  live() {
    return null
  }

  append(): Promise<void> {
    return Promise.reject(new Error('not live'))
  }

  arrive() {
    this.phase = 'complete'
    this.#tell(this.state)
  }

  listing: PageSession['listing'] = () => this.#listing
  file = async () => this.#blob
  open: PageSession['open'] = async () => ({ ...sealed(this.#blob), close: () => {} })
  blockMap = () => null
  close() {
    this.isClosed = true
  }
}

/** Waits until the page knows whether it is private. */
function decided(page: ReadablePage): Promise<ReadablePage['privacy']> {
  return new Promise((resolve) => {
    page.subscribe(() => {
      if (page.privacy.kind !== 'unknown') resolve(page.privacy)
    })
  })
}

describe('publishing', () => {
  const files = [
    { path: 'index.html', blob: text('<h1>secret words</h1>') },
    { path: 'film.bin', blob: new Blob([pattern(2.5 * MIB)]) },
  ]

  test('makes blocks that only the key opens', async () => {
    const publication = await publishPrivate(files, { name: 'trip' })
    const blob = await ciphertextOf(publication)
    const bytes = await bytesOf(blob)
    for (const secret of ['secret words', 'index.html', 'film.bin', 'trip']) {
      expect(new TextDecoder('latin1').decode(bytes)).not.toContain(secret)
    }
    const opened = await DecryptedContent.open(sealed(blob), await keyOf(publication.key))
    expect(opened.index).toEqual(publication.content.index)
    expect(await (await opened.file('index.html')).text()).toBe('<h1>secret words</h1>')
    expect(isSameBytes(await bytesOf(await opened.file('film.bin')), pattern(2.5 * MIB))).toBe(true)
    await expect(opened.file('absent')).rejects.toThrow('absent')
  })

  test('makes a new key and CID for the same content each time', async () => {
    const [one, two] = [await publishPrivate(files), await publishPrivate(files)]
    expect(one.key).not.toBe(two.key)
    expect(one.root).not.toBe(two.root)
  })

  test('reads the same leaves again, and fails if a file has changed', async () => {
    let content = pattern(1.5 * MIB)
    const changing = {
      size: content.length,
      slice: (from: number, to: number) => new Blob([content]).slice(from, to),
    } as unknown as Blob
    const publication = await publishPrivate([{ path: 'a', blob: changing }])
    const before = await ciphertextOf(publication)
    expect(isSameBytes(await bytesOf(await ciphertextOf(publication)), await bytesOf(before))).toBe(true)
    content = content.map((byte) => byte ^ 1)
    await expect(ciphertextOf(publication)).rejects.toThrow()
  })

  test('rejects content that is too large once encrypted', async () => {
    await expect(publishPrivate(files, { pageBytesMax: 2.6 * MIB })).resolves.toBeDefined()
    await expect(publishPrivate(files, { pageBytesMax: 2.5 * MIB })).rejects.toThrow('2.5 MiB')
  })

  test('never has the whole content in memory', async () => {
    const content = inOneTask(PlaintextContent.of('', false, [{ path: 'a', blob: new Blob([pattern(3 * MIB)]) }]))
    expect((await content.read(MIB, MIB + 10)).length).toBe(10)
    const { layout } = content
    expect(await content.read(layout.contentBytes - 5, layout.contentBytes)).toEqual(new Uint8Array(5))
  })

  test('reads thousands of small files without a slice of each', async () => {
    const files = Array.from({ length: 2000 }, (_, i) => ({ path: `${i}.txt`, blob: text(`file ${i}`) }))
    const content = inOneTask(PlaintextContent.of('many', true, files))
    const { slice } = Blob.prototype
    const whole = await bytesOf(new Blob([await content.read(0, content.layout.contentBytes)]))
    let slices = 0
    Blob.prototype.slice = function (...range) {
      slices++
      return slice.apply(this, range)
    }
    const parts: Bytes[] = []
    try {
      for (let from = 0; from < whole.length; from += 20_000) parts.push(await content.read(from, Math.min(from + 20_000, whole.length)))
    } finally {
      Blob.prototype.slice = slice
    }
    expect(isSameBytes(await bytesOf(new Blob(parts)), whole)).toBe(true)
    expect(slices).toBeLessThanOrEqual(2 * parts.length)
  })

  test('never combines leaves that are made when read as if they were files', async () => {
    const { store, root } = await publishPrivate(files)
    expect(() => readFile(store, parseCid(root))).toThrow()
  })
})

test('reading a range reads only the records that contain it', async () => {
  const publication = await publishPrivate([{ path: 'film.bin', blob: new Blob([pattern(5 * MIB)]) }])
  const ranges: [number, number][] = []
  const opened = await DecryptedContent.open(sealed(await ciphertextOf(publication), ranges), await keyOf(publication.key))
  ranges.length = 0
  expect(await readWhole(opened.open('').read(3 * MIB, 3 * MIB + 100))).toEqual(pattern(100, 3 * MIB))
  expect(ranges).toEqual([[3 * MIB, 4 * MIB]])
})

describe('an open page', () => {
  const secret = () => publishPrivate([{ path: 'notes.md', blob: text('# Secret') }], { name: 'notes.md' })

  test('shows its files with the right key', async () => {
    const publication = await secret()
    const held = new Held(await ciphertextOf(publication))
    const page = new ReadablePage(held, publication.key)
    expect(page.listing()).toBe(null)
    expect((await decided(page)).kind).toBe('open')
    expect(page.listing()?.files).toEqual([{ path: '', size: 8, complete: false }])
    held.arrive()
    expect(page.state.phase).toBe('complete')
    expect(page.listing()?.files).toEqual([{ path: '', size: 8, complete: true }])
    expect(await (await page.file('')).text()).toBe('# Secret')
    page.close()
    expect(held.isClosed).toBe(true)
  })

  test('of a folder keeps its empty folders, and a single file in it stays in a folder', async () => {
    const publication = await publishPrivate([{ path: 'a.md', blob: text('# A') }], {
      name: 'trip',
      directory: true,
      emptyFolders: ['later', 'b/c'],
    })
    const held = new Held(await ciphertextOf(publication))
    const page = new ReadablePage(held, publication.key)
    const opened = await decided(page)
    if (opened.kind !== 'open') throw new Error('not open')
    const { entries, isDirectory } = opened.content.index
    expect(isDirectory).toBe(true)
    expect(entries.map(({ path, kind }) => [path, kind])).toEqual([
      ['a.md', 'file'],
      ['b/c', 'directory'],
      ['later', 'directory'],
    ])
    expect(page.listing()).toEqual({ files: [{ path: 'a.md', size: 3, complete: false }], links: 0, hasNames: true, isFinal: true })
    expect(await (await page.file('a.md')).text()).toBe('# A')
  })

  test('stays locked without a key, and opens when the key is given', async () => {
    const publication = await secret()
    const held = new Held(await ciphertextOf(publication))
    const page = new ReadablePage(held, null)
    held.arrive()
    expect(await decided(page)).toEqual({ kind: 'closed', problem: null })
    await expect(page.file('')).rejects.toThrow()
    page.unlock('short')
    expect(await decided(page)).toMatchObject({
      problem: { message: expect.stringMatching(/^The key in this link does not open this page\./) },
    })
    page.unlock(writeKey(newKey()))
    expect(await decided(page)).toMatchObject({ problem: { problem: { kind: 'wrong-key' } } })
    page.unlock(publication.key)
    expect((await decided(page)).kind).toBe('open')
    expect(held.isClosed).toBe(false)
  })

  test('is unchanged if it is public', async () => {
    for (const held of [new Held(text('# Anybody')), new Held(text(''), [{ path: 'a.md', size: 1, complete: true }])]) {
      const page = new ReadablePage(held, null)
      held.arrive()
      expect((await decided(page)).kind).toBe('public')
      expect(page.listing()).toBe(held.listing())
    }
  })

  test('is not shown as private if it is public', async () => {
    const held = new Held(text('# Anybody'))
    const page = new ReadablePage(held, writeKey(newKey()))
    held.arrive()
    expect(await decided(page)).toMatchObject({ kind: 'closed', problem: { problem: { kind: 'not-private' } } })
  })

  test.each([
    ['has no room for its start', 'loading', new ContentError({ kind: 'no-room', bytes: 0 })],
    ['has failed', 'failed', new ContentError({ kind: 'too-deep', depthMax: 32 })],
  ] as const)('rejects a request for a file if it %s', async (_, phase, reason) => {
    for (const key of [null, writeKey(newKey())]) {
      const held = new Held(new Blob([pattern(5 * MIB)]))
      held.phase = phase
      held.open = () => Promise.reject(reason)
      if (phase === 'failed') held.listing = () => null
      const page = new ReadablePage(held, key)
      await expect(page.file('a.txt')).rejects.toBe(reason)
      await expect(page.file('a.txt')).rejects.toBe(reason)
    }
  })

  test('shows no byte of a record that was changed', async () => {
    const publication = await publishPrivate([{ path: 'a', blob: new Blob([pattern(1.5 * MIB)]) }])
    const bytes = await bytesOf(await ciphertextOf(publication))
    bytes[1.25 * MIB] = (bytes[1.25 * MIB] ?? 0) ^ 1
    const held = new Held(new Blob([bytes]))
    const page = new ReadablePage(held, publication.key)
    held.arrive()
    expect((await decided(page)).kind).toBe('open')
    await expect(page.file('')).rejects.toThrow('part 1 is not authentic')
  })
})
