import { beforeEach, describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/fake-clock.ts'
import { FakeServer } from '../../test/fake-server.ts'
import { pattern } from '../../test/pattern.ts'
import { encodeHeads, type PeerId } from '../bitswap/index.ts'
import { defaultLimits } from '../limits/index.ts'
import { loadLive, openPage, type PageSession, type Publication } from './index.ts'
import { publishLive } from './live/index.ts'
import { encodeRelayFrame } from './segment.ts'

let clock: FakeClock
let server: FakeServer
beforeEach(() => {
  clock = new FakeClock()
  server = new FakeServer(clock)
})

let lastRandom = 0
function open(root: string, publication?: Publication): PageSession {
  const random = () => (lastRandom = (lastRandom + 0.381) % 1)
  const deps = { connection: server.connect(), limits: defaultLimits, clock, random, live: loadLive }
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
      await publisher.append(text(`entry ${number}`))
      const appendedAt = clock.now()
      await clock.until(has(reader, number))
      expect(clock.now() - appendedAt).toBeLessThan(1000)
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

  it('takes entries only from the tab that began it, and of a bounded length', async () => {
    const { root, publisher } = await published()
    const reader = open(root)
    await expect(reader.append(text('mine'))).rejects.toThrow(/not live/)
    await clock.until(has(reader, 0))
    await expect(reader.append(text('mine'))).rejects.toThrow(/began/)
    await expect(publisher.append(text('x'.repeat(65_537)))).rejects.toThrow(/64 KiB/)
    await expect(publisher.append({ form: 'file', name: 'none', sources: [] })).rejects.toThrow()
    expect(numbers(publisher)).toEqual([])
  })
})
