import { describe, expect, it } from 'vitest'
import { authenticate, Turns } from './reading.ts'

it('a load waits for its turn, and is left out when nobody wants it any more', async () => {
  const turns = new Turns(2)
  const { signal } = new AbortController()
  const gone = new AbortController()
  const started: string[] = []
  const ends = new Map<string, () => void>()
  const load = (name: string, wanted = signal) =>
    turns.take(() => {
      started.push(name)
      return new Promise<void>((resolve) => ends.set(name, resolve))
    }, wanted)
  const [a, b] = [load('a'), load('b')]
  const left = load('left', gone.signal).then(
    () => 'loaded',
    () => 'left out',
  )
  const c = load('c')
  gone.abort()
  expect(started).toEqual(['a', 'b'])
  ends.get('a')?.()
  await a
  expect(await left).toBe('left out')
  await Promise.resolve()
  ends.get('b')?.()
  await b
  ends.get('c')?.()
  await c
  expect(started).toEqual(['a', 'b', 'c'])
})

describe('a file that no view reads', () => {
  const fileOf = (isSealed: boolean, read: () => ReadableStream<Uint8Array<ArrayBuffer>>) => {
    const opened: string[] = []
    const open = async () => {
      opened.push('open')
      return { size: 2, read, present: () => [], close: () => opened.push('close') }
    }
    const file = { size: 2, blob: async () => new Blob(), streamed: { cid: 'a page', isWhole: () => false, isSealed, open } }
    return { file, opened }
  }
  const changed = () =>
    new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: () => Promise.reject(new Error('part 1 is not authentic')),
    })
  const { signal } = new AbortController()

  it('of a private page is read to its end, and a changed part is reported', async () => {
    const good = fileOf(true, () => new Blob(['ab']).stream())
    await authenticate(good.file, signal)
    expect(good.opened).toEqual(['open', 'close'])
    const bad = fileOf(true, changed)
    await expect(authenticate(bad.file, signal)).rejects.toThrow('part 1 is not authentic')
    expect(bad.opened).toEqual(['open', 'close'])
  })

  it('of a public page is not read', async () => {
    const { file, opened } = fileOf(false, changed)
    await authenticate(file, signal)
    expect(opened).toEqual([])
  })
})
