import { describe, expect, test } from 'vitest'
import { buildFile, inOneTask, isSameBytes, type Bytes } from '../content/index.ts'
import { pattern } from '../../test/pattern.ts'
import { fromHex, readVectors } from '../../test/vectors.ts'
import { deriveInBrowser, deriveInScript } from './cipher.ts'
import { PrivateError } from './error.ts'
import { readKey, writeKey } from './key.ts'
import { Layout, padded } from './layout.ts'
import { decodeIndex, encodeIndex, type Index, type PrivateEntry } from './index-format.ts'
import { DecryptedContent, type Ciphertext } from './decrypted-content.ts'
import { Records } from './records.ts'

interface Page {
  page: string
  record_bytes: number
  name: string
  is_directory: boolean
  entries: { path: string; kind: PrivateEntry['kind']; bytes?: number; text?: string }[]
  cid: string
  sealed_bytes: number
  sealed_sha256: string
  starts: string
  ends: string
}

interface Vectors {
  key: string
  key_in_link: string
  padded: [number, number][]
  pages: Page[]
  refused: {
    why: string
    page: string
    key?: string
    flip?: number
    cut?: number
    append?: string
    swap?: [number, number]
    error: string
    record?: number
  }[]
  index_refused: { why: string; hex: string; error: string }[]
}

const vectors = readVectors<Vectors>('private/pages.json')
const KEY = fromHex(vectors.key)

const filesOf = ({ entries }: Page): Bytes[] =>
  entries.map(({ text, bytes }) => (text === undefined ? pattern(bytes ?? 0) : new TextEncoder().encode(text)))

const indexOf = (page: Page): Index => ({
  name: page.name,
  isDirectory: page.is_directory,
  entries: filesOf(page).map(({ length }, i) => {
    const { path = '', kind = 'file' } = page.entries[i] ?? {}
    return { path, kind, bytes: length }
  }),
})

async function seal(page: Page, derive = deriveInBrowser): Promise<Bytes> {
  const head = inOneTask(encodeIndex(indexOf(page)))
  const parts = [head, ...filesOf(page)]
  const layout = Layout.ofContent(
    parts.reduce((sum, { length }) => sum + length, 0),
    page.record_bytes,
  )
  const content = new Uint8Array(layout.contentBytes)
  let at = 0
  for (const part of parts) {
    content.set(part, at)
    at += part.length
  }
  const records = await Records.sealing(KEY, layout, derive)
  const sealed: Bytes[] = [records.header]
  for (let record = 0; record < layout.records; record++) {
    const { from, to } = layout.contentOf(record)
    sealed.push(await records.seal(record, content.slice(from, to)))
  }
  return new Uint8Array(await new Blob(sealed).arrayBuffer())
}

const hex = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
const sealedBytes = (bytes: Bytes): Ciphertext => ({
  size: bytes.length,
  read: (from, to) => new Blob([bytes.slice(from, to)]).stream(),
  present: (parts) => Array.from({ length: parts }, () => true),
})

/** All content of a page, as a reader sees it. */
async function readAll(sealed: Bytes, key: Bytes): Promise<{ index: Index; files: Bytes[] }> {
  const opened = await DecryptedContent.open(sealedBytes(sealed), key)
  const files: Bytes[] = []
  for (const { path, kind } of opened.index.entries) {
    if (kind === 'file') files.push(new Uint8Array(await (await opened.file(path)).arrayBuffer()))
  }
  return { index: opened.index, files }
}

describe('the test vectors shared with Rust', () => {
  test('a key has the same text form', () => {
    expect(writeKey(KEY)).toBe(vectors.key_in_link)
    expect(readKey(vectors.key_in_link)).toEqual(KEY)
  })

  test('lengths are padded the same', () => {
    for (const [bytes, to] of vectors.padded) expect(padded(bytes), `${bytes}`).toBe(to)
  })

  test.each(vectors.pages)('$page is sealed as everywhere, and opens again', async (page) => {
    const sealed = await seal(page)
    expect(sealed.length).toBe(page.sealed_bytes)
    expect(hex(sealed.subarray(0, 96))).toBe(page.starts)
    expect(hex(sealed.subarray(-16))).toBe(page.ends)
    expect(hex(new Uint8Array(await crypto.subtle.digest('SHA-256', sealed)))).toBe(page.sealed_sha256)
    const building = buildFile(new Blob([sealed]))
    let step = await building.next()
    while (!step.done) step = await building.next()
    expect(step.value.cid.text).toBe(page.cid)

    const read = await readAll(sealed, KEY)
    expect(read.index).toEqual(indexOf(page))
    const files = filesOf(page).filter((_, i) => page.entries[i]?.kind === 'file')
    expect(read.files).toHaveLength(files.length)
    // As a string, megabytes would make the comparison too slow.
    for (const [i, file] of files.entries()) expect(isSameBytes(read.files[i] ?? new Uint8Array(), file)).toBe(true)
  })

  test('the result is the same without WebCrypto', async () => {
    const [page] = vectors.pages
    if (page === undefined) throw new Error('a page')
    const inScript = await seal(page, deriveInScript)
    expect(hex(inScript)).toBe(hex(await seal(page)))
    const { header, layout } = await Records.sealing(KEY, Layout.ofContent(10), deriveInScript)
    const records = await Records.opening(KEY, header, layout.sealedBytes, deriveInScript)
    const { from, to } = layout.sealedOf(0)
    await expect(records.open(0, inScript.slice(from, to))).resolves.toHaveLength(4096)
    inScript[100] = (inScript[100] ?? 0) ^ 1
    await expect(records.open(0, inScript.slice(from, to))).rejects.toThrow('part 0')
  })

  test.each(vectors.refused)('$why is refused with the reason', async (refused) => {
    const page = vectors.pages.find(({ page }) => page === refused.page)
    if (page === undefined) throw new Error('a page')
    let sealed = await seal(page)
    if (refused.flip !== undefined) sealed[refused.flip] = (sealed[refused.flip] ?? 0) ^ 1
    if (refused.swap !== undefined) {
      const [a, b] = refused.swap.map((record) => record * page.record_bytes) as [number, number]
      const first = sealed.slice(a, a + page.record_bytes)
      sealed.copyWithin(a, b, b + page.record_bytes)
      sealed.set(first, b)
    }
    sealed = sealed.slice(0, refused.cut)
    if (refused.append !== undefined) sealed = new Uint8Array([...sealed, ...fromHex(refused.append)])
    const key = refused.key === undefined ? KEY : fromHex(refused.key)
    const error = await readAll(sealed, key).then(
      () => null,
      (reason: unknown) => reason,
    )
    if (!(error instanceof PrivateError)) throw new Error(`${refused.why}: ${String(error)}`)
    const names = {
      'wrong-key': 'WrongKey',
      changed: 'Changed',
      length: 'Length',
      'not-private': 'NotPrivate',
      version: 'Version',
      'too-large': '',
      index: '',
    }
    expect(names[error.problem.kind]).toBe(refused.error)
    if (error.problem.kind === 'changed') expect(error.problem.record).toBe(refused.record)
  })

  test.each(vectors.index_refused)('names with $why are refused', ({ hex, error }) => {
    const names = {
      cut: 'Cut',
      trailing: 'Trailing',
      'too-long': 'TooLong',
      'too-many-entries': 'TooManyEntries',
      kind: 'Kind',
      'not-one-file': 'NotOneFile',
      utf8: 'Utf8',
      path: 'Path',
      order: 'Order',
      size: 'Size',
    }
    try {
      inOneTask(decodeIndex(fromHex(hex)))
    } catch (reason) {
      if (!(reason instanceof PrivateError) || reason.problem.kind !== 'index') throw reason
      expect(names[reason.problem.index]).toBe(error)
      return
    }
    throw new Error('it was read')
  })
})
