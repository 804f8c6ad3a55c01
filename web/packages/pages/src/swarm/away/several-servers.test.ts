import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { Connection, Reply, Topic, TopicEvents } from '@watchfire/client/connection'
import { FakeClock } from '../../../test/fake-clock.ts'
import { FakeServer, type FakeConnection } from '../../../test/fake-server.ts'
import { pattern } from '../../../test/pattern.ts'
import type { PeerId } from '../../bitswap/index.ts'
import { isSameBytes } from '../../content/index.ts'
import { defaultLimits } from '../../limits/index.ts'
import type { Counts, Have, PageSession } from '../api.ts'
import { openPage, publish, withDeclinedCalls, type Publication } from '../index.ts'
import { encodeSignalFrame } from '../segment.ts'
import { SeveralServers } from './several-servers.ts'

const [ALICE, BOB, CAROL, ME] = ['aa', 'bb', 'cc', 'ff'].map((end) => end.padStart(16, '0')) as [PeerId, PeerId, PeerId, PeerId]
const [A, C] = ['https://a.example', 'https://c.example']
const counts = (watching: number, holders: number, partial = 0): Counts => {
  return { watching, holders, partial, nodes: { watching: 0, holders: 0, partial: 0 } }
}
const frameTo = (peer: PeerId) => encodeSignalFrame(peer, Uint8Array.of(7))
const gone: Reply = { status: 'error', response: { reason: 'peer gone' } }

/** A topic whose server is this test. */
class FakeTopic implements Topic {
  readonly events: TopicEvents
  readonly params: Record<string, unknown>
  readonly pushed: string[] = []
  reply: Reply = { status: 'ok', response: {} }
  hasLeft = false

  constructor(events: TopicEvents) {
    this.events = events
    this.params = events.params?.() ?? {}
  }

  isJoined(): boolean {
    return true
  }

  async push(event: string): Promise<Reply> {
    this.pushed.push(event)
    return this.reply
  }

  leave(): void {
    this.hasLeft = true
  }
}

let clock: FakeClock
beforeEach(() => {
  clock = new FakeClock()
})

describe('a page at several servers', () => {
  let home: FakeTopic
  /** The joins at other servers, and the connections that are open. */
  let joins: { origin: string; topic: FakeTopic }[]
  let open: string[]
  /** The events that the page gets, with their payloads. */
  let told: unknown[]
  let page: { key: string; home: Required<TopicEvents> } & Record<string, unknown>
  let peers: Map<PeerId, never>
  let protocol: { self: PeerId; have: Have; peers: typeof peers; counts: { counts: Counts; isAvailable: null; lastAvailableAt: null } }
  let several: SeveralServers
  beforeEach(() => {
    home = new FakeTopic({})
    joins = []
    open = []
    told = []
    peers = new Map([[BOB, undefined as never]])
    protocol = { self: ME, have: 'none', peers, counts: { counts: counts(2, 0, 1), isAvailable: null, lastAvailableAt: null } }
    const events = {
      params: () => ({}),
      first: () => null,
      joined: (response: unknown) => void told.push(['joined', response]),
      refused: (response: unknown) => void told.push(['refused', response]),
      lost: () => void told.push('lost'),
      message: (event: string, payload: unknown) => void told.push([event, payload]),
    }
    const connect = (endPoint: string): Connection => {
      const origin = endPoint.replace(/^ws(.*)\/socket$/, 'http$1')
      open.push(origin)
      const join = (_name: string, _names: readonly string[], given: TopicEvents) => {
        const topic = new FakeTopic(given)
        joins.push({ origin, topic })
        return topic
      }
      const close = () => void open.splice(open.indexOf(origin), 1)
      return { state: 'open', subscribe: () => () => {}, join, verify: () => Promise.resolve(), connect, close }
    }
    page = {
      name: 'page:x',
      deps: { clock, connection: { connect } },
      protocol,
      events,
      home: { ...events },
      key: 'first key',
      topic: home,
    }
    several = new SeveralServers(page as never)
  })
  const at = (origin: string) => joins.findLast((each) => each.origin === origin)?.topic as FakeTopic
  const info = (peer: PeerId, have: Have = 'none') => ({ peer, have, kind: 'tab' })
  const joinAt = (origin: string, named: PeerId[] = [], of = counts(2, 1), self = ME) => {
    several.setServers([origin])
    at(origin).events.joined?.({ peer: self, peers: named.map((peer) => info(peer)), counts: of })
    return at(origin)
  }
  const news = () => told.splice(0)

  it('is joined at each that is named, at most three, with the key of the join at home', () => {
    protocol.have = 'some'
    several.setServers([A, 'not a server', C, A, 'https://d.example', 'https://e.example'])
    expect(joins.map(({ origin }) => origin)).toEqual([A, C, 'https://d.example'])
    expect([at(A).params, open.length]).toEqual([{ have: 'some', peer_key: 'first key' }, 3])
    several.leave()
    expect([home.hasLeft, joins.every(({ topic }) => topic.hasLeft), open]).toEqual([true, true, []])
  })

  it('stays at a server that is not named any more, and gives those up that it never reached', () => {
    joinAt(A)
    several.setServers([A, C])
    several.setServers([])
    expect([at(A).hasLeft, at(C).hasLeft, open]).toEqual([false, true, [A]])
  })

  it('is joined at those that its caller names, and at those that its own server names with a join or later', () => {
    page['deps'] = { ...(page['deps'] as object), at: () => [C] }
    several.setServers(undefined)
    page.home.joined({ peer: ME, elsewhere: [A] })
    page.home.message('elsewhere', { servers: ['https://d.example'] })
    // Not at those that another server names.
    joinAt(A).events.message?.('elsewhere', { servers: ['https://e.example'] })
    page.home.message('elsewhere', { servers: 7 })
    expect([...new Set(joins.map(({ origin }) => origin))]).toEqual([C, A, 'https://d.example'])
    expect(news().filter((each) => String(each).startsWith('elsewhere'))).toEqual([])
  })

  it('has the peers of all, and the largest counts, which never contradict each other', () => {
    joinAt(A, [ALICE], counts(3, 2))
    expect(news()).toEqual([
      ['peer_joined', info(ALICE)],
      ['counts', counts(3, 2, 1)],
    ])
    page.home.message('counts', { watching: 9, holders: 0, partial: 9, nodes: { watching: 4, holders: 0, partial: 4 }, last_available: 5 })
    expect(news()).toEqual([['counts', { ...counts(9, 2, 7), nodes: { watching: 4, holders: 0, partial: 4 }, last_available: 5 }]])
    // A tab and two nodes are not more people than three tabs.
    page.home.message('counts', { ...counts(3, 3), nodes: { watching: 2, holders: 2, partial: 0 } })
    expect(news()).toEqual([['counts', { ...counts(5, 4, 0), nodes: { watching: 2, holders: 2, partial: 0 } }]])
  })

  it('sends each frame to the server of its receiver, first to its own, and to another one if that has lost the peer', async () => {
    const a = joinAt(A, [ALICE, BOB])
    for (const peer of [ALICE, BOB, CAROL]) expect(await several.push('relay', frameTo(peer))).toEqual(home.reply)
    expect([home.pushed, a.pushed]).toEqual([['relay', 'relay'], ['relay']])
    home.reply = gone
    expect(await several.push('signal', frameTo(BOB))).toEqual(a.reply)
    expect(await several.push('relay', frameTo(BOB))).toEqual(a.reply)
    expect([home.pushed.slice(2), a.pushed.slice(1)]).toEqual([['signal'], ['signal', 'relay']])
    a.reply = gone
    expect(await several.push('relay', frameTo(BOB))).toEqual(gone)
    // A peer that sends is there.
    a.events.message?.('relay', frameTo(CAROL).buffer)
    await several.push('relay', frameTo(CAROL))
    expect([home.pushed.length, a.pushed.length]).toEqual([3, 5])
  })

  it('tells all what it has, asks all for peers, and sends its trace to its own server', async () => {
    const a = joinAt(A)
    home.reply = { status: 'ok', response: { peers: [info(BOB)] } }
    a.reply = { status: 'ok', response: { peers: [info(ALICE, 'all')] } }
    for (const event of ['have', 'trace']) await several.push(event, {})
    news()
    expect(await several.push('more_peers', {})).toEqual(home.reply)
    expect(news()).toEqual([['peer_joined', info(ALICE, 'all')]])
    expect([home.pushed, a.pushed]).toEqual([
      ['have', 'trace', 'more_peers'],
      ['have', 'more_peers'],
    ])
    await several.push('relay', frameTo(ALICE))
    expect(a.pushed.at(-1)).toBe('relay')
    home.reply = { status: 'timeout' }
    expect(await several.push('more_peers', {})).toEqual(a.reply)
  })

  it('does not wait for a silent server, and learns of its peers later', async () => {
    const a = joinAt(A)
    news()
    home.reply = { status: 'ok', response: { peers: [info(BOB)] } }
    let answer = (_reply: Reply) => {}
    a.push = () => new Promise((resolve) => (answer = resolve))
    expect(await several.push('more_peers', {})).toEqual(home.reply)
    expect(news()).toEqual([])
    answer({ status: 'ok', response: { peers: [info(ALICE, 'all')] } })
    await Promise.resolve()
    await Promise.resolve()
    expect(news()).toEqual([['peer_joined', info(ALICE, 'all')]])
    home.reply = { status: 'timeout' }
    const asked = several.push('more_peers', {})
    answer(gone)
    expect(await asked).toEqual(home.reply)
  })

  it('tells its own server what it has when that is back, because the page has told only the others', () => {
    page.home.lost()
    page.home.joined({ peer: ME })
    expect(home.pushed).toEqual([])
    joinAt(A)
    page.home.lost()
    page.home.joined({ peer: ME })
    expect(home.pushed).toEqual(['have'])
  })

  it('gives the place of a server where nobody is to another one, once for each list of its own server', () => {
    const [D, E] = ['https://d.example', 'https://e.example']
    let ofCaller: string[] = []
    page['deps'] = { ...(page['deps'] as object), at: () => ofCaller }
    several.setServers([A, C, D])
    ofCaller = [E]
    several.setServers(undefined)
    // Not before a server has answered.
    expect(open).toEqual([A, C, D])
    for (const origin of [A, C, D]) {
      const named = origin === D ? [info(ALICE)] : []
      at(origin).events.joined?.({ peer: ME, peers: named, counts: counts(1, 0) })
    }
    several.setServers(undefined)
    expect(open).toEqual([C, D, E])
    several.setServers(undefined)
    expect(open).toEqual([C, D, E])
    several.setServers([A, C, D])
    expect(open).toEqual([D, E, A])
  })

  it('leaves a server that blocks it', () => {
    several.setServers([A])
    const a = at(A)
    a.events.refused?.({ reason: 'page full' })
    expect(a.hasLeft).toBe(false)
    a.events.refused?.({ reason: 'denied' })
    several.setServers(undefined)
    expect([a.hasLeft, open, joins.length]).toEqual([true, [], 1])
  })

  it('looks at the servers that its caller names later', () => {
    let named: string[] = []
    let look = () => {}
    const at = (again: () => void) => {
      look = again
      return named
    }
    page['deps'] = { ...(page['deps'] as object), at }
    several.setServers([A])
    named = [C]
    look()
    expect(open).toEqual([A, C])
    several.leave()
    look()
    expect(open).toEqual([])
  })

  it('tells a server what it has if that changed during the join', () => {
    several.setServers([A])
    protocol.have = 'all'
    joinAt(A)
    expect(at(A).pushed).toEqual(['have'])
  })

  it('leaves room for the peers of its own server, however many another one names', () => {
    const all = Array.from({ length: 100 }, (_, n) => `${n}`.padStart(16, '0') as PeerId)
    const follow = () => {
      for (const each of news()) {
        const [event, payload] = each as [string, { peer: PeerId }]
        if (event === 'peer_joined') peers.set(payload.peer, undefined as never)
      }
      return peers.size
    }
    const a = joinAt(A)
    for (const peer of all) {
      a.events.message?.('peer_joined', info(peer))
      follow()
    }
    expect(peers.size).toBe(1 + 48)
    page.home.message('peer_joined', info(CAROL))
    expect(follow()).toBe(1 + 48 + 1)
    // A peer that the own server names too is no stranger any more.
    page.home.message('peer_joined', info(all[0] as PeerId))
    a.events.message?.('peer_joined', info(all[99] as PeerId))
    expect([follow(), peers.has(all[99] as PeerId)]).toEqual([1 + 48 + 2, true])
  })

  it('has a peer until the last of its servers has lost it', () => {
    const a = joinAt(A, [ALICE, BOB])
    news()
    page.home.message('peer_left', { peer: BOB })
    expect(news()).toEqual([])
    a.events.message?.('peer_left', { peer: BOB })
    expect(news()).toEqual([['peer_left', { peer: BOB }]])
  })

  it('is available while any of them has a holder', () => {
    const a = joinAt(A, [], counts(2, 1))
    news()
    page.home.message('available', {})
    page.home.message('unavailable', {})
    expect(news()).toEqual([['available', {}]])
    a.events.message?.('unavailable', {})
    expect(news()).toEqual([['unavailable', {}]])
  })

  it('goes on when its own server is lost, without the peers of that alone', () => {
    joinAt(A, [ALICE], counts(2, 1))
    peers.set(ALICE, undefined as never)
    news()
    page.home.lost()
    page.home.refused({ reason: 'page full' })
    expect(news()).toEqual([
      ['peer_left', { peer: BOB }],
      ['counts', counts(2, 1)],
    ])
    expect(several.isJoined()).toBe(true)
  })

  it('is lost when all are lost, and joined again with the first that is back', () => {
    const a = joinAt(A, [ALICE])
    page.home.lost()
    news()
    a.events.lost?.()
    page.home.refused({ reason: 'page full' })
    expect([news(), several.isJoined()]).toEqual([['lost', ['refused', { reason: 'page full' }]], false])
    const response = { peer: ME, peers: [info(ALICE)], counts: counts(2, 1) }
    a.events.joined?.(response)
    expect(news()).toEqual([['joined', response]])
  })

  it('accepts another id if no other server has it joined, whose STUN server is at that server', () => {
    const a = joinAt(A, [ALICE])
    page.home.lost()
    a.events.lost?.()
    news()
    a.events.joined?.({ peer: CAROL, peers: [info(ALICE)], stun: { port: 3478 } })
    expect(news()).toEqual([['joined', { peer: CAROL, peers: [info(ALICE)], stun: { host: 'a.example', port: 3478 } }]])
    expect([a.hasLeft, several.isJoined()]).toEqual([false, true])
    // The other servers have it as that peer too.
    joinAt(C, [BOB], counts(2, 1), CAROL)
    expect(at(C).hasLeft).toBe(false)
  })

  it('is joined everywhere again, as a new peer, when it is joined at home again', () => {
    const a = joinAt(A, [ALICE])
    news()
    page.home.lost()
    page.key = 'second key'
    // Not before home has accepted that key.
    expect(a.events.params?.()).toMatchObject({ peer_key: 'first key' })
    const response = { peer: CAROL, peers: [], counts: counts(1, 0) }
    page.home.joined(response)
    expect(news().at(-1)).toEqual(['joined', response])
    expect([a.hasLeft, at(A).params, joins.length, open]).toEqual([true, { have: 'none', peer_key: 'second key' }, 2, [A]])
    joinAt(A, [ALICE], counts(3, 1), CAROL)
    expect(news()).toEqual([
      ['peer_joined', info(ALICE)],
      ['counts', counts(3, 1)],
    ])
  })

  it('is left where the tab would be another peer, and joined there again once the id can be free', () => {
    const stranger = joinAt(C, [], counts(2, 1), CAROL)
    const a = joinAt(A)
    a.events.lost?.()
    a.events.joined?.({ peer: CAROL, peers: [info(ALICE)] })
    expect([stranger.hasLeft, a.hasLeft]).toEqual([true, true])
    clock.pass(59_999)
    expect(joins).toHaveLength(2)
    clock.pass(60_000)
    expect(joins.map(({ origin }) => origin)).toEqual([C, A, A])
    expect(news().filter((each) => String(each).includes(ALICE))).toEqual([])
  })

  it('is left everywhere when its own server blocks it, and another one that blocks it counts as lost', () => {
    const a = joinAt(A, [ALICE])
    peers.set(ALICE, undefined as never)
    news()
    a.events.message?.('denied', {})
    a.events.message?.('peer_joined', info(CAROL))
    expect(news()).toEqual([
      ['peer_left', { peer: ALICE }],
      ['counts', counts(2, 0, 1)],
    ])
    joinAt(A)
    page.home.lost()
    news()
    page.home.refused({ reason: 'denied' })
    expect(news()).toEqual([['denied', {}]])
  })

  it('is not changed by nonsense', () => {
    const a = joinAt(A)
    news()
    const nonsense = [null, 7, [], {}, { peer: 5 }, { watching: -1 }, new ArrayBuffer(3)]
    for (const event of ['relay', 'peer_joined', 'peer_left']) for (const payload of nonsense) a.events.message?.(event, payload)
    for (const payload of nonsense) a.events.message?.('counts', payload)
    expect(new Set(news().map((each) => JSON.stringify((each as unknown[])[1])))).toContain(JSON.stringify(counts(2, 1, 1)))
    several.leave()
    several.setServers([A])
    expect(joins).toHaveLength(1)
  })
})

describe('tabs of two servers', () => {
  let servers: { readonly a: FakeServer; readonly b: FakeServer }
  beforeEach(() => {
    servers = { a: new FakeServer(clock), b: new FakeServer(clock) }
    servers.a.hasKeys = true
    servers.b.hasKeys = true
    servers.b.others.set('wss://a.example/socket', servers.a)
    let numbers = 0
    vi.spyOn(crypto, 'getRandomValues').mockImplementation((array) => (array as unknown as Uint32Array).fill(++numbers) as never)
  })
  let random = 0
  const openAt = (
    server: FakeServer,
    root: string,
    more: { publication?: Publication; at?: () => string[] } = {},
    line = server.connect(),
  ) => {
    const deps = { connection: line, limits: defaultLimits, clock, random: () => (random = (random + 0.381) % 1), ...more }
    return { session: openPage(root, deps), line }
  }
  const isComplete = ({ state }: PageSession) => state.phase === 'complete'
  const file = (size: number) => publish([{ path: 'file.bin', blob: new Blob([pattern(size)]) }])
  const ids = ({ state }: PageSession) => state.peers.map(({ id }) => id).sort()
  /** A publisher at A, and two readers at B, which names A. */
  const three = async (size: number) => {
    const publication = await file(size)
    const publisher = openAt(servers.a, publication.root, { publication })
    const readers = [openAt(servers.b, publication.root), openAt(servers.b, publication.root)] as const
    await clock.until(() => readers.every(({ session }) => session.state.phase === 'unavailable'))
    servers.b.nameElsewhere([A])
    return { publisher, readers, sessions: readers.map(({ session }) => session), root: publication.root }
  }

  it('load a page of the one at the other, and each pair of them is one peer', async () => {
    const { publisher, sessions } = await three(2_500_000)
    await clock.until(() => sessions.every(isComplete))
    for (const session of sessions) {
      const whole = await session.file('')
      expect(isSameBytes(new Uint8Array(await whole.arrayBuffer()), pattern(2_500_000))).toBe(true)
    }
    const all = servers.a.members.map(({ id }) => id)
    expect(new Set(servers.b.members.map(({ id }) => id))).toEqual(new Set(all.slice(1)))
    const everyone = [publisher.session, ...sessions]
    await clock.until(() => everyone.every(({ state }) => state.counts.holders === 3))
    for (const session of everyone) expect([ids(session).length, session.state.counts]).toEqual([2, counts(3, 3)])
  })

  it('go on when one of the servers is lost, and are the same peers at both when it is back', async () => {
    const { publisher, readers, sessions } = await three(12_000_000)
    await clock.until(() => sessions.every(({ state }) => state.progress.blocksDone > 2))
    for (const { line } of readers) line.break(2000)
    expect(sessions.map(({ state }) => [state.presence.kind, state.peers.length])).toEqual(sessions.map(() => ['joined', 2]))
    await clock.until(() => sessions.every(isComplete))
    const idsAt = (server: FakeServer) => server.members.map(({ id }) => id).filter((id) => id !== servers.a.members[0]?.id)
    await clock.until(() => servers.b.members.length === 2 && idsAt(servers.a).join() === idsAt(servers.b).join())
    await clock.until(() => publisher.session.state.counts.holders === 3)
  })

  it('go on at the other server when their own does not come back, also after a break of that connection', async () => {
    const publication = await file(12_000_000)
    openAt(servers.a, publication.root, { publication })
    const connecting = vi.spyOn(servers.a, 'connect')
    const { session, line } = openAt(servers.b, publication.root, { at: () => [A] })
    await clock.until(() => session.state.progress.blocksDone > 2)
    line.break(null)
    expect(session.state.presence.kind).toBe('joined')
    const away = connecting.mock.results[0]?.value as FakeConnection
    away.break()
    expect(session.state).toMatchObject({ presence: { kind: 'offline' }, peers: [] })
    await clock.until(() => isComplete(session))
    expect([session.state.presence.kind, servers.b.members.length]).toEqual(['joined', 0])
  })

  it('go on at the other server if they hide their address', async () => {
    const publication = await file(12_000_000)
    openAt(servers.a, publication.root, { publication })
    const line = servers.b.connect()
    const session = openPage(publication.root, {
      connection: withDeclinedCalls(line),
      direct: null,
      limits: defaultLimits,
      clock,
      random: () => (random = (random + 0.381) % 1),
      at: () => [A],
    })
    await clock.until(() => session.state.progress.blocksDone > 2)
    line.break(2000)
    expect(session.state.presence.kind).toBe('joined')
    await clock.until(() => isComplete(session))
    await clock.until(() => servers.a.members.some(({ id }) => id === servers.b.members[0]?.id))
  })

  it('look at a server that their caller names once they are open', async () => {
    const publication = await file(3000)
    openAt(servers.a, publication.root, { publication })
    let named: string[] = []
    let look = () => {}
    const at = (again: () => void) => {
      look = again
      return named
    }
    const { session } = openAt(servers.b, publication.root, { at } as never)
    await clock.until(() => session.state.phase === 'unavailable')
    named = [A]
    look()
    await clock.until(() => isComplete(session))
  })

  it('request the first block with the join at the other server, once', async () => {
    const publication = await file(20_000)
    openAt(servers.a, publication.root, { publication })
    const { session } = openAt(servers.b, publication.root)
    await clock.until(() => session.state.phase === 'unavailable')
    await import('./index.ts')
    const requests: string[] = []
    servers.a.refuseRelay = (_from, to) => {
      if (to === servers.a.members[0]?.id) requests.push(to)
      return null
    }
    const joining = vi.spyOn(servers.a, 'addMember')
    let joinedAt = 0
    joining.mockImplementationOnce((...join) => {
      joinedAt = clock.now()
      joining.mockRestore()
      return servers.a.addMember(...join)
    })
    servers.b.nameElsewhere([A])
    await clock.until(() => isComplete(session))
    // One latency to the holder, and one back: that of the reply to the join is not waited for.
    expect(clock.now() - joinedAt).toBe(10)
    expect(requests).toHaveLength(1)
  })

  it('go to the other server if their own cannot be reached at all, and are at both when it is back', async () => {
    const publication = await file(3000)
    openAt(servers.a, publication.root, { publication })
    const line = servers.b.connect()
    const joinHome = line.join.bind(line)
    const joining = vi.spyOn(line, 'join').mockReturnValue({ isJoined: () => false, push: async () => ({ status: 'offline' }), leave() {} })
    // A proxy accepts the connection, and closes it.
    clock.after(1500, () => (line.state = 'offline'))
    const { session } = openAt(servers.b, publication.root, { at: () => [A] }, line)
    const closed = openAt(
      servers.b,
      publication.root,
      { at: () => [A] },
      Object.assign(servers.b.connect(), { state: 'offline', join: line.join }),
    )
    closed.session.close()
    await clock.until(() => isComplete(session))
    expect([session.state.presence.kind, servers.a.members.length]).toEqual(['joined', 2])
    const [name, names, events] = joining.mock.calls[0] ?? []
    joinHome(name as string, names as string[], events as TopicEvents)
    await clock.until(() => servers.b.members.length === 1 && servers.a.members.at(-1)?.id === servers.b.members[0]?.id)
    expect(servers.a.members).toHaveLength(2)
  })

  it('lose a page with its last holder, and have it again when one is back at either', async () => {
    const { publisher, sessions, root } = await three(12_000_000)
    await clock.until(() => sessions.every(({ state }) => state.progress.blocksDone > 2))
    publisher.session.close()
    await clock.until(() => sessions.every(({ state }) => state.phase === 'unavailable'))
    const publication = await file(12_000_000)
    expect(publication.root).toBe(root)
    openAt(servers.a, root, { publication })
    await clock.until(() => sessions.every(isComplete))
  })

  it('stay at their own server while it has the page, and meet at one that they know a second after it is lost', async () => {
    const publication = await file(12_000_000)
    const publisher = openAt(servers.b, publication.root, { publication, at: () => [A] })
    const reader = openAt(servers.b, publication.root, { at: () => [A] })
    await clock.until(() => reader.session.state.progress.blocksDone > 2)
    expect(servers.a.members).toHaveLength(0)
    const lostAt = clock.now()
    for (const { line } of [publisher, reader]) line.break(60_000)
    await clock.until(() => servers.a.members.length === 2)
    expect(clock.now() - lostAt).toBeLessThan(2_000)
    await clock.until(() => isComplete(reader.session))
    expect(reader.session.state.presence.kind).toBe('joined')
  })

  it('are joined where a link says that the page is, and share a connection until the last page is closed', async () => {
    const [one, other] = [await file(2000), await file(3000)]
    for (const publication of [one, other]) openAt(servers.a, publication.root, { publication })
    const line = servers.b.connect()
    const connecting = vi.spyOn(servers.a, 'connect')
    const sessions = [one, other].map(({ root }) => openAt(servers.b, root, { at: () => [A] }, line).session)
    await clock.until(() => sessions.every(isComplete))
    const [away, ...more] = connecting.mock.results.map(({ value }) => value as FakeConnection)
    const close = vi.spyOn(away as FakeConnection, 'close')
    sessions[0]?.close()
    expect([more, close.mock.calls.length, servers.a.members.length]).toEqual([[], 0, 3])
    sessions[1]?.close()
    expect([close.mock.calls.length, servers.a.members.length, servers.b.members.length]).toEqual([1, 2, 0])
  })
})
