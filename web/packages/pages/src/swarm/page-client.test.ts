import { beforeEach, describe, expect, it, vi } from 'vitest'
import {
  MemoryBlockStore,
  MessageWriter,
  cidOf,
  ContentError,
  DAG_PB,
  isSameBytes,
  parseCid,
  RAW,
  readFile,
  type BlockStore,
  type Bytes,
} from '../content/index.ts'
import { pattern } from '../../test/pattern.ts'
import { encodeFile } from '../content/unixfs.ts'
import { defaultLimits as exchangeLimits, encodeMessage, Exchange, type PeerId } from '../bitswap/index.ts'
import type { Reply } from '@watchfire/client/connection'
import { defaultLimits } from '../limits/index.ts'
import { openPage, publish, type PageDeps, type PageSession, type PageState, type Publication, type Source } from './index.ts'
import { firstMessage } from './page-client.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import { FakeServer, type FakeConnection } from '../../test/fake-server.ts'
import { encodeRelayFrame } from './segment.ts'

let clock: FakeClock
let server: FakeServer
beforeEach(() => {
  clock = new FakeClock()
  server = new FakeServer(clock)
})

let lastRandom = 0
function open(root: string, publication?: Publication): { session: PageSession; line: FakeConnection } {
  const line = server.connect()
  const random = () => (lastRandom = (lastRandom + 0.381) % 1)
  const deps = { connection: line, limits: defaultLimits, clock, random }
  return { session: openPage(root, publication ? { ...deps, publication } : deps), line }
}

const file = (size: number, path = 'file.bin'): Source => ({ path, blob: new Blob([pattern(size)]) })
/** A tab that loads a file of a holder. */
async function loading(size: number) {
  const published = await publish([file(size)])
  const holder = open(published.root, published)
  return { holder, ...open(published.root) }
}
/** Refuses one relay frame. */
const refuseOnce = () => {
  let isFirst = true
  return (): Reply | null => {
    const reply: Reply | null = isFirst ? { status: 'error', response: { reason: 'peer busy', retry_after_ms: 5 } } : null
    isFirst = false
    return reply
  }
}
const isPattern = async (blob: Blob) => isSameBytes(new Uint8Array(await blob.arrayBuffer()), pattern(blob.size))
const isComplete = ({ state }: PageSession) => state.phase === 'complete'
/** The peer that has been on the page for longest. */
const eldest = () => server.members[0]?.id ?? ''

describe('a published file', () => {
  it('is complete at once in the tab that published it, and reports its progress', async () => {
    const seen: number[] = []
    const published = await publish([file(2_500_000)], { onProgress: ({ bytesDone }) => seen.push(bytesDone) })
    expect([seen[0], seen.at(-1)]).toEqual([1_048_576, 2_500_000])
    expect(published).toMatchObject({ size: 2_500_000, blocks: 4 })
    const { session } = open(published.root, published)
    expect(session.state).toMatchObject({ phase: 'complete', presence: { kind: 'joining' } })
    expect(session.listing()?.files).toEqual([{ path: '', size: 2_500_000, complete: true }])
    const whole = await session.file('', { type: 'image/png' })
    expect([whole.size, await isPattern(whole)]).toEqual([2_500_000, true])
  })

  it('of a folder with thousands of files is complete after a few tasks, and not in one', async () => {
    const published = await publish(Array.from({ length: 2000 }, (_, i) => ({ path: `${i}`, blob: new Blob([`file ${i}`]) })))
    const { session } = open(published.root, published)
    expect(session.state.phase).toBe('loading')
    const last = session.file('1999')
    const missing = session.file('2000').catch((error: unknown) => error)
    await clock.until(() => isComplete(session))
    expect(await (await last).text()).toBe('file 1999')
    expect(await missing).toMatchObject({ problem: { kind: 'no-such-file' } })
    expect(session.state.progress).toMatchObject({ blocksDone: published.blocks, blocksTotal: published.blocks })
    expect(session.listing()?.files).toHaveLength(2000)
    await clock.until(() => session.state.have === 'all')
  })

  it('is refused with the limit when it has more files than anyone could list', async () => {
    const empty = new Blob([])
    const many = Array.from({ length: 65_537 }, (_, i) => ({ path: `${i}`, blob: empty }))
    await expect(publish(many)).rejects.toThrow(/65,?536/)
  })

  it('loads in another tab, which then is a holder too', async () => {
    const { session } = await loading(2_500_000)
    expect(session.state.phase).toBe('searching')
    const promised = session.file('')
    await clock.until(() => isComplete(session))
    const whole = await promised
    expect([whole.size, await isPattern(whole)]).toEqual([2_500_000, true])
    expect(session.state).toMatchObject({
      presence: { kind: 'joined' },
      progress: { blocksDone: 4, blocksTotal: 4 },
      receivedBytes: session.state.progress.bytesDone,
      problems: [],
    })
    await clock.until(() => session.state.counts.holders === 2)
  })

  it.each([
    ['with the join', () => null, 10, 1],
    ['again when the server could not deliver that request', refuseOnce, 15, 2],
  ])('is requested %s', async (_, refusal, milliseconds, requests) => {
    const published = await publish([file(20_000)])
    const holder = open(published.root, published)
    await clock.until(() => holder.session.state.presence.kind === 'joined')
    let toHolder = 0
    const verdict = refusal()
    server.refuseRelay = (_from, to) => {
      if (to !== eldest()) return null
      toHolder++
      return verdict?.() ?? null
    }
    const begun = clock.now()
    const { session } = open(published.root)
    await clock.until(() => isComplete(session))
    // A join takes 5 ms, and so does a message between two tabs.
    expect(clock.now() - begun).toBe(milliseconds)
    await clock.until(() => holder.session.state.counts.holders === 2)
    expect(toHolder).toBe(requests)
    expect(holder.session.state.sentBytes).toBe(20_000)
  })

  it('loads from other viewers when its publisher has left', async () => {
    const published = await publish([file(1_500_000)])
    const first = open(published.root, published)
    const second = open(published.root)
    await clock.until(() => isComplete(second.session))
    first.session.close()
    const third = open(published.root)
    await clock.until(() => isComplete(third.session))
    await clock.until(() => second.session.state.sentBytes >= third.session.state.receivedBytes)
  })

  it('is loaded by five tabs at once', async () => {
    const published = await publish([file(3_000_000)])
    open(published.root, published)
    const seekers = Array.from({ length: 5 }, () => open(published.root).session)
    await clock.until(() => seekers.every(isComplete))
    for (const seeker of seekers) expect((await seeker.file('')).size).toBe(3_000_000)
  })

  it('is rejected before it is read if it is too large', async () => {
    await expect(publish([file(1000)], { pageBytesMax: 999 })).rejects.toThrow(/1000 bytes, more than the 999 bytes/)
    await expect(publish([])).rejects.toThrow(ContentError)
    await expect(publish([file(10)], { signal: AbortSignal.abort() })).rejects.toThrow(/abort/i)
  })
})

describe('the request that goes with the join', () => {
  it.each(['bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e', 'bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi'])(
    'is the first message of an exchange: %s',
    (text) => {
      const root = parseCid(text)
      const exchange = new Exchange(0n, exchangeLimits)
      const peer = eldest() as PeerId
      exchange.handle(0, { kind: 'want', wants: [{ cid: root, length: null, urgency: root.codec === RAW ? 0 : 1 }] })
      exchange.handle(0, { kind: 'connected', peer, isProvider: true })
      exchange.handle(0, { kind: 'writable', peer, roomBytes: 4 << 20 })
      const output = exchange.pollOutput()
      expect(output?.kind === 'send' && encodeMessage(output.message, output.blocks)).toEqual(firstMessage(root))
    },
  )
})

describe('a published directory', () => {
  const sources = [file(9, 'index.md'), file(1_300_000, 'img/cat.png'), file(0, 'img/empty')]

  it('loads file by file', async () => {
    const published = await publish(sources)
    open(published.root, published)
    const { session } = open(published.root)
    expect(session.listing()).toBeNull()
    await clock.until(() => session.listing()?.files.find(({ path }) => path === 'index.md')?.complete === true)
    expect(await (await session.file('index.md')).size).toBe(9)
    await clock.until(() => isComplete(session))
    expect(session.listing()?.files.map(({ path, size }) => [path, size])).toEqual([
      ['img/cat.png', 1_300_000],
      ['img/empty', 0],
      ['index.md', 9],
    ])
    await expect(session.file('other')).rejects.toThrow(/no file "other"/)
  })

  it('may contain a single file, which keeps its name', async () => {
    const published = await publish([file(9, 'index.md')], { directory: true })
    expect(open(published.root, published).session.listing()?.files[0]?.path).toBe('index.md')
  })
})

describe('an open page', () => {
  it('is unavailable if no peer has it, and loads when a holder joins', async () => {
    const published = await publish([file(1000)])
    const { session } = open(published.root)
    const phases: string[] = []
    session.subscribe(({ phase }) => phases.at(-1) !== phase && phases.push(phase))
    await clock.until(() => session.state.phase === 'unavailable')
    open(published.root, published)
    await clock.until(() => isComplete(session))
    expect(phases).toEqual(['searching', 'unavailable', 'searching', 'complete'])
  })

  it('becomes unavailable when its only holder leaves, and keeps its blocks', async () => {
    const published = await publish([file(15_000_000)])
    const holder = open(published.root, published)
    const { session } = open(published.root)
    await clock.until(() => session.state.progress.blocksDone > 5)
    holder.session.close()
    const all = session.state.progress.blocksTotal
    expect(session.state.peers).toMatchObject([{ blocks: all }])
    expect(session.blockMap()?.rarest).toMatchObject({ copies: 1, isOurs: false, holders: 1 })
    await clock.until(() => session.state.phase === 'unavailable')
    expect(session.state.counts).toMatchObject({ holders: 0, watching: 1 })
    const map = session.blockMap()
    expect(map?.here).toHaveLength(all ?? -1)
    expect([map?.here.reduce((sum, n) => sum + n), map?.elsewhere.some((n) => n > 0)]).toEqual([session.state.progress.blocksDone, false])
    clock.pass(60_000)
    expect(session.state.sinceAvailable).toBeGreaterThanOrEqual(60_000)
    expect(session.state.sinceAvailable).toBeLessThan(70_000)
    const { blocksDone } = session.state.progress
    open(published.root, published)
    await clock.until(() => session.state.phase === 'loading')
    expect(session.state.sinceAvailable).toBe(null)
    expect(session.state.progress.blocksDone).toBe(blocksDone)
    await clock.until(() => isComplete(session))
  })

  it('finds a holder that the server did not name at first', async () => {
    server.introductions = 1
    const published = await publish([file(1000)])
    open(published.root, published)
    await clock.until(() => server.members.length === 1)
    const seekers = Array.from({ length: 3 }, () => open(published.root).session)
    server.refuseRelay = (from, to) =>
      from === eldest() || to === eldest() ? null : { status: 'error', response: { reason: 'peer gone' } }
    await clock.until(() => seekers.every(isComplete))
  })

  it('fails with a reason if its content is invalid, and so do its files', async () => {
    const published = await publish([file(5)])
    const block = encodeFile([{ cid: await cidOf(DAG_PB, pattern(3)), size: 1e12, dagBytes: 1e12 }])
    const cid = await cidOf(DAG_PB, block)
    published.store.put(cid, block)
    // The server believes that this peer has a full copy.
    const sharer = open(cid.text, published)
    await clock.until(() => sharer.session.state.phase === 'failed')
    expect(sharer.session.state.problems).toEqual([
      { fatal: true, sentence: 'The content has 931 GiB, more than the 4 GiB a page may have here.' },
    ])
    await expect(sharer.session.file('')).rejects.toThrow(ContentError)
    expect(sharer.session.listing()).toBeNull()
  })

  it('is not opened without a valid CID', () => {
    expect(() => open('hello')).toThrow(/^This link is not valid: the part after/)
  })

  it('notifies no listener and returns no files after it was closed', async () => {
    const published = await publish([file(5)])
    const { session } = open(published.root)
    const states: PageState[] = []
    session.subscribe((state) => states.push(state))
    const promised = session.file('')
    session.close()
    await expect(promised).rejects.toThrow(/closed/)
    const notified = states.length
    clock.pass(60_000)
    expect(states).toHaveLength(notified)
    expect(server.members).toEqual([])
  })

  it('stops waiting for a file when its request is aborted', async () => {
    const { session } = open((await publish([file(5)])).root)
    const stop = new AbortController()
    const promised = session.file('', { signal: stop.signal })
    stop.abort(new Error('enough'))
    await expect(promised).rejects.toThrow('enough')
    await expect(session.file('', { signal: stop.signal })).rejects.toThrow('enough')
  })

  it('notifies at most ten times a second while only numbers change', async () => {
    const { session } = await loading(12_000_000)
    const begun = clock.now()
    let reports = 0
    session.subscribe(() => reports++)
    await clock.until(() => isComplete(session))
    expect(reports).toBeLessThan((clock.now() - begun) / 100 + 6)
  })
})

describe('the stored blocks of a tab', () => {
  function openInto(root: string, blocks: BlockStore): PageSession {
    const deps = { connection: server.connect(), limits: defaultLimits, clock, random: () => 0.5 }
    return openPage(root, { ...deps, blocks: () => blocks })
  }

  class Leftovers extends MemoryBlockStore {
    resolve = (): void => {}
    override readonly restored = new Promise<void>((resolve) => (this.resolve = resolve)) as never
  }

  it('are not requested again after a reload', async () => {
    const published = await publish([file(12_000_000)])
    const holder = open(published.root, published)
    const left = new Leftovers(1 << 30)
    const session = openInto(published.root, left)
    await clock.until(() => session.state.presence.kind === 'joined')
    clock.pass(1000)
    expect(session.state).toMatchObject({ phase: 'searching', receivedBytes: 0 })
    // Its root and half of its leaves.
    const blocks = await readFile(published.store, parseCid(published.root)).arrayBuffer()
    const root = parseCid(published.root)
    left.put(root, await published.store.read(root))
    for (let at = 0; at < 6 << 20; at += 1 << 20) {
      const bytes = new Uint8Array(blocks.slice(at, at + (1 << 20)))
      left.put(await cidOf(RAW, bytes), bytes)
    }
    left.resolve()
    await clock.until(() => isComplete(session))
    expect(session.state.receivedBytes).toBe(12_000_000 - (6 << 20))
    expect(await isPattern(await session.file(''))).toBe(true)
    await clock.until(() => holder.session.state.sentBytes >= session.state.receivedBytes)
  })

  it('stay and are served if there is no room for more', async () => {
    const published = await publish([file(24 << 20)])
    const holder = open(published.root, published)
    const full = new MemoryBlockStore(1 << 30)
    const put = full.put.bind(full)
    full.put = (cid, block) => {
      if (full.bytes > 4 << 20) throw new ContentError({ kind: 'no-room', bytes: full.bytes })
      put(cid, block)
    }
    const session = openInto(published.root, full)
    await clock.until(() => session.state.problems.length > 0)
    expect(session.state.problems).toEqual([
      { fatal: false, sentence: expect.stringMatching(/^This browser has no room for more than .* stays shared/) },
    ])
    const here = session.state.progress.blocksDone
    expect([session.state.phase, here]).toEqual(['loading', 5])
    // Blocks that cannot be stored are not requested.
    const whole = open(published.root).session
    await clock.until(() => isComplete(whole))
    expect(session.state.receivedBytes).toBeLessThan(16 << 20)
    holder.session.close()
    whole.close()
    const other = open(published.root).session
    await clock.until(() => other.state.progress.blocksDone === here)
    expect(session.state.problems).toHaveLength(1)
  })

  it('make peers wait if the disk is slow', async () => {
    const published = await publish([file(9_000_000)])
    open(published.root, published)
    const slow = new MemoryBlockStore(1 << 30)
    let letIn = () => {}
    slow.room = (() => (slow.bytes < 2 << 20 ? null : new Promise<void>((resolve) => (letIn = resolve)))) as never
    const session = openInto(published.root, slow)
    const begun = letIn
    await clock.until(() => letIn !== begun)
    expect(session.state.phase).toBe('loading')
    slow.room = () => null
    letIn()
    await clock.until(() => isComplete(session))
  })
})

describe('a shared file', () => {
  it('is reported and not offered any more when it has changed', async () => {
    const published = await publish([file(3_000_000), file(10, 'notes.md')])
    const { session } = open(published.root, published)
    await clock.until(() => server.members[0]?.have === 'all')
    const arrayBuffer = Blob.prototype.arrayBuffer
    Blob.prototype.arrayBuffer = async function () {
      const bytes = new Uint8Array(await arrayBuffer.call(this))
      if (bytes.length > 10) bytes[0] = 255
      return bytes.buffer
    }
    try {
      const seeker = open(published.root).session
      await clock.until(() => session.state.problems.length > 0)
      expect(session.state).toMatchObject({
        phase: 'complete',
        problems: [{ fatal: false, sentence: expect.stringMatching(/^"file.bin" was changed or removed/) }],
      })
      await clock.until(() => server.members[0]?.have === 'some')
      await clock.until(() => seeker.listing()?.files.find(({ path }) => path === 'notes.md')?.complete === true)
      expect(seeker.state.problems).toEqual([])
    } finally {
      Blob.prototype.arrayBuffer = arrayBuffer
    }
  })
})

describe('a broken connection to the server', () => {
  it('is restored, the loaded part is announced, and the rest is fetched', async () => {
    const { session, line } = await loading(12_000_000)
    await clock.until(() => session.state.progress.blocksDone > 5)
    line.break()
    expect(session.state.presence).toEqual({ kind: 'offline' })
    expect(session.state.peers).toEqual([])
    const { blocksDone } = session.state.progress
    await clock.until(() => session.state.presence.kind === 'joined')
    expect(server.members.at(-1)?.have).toBe('some')
    expect(session.state.progress.blocksDone).toBeGreaterThanOrEqual(blocksDone)
    await clock.until(() => isComplete(session))
  })

  it('of the holder makes the leechers wait', async () => {
    const { holder, session } = await loading(12_000_000)
    await clock.until(() => session.state.progress.blocksDone > 5)
    holder.line.break()
    await clock.until(() => isComplete(session))
    expect(session.state.problems).toEqual([])
  })
})

describe('a busy relay', () => {
  // The publisher of a page of 8 MiB and more gives each block to one viewer first, so the viewers ask each other for most blocks.
  it.each([5_000_000, 10_000_000])('rejects frames at times, and all of %i bytes still arrive', async (bytes) => {
    const published = await publish([file(bytes)])
    let frames = 0
    server.refuseRelay = () => {
      frames++
      if (frames % 3 === 0) return { status: 'error', response: { reason: 'peer busy', retry_after_ms: 50 } }
      if (frames % 7 === 0) return { status: 'error', response: { reason: 'relay budget', retry_after_ms: 200 } }
      if (frames % 31 === 0) return { status: 'timeout' }
      return null
    }
    open(published.root, published)
    const seekers = [open(published.root).session, open(published.root).session]
    await clock.until(() => seekers.every(isComplete))
    const whole = await (seekers[0]?.file('') ?? Promise.reject())
    expect([whole.size, await isPattern(whole)]).toEqual([bytes, true])
  })

  it('gets smaller frames if they are too large', async () => {
    const published = await publish([file(100_000)])
    server.refuseRelay = (_from, _to, data) =>
      data.length > 10_000 ? { status: 'error', response: { reason: 'relay frame too large', max: 10_000 } } : null
    open(published.root, published)
    const { session } = open(published.root)
    await clock.until(() => isComplete(session))
  })
})

/** Sends raw bytes to the first peer on the page, each as one message. */
async function attack(root: string, messages: readonly Bytes[], header: { total?: number; offset?: number } = {}) {
  const line = server.connect()
  const topic = line.join(`page:${root}`, [], { params: () => ({ have: 'all' }) })
  await clock.until(() => topic.isJoined())
  for (const [message, bytes] of messages.entries()) {
    const segment = { message, offset: header.offset ?? 0, total: header.total ?? bytes.length, bytes }
    void topic.push('relay', encodeRelayFrame(eldest() as PeerId, segment))
  }
}

describe('the messages of a peer', () => {
  it('are handled in order although hashing takes time, and all of them although this browser cannot hash a block', async () => {
    const published = await publish([file(1000)])
    const { session } = open(published.root)
    await clock.until(() => session.state.presence.kind === 'joined')
    const data = new Uint8Array(30_000)
    const block = { cid: await cidOf(RAW, data), data }
    const hash = vi.spyOn(crypto.subtle, 'digest').mockRejectedValueOnce(new DOMException('no memory', 'OperationError'))
    const handle = vi.spyOn(Exchange.prototype, 'handle')
    const said = (pendingBytes: number) => ({ full: false, wants: [], presences: [], pendingBytes })
    const messages = Array.from({ length: 200 }, (_, n) => encodeMessage(said(n), n === 0 ? [block] : []))
    await attack(published.root, messages)
    const received = () => handle.mock.calls.flatMap(([, input]) => (input.kind === 'message' ? [input] : []))
    await clock.until(() => received().length === messages.length)
    expect(received().map(({ message }) => message.pendingBytes)).toEqual(messages.map((_, n) => n))
    expect(received().flatMap(({ blocks }) => blocks)).toEqual([])
    expect(session.state.problems).toEqual([])
    hash.mockRestore()
    handle.mockRestore()
  })
})

describe('an application with fields of its own', () => {
  it('gets all messages of peers, also invalid ones, and sends its own', async () => {
    const published = await publish([file(1000)])
    const seen: string[] = []
    const line = server.connect()
    const own = new MessageWriter().message(1, new MessageWriter()).bytes(1003, Uint8Array.of(7)).finish()
    const peers: PageDeps['peers'] = (cid, send) => (peer, message) => {
      seen.push(`${cid === published.root} ${message.join()}`)
      send(peer, own)
    }
    const session = openPage(published.root, { connection: line, limits: defaultLimits, clock, random: () => 0.5, peers })
    await clock.until(() => session.state.presence.kind === 'joined')
    await attack(published.root, [own, Uint8Array.of(0xff, 0xff)])
    await clock.until(() => session.state.problems.length > 0)
    expect(seen).toEqual([`true ${own.join()}`, 'true 255,255'])
    // Others skip the field.
    const holder = open(published.root, published).session
    await clock.until(() => isComplete(session) && seen.length > 2)
    expect(holder.state.problems).toEqual([])
  })
})

describe('a hostile peer', () => {
  it('is dropped when it sends invalid messages, and other peers are not affected', async () => {
    const published = await publish([file(1000)])
    const { session } = open(published.root)
    await clock.until(() => session.state.presence.kind === 'joined')
    await attack(published.root, [Uint8Array.of(0xff, 0xff, 0xff)])
    await clock.until(() => session.state.problems.length > 0)
    expect(session.state.problems[0]).toMatchObject({ fatal: false, sentence: expect.stringContaining('invalid messages') })
    expect(session.state.peers).toEqual([])
    open(published.root, published)
    await clock.until(() => isComplete(session))
  })

  it.each([
    ['a message that is too long', { total: 5_000_000 }],
    ['a part beyond its end', { total: 3, offset: 2 }],
    ['an empty message', { total: 0 }],
  ])('is dropped when it sends %s', async (_what, header) => {
    const published = await publish([file(1000)])
    const { session } = open(published.root)
    await clock.until(() => session.state.presence.kind === 'joined')
    await attack(published.root, [Uint8Array.of(1, 2)], header)
    await clock.until(() => session.state.problems.length > 0)
  })

  it('is dropped when it sends wrong data, and the page loads from honest peers', async () => {
    const published = await publish([file(3_000_000)])
    // This peer reads one block and sends another.
    const liar = await publish([file(3_000_000)])
    const read = liar.store.read.bind(liar.store)
    liar.store.read = async (cid) => (await read(cid)).map((byte) => byte ^ 1)
    open(published.root, liar)
    const { session } = open(published.root)
    await clock.until(() => session.state.problems.length > 0)
    expect(session.state.problems[0]?.sentence).toContain('wrong bytes')
    open(published.root, published)
    await clock.until(() => isComplete(session))
    const whole = await session.file('')
    expect([whole.size, await isPattern(whole)]).toEqual([3_000_000, true])
  })

  it('cannot change anything by invalid server messages', async () => {
    const published = await publish([file(1000)])
    const { session } = open(published.root)
    await clock.until(() => session.state.presence.kind === 'joined')
    const guest = server.members[0]
    const nonsense: unknown[] = [null, 7, 'x', [], {}, { peer: 5 }, { peer: 'zz', have: 'all' }, { watching: -1 }, new ArrayBuffer(3)]
    for (const event of ['relay', 'peer_joined', 'peer_left', 'counts', 'available?']) {
      for (const payload of nonsense) guest?.events.message?.(event, payload)
    }
    expect(session.state).toMatchObject({ peers: [], problems: [], counts: { watching: 1 } })
  })
})

describe('a page that is opened twice on one connection', () => {
  const openTwice = async (size: number) => {
    const published = await publish([file(size)])
    const holder = open(published.root, published)
    const { session: first, line } = open(published.root)
    const second = openPage(published.root, { connection: line, limits: defaultLimits, clock })
    return { holder, first, second, line, published }
  }

  it('has one membership, and ends when it is closed twice', async () => {
    const { first, second } = await openTwice(20_000)
    await clock.until(() => isComplete(first) && isComplete(second))
    expect(server.members).toHaveLength(2)
    first.close()
    first.close()
    await expect(first.file('')).rejects.toThrow('closed')
    expect(await isPattern(await second.file(''))).toBe(true)
    expect(second.state.presence).toEqual({ kind: 'joined' })
    second.close()
    await clock.until(() => server.members.length === 1)
  })

  it('tells each listener, and after a close only those of the others', async () => {
    const { first, second } = await openTwice(20_000)
    const told: string[] = []
    const listener = (name: string) => (state: PageState) => void (state.phase === 'complete' && told.push(name))
    first.subscribe(listener('first'))
    second.subscribe(listener('second'))
    const waiting = first.file('').catch((error: unknown) => error)
    first.close()
    await clock.until(() => isComplete(second))
    expect(new Set(told)).toEqual(new Set(['second']))
    expect(await waiting).toMatchObject({ name: 'AbortError' })
  })

  it('is complete for both when one of them brings its blocks, while nobody else has them', async () => {
    const published = await publish([file(20_000)])
    const { session: reader, line } = open(published.root)
    const promised = reader.file('')
    await clock.until(() => reader.state.phase === 'unavailable')
    const owner = openPage(published.root, { connection: line, limits: defaultLimits, clock, publication: published })
    expect([reader.state.phase, owner.state.phase]).toEqual(['complete', 'complete'])
    expect(await isPattern(await promised)).toBe(true)
    await clock.until(() => server.members.length === 1 && owner.state.counts.holders === 1)
  })

  it('is not refused for the smaller limit of the other one', async () => {
    const published = await publish([file(2_500_000)])
    open(published.root, published)
    const deps = { connection: server.connect(), limits: { ...defaultLimits, pageBytesMax: 1_000_000 }, clock }
    const small = openPage(published.root, deps)
    const large = openPage(published.root, { ...deps, limits: defaultLimits })
    await clock.until(() => isComplete(large) && isComplete(small))
  })
})
