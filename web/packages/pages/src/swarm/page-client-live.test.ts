import { beforeEach, describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/fake-clock.ts'
import { FakeFolder, FakeKeys, fakeWriter } from '../../test/fake-disk.ts'
import { FakeServer } from '../../test/fake-server.ts'
import { pattern } from '../../test/pattern.ts'
import { encodeHeads, type PeerId } from '../bitswap/index.ts'
import { defaultLimits } from '../limits/index.ts'
import type { Disk } from '../storage/disk.ts'
import { DiskBlockStore } from '../storage/disk-block-store.ts'
import type { MakeBlockStore } from '../storage/index.ts'
import { PageFolder } from '../storage/page-folder.ts'
import { HEAD_BYTES } from '../live/index.ts'
import { loadLive, openPage, type PageDeps, type PageSession, type Publication } from './index.ts'
import { publishLive } from './live/index.ts'
import { encodeRelayFrame } from './segment.ts'

let clock: FakeClock
let server: FakeServer
beforeEach(() => {
  clock = new FakeClock()
  server = new FakeServer(clock)
})

let lastRandom = 0
function open(root: string, publication?: Publication, others: Partial<PageDeps> = {}): PageSession {
  const random = () => (lastRandom = (lastRandom + 0.381) % 1)
  const deps = { connection: server.connect(), limits: defaultLimits, clock, random, live: loadLive, ...others }
  return openPage(root, publication ? { ...deps, publication } : deps)
}

const text = (words: string) => ({ form: 'text', name: '', text: words }) as const
const numbers = (page: PageSession) => page.live()?.entries.map(({ number }) => number)
const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1)
const has = (page: PageSession, count: number) => () => page.state.phase === 'complete' && numbers(page)?.length === count
const wordsOf = async (page: PageSession, number: number) => (await page.file(`${number}/text.txt`)).text()

async function published(title = 'Log') {
  const publication = await publishLive(title)
  return { root: publication.root, publisher: open(publication.root, publication) }
}

describe('a live page', () => {
  it('grows in the tabs that have it open', async () => {
    const { root, publisher } = await published('Harbour')
    const reader = open(root)
    await clock.until(has(reader, 0))
    expect(reader.live()).toMatchObject({ title: 'Harbour', entries: [], isOurs: false, splitAt: null, invalidAt: null })
    for (let number = 1; number <= 5; number++) {
      const shownAt: number[] = []
      const note = (page: PageSession, i: number) => {
        if (has(page, number)()) shownAt[i] ??= clock.now()
      }
      const stops = [publisher, reader].map((page, i) => page.subscribe(() => note(page, i)))
      clock.pass(2000) // A while after the entry before, and long after the tabs came.
      const appendedAt = clock.now()
      await publisher.append(text(`entry ${number}`))
      await clock.until(() => shownAt.length === 2 && shownAt[0] !== undefined)
      // A tab's own entry at once. The reader's is one message on its way: nothing is requested.
      expect(shownAt.map((at) => at - appendedAt)).toEqual([0, 5])
      for (const stop of stops) stop()
      expect(await wordsOf(reader, number)).toBe(`entry ${number}`)
    }
    expect(publisher.live()).toMatchObject({ isOurs: true, isComplete: true })
    await clock.until(() => reader.state.counts.holders === 2)
  })

  it('has files and directories as entries', async () => {
    const { root, publisher } = await published()
    const cat = { path: 'cat.png', blob: new Blob([pattern(1_300_000)]) }
    await publisher.append({ form: 'file', name: 'cat.png', sources: [cat] })
    const notes = { path: 'notes/a.txt', blob: new Blob(['a']) }
    await publisher.append({ form: 'file', name: 'trip', sources: [cat, notes] })
    const reader = open(root)
    await clock.until(has(reader, 2))
    expect(reader.listing()?.files.map(({ path }) => path)).toEqual(['1/cat.png', '2/trip/cat.png', '2/trip/notes/a.txt'])
    expect((await reader.file('1/cat.png')).size).toBe(1_300_000)
    expect(await (await reader.file('2/trip/notes/a.txt')).text()).toBe('a')
  })

  it('gives a late reader all entries, also when the publisher has left', async () => {
    const { root, publisher } = await published()
    for (const number of upTo(20)) await publisher.append(text(`entry ${number}`))
    const reader = open(root)
    await clock.until(has(reader, 20))
    publisher.close()
    const late = open(root)
    await clock.until(has(late, 20))
    expect(numbers(late)).toEqual(upTo(20))
    expect(await wordsOf(late, 7)).toBe('entry 7')
  })

  /** A tab that began a page, on a disk with a store for keys. `opened`: what the same tab, or a copy of it, finds after a reload. */
  async function publisherOnDisk() {
    const disk = new FakeFolder()
    const keys = new FakeKeys()
    const quota = { bytesMax: Infinity }
    const openDisk = async (): Promise<Disk> => {
      const folder = new PageFolder(async () => disk.handle, ['page'], { write: fakeWriter(disk, quota), estimate: async () => ({}) })
      const key = keys.of(['tab', 'page'])
      return {
        key,
        restore: () => folder.restore(),
        write: (batch) => folder.write(batch),
        roomBytes: () => folder.roomBytes(),
        notes: () => folder.notes(),
        writeNote: (note) => folder.writeNote(note),
        remove: async () => void (await Promise.all([key.remove(), folder.remove()])),
      }
    }
    const onDisk =
      (hasLeftovers: boolean): MakeBlockStore =>
      (_, bytesMax, after) =>
        new DiskBlockStore({ bytesMax, open: openDisk, hasLeftovers, after })
    const publication = await publishLive('Harbour', { blocks: onDisk(false) })
    const { root } = publication
    const connection = server.connect()
    const opened = () => open(root, undefined, { blocks: onDisk(true) })
    return {
      root,
      disk,
      keys,
      quota,
      publisher: open(root, publication, { connection }),
      opened,
      reload: () => {
        for (const member of server.members.filter((each) => each.connection === connection)) server.removeMember(member)
        return opened()
      },
    }
  }

  it('goes on after the reload of the tab that began it, which nobody else has, with texts and files', async () => {
    const { root, publisher, reload } = await publisherOnDisk()
    const cat = { path: 'cat.png', blob: new Blob([pattern(3_300_000)]) }
    await publisher.append(text('entry 1'))
    await publisher.append({ form: 'file', name: 'cat.png', sources: [cat] })
    expect(publisher.live()).toMatchObject({ isOurs: true, survivesReload: true })
    const again = reload()
    await clock.until(has(again, 2))
    expect(again.live()).toMatchObject({ title: 'Harbour', isOurs: true, survivesReload: true, splitAt: null })
    await again.append(text('entry 3'))
    const late = open(root)
    await clock.until(has(late, 3))
    expect(await wordsOf(late, 3)).toBe('entry 3')
    expect((await late.file('2/cat.png')).size).toBe(3_300_000)
  })

  it('goes on after a reload before its first entry', async () => {
    const { reload } = await publisherOnDisk()
    const again = reload()
    await clock.until(has(again, 0))
    await again.append(text('entry 1'))
    expect(numbers(again)).toEqual([1])
  })

  it('has its key until it is closed', async () => {
    const { publisher, disk, keys } = await publisherOnDisk()
    await publisher.append(text('entry 1'))
    expect(keys.list()).toEqual(['tab/page'])
    publisher.close()
    await clock.until(() => keys.list().length === 0 && disk.files().length === 0)
  })

  it('does not split although two tabs have its key: the second one adds nothing before it has the entry of the first', async () => {
    const { root, publisher, opened } = await publisherOnDisk()
    await publisher.append(text('common'))
    const copy = opened()
    await clock.until(has(copy, 1))
    // No head reaches the other tab.
    server.refuseRelay = () => ({ status: 'error', response: { reason: 'peer gone' } })
    await publisher.append(text('first'))
    await expect(copy.append(text('second'))).rejects.toThrow(/Another tab/)
    server.refuseRelay = () => null
    const reader = open(root)
    await clock.until(() => has(copy, 2)() && has(reader, 2)())
    await copy.append(text('second'))
    await clock.until(() => [publisher, copy, reader].every((page) => has(page, 3)()))
    expect(reader.live()?.splitAt).toBe(null)
    expect(await wordsOf(reader, 3)).toBe('second')
  })

  it('takes no entry after a reload while one is missing', async () => {
    const { publisher, disk, reload } = await publisherOnDisk()
    await publisher.append(text('entry 1'))
    const page = await disk.getDirectoryHandle('page')
    const [first] = [...page.below].filter(([name]) => name === '0')
    page.below.clear()
    page.below.set(...first!)
    const again = reload()
    await clock.until(() => again.live() !== null)
    await expect(again.append(text('another 1'))).rejects.toThrow(/not here yet/)
    expect(again.live()).toMatchObject({ isOurs: true, isComplete: false })
  })

  it('loses its key before an entry that cannot be stored with it, and says so', async () => {
    const { publisher, keys, reload } = await publisherOnDisk()
    await publisher.append(text('entry 1'))
    keys.isFull = true
    await publisher.append(text('entry 2'))
    expect([keys.list(), numbers(publisher)]).toEqual([[], [1, 2]])
    expect(publisher.live()).toMatchObject({ isOurs: true, survivesReload: false })
    await publisher.append(text('entry 3'))
    const again = reload()
    await clock.until(() => again.live() !== null)
    expect(again.live()).toMatchObject({ isOurs: false })
  })

  it('takes entries without room on the disk, and says that a reload loses them', async () => {
    const { publisher, quota } = await publisherOnDisk()
    quota.bytesMax = 0
    await publisher.append(text('entry 1'))
    expect(numbers(publisher)).toEqual([1])
    expect(await wordsOf(publisher, 1)).toBe('entry 1')
    expect(publisher.live()).toMatchObject({ isOurs: true, survivesReload: false })
  })

  it('takes no entry when its key was removed', async () => {
    const { publisher, keys } = await publisherOnDisk()
    await keys.of(['tab', 'page']).remove()
    await expect(publisher.append(text('entry 1'))).rejects.toThrow(/was removed/)
    expect(numbers(publisher)).toEqual([])
  })

  /** Whether a frame has a message with a head, and nothing else. */
  const isHead = (frame: Uint8Array) => new TextDecoder('latin1').decode(frame).includes('watchfire head 1')

  /** The first tab, and the same tab after a reload, on one disk. The first one does not close the page. */
  function reloadedTab(root: string) {
    const disk = new FakeFolder()
    const folder = () => new PageFolder(async () => disk.handle, ['page'], { write: fakeWriter(disk), estimate: async () => ({}) })
    const onDisk =
      (hasLeftovers: boolean): MakeBlockStore =>
      (_, bytesMax, after) =>
        new DiskBlockStore({ bytesMax, open: async () => folder(), hasLeftovers, after })
    const connection = server.connect()
    return {
      disk,
      first: open(root, undefined, { blocks: onDisk(false), connection }),
      /** The tab is gone without a word, and opens the page again. */
      reload: () => {
        for (const member of server.members.filter((each) => each.connection === connection)) server.removeMember(member)
        return open(root, undefined, { blocks: onDisk(true) })
      },
    }
  }

  /** The numbers of the heads on disk: of each note the first, without its signature. */
  async function keptNumbers(disk: FakeFolder): Promise<number[][]> {
    const page = disk.below.get('page')
    const notes = page instanceof FakeFolder ? [...page.below].filter(([name]) => name.startsWith('note')) : []
    const bytes = await Promise.all(notes.map(async ([, file]) => new DataView(await (file as Blob).arrayBuffer())))
    return bytes.map((note) => Array.from({ length: note.byteLength / HEAD_BYTES }, (_, i) => note.getUint32(i * HEAD_BYTES + 48)))
  }

  /** Waits for a note with these heads. */
  async function untilKept(disk: FakeFolder, ...wanted: number[]): Promise<void> {
    let kept: number[][] = []
    await clock.until(() => {
      void keptNumbers(disk).then((now) => (kept = now))
      return kept.some((heads) => heads.join() === wanted.join())
    })
  }

  it('is whole after the reload of the only tab that has it, for later readers too', async () => {
    const { root, publisher } = await published('Harbour')
    for (const number of upTo(3)) await publisher.append(text(`entry ${number}`))
    const { disk, first, reload } = reloadedTab(root)
    await clock.until(has(first, 3))
    await publisher.append(text('entry 4'))
    await clock.until(has(first, 4))
    await untilKept(disk, 4)
    publisher.close()
    const again = reload()
    await clock.until(has(again, 4))
    expect(await wordsOf(again, 4)).toBe('entry 4')
    expect(again.live()).toMatchObject({ title: 'Harbour', isComplete: true, splitAt: null })
    const late = open(root)
    await clock.until(has(late, 4))
    again.close()
    await clock.until(() => disk.files().length === 0)
  })

  it('has the entries that are here after a reload, although the last content never came, and takes no damaged head', async () => {
    const { root, publisher } = await published()
    await publisher.append(text('entry 1'))
    const { disk, first, reload } = reloadedTab(root)
    await clock.until(has(first, 1))
    await untilKept(disk, 1)
    // The reader gets no blocks but those that come with a head.
    server.refuseRelay = (_from, _to, data) => (isHead(data) ? null : { status: 'error', response: { reason: 'peer gone' } })
    await publisher.append(text('entry 2'.repeat(400)))
    await untilKept(disk, 2)
    publisher.close()
    const page = await disk.getDirectoryHandle('page')
    const damaged = new Uint8Array(HEAD_BYTES).fill(7)
    page.below.set('note.0', new Blob([damaged, damaged.subarray(9)]))
    const again = reload()
    await clock.until(() => numbers(again)?.length === 2)
    expect(await wordsOf(again, 1)).toBe('entry 1')
    expect(again.state.phase).not.toBe('complete')
  })

  it('adds nothing of an entry that is stopped, and those after it', async () => {
    const { publisher } = await published()
    const stop = new AbortController()
    let slices = 0
    class Slow extends Blob {
      override get size() {
        return 64 << 20
      }
      override slice(): Blob {
        if (++slices === 6) stop.abort()
        return new Blob([`${slices}`])
      }
    }
    const large = { form: 'file', name: 'large', sources: [{ path: 'large', blob: new Slow() }] } as const
    const stopped = publisher.append(large, { signal: stop.signal })
    const next = publisher.append(text('next'))
    await expect(stopped).rejects.toThrow(/abort/i)
    await next
    expect(slices).toBeLessThan(20)
    expect(publisher.live()?.entries.map(({ form }) => form)).toEqual(['text'])
  })

  it('reaches readers that the publisher does not know', async () => {
    server.introductions = 1
    const { root, publisher } = await published()
    const readers = upTo(6).map(() => open(root))
    await clock.until(() => readers.every((reader) => has(reader, 0)()))
    await publisher.append(text('for all'))
    await clock.until(() => readers.every((reader) => has(reader, 1)()))
  })

  it('splits in all tabs when two tabs append with one key', async () => {
    const publication = await publishLive('')
    const first = open(publication.root, publication)
    const reader = open(publication.root)
    await first.append(text('common'))
    await clock.until(has(reader, 1))
    const copy = open(publication.root, publication)
    // It does not know the entry of the other tab yet.
    await copy.append(text('another first'))
    await copy.append(text('another second'))
    await clock.until(() => [first, reader, copy].every((page) => page.live()?.splitAt === 1))
    expect(numbers(reader)).toEqual([1])
    expect(await wordsOf(reader, 1)).toBe('common')
  })

  it('drops a peer that sends invalid heads', async () => {
    const { root, publisher } = await published()
    await publisher.append(text('mine'))
    const reader = open(root)
    await clock.until(has(reader, 1))
    const line = server.connect()
    const topic = line.join(`page:${root}`, [], { params: () => ({ have: 'all' }) })
    await clock.until(() => topic.isJoined())
    const victim = server.members[1]?.id as PeerId
    // The length is that of a head, the signature is not valid. Each message has another one.
    const forged = (number: number) => Uint8Array.from({ length: 148 }, (_, i) => (i === 51 ? number : i))
    for (let message = 0; message < 9; message++) {
      const bytes = encodeHeads([forged(2 * message), forged(2 * message + 1)])
      void topic.push('relay', encodeRelayFrame(victim, { message, offset: 0, total: bytes.length, bytes }))
    }
    await clock.until(() => reader.state.peersDropped === 1)
    expect(reader.state.problems.map(({ sentence }) => sentence)).toEqual([expect.stringContaining('invalid messages')])
    await publisher.append(text('still mine'))
    await clock.until(has(reader, 2))
    expect(reader.live()?.splitAt).toBe(null)
  })

  it('fails in a program that shows no live pages', async () => {
    const { root } = await published()
    const page = openPage(root, { connection: server.connect(), limits: defaultLimits, clock })
    await clock.until(() => page.state.phase === 'failed')
    expect(page.state.problems.map(({ sentence }) => sentence)).toEqual([expect.stringContaining('The content')])
  })

  it('takes no entry after it was closed, and says so of one that is being added', async () => {
    const { publisher } = await published()
    const late = publisher.append(text('late')).catch((error: unknown) => error)
    publisher.close()
    expect(await late).toMatchObject({ name: 'AbortError' })
    await expect(publisher.append(text('later'))).rejects.toThrow('closed')
  })

  it('takes entries only from the tab that began it, and of a bounded length', async () => {
    const { root, publisher } = await published()
    const reader = open(root)
    await expect(reader.append(text('mine'))).rejects.toThrow(/not live/)
    await clock.until(has(reader, 0))
    await expect(reader.append(text('mine'))).rejects.toThrow(/its author/)
    await expect(publisher.append(text('x'.repeat(65_537)))).rejects.toThrow(/64 KiB/)
    await expect(publisher.append({ form: 'file', name: 'none', sources: [] })).rejects.toThrow()
    expect(numbers(publisher)).toEqual([])
  })
})
