import { describe, expect, it, vi } from 'vitest'
import {
  MemoryBlockStore,
  buildDirectory,
  buildFile,
  cidOf,
  DAG_PB,
  findFile,
  isSameBytes,
  RAW,
  type Bytes,
  type Cid,
  type Profile,
} from '../content/index.ts'
import { pattern } from '../../test/pattern.ts'
import { encodeFile } from '../content/unixfs.ts'
import { StreamingReads, URGENT_BLOCKS_MAX } from './streaming-reads.ts'

/** Small blocks and few links, so that a small file has several levels. */
const PROFILE: Profile = { chunkBytes: 1000, linksMax: 4, directoryBytesMax: 256 << 10 }

/** A page whose blocks arrive one by one. */
class FakePage {
  readonly here = new MemoryBlockStore(1 << 30)
  readonly urges: string[][] = []
  readonly readers: StreamingReads

  readonly root: Cid
  readonly blocks: Map<string, { cid: Cid; bytes: Bytes }>

  constructor(root: Cid, blocks: Map<string, { cid: Cid; bytes: Bytes }>) {
    this.root = root
    this.blocks = blocks
    this.readers = new StreamingReads({
      blocks: this.here,
      find: (path) => findFile(this.here, root, path),
      setUrgent: (cids) => this.urges.push(cids.map(({ key }) => key)),
    })
  }

  get urgent(): string[] {
    return this.urges.at(-1) ?? []
  }

  bring(key: string): void {
    const block = this.blocks.get(key)
    if (block === undefined || this.here.has(block.cid)) return
    this.here.put(block.cid, block.cid.codec === RAW ? new Blob([block.bytes]) : block.bytes)
    this.readers.handleBlock(block.cid)
  }

  /** Delivers the most urgent block this many times. Returns what these were. */
  bringUrgent(times: number): string[] {
    return Array.from({ length: times }, () => {
      const [first = ''] = this.urgent
      this.bring(first)
      return first
    })
  }

  bringAll(): void {
    for (const key of this.blocks.keys()) this.bring(key)
  }
}

/** Settles promises without moving the clock. */
const settled = async () => {
  for (let i = 0; i < 50; i++) await Promise.resolve()
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve))
}

const bytesOf = async (stream: ReadableStream<Bytes>) => new Uint8Array(await new Response(stream).arrayBuffer())

/** A page of one file called `''`, or a directory of several. */
async function page(files: Record<string, number>): Promise<FakePage> {
  const named = Object.entries(files).map(([path, size]) => ({ path, blob: new Blob([pattern(size)]) }))
  const [only] = named
  const building = only?.path === '' ? buildFile(only.blob, { profile: PROFILE }) : buildDirectory(named, { profile: PROFILE })
  const blocks = new Map<string, { cid: Cid; bytes: Bytes }>()
  for (;;) {
    const { done, value } = await building.next()
    if (done) return new FakePage(value.cid, blocks)
    const bytes = value.block instanceof Uint8Array ? value.block : new Uint8Array(await value.block.arrayBuffer())
    blocks.set(value.cid.key, { cid: value.cid, bytes })
  }
}

/** A page of one file, of which only the root is here. */
async function openFilm(size: number) {
  const film = await page({ '': size })
  const opening = film.readers.open('')
  film.bring(film.root.key)
  return { film, file: await opening }
}

describe('a file that is opened before its blocks are here', () => {
  it('requests the blocks from the root down to it first, then its beginning', async () => {
    const film = await page({ '': 60_000 })
    const opening = film.readers.open('')
    expect(film.urgent).toEqual([film.root.key])
    film.bring(film.root.key)
    const file = await opening
    expect(file.size).toBe(60_000)
    // Inner nodes first, because they link to the leaves. Then the leaves at the beginning.
    const brought = film.bringUrgent(6)
    expect(brought.filter((key) => film.blocks.get(key)?.cid.codec === RAW).length).toBeGreaterThan(0)
    const read = bytesOf(file.read(0, 1000))
    expect(isSameBytes(await read, pattern(1000))).toBe(true)
  })

  it('is found in a directory, and opening an unknown path fails', async () => {
    const trip = await page({ 'a.txt': 10, 'film.webm': 9_000 })
    const [film, none] = [trip.readers.open('film.webm'), trip.readers.open('film.mov')]
    none.catch(() => {})
    trip.bring(trip.root.key)
    await expect(none).rejects.toThrow('There is no file "film.mov"')
    trip.bringAll()
    expect((await film).size).toBe(9_000)
    await expect(trip.readers.open('film.webm/x')).rejects.toThrow('There is no file')
    await expect(trip.readers.open('')).rejects.toThrow()
  })

  it('can be read in any part, with blocks arriving in any order', async () => {
    const { film, file } = await openFilm(25_500)
    const parts = [
      [0, 25_500],
      [999, 1001],
      [12_345, 20_001],
      [25_499, 25_500],
      [5, 5],
      [20_000, 99_999],
    ] as const
    const reads = parts.map(([from, to]) => bytesOf(file.read(from, to)))
    for (const key of [...film.blocks.keys()].reverse()) film.bring(key)
    const whole = pattern(25_500)
    for (const [i, [from, to]] of parts.entries())
      expect(isSameBytes((await reads[i]) ?? new Uint8Array(), whole.slice(from, to))).toBe(true)
  })
})

describe('the urgent blocks', () => {
  it('are those of the latest read first, in turns with the others', async () => {
    const { film, file } = await openFilm(200_000)
    // All inner nodes are here. The leaves are not.
    for (const [key, { cid }] of film.blocks) if (cid.codec !== RAW) film.bring(key)
    const leafAt = (position: number) => {
      const at = film.blocks
      const wanted = pattern(200_000).slice(position, position + 1000)
      return [...at].find(([, { cid, bytes }]) => cid.codec === RAW && isSameBytes(bytes, wanted))?.[0]
    }
    const [slow, jumped] = [file.read(0, 200_000).getReader(), file.read(150_000, 200_000).getReader()]
    const reading = [slow.read(), jumped.read()]
    expect(film.urgent.slice(0, 4)).toEqual([leafAt(150_000), leafAt(0), leafAt(151_000), leafAt(1_000)])
    film.bring(leafAt(150_000) ?? '')
    expect((await reading[1])?.value?.length).toBe(1000)
    expect(film.urgent[0]).toBe(leafAt(151_000))
    await jumped.cancel()
    expect(film.urgent[0]).toBe(leafAt(0))
    await slow.cancel()
    expect(film.urgent).toEqual([])
    await reading[0]
  })

  it('never exceed the limit, however many reads there are', async () => {
    const { film, file } = await openFilm(250_000)
    for (const [key, { cid }] of film.blocks) if (cid.codec !== RAW) film.bring(key)
    const streams = Array.from({ length: 64 }, (_, i) => file.read(i * 3000, 250_000))
    for (const urge of film.urges) expect(urge.length).toBeLessThanOrEqual(URGENT_BLOCKS_MAX)
    expect(film.urgent.length).toBe(URGENT_BLOCKS_MAX)
    await expect(bytesOf(file.read(0, 1))).rejects.toThrow('Too many files of this page are read at once. Close one and try again.')
    for (const stream of streams) await stream.cancel()
    film.bringAll()
    expect((await bytesOf(file.read(0, 1))).length).toBe(1)
  })

  it('are none for a read that is not urgent, and none when all blocks are here', async () => {
    const { film, file } = await openFilm(20_000)
    file.close()
    expect(film.urgent).toEqual([])
    const saved = bytesOf(file.read(0, 20_000, { urgent: false }))
    expect(film.urgent).toEqual([])
    const watched = bytesOf(file.read(0, 20_000))
    expect(film.urgent.length).toBeGreaterThan(0)
    film.bringAll()
    for (const read of [saved, watched]) expect(isSameBytes(await read, pattern(20_000))).toBe(true)
    expect(film.urgent).toEqual([])
  })
})

describe('a read', () => {
  it('can be cancelled, and fails when the page ends', async () => {
    const film = await page({ '': 20_000 })
    const opening = film.readers.open('')
    const abandoned = new AbortController()
    const other = film.readers.open('', { signal: abandoned.signal })
    abandoned.abort(new Error('Looked away.'))
    await expect(other).rejects.toThrow('Looked away.')
    film.bring(film.root.key)
    const file = await opening
    const stop = new AbortController()
    const [stopped, ended] = [bytesOf(file.read(0, 20_000, { signal: stop.signal })), bytesOf(file.read(5_000, 9_000))]
    for (const each of [stopped, ended]) each.catch(() => {})
    await settled()
    stop.abort(new Error('Enough.'))
    await expect(stopped).rejects.toThrow('Enough.')
    film.readers.end(new Error('The page was closed.'))
    await expect(ended).rejects.toThrow('The page was closed.')
    await expect(film.readers.open('')).rejects.toThrow('The page was closed.')
  })

  it('can be read as far as its blocks are here when no more arrive', async () => {
    const { film, file } = await openFilm(20_000)
    const reading = file.read(0, 20_000).getReader()
    const first = reading.read()
    await settled()
    for (let i = 0; i < 3; i++) film.bringUrgent(1)
    expect((await first).value?.length).toBeGreaterThan(0)
    film.readers.stopWaiting(new Error('No room.'))
    await expect(bytesOf(file.read(0, 1000))).resolves.toHaveLength(1000)
    await expect(bytesOf(file.read(19_000, 20_000))).rejects.toThrow('No room.')
    const rest = async () => {
      while (!(await reading.read()).done);
    }
    await expect(rest()).rejects.toThrow('No room.')
    expect(film.urgent).toEqual([])
  })

  it('does not listen to its signal any more when no more blocks arrive', async () => {
    const film = await page({ '': 20_000 })
    const { signal } = new AbortController()
    const removed = vi.spyOn(signal, 'removeEventListener')
    const opening = film.readers.open('', { signal })
    film.readers.stopWaiting(new Error('No room.'))
    await expect(opening).rejects.toThrow('No room.')
    expect(removed).toHaveBeenCalledOnce()
  })

  it('fails if the sizes in the tree do not add up', async () => {
    const blocks = new Map<string, { cid: Cid; bytes: Bytes }>()
    const leaf = pattern(500)
    const cid = await cidOf(RAW, leaf)
    blocks.set(cid.key, { cid, bytes: leaf })
    const bytes = encodeFile([
      { cid, size: 900, dagBytes: 900 },
      { cid, size: 500, dagBytes: 500 },
    ])
    const root = await cidOf(DAG_PB, bytes)
    blocks.set(root.key, { cid: root, bytes })
    const invalid = new FakePage(root, blocks)
    invalid.bringAll()
    const file = await invalid.readers.open('')
    await expect(bytesOf(file.read(0, 1400))).rejects.toThrow('whose size differs from the stated one')
    expect(file.present(4)).toEqual([false, false, false, false])
  })

  it('shows which parts of the file are here', async () => {
    const { film, file } = await openFilm(8_000)
    expect(file.present(4)).toEqual([false, false, false, false])
    film.bringUrgent(3)
    expect(file.present(8)[0]).toBe(true)
    film.bringAll()
    expect(file.present(4)).toEqual([true, true, true, true])
  })
})
