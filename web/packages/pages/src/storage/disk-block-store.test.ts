import { beforeEach, describe, expect, it } from 'vitest'
import { cidOf, ContentError, DAG_PB, isSameBytes, RAW, type Bytes, type Cid, type StoreEvent } from '../content/index.ts'
import { pattern } from '../../test/pattern.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import { DiskBlockStore, type DiskBlockStoreDeps } from './disk-block-store.ts'
import type { Disk } from './disk.ts'
import { PageFolder } from './page-folder.ts'
import { FakeFolder, fakeWriter } from '../../test/fake-disk.ts'

const MIB = 1 << 20

let clock: FakeClock
let root: FakeFolder
let quota: { bytesMax: number }
beforeEach(() => {
  clock = new FakeClock()
  root = new FakeFolder()
  quota = { bytesMax: Infinity }
})

const folder = (): Disk =>
  new PageFolder(async () => root.handle, ['page'], {
    write: fakeWriter(root, quota),
    estimate: async () => (quota.bytesMax === Infinity ? {} : { quota: quota.bytesMax, usage: 0 }),
  })

function blocks(deps: Partial<DiskBlockStoreDeps> = {}): { store: DiskBlockStore; events: StoreEvent[] } {
  const after = (milliseconds: number, callback: () => void) => clock.after(milliseconds, callback)
  const store = new DiskBlockStore({ bytesMax: 1 << 30, open: async () => folder(), hasLeftovers: false, after, ...deps })
  const events: StoreEvent[] = []
  store.listen((each) => events.push(each))
  return { store, events }
}

/** Different blocks of one length. */
async function leaves(count: number, size = MIB): Promise<{ cid: Cid; bytes: Bytes }[]> {
  const created: { cid: Cid; bytes: Bytes }[] = []
  for (let i = 0; i < count; i++) {
    const bytes = pattern(size)
    new DataView(bytes.buffer).setUint32(0, i)
    created.push({ cid: await cidOf(RAW, bytes), bytes })
  }
  return created
}

const isOnDisk = (store: DiskBlockStore, cid: Cid) => store.get(cid) instanceof Blob
const files = () => root.files()

describe('received blocks', () => {
  it('are written after a tenth of a second while there are few, and found after a reload', async () => {
    const { store } = blocks()
    const created = await leaves(3)
    for (const { cid, bytes } of created) store.put(cid, bytes)
    expect(files()).toEqual([])
    clock.pass(100)
    await expect.poll(() => created.every(({ cid }) => isOnDisk(store, cid))).toBe(true)
    const again = blocks({ hasLeftovers: true }).store
    await again.restored
    for (const { cid, bytes } of created) expect(isSameBytes(await again.read(cid), bytes)).toBe(true)
  })

  it('stay in memory without a sound if they are few and there is no disk', async () => {
    let opened = 0
    const { store, events } = blocks({ open: async () => [null][opened++] ?? null })
    const [first, ...rest] = await leaves(3)
    if (first === undefined) throw new Error('three were made')
    store.put(first.cid, first.bytes)
    await clock.until(() => opened > 0)
    await store.flush()
    for (const { cid, bytes } of rest) store.put(cid, bytes)
    clock.pass(10_000)
    expect([opened, store.blocks, store.bytes, events]).toEqual([1, 3, 3 * MIB, []])
  })

  it('are written to disk in batches, and can be read at any time', async () => {
    const { store } = blocks()
    const created = await leaves(20)
    for (const { cid, bytes } of created) store.put(cid, bytes)
    await clock.until(() => created.every(({ cid }) => isOnDisk(store, cid)))
    expect(files().length).toBeLessThan(6)
    for (const { cid, bytes } of created) expect(isSameBytes(await store.read(cid), bytes)).toBe(true)
    expect([store.blocks, store.bytes]).toEqual([20, 20 * MIB])
  })

  it('are written soon, even if no others arrive', async () => {
    const { store } = blocks()
    const [last, ...first] = await leaves(6)
    for (const { cid, bytes } of first) store.put(cid, bytes)
    await clock.until(() => first.every(({ cid }) => isOnDisk(store, cid)))
    if (last === undefined) throw new Error('one was made')
    store.put(last.cid, last.bytes)
    expect(isOnDisk(store, last.cid)).toBe(false)
    await clock.until(() => isOnDisk(store, last.cid))
  })

  it('stay in memory too if they link to others', async () => {
    const { store } = blocks()
    const inner = pattern(100)
    const cid = await cidOf(DAG_PB, inner)
    store.put(cid, inner)
    for (const leaf of await leaves(6)) store.put(leaf.cid, leaf.bytes)
    await clock.until(() => files().length > 0)
    expect(store.get(cid)).toBeInstanceOf(Uint8Array)
  })

  it('wait for room if the disk is slower', async () => {
    let writes: (() => void)[] = []
    const slow: Disk = {
      ...folderOf(),
      write: (batch) => new Promise((resolve) => writes.push(() => resolve(new Blob(batch.map(({ bytes }) => bytes))))),
    }
    const { store } = blocks({ open: async () => slow })
    const created = await leaves(40)
    for (const { cid, bytes } of created) if (store.room() === null) store.put(cid, bytes)
    expect(store.blocks).toBeLessThan(36)
    let isLetIn = false
    const waiting = store.room()?.then(() => (isLetIn = true))
    await clock.until(() => writes.length > 0)
    expect(isLetIn).toBe(false)
    for (const write of writes) write()
    await waiting
    writes = []
  })

  it('are rejected above the size limit', async () => {
    const { store } = blocks({ bytesMax: 2 * MIB })
    const [one, two, three] = await leaves(3)
    if (!one || !two || !three) throw new Error('three were made')
    for (const { cid, bytes } of [one, two]) store.put(cid, bytes)
    expect(() => store.put(three.cid, three.bytes)).toThrow(ContentError)
  })
})

describe('parts of a file that this tab publishes', () => {
  const parts = async (count: number) => (await leaves(count)).map(({ cid, bytes }) => ({ cid, bytes, blob: new Blob([bytes]) }))

  it('are copied to the disk by a flush, and nothing of them is in memory', async () => {
    const { store } = blocks({ memoryBytesMax: 0 })
    const created = await parts(20)
    for (const { cid, blob } of created) store.put(cid, blob)
    const inner = pattern(100)
    store.put(await cidOf(DAG_PB, inner), inner)
    expect(await store.flush()).toBe(true)
    for (const { cid, blob } of created) expect(store.get(cid)).not.toBe(blob)
    const again = blocks({ hasLeftovers: true }).store
    await again.restored
    expect(again.blocks).toBe(21)
    for (const { cid, bytes } of created) expect(isSameBytes(await again.read(cid), bytes)).toBe(true)
  })

  it('are all on the disk when a flush ends, also if a batch is being written when it begins', async () => {
    const { store } = blocks()
    const [first, ...rest] = await parts(6)
    if (first === undefined) throw new Error('six were made')
    for (const { cid, blob } of rest) store.put(cid, blob)
    await store.flush()
    store.put(first.cid, first.blob)
    // The timer begins a batch, which takes all that waits.
    clock.pass(500)
    expect(await store.flush()).toBe(true)
    expect(files().length).toBeGreaterThan(1)
    expect(store.get(first.cid)).not.toBe(first.blob)
  })

  it('stay in their file where there is no disk or no room on it, and a flush says so', async () => {
    for (const deps of [{ open: async () => null }, {}]) {
      quota.bytesMax = 20 * MIB
      const { store } = blocks({ ...deps, memoryBytesMax: MIB })
      const created = await parts(30)
      for (const { cid, blob } of created) store.put(cid, blob)
      expect(await store.flush()).toBe(false)
      for (const { cid, bytes } of created) expect(isSameBytes(await store.read(cid), bytes)).toBe(true)
      const [more] = (await parts(31)).slice(30)
      store.put(more!.cid, more!.blob)
      expect(await store.flush()).toBe(false)
      expect(isSameBytes(await store.read(more!.cid), more!.bytes)).toBe(true)
    }
  })

  it('are left out if the file has changed, and others are written', async () => {
    const { store, events } = blocks()
    const [first, second] = await parts(2)
    store.put(first!.cid, first!.blob)
    store.put(second!.cid, first!.blob)
    expect(await store.flush()).toBe(true)
    expect(isSameBytes(await store.read(first!.cid), first!.bytes)).toBe(true)
    await expect(store.read(second!.cid)).rejects.toThrow(ContentError)
    expect(events).toMatchObject([{ kind: 'lost' }])
  })
})

/** The real methods, so that a test can replace one of them. */
function folderOf(): Disk {
  const real = folder()
  return {
    restore: () => real.restore(),
    write: (batch) => real.write(batch),
    roomBytes: () => real.roomBytes(),
    notes: () => real.notes(),
    writeNote: (note) => real.writeNote(note),
    remove: () => real.remove(),
  }
}

describe('a browser without a disk', () => {
  it('keeps blocks in memory up to a limit, and reports it once', async () => {
    const { store, events } = blocks({ open: async () => null, memoryBytesMax: 8 * MIB })
    const created = await leaves(9)
    for (const { cid, bytes } of created.slice(0, 6)) store.put(cid, bytes)
    await clock.until(() => events.length > 0)
    expect(events).toEqual([{ kind: 'trouble', sentence: expect.stringMatching(/private window.*in memory, up to 8 MiB/) }])
    for (const { cid, bytes } of created.slice(6, 8)) store.put(cid, bytes)
    expect(() => store.put(created[8]!.cid, created[8]!.bytes)).toThrow(/This browser has no room for more than 8 MiB/)
    for (const { cid, bytes } of created.slice(0, 8)) expect(isSameBytes(await store.read(cid), bytes)).toBe(true)
    expect(events).toHaveLength(1)
  })

  it('is detected when opening the disk fails', async () => {
    const { store, events } = blocks({ open: () => Promise.reject(new DOMException('no', 'SecurityError')) })
    store.expect(100 * MIB)
    await clock.until(() => events.length > 0)
    for (const { cid, bytes } of await leaves(6)) store.put(cid, bytes)
    expect(store.blocks).toBe(6)
  })
})

describe('a disk that becomes full', () => {
  it('keeps its blocks, and further blocks stay in memory', async () => {
    quota.bytesMax = 20 * MIB
    const { store, events } = blocks({ memoryBytesMax: 50 * MIB })
    const created = await leaves(40)
    for (const { cid, bytes } of created) store.put(cid, bytes)
    await clock.until(() => events.length > 0)
    expect(events[0]).toMatchObject({ kind: 'trouble', sentence: expect.stringContaining('is full') })
    for (const { cid, bytes } of created) expect(isSameBytes(await store.read(cid), bytes)).toBe(true)
    expect(files().length).toBeGreaterThan(0)
  })

  it('is reported early if the browser reports the free space', async () => {
    quota.bytesMax = 10 * MIB
    const { store, events } = blocks()
    store.expect(100 * MIB)
    await clock.until(() => events.length > 0)
    expect(events[0]).toMatchObject({ sentence: expect.stringMatching(/^100 MiB of this page are still missing.* 10 MiB/) })
  })

  it('is reported once if the browser reports the free space late', async () => {
    quota.bytesMax = 10 * MIB
    let report = (_room: number) => {}
    const roomBytes = () => new Promise<number>((resolve) => (report = resolve))
    const { store, events } = blocks({ open: async () => ({ ...folderOf(), roomBytes }) })
    store.expect(100 * MIB)
    for (const { cid, bytes } of await leaves(16)) store.put(cid, bytes)
    await clock.until(() => events.length > 0)
    report(2 * MIB)
    await new Promise((resolve) => setTimeout(resolve))
    expect(events).toEqual([{ kind: 'trouble', sentence: expect.stringContaining('is full') }])
  })
})

describe('a tab that is reloaded', () => {
  async function left(count = 12): Promise<{ cid: Cid; bytes: Bytes }[]> {
    const { store } = blocks()
    const inner = pattern(500)
    const created = [{ cid: await cidOf(DAG_PB, inner), bytes: inner }, ...(await leaves(count))]
    for (const { cid, bytes } of created) store.put(cid, bytes)
    await clock.until(() => created.every(({ cid }) => cid.codec === DAG_PB || isOnDisk(store, cid)))
    return created
  }

  it('finds its blocks again', async () => {
    const created = await left()
    const { store } = blocks({ hasLeftovers: true })
    await store.restored
    expect(store.blocks).toBe(13)
    for (const { cid, bytes } of created) expect(isSameBytes(await store.read(cid), bytes)).toBe(true)
    expect(store.get(created[0]!.cid)).toBeInstanceOf(Uint8Array)
  })

  it('continues, and writes new blocks to new files', async () => {
    await left()
    const before = files()
    const { store } = blocks({ hasLeftovers: true })
    await store.restored
    const created = await leaves(14)
    for (const { cid, bytes } of created) store.put(cid, bytes)
    await clock.until(() => created.every(({ cid }) => isOnDisk(store, cid)))
    expect(files()).toEqual(expect.arrayContaining(before))
    expect(files().length).toBe(before.length + 1)
    expect(store.blocks).toBe(15)
  })

  it('skips damaged and truncated blocks', async () => {
    await left()
    const page = await root.getDirectoryHandle('page')
    const [[name, first]] = [...page.below] as [[string, Blob]]
    const bytes = new Uint8Array(await first.arrayBuffer())
    bytes[bytes.length - 1]! ^= 1
    page.below.set(name, new Blob([bytes]))
    const [last, file] = [...page.below].at(-1) as [string, Blob]
    page.below.set(last, file.slice(0, file.size - 10))
    page.below.set('99', new Blob(['\0\0\0\x05[["b']))
    page.below.set('100', new Blob([Uint8Array.of(255, 255, 255, 255, 1)]))
    page.below.set('101', new Blob([]))
    page.below.set('102', new Blob(['\0\0\0\x12[["hello",1],[3,4]]x']))
    const { store } = blocks({ hasLeftovers: true })
    await store.restored
    // Of 13 blocks, the last of the first file is damaged, and the last of all is truncated.
    expect(store.blocks).toBe(11)
  })

  it('starts again if nothing is left', async () => {
    const { store } = blocks({ hasLeftovers: true })
    await store.restored
    expect([store.blocks, files()]).toEqual([0, []])
    const created = await leaves(6)
    for (const { cid, bytes } of created) store.put(cid, bytes)
    await clock.until(() => created.every(({ cid }) => isOnDisk(store, cid)))
  })
})

describe('a note', () => {
  const note = (byte: number, length = 148) => new Uint8Array(length).fill(byte)
  const notesOf = async () => {
    const { store } = blocks({ hasLeftovers: true })
    await store.restored
    return { store, notes: store.notes.map(([first, ...rest]) => [first, rest.length + 1]) }
  }

  it('is found after a reload with the blocks of a small page, which was put on disk for it', async () => {
    const { store, events } = blocks()
    const [leaf] = await leaves(1, 100)
    if (leaf === undefined) throw new Error('one was made')
    store.put(leaf.cid, leaf.bytes)
    store.putNote(note(1))
    await clock.until(() => files().length === 2)
    const { store: again, notes } = await notesOf()
    expect([notes, again.blocks, events]).toEqual([[[1, 148]], 1, []])
    expect(isSameBytes(await again.read(leaf.cid), leaf.bytes)).toBe(true)
    again.clear()
    await clock.until(() => files().length === 0)
    expect(again.notes).toEqual([])
  })

  it('is written after the blocks before it, and two are kept, whatever their lengths', async () => {
    const { store } = blocks()
    let last = -1
    for (const { cid, bytes } of await leaves(20)) {
      store.put(cid, bytes)
      store.putNote(note(++last, last % 2 === 0 ? 296 : 148))
    }
    const order: string[] = []
    await clock.until(() => {
      for (const file of files()) if (!order.includes(file)) order.push(file)
      return order.includes('page/note.0')
    })
    expect(order.at(-1)).toBe('page/note.0')
    expect(order.length).toBeGreaterThan(1)
    store.putNote(note(20, 148))
    await clock.until(() => files().includes('page/note.1'))
    expect((await notesOf()).notes).toEqual([
      [19, 148],
      [20, 148],
    ])
  })

  it('is dropped without a sound if a small page has no disk, or no room on it', async () => {
    for (const deps of [{ open: async () => null }, {}]) {
      quota.bytesMax = 200
      const { store, events } = blocks({ ...deps, memoryBytesMax: 8 * MIB })
      const created = await leaves(6)
      for (const { cid, bytes } of created.slice(0, 2)) store.put(cid, bytes)
      store.putNote(note(1))
      clock.pass(1000)
      await clock.until(() => store.room() === null)
      store.putNote(note(2))
      expect([store.blocks, events]).toEqual([2, []])
      // A page that grows is too large for memory.
      for (const { cid, bytes } of created.slice(2)) store.put(cid, bytes)
      await clock.until(() => events.length > 0)
      for (const { cid, bytes } of created) expect(isSameBytes(await store.read(cid), bytes)).toBe(true)
    }
  })

  it('is not read if it is too long', async () => {
    const { store } = blocks()
    for (const { cid, bytes } of await leaves(1)) store.put(cid, bytes)
    store.putNote(note(1, 5000))
    await clock.until(() => files().length === 2)
    expect((await notesOf()).notes).toEqual([])
  })
})

describe('a page that is closed', () => {
  it('removes everything from disk also when the disk became full', async () => {
    quota.bytesMax = 20 * MIB
    const { store, events } = blocks({ memoryBytesMax: 50 * MIB })
    for (const { cid, bytes } of await leaves(40)) store.put(cid, bytes)
    await clock.until(() => events.length > 0)
    expect(files().length).toBeGreaterThan(0)
    store.clear()
    await clock.until(() => files().length === 0)
  })

  it('removes everything from disk', async () => {
    const { store } = blocks()
    const created = await leaves(6)
    for (const { cid, bytes } of created) store.put(cid, bytes)
    await clock.until(() => files().length > 0)
    store.clear()
    await clock.until(() => files().length === 0)
    expect(store.has(created[0]!.cid)).toBe(false)
  })

  it('removes everything although a batch is being written', async () => {
    let finish: (() => Promise<Blob>) | null = null
    const real = folderOf()
    const slow: Disk = {
      ...real,
      write: (batch) =>
        new Promise((resolve) => {
          finish = async () => {
            const written = await real.write(batch)
            resolve(written)
            return written
          }
        }),
    }
    const { store } = blocks({ open: async () => slow })
    for (const { cid, bytes } of await leaves(9)) store.put(cid, bytes)
    await clock.until(() => finish !== null)
    store.clear()
    expect((await finish!()).size).toBe(8 * MIB)
    await clock.until(() => files().length === 0)
  })
})

describe('a block whose file is gone', () => {
  it('is reported', async () => {
    const { store, events } = blocks()
    const created = await leaves(6)
    for (const { cid, bytes } of created) store.put(cid, bytes)
    await clock.until(() => created.every(({ cid }) => isOnDisk(store, cid)))
    const lost = created[2]!
    const block = store.get(lost.cid) as Blob
    block.arrayBuffer = () => Promise.reject(new DOMException('gone', 'NotFoundError'))
    await expect(store.read(lost.cid)).rejects.toThrow(ContentError)
    expect(events).toMatchObject([{ kind: 'lost', cids: [lost.cid] }])
    expect([store.has(lost.cid), store.blocks]).toEqual([false, 5])
  })
})
