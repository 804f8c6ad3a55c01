import { describe, expect, it } from 'vitest'
import { buildDirectory, buildFile, unixfsV1_2025, type BuiltBlock, type BuiltRoot } from './build-dag.ts'
import type { Bytes } from './bytes.ts'
import { cidOf, DAG_PB, IDENTITY, makeCid, parseCid, RAW, SHA2_256, type Cid } from './cid.ts'
import { decodePbNode, encodePbNode, type PbLink } from './dag-pb.ts'
import { ContentError } from './error.ts'
import { pattern } from '../../test/pattern.ts'
import { MessageWriter } from './protobuf.ts'
import { listFiles, listingWork, readFile } from './read-files.ts'
import { buildShards, hashEntries } from './build-shards.ts'
import { inOneTask, ITEMS_PER_TASK } from './tasks.ts'
import { MemoryBlockStore } from './block-store.ts'
import type { StoreEvent } from './block-table.ts'
import { decodeFsNode, encodeDirectory, encodeFile } from './unixfs.ts'
import { fromHex, readVectors } from '../../test/vectors.ts'
import { DagWalk, type WalkLimits, type WantedBlock } from './dag-walk.ts'

const profile = { ...unixfsV1_2025, chunkBytes: 10, linksMax: 3 }
const limits: WalkLimits = { bytesMax: 10_000, blocksMax: 1000, depthMax: 32 }

async function keep(building: AsyncGenerator<BuiltBlock, BuiltRoot>, store: MemoryBlockStore): Promise<BuiltRoot> {
  for (;;) {
    const step = await building.next()
    if (step.done) return step.value
    store.put(step.value.cid, step.value.block)
  }
}

async function put(store: MemoryBlockStore, codec: number, bytes: Bytes): Promise<Cid> {
  const cid = await cidOf(codec, bytes)
  store.put(cid, bytes)
  return cid
}

/** Walks the blocks of a store. Returns the CIDs in the order in which they were wanted. */
function walkAll(walk: DagWalk, store: MemoryBlockStore): Cid[] {
  const wanted: Cid[] = []
  const queue = walk.start()
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    wanted.push(next.cid)
    const block = store.get(next.cid)
    const size = store.size(next.cid)
    if (block === null || size === null) continue
    queue.push(...walk.arrived(next.cid, size, block instanceof Uint8Array ? block : null))
  }
  return wanted
}

const trip = [
  { path: 'index.md', blob: new Blob([pattern(95)]) },
  { path: 'img/cat.png', blob: new Blob([pattern(7)]) },
  { path: 'img/empty', blob: new Blob([]) },
]

describe('a file that states its last change', () => {
  it('keeps that time in the listing, unless no clock shows it', async () => {
    const store = new MemoryBlockStore(10_000)
    const fileChangedAt = (time: MessageWriter) => {
      const data = new MessageWriter().uint(1, 2).bytes(2, pattern(5)).uint(3, 5).message(8, time).finish()
      return put(store, DAG_PB, encodePbNode({ links: [], data }))
    }
    const links = [
      { name: 'a', cid: await fileChangedAt(new MessageWriter().uint(1, 1_700_000_000)), dagBytes: 30 },
      { name: 'b', cid: await fileChangedAt(new MessageWriter().uint(1, Number.MAX_SAFE_INTEGER)), dagBytes: 30 },
      // Before 1970.
      { name: 'c', cid: await fileChangedAt(new MessageWriter().int32(1, -1)), dagBytes: 30 },
      { name: 'd', cid: await fileChangedAt(new MessageWriter()), dagBytes: 30 },
    ]
    const root = await put(store, DAG_PB, encodeDirectory(links))
    expect(listFiles(store, root)?.files.map(({ path, modified }) => [path, modified])).toEqual([
      ['a', 1_700_000_000_000],
      ['b', undefined],
      ['c', undefined],
      ['d', undefined],
    ])
  })
})

describe('a directory in a store', () => {
  it('returns its files with their bytes', async () => {
    const store = new MemoryBlockStore(10_000)
    const { cid } = await keep(buildDirectory(trip, { profile }), store)
    const files = listFiles(store, cid)?.files ?? []
    expect(files.map(({ path, size }) => [path, size])).toEqual([
      ['img/cat.png', 7],
      ['img/empty', 0],
      ['index.md', 95],
    ])
    for (const file of files) {
      const bytes = new Uint8Array(await readFile(store, file.cid).arrayBuffer())
      expect(bytes).toEqual(pattern(file.size ?? -1))
    }
  })

  it('lists the known files before all blocks are here', async () => {
    const whole = new MemoryBlockStore(10_000)
    const { cid } = await keep(buildDirectory(trip, { profile }), whole)
    const part = new MemoryBlockStore(10_000)
    expect(listFiles(part, cid)).toBeNull()
    part.put(cid, await whole.read(cid))
    expect(listFiles(part, cid)).toMatchObject({
      files: [
        { path: 'img', size: null, about: expect.any(Number) },
        { path: 'index.md', size: null, about: expect.any(Number) },
      ],
      hasNames: true,
      isFinal: false,
    })
  })

  it('can be read only when all blocks are here', async () => {
    const whole = new MemoryBlockStore(10_000)
    const { cid } = await keep(buildFile(new Blob([pattern(95)]), { profile }), whole)
    const part = new MemoryBlockStore(10_000)
    for (const each of walkAll(new DagWalk(cid, limits), whole)) {
      expect(() => readFile(part, cid)).toThrow(ContentError)
      part.put(each, await whole.read(each))
    }
    expect(readFile(part, cid).size).toBe(95)
  })
})

describe('a DAG walk', () => {
  it('wants each block once, from the root down, and then knows the total', async () => {
    const store = new MemoryBlockStore(10_000)
    const { cid, dagBytes } = await keep(buildDirectory(trip, { profile }), store)
    const walk = new DagWalk(cid, limits)
    expect(walk.progress).toEqual({ blocksDone: 0, blocksTotal: null, bytesDone: 0, bytesTotal: null })
    const wanted = walkAll(walk, store)
    expect(new Set(wanted.map(({ key }) => key)).size).toBe(wanted.length)
    expect(walk.isComplete).toBe(true)
    // The empty file's CID contains its block, so it is never wanted.
    expect(walk.progress.blocksTotal).toBe(wanted.length + 1)
    expect(walk.progress.bytesDone).toBe(dagBytes)
    expect(walk.progress.bytesTotal).toBe(dagBytes)
  })

  it('knows which files are whole, with blocks in any order', async () => {
    const store = new MemoryBlockStore(10_000)
    const { cid } = await keep(buildDirectory(trip, { profile }), store)
    const files = listFiles(store, cid)?.files ?? []
    for (const next of [(wanted: WantedBlock[]) => wanted.shift(), (wanted: WantedBlock[]) => wanted.pop()]) {
      const walk = new DagWalk(cid, limits)
      const here = new MemoryBlockStore(10_000)
      const isHere = (file: Cid) => walkAll(new DagWalk(file, limits), here).every((each) => here.has(each))
      const wanted = walk.start()
      for (let block = next(wanted); block !== undefined; block = next(wanted)) {
        expect(walk.isWhole(cid)).toBe(false)
        const bytes = await store.read(block.cid)
        here.put(block.cid, bytes)
        wanted.push(...walk.arrived(block.cid, bytes.length, bytes))
        for (const file of files) expect(walk.isWhole(file.cid)).toBe(isHere(file.cid))
      }
      expect(walk.isWhole(cid)).toBe(true)
    }
  })

  it('visits each link once, however many blocks link to it', async () => {
    const store = new MemoryBlockStore(1_000_000)
    const leaf = await put(store, RAW, pattern(3))
    const children = new Array(2000).fill({ cid: leaf, size: 3, dagBytes: 3 })
    const cid = await put(store, DAG_PB, encodeFile(children))
    const walk = new DagWalk(cid, limits)
    walk.start()
    const root = await store.read(cid)
    walk.arrived(cid, root.length, root)
    expect(walk.isWhole(cid)).toBe(false)
    walk.arrived(leaf, 3, null)
    expect([walk.isWhole(cid), walk.nodesDone, walk.progress.blocksDone]).toEqual([true, 1, 2])
  })

  it('knows the declared size as soon as the root is here', async () => {
    const store = new MemoryBlockStore(10_000)
    const { cid, dagBytes } = await keep(buildFile(new Blob([pattern(95)]), { profile }), store)
    const walk = new DagWalk(cid, limits)
    walk.start()
    const root = await store.read(cid)
    walk.arrived(cid, root.length, root)
    expect(walk.progress).toMatchObject({ blocksDone: 1, bytesTotal: dagBytes })
  })

  it('rejects a page above the limit by its root alone', async () => {
    const leaf = await cidOf(RAW, pattern(1))
    const root = encodeFile([{ cid: leaf, size: 1e12, dagBytes: 1e12 }])
    const cid = await cidOf(DAG_PB, root)
    const walk = new DagWalk(cid, limits)
    walk.start()
    expect(() => walk.arrived(cid, root.length, root)).toThrow(/931 GiB, more than the 9.8 KiB/)
  })

  it('rejects content that is nested too deep', async () => {
    const store = new MemoryBlockStore(100_000)
    let cid = await put(store, RAW, pattern(1))
    for (let i = 0; i < 100; i++) cid = await put(store, DAG_PB, encodeDirectory([{ cid, name: 'd', dagBytes: null }]))
    expect(() => walkAll(new DagWalk(cid, limits), store)).toThrow(/deeper than 32/)
    expect(() => listFiles(store, cid)).toThrow(/deeper than 32/)
  })

  it('rejects more blocks than the limit', async () => {
    const links = Array.from({ length: 20 }, (_, i) => ({
      cid: makeCid(1, RAW, SHA2_256, new Uint8Array(32).fill(i)),
      name: `${i}`,
      dagBytes: 1,
    }))
    const store = new MemoryBlockStore(100_000)
    const cid = await put(store, DAG_PB, encodeDirectory(links))
    expect(() => walkAll(new DagWalk(cid, { ...limits, blocksMax: 10 }), store)).toThrow(/more than 10 blocks/)
  })

  it('follows nodes inside inline CIDs', async () => {
    const text = makeCid(1, RAW, IDENTITY, new TextEncoder().encode('hi'))
    const inner = makeCid(1, DAG_PB, IDENTITY, encodeFile([{ cid: text, size: 2, dagBytes: 2 }]))
    const root = encodeDirectory([{ cid: inner, name: 'hi.txt', dagBytes: 20 }])
    const store = new MemoryBlockStore(1000)
    const cid = await put(store, DAG_PB, root)
    const walk = new DagWalk(cid, limits)
    expect(walkAll(walk, store)).toEqual([cid])
    expect(walk.isComplete).toBe(true)
    expect(await readFile(store, listFiles(store, cid)?.files[0]?.cid ?? cid).text()).toBe('hi')
  })

  it('rejects names that could leave the directory', async () => {
    for (const name of ['', '.', '..', 'a/b', 'a\0']) {
      const store = new MemoryBlockStore(1000)
      const leaf = await put(store, RAW, pattern(1))
      const cid = await put(store, DAG_PB, encodeDirectory([{ cid: leaf, name, dagBytes: 1 }]))
      expect(() => walkAll(new DagWalk(cid, limits), store), name).toThrow(ContentError)
      expect(() => listFiles(store, cid), name).toThrow(ContentError)
    }
  })
})

describe('a few blocks that describe very much content', () => {
  it('are listed only up to a limit', async () => {
    const store = new MemoryBlockStore(1_000_000)
    let cid = await put(store, RAW, pattern(1))
    for (let level = 0; level < 6; level++) {
      const links = Array.from({ length: 100 }, (_, i) => ({ cid, name: `${i}`, dagBytes: null }))
      cid = await put(store, DAG_PB, encodeDirectory(links))
    }
    expect(() => listFiles(store, cid)).toThrow(/more than 65,536 entries/)
  })

  it('are read only up to a limit', async () => {
    const store = new MemoryBlockStore(1_000_000)
    let child = { cid: await put(store, RAW, pattern(1)), size: 1, dagBytes: null }
    for (let level = 0; level < 5; level++) {
      const block = encodeFile(new Array<typeof child>(100).fill(child))
      child = { cid: await put(store, DAG_PB, block), size: child.size * 100, dagBytes: null }
    }
    expect(() => readFile(store, child.cid)).toThrow(/more than 262,144 parts/)
  })

  it('are read quickly if they are empty', async () => {
    const store = new MemoryBlockStore(1_000_000)
    let child = { cid: await put(store, DAG_PB, encodePbNode({ links: [], data: Uint8Array.of(8, 2) })), size: 0, dagBytes: null }
    for (let level = 0; level < 20; level++) {
      const block = encodeFile(new Array<typeof child>(100).fill(child))
      child = { cid: await put(store, DAG_PB, block), size: 0, dagBytes: null }
    }
    expect(readFile(store, child.cid).size).toBe(0)
  })
})

interface Refused {
  dag_pb: { about: string; hex: string; reason: string }[]
  files: { about: string; root: string; blocks: string[]; reason: string }[]
  directories: { about: string; cid: string; hex: string; reason: string }[]
}

const refused = readVectors<Refused>('refused.json')

describe('a page with invalid content', () => {
  // A part without bytes, or with a name, is valid.
  const harmful = refused.files.filter(({ reason }) => reason !== 'empty-part' && reason !== 'named-part')
  it.each(harmful)('is not read as a file: $about', async ({ root, blocks }) => {
    const store = new MemoryBlockStore(1_000_000)
    for (const hex of blocks) for (const codec of [RAW, DAG_PB]) await put(store, codec, fromHex(hex))
    expect(() => readFile(store, parseCid(root))).toThrow(ContentError)
  })

  it.each(refused.directories.filter(({ reason }) => reason.endsWith('name')))('is not listed: $about', ({ cid, hex }) => {
    const store = new MemoryBlockStore(1_000_000)
    store.put(parseCid(cid), fromHex(hex))
    expect(() => listFiles(store, parseCid(cid))).toThrow(ContentError)
  })
})

describe('a UnixFS node', () => {
  const shown = readVectors<{ nodes: { about: string; cid: string; hex: string; data: string }[] }>('nodes.json')

  it.each(shown.nodes)('is read and written as kubo does: $about', ({ cid, hex, data }) => {
    const block = fromHex(hex)
    const node = decodePbNode(block)
    expect(node.data).toEqual(fromHex(data))
    expect(encodePbNode(node)).toEqual(block)
    expect(() => decodeFsNode(parseCid(cid), block)).not.toThrow()
  })

  // As in kubo, fields may be in another order, and varints may be longer than needed.
  const lenient = new Set(['link-order', 'a length in more bytes than it needs', 'data among the links'])
  const strict = refused.dag_pb.filter(({ about, reason }) => !lenient.has(reason) && !lenient.has(about))
  it.each(strict)('is refused: $about', ({ hex }) => {
    expect(() => decodePbNode(fromHex(hex))).toThrow(ContentError)
  })

  const dagPb = parseCid('QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH')
  const fs = (type: number) => new MessageWriter().uint(1, type)
  const node = (data: Bytes | null) => encodePbNode({ links: [], data })

  it('of kubo before version 1 may contain bytes', () => {
    const data = fs(2).bytes(2, pattern(5)).uint(3, 5).finish()
    expect(decodeFsNode(dagPb, node(data))).toEqual({ kind: 'leaf', bytes: pattern(5) })
  })

  it('may have packed sizes', () => {
    const link = { cid: dagPb, name: '', dagBytes: 1 }
    const data = fs(2)
      .uint(3, 303)
      .bytes(4, Uint8Array.of(3, 0xac, 0x02))
      .finish()
    const block = encodePbNode({ links: [link, link], data })
    expect(decodeFsNode(dagPb, block)).toMatchObject({ kind: 'file', size: 303, children: [{ size: 3 }, { size: 300 }] })
  })

  it('is rejected if its sizes do not add up', () => {
    const link = { cid: dagPb, name: '', dagBytes: 1 }
    const wrong = [
      node(null),
      node(new Uint8Array()),
      node(fs(9).finish()),
      node(fs(2).uint(3, 5).finish()),
      node(fs(2).bytes(2, pattern(5)).uint(3, 6).finish()),
      encodePbNode({ links: [link], data: fs(2).uint(3, 0).finish() }),
      encodePbNode({ links: [link], data: fs(2).uint(3, 5).uint(4, 6).finish() }),
    ]
    for (const block of wrong) expect(() => decodeFsNode(dagPb, block)).toThrow(ContentError)
  })

  const shardOf = (links: readonly PbLink[], map: Bytes, { hash = 0x22, fanout = 256 } = {}) =>
    encodePbNode({ links, data: fs(5).bytes(2, map).uint(5, hash).uint(6, fanout).finish() })

  it('of a sharded directory distinguishes entries from shards', async () => {
    const store = new MemoryBlockStore(100_000)
    const leaf = await put(store, RAW, pattern(3))
    const names = Array.from({ length: 300 }, (_, i) => `name ${i}`)
    const building = buildShards(inOneTask(hashEntries(names.map((name) => ({ cid: leaf, name, dagBytes: 3 })))))
    let step = await building.next()
    for (; !step.done; step = await building.next()) store.put(step.value.cid, step.value.block)
    expect(listFiles(store, step.value.cid)?.files.map(({ path }) => path)).toEqual(names.sort())
    expect(walkAll(new DagWalk(step.value.cid, limits), store)).toHaveLength(store.blocks)
  })

  it('of a sharded directory is made in tasks for a few names', async () => {
    let asked = 0
    const store = new (class extends MemoryBlockStore {
      override size(cid: Cid) {
        asked++
        return super.size(cid)
      }
    })(1_000_000)
    const leaf = await put(store, RAW, pattern(3))
    const links = Array.from({ length: 3000 }, (_, i) => ({ cid: leaf, name: `name ${i}`, dagBytes: 3 }))
    const building = buildShards(inOneTask(hashEntries(links)))
    let step = await building.next()
    for (; !step.done; step = await building.next()) store.put(step.value.cid, step.value.block)
    const work = listingWork(store, step.value.cid)
    for (let tasks = 1; ; tasks++) {
      asked = 0
      const { done, value } = work.next()
      expect(asked).toBeLessThanOrEqual(ITEMS_PER_TASK)
      if (!done) continue
      expect(value).toEqual(listFiles(store, step.value.cid))
      expect(tasks).toBeGreaterThanOrEqual((2 * 3000) / ITEMS_PER_TASK)
      return
    }
  })

  it('is not final while any shard is missing, in whatever order the shards arrive', async () => {
    const whole = new MemoryBlockStore(1_000_000)
    const leaf = await put(whole, RAW, pattern(3))
    const names = Array.from({ length: 100 }, (_, i) => `f${`${i}`.padStart(5, '0')}.txt`)
    const building = buildShards(inOneTask(hashEntries(names.map((name) => ({ cid: leaf, name, dagBytes: 3 })))))
    let step = await building.next()
    for (; !step.done; step = await building.next()) whole.put(step.value.cid, step.value.block)
    const { cid } = step.value
    const shards = walkAll(new DagWalk(cid, limits), whole).filter((each) => each.codec === DAG_PB)
    expect(shards.length).toBeGreaterThan(5)
    for (const order of [shards, [cid, ...shards.slice(1).reverse()]]) {
      const part = new MemoryBlockStore(1_000_000)
      for (const [i, shard] of order.entries()) {
        part.put(shard, await whole.read(shard))
        const listing = listFiles(part, cid)
        const isLast = i === shards.length - 1
        expect(listing).toMatchObject({ hasNames: isLast, isFinal: isLast })
        // The blocks of the files themselves are not needed: the directory states their sizes.
        if (isLast) expect(listing?.files.map(({ path, size }) => [path, size])).toEqual(names.map((name) => [name, 3]))
      }
    }
  })

  it('counts symbolic links apart from the files', async () => {
    const store = new MemoryBlockStore(10_000)
    const data = new MessageWriter().uint(1, 4).bytes(2, new TextEncoder().encode('elsewhere')).finish()
    const link = await put(store, DAG_PB, encodePbNode({ links: [], data }))
    const cid = await put(
      store,
      DAG_PB,
      encodeDirectory([
        { cid: link, name: 'a', dagBytes: 10 },
        { cid: link, name: 'b', dagBytes: 10 },
      ]),
    )
    expect(listFiles(store, cid)).toEqual({ files: [], links: 2, hasNames: true, isFinal: true })
  })

  it('of a sharded directory must have a bitfield that matches its entries', async () => {
    const store = new MemoryBlockStore(10_000)
    const leaf = await put(store, RAW, pattern(3))
    const one = { cid: leaf, name: '00one', dagBytes: 3 }
    const first = Uint8Array.of(1)
    const wrong = [
      shardOf([one], new Uint8Array()),
      shardOf([one], Uint8Array.of(2)),
      shardOf([one], Uint8Array.of(0, 1)),
      shardOf([one], first, { hash: 0x12 }),
      shardOf([one], first, { fanout: 4 }),
      shardOf([one], first, { fanout: 300 }),
      shardOf([{ ...one, name: '0' }], first),
      shardOf([{ ...one, name: 'zzone' }], first),
      shardOf([{ ...one, name: '0aone' }], Uint8Array.of(4, 0)),
      shardOf([one, one], first),
    ]
    for (const block of wrong) expect(() => decodeFsNode(dagPb, block)).toThrow(ContentError)
    const misplaced = await put(store, DAG_PB, shardOf([one], first))
    expect(() => listFiles(store, misplaced)).toThrow(/wrong shard for its name/)
    const noShard = await put(store, DAG_PB, shardOf([{ ...one, name: '00' }], first))
    expect(() => listFiles(store, noShard)).toThrow(ContentError)
  })

  it('made of random bytes is decoded or rejected, and never crashes', () => {
    let seed = 1
    const byte = () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
      return (seed >> 16) & 255
    }
    const good = encodeFile([{ cid: dagPb, size: 5, dagBytes: 9 }])
    for (let i = 0; i < 5000; i++) {
      const block = i % 2 === 0 ? Uint8Array.from({ length: byte() % 64 }, byte) : good.slice()
      if (i % 2 === 1) block[byte() % block.length] = byte()
      try {
        decodePbNode(block)
        decodeFsNode(dagPb, block)
      } catch (error) {
        expect(error).toBeInstanceOf(ContentError)
      }
    }
  })
})

describe('a block store', () => {
  it('rejects a block above its limit', async () => {
    const store = new MemoryBlockStore(10)
    await put(store, RAW, pattern(8))
    await expect(put(store, RAW, pattern(3))).rejects.toThrow(/11 bytes, more than the 10 bytes/)
    expect(store.bytes).toBe(8)
  })

  it('reports a block as missing if its file cannot be read', async () => {
    const gone = new Blob(['x'])
    gone.arrayBuffer = () => Promise.reject(new DOMException('changed', 'NotReadableError'))
    const store = new MemoryBlockStore(10)
    const cid = await cidOf(RAW, pattern(1))
    store.put(cid, gone)
    await expect(store.read(cid)).rejects.toThrow(ContentError)
  })

  it('stops serving a file when one part has changed, and reports it once', async () => {
    const store = new MemoryBlockStore(1000)
    const [film, notes] = [await cidOf(RAW, pattern(10)), await cidOf(RAW, pattern(20))]
    const rest = await cidOf(RAW, pattern(30))
    store.put(film, new Blob(['not what it']), 'film.mp4')
    store.put(rest, new Blob([pattern(30)]), 'film.mp4')
    store.put(notes, new Blob([pattern(20)]), 'notes.md')
    const news: StoreEvent[] = []
    store.listen((each) => news.push(each))
    await Promise.all([film, film].map((cid) => expect(store.read(cid)).rejects.toThrow(ContentError)))
    expect(news).toEqual([{ kind: 'lost', cids: [film, rest], sentence: expect.stringMatching(/^"film\.mp4" was changed or removed/) }])
    expect([store.has(film), store.has(rest), store.has(notes), store.bytes]).toEqual([false, false, true, 20])
    expect(await store.read(notes)).toEqual(pattern(20))
  })
})
