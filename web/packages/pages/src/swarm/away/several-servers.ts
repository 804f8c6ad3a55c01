import type { Connection, Reply, Topic } from '@watchfire/client/connection'
import { peerOf, RecentSet, type PeerId } from '../../bitswap/index.ts'
import { fieldsOf } from '../../limits/fields.ts'
import type { Counts } from '../api.ts'
import type { Clock, Millis } from '../clock.ts'
import type { FirstRequest } from '../page-protocol.ts'
import type { JoinedPage } from '../page-topic.ts'
import { EVENTS, readCounts, readJoinReply, readPeerInfo, readPeerList } from '../server-messages.ts'
import { browserClock } from '../tab-clock.ts'
import { openConnection, originOf, releaseConnection } from './connections.ts'

/** The length of the peer id at the start of a frame. */
const PEER_BYTES = 8
/** Other servers that a page joins. When the limit is reached, further ones are ignored. */
const SERVERS_MAX = 3
/** Names of servers that are looked at, of a longer list. */
const NAMES_MAX = 16
/** Peers of one server that are remembered. When the limit is reached, the one that was named first is forgotten. */
const PEERS_MAX = 256
/**
 * Peers of the page that its own server has not named. A page has 64 peers. When the limit is reached, further ones are ignored, so that
 * other servers leave room for those of the own one.
 */
const STRANGERS_MAX = 48
/** A server drops a client that has sent nothing for a minute. Until then, the earlier connection of this tab may have its id. */
const ID_TAKEN: Millis = 60_000
/** When the own server is lost or was not reached for this long, the page goes to those that its caller names. */
const LOST_MAX: Millis = 1_000

/** The topic of a server that is not joined yet. */
const NO_TOPIC: Topic = { isJoined: () => false, push: async () => ({ status: 'offline' }), leave() {} }
const NONE: Counts = { watching: 0, holders: 0, partial: 0, nodes: { watching: 0, holders: 0, partial: 0 } }

/** A server at which the page is joined, or is to be. */
interface Server {
  topic: Topic
  isJoined: boolean
  /** Whether it ever was joined. */
  wasJoined: boolean
  readonly peers: RecentSet<PeerId>
  counts: Counts
}

interface OtherServer extends Server {
  readonly origin: string
  readonly connection: Connection
}

/**
 * A page that is joined at its own server and at others. For the page, they are one server: this tab is one peer at all of them, each
 * message goes to the server where its receiver is, and an event counts if no other server contradicts it. The page is lost only when no
 * server has it joined.
 */
export class SeveralServers implements Topic {
  readonly #page: JoinedPage
  readonly #clock: Clock
  readonly #home: Server
  /** By their origins. */
  readonly #others = new Map<string, OtherServer>()
  /** The key and the id of the latest join at home, or of the first join of all. `null` once the page is left. */
  #self: { readonly key: string; readonly id: PeerId | null } | null = null
  /** The own server has refused the page, so it is not looked for elsewhere. */
  #isRefused = false
  /** The latest list of the own server, which can be anything. */
  #named: readonly unknown[] = []
  /** Servers that have nobody or block the page. It goes there again when the own server sends another list. */
  readonly #left = new Set<string>()

  /** Handles the events of the page's own server from now on. */
  constructor(page: JoinedPage) {
    const { home, key, protocol, topic, deps } = page
    const { self, peers, counts } = protocol
    const isJoined = topic.isJoined()
    this.#page = page
    this.#clock = deps.clock ?? browserClock
    this.#home = { topic, isJoined, wasJoined: isJoined, peers: new RecentSet(PEERS_MAX), counts: counts.counts }
    for (const peer of peers.keys()) this.#home.peers.add(peer)
    if (isJoined) this.#self = { key, id: self }
    else this.#clock.after(LOST_MAX, this.#giveUpHome)
    home.joined = (response) => this.#handleHome(response)
    home.refused = (response) => this.#handleRefused(response)
    home.lost = () => this.#lose(this.#home)
    home.message = (event, payload) => this.#receive(this.#home, event, payload)
  }

  /** The own server has named these servers. The list can be anything. */
  setServers(list: unknown): void {
    // Without a list, its caller names others.
    if (list !== undefined) {
      this.#named = Array.isArray(list) ? list : []
      this.#left.clear()
    }
    this.#join()
  }

  /**
   * Joins the page at the servers that its own server names, and if that is lost or nobody has all of the page, also at those that its
   * caller names. The page stays joined at those that are named no more. When the limit is reached, one where nobody is makes room.
   */
  readonly #join = (): void => {
    if (this.#self === null) return
    const at = this.#page.deps.at?.(this.#join) ?? []
    const isNeeded = !this.#home.isJoined || this.#counts.holders === 0
    const named = [...this.#named, ...(isNeeded ? at : [])]
    const origins = [...new Set(named.slice(0, NAMES_MAX).flatMap((each) => originOf(each) ?? []))]
    for (const [origin, { wasJoined }] of this.#others) if (!wasJoined && !origins.includes(origin)) this.#close(origin)
    for (const origin of origins) {
      if (this.#others.has(origin) || this.#left.has(origin)) continue
      if (this.#others.size >= SERVERS_MAX) {
        const isEmpty = ({ wasJoined, counts, peers }: Server) => wasJoined && counts.holders === 0 && peers.size === 0
        const empty = [...this.#others.values()].find(isEmpty)
        if (empty === undefined) return
        this.#giveUp(empty)
      }
      const connection = openConnection(this.#page.deps.connection, origin)
      if (connection === null) continue
      const server = {
        origin,
        connection,
        topic: NO_TOPIC,
        isJoined: false,
        wasJoined: false,
        peers: new RecentSet<PeerId>(PEERS_MAX),
        counts: NONE,
      }
      this.#others.set(origin, server)
      this.#joinAt(server)
    }
  }

  /** Goes elsewhere without having joined at home, if that was not reached. */
  readonly #giveUpHome = (): void => {
    const { home, deps, protocol } = this.#page
    if (this.#self !== null || this.#isRefused || protocol.isOver) return
    // A proxy may have accepted the connection for a server that is gone.
    if (deps.connection.state === 'open') return void this.#clock.after(LOST_MAX, this.#giveUpHome)
    // Makes a key.
    home.params()
    this.#self = { key: this.#page.key, id: null }
    this.#join()
  }

  isJoined(): boolean {
    return this.#joined.length > 0
  }

  async push(event: string, payload: Record<string, unknown> | Uint8Array): Promise<Reply> {
    if (payload instanceof Uint8Array) return this.#send(event, payload)
    // Traces are those of the own server.
    const to = event === 'trace' ? [this.#home] : this.#joined
    let isAnswered = false
    const replies = to.map(async (server): Promise<Reply> => {
      const reply = await server.topic.push(event, payload)
      if (reply.status !== 'ok') return Promise.reject(reply)
      const peers = readPeerList(reply.response).filter(({ peer }) => server.isJoined && this.#note(server, peer))
      // The page does not wait for a slow server, and learns of its peers later.
      if (isAnswered) for (const peer of peers) this.#page.events.message('peer_joined', peer)
      isAnswered = true
      return { status: 'ok', response: { peers } }
    })
    return Promise.any(replies).catch(({ errors: [reply] }: AggregateError) => reply ?? { status: 'offline' })
  }

  leave(): void {
    this.#self = null
    this.#home.isJoined = false
    this.#home.topic.leave()
    for (const origin of this.#others.keys()) this.#close(origin)
  }

  verify(): void {
    for (const { connection } of this.#others.values()) void connection.verify()
  }

  /** Those that have the page joined now, first the page's own. */
  get #joined(): Server[] {
    return [this.#home, ...this.#others.values()].filter(({ isJoined }) => isJoined)
  }

  #giveUp({ origin }: OtherServer): void {
    this.#left.add(origin)
    this.#close(origin)
  }

  #close(origin: string): void {
    const server = this.#others.get(origin)
    if (server === undefined) return
    this.#others.delete(origin)
    server.isJoined = false
    server.topic.leave()
    releaseConnection(this.#page.deps.connection, origin)
  }

  /** The page was joined at home: as a new peer, which it then is at the other servers too. */
  #handleHome(response: unknown): void {
    const { self, peers, counts } = readJoinReply(response)
    const { key, events, protocol } = this.#page
    const wasElsewhere = this.#joined.length > 0
    this.#self = { key, id: self }
    this.#enter(this.#home, counts)
    for (const { peer } of peers) this.#note(this.#home, peer)
    for (const server of this.#others.values()) this.#joinAt(server)
    events.joined(response)
    // Changes during the join were told to the other servers alone.
    if (wasElsewhere) void this.#home.topic.push('have', { have: protocol.have })
    this.setServers(fieldsOf(response)['elsewhere'] ?? [])
  }

  #handleRefused(response: unknown): void {
    const { events } = this.#page
    this.#isRefused = true
    if (this.#joined.length === 0) events.refused(response)
    // The operator has blocked the page. This tab leaves it everywhere.
    else if (fieldsOf(response)['reason'] === 'denied') events.message('denied', {})
  }

  /** Joins the page at another server, or joins it again with another key. */
  #joinAt(server: OtherServer): void {
    const { name, protocol, events } = this.#page
    let announced = protocol.have
    let first: FirstRequest | null = null
    server.topic.leave()
    this.#clear(server)
    server.topic = server.connection.join(name, EVENTS, {
      params: () => {
        // Forgets the request that went with an earlier join here. Traces are those of the own server.
        if (first !== null) events.params()
        announced = protocol.have
        return { have: announced, peer_key: this.#self?.key }
      },
      first: () => {
        // To the first server alone, and while nobody is known who has any of the page: otherwise its first block would arrive twice.
        const { holders, partial } = this.#counts
        const isFirst = this.#others.values().next().value === server
        const request = holders + partial === 0 && isFirst ? events.first() : null
        first = request?.first ?? null
        return request
      },
      joined: (response) => {
        this.#handleJoined(server, response, first)
        if (announced !== protocol.have) void server.topic.push('have', { have: protocol.have })
      },
      refused: (response) => fieldsOf(response)['reason'] === 'denied' && this.#giveUp(server),
      lost: () => this.#lose(server),
      message: (event, payload) => server.isJoined && this.#receive(server, event, payload),
    })
  }

  #handleJoined(server: OtherServer, response: unknown, first: FirstRequest | null): void {
    const { self, peers, counts } = readJoinReply(response)
    const { events } = this.#page
    const isFirst = this.#joined.length === 0
    if (this.#self === null || (self !== this.#self.id && (self === null || !isFirst))) {
      // As two peers, this tab would count twice. The server has it as one already: that connection is gone, or is the one to home.
      server.topic.leave()
      const { topic, wasJoined } = server
      if (wasJoined) this.#clock.after(ID_TAKEN, () => server.topic === topic && this.#self !== null && this.#joinAt(server))
      return
    }
    this.#self = { key: this.#self.key, id: self }
    this.#enter(server, counts)
    if (first !== null) first.peer = peers.find(({ have }) => have === 'all')?.peer ?? null
    // They are noted before they are reported, because messages to them may follow immediately.
    for (const peer of peers) if (this.#note(server, peer.peer) && !isFirst) events.message('peer_joined', peer)
    const { stun } = fieldsOf(response)
    // Without a host, it would be the one of home, which is lost.
    if (isFirst)
      events.joined(stun ? { ...fieldsOf(response), stun: { host: new URL(server.origin).hostname, ...fieldsOf(stun) } } : response)
    else this.#reportCounts()
  }

  #enter(server: Server, counts: Counts | null): void {
    this.#clear(server)
    server.isJoined = true
    server.wasJoined = true
    server.counts = counts ?? NONE
  }

  /** A server has named a peer, or has brought a frame of it. Returns whether there is room for the peer. */
  #note(server: Server, peer: PeerId): boolean {
    const { peers } = this.#page.protocol
    const isStranger = (id: PeerId) => !this.#home.peers.has(id)
    const isNew = server !== this.#home && !peers.has(peer)
    if (isNew && [...peers.keys()].filter(isStranger).length >= STRANGERS_MAX) return false
    server.peers.add(peer)
    return true
  }

  /** A server is lost, and with it the peers that only it has named. */
  #lose(server: Server): void {
    const { events, protocol } = this.#page
    if (!server.isJoined) return
    this.#clear(server)
    if (server === this.#home) this.#clock.after(LOST_MAX, this.#join)
    if (this.#joined.length === 0) {
      events.lost()
      return
    }
    for (const peer of [...protocol.peers.keys()]) if (!this.#isKnown(peer)) events.message('peer_left', { peer })
    this.#reportCounts()
  }

  #clear(server: Server): void {
    server.isJoined = false
    server.peers.clear()
    server.counts = NONE
  }

  #isKnown(peer: PeerId): boolean {
    return this.#joined.some(({ peers }) => peers.has(peer))
  }

  #receive(server: Server, event: string, payload: unknown): void {
    if (event === 'elsewhere') {
      if (server === this.#home) this.setServers(fieldsOf(payload)['servers'])
      return
    }
    const isFrame = payload instanceof ArrayBuffer && payload.byteLength >= PEER_BYTES
    const peer = isFrame ? peerOf(payload) : (readPeerInfo(payload)?.peer ?? null)
    if (event === 'peer_left' && peer !== null) {
      server.peers.delete(peer)
      if (this.#isKnown(peer)) return
    }
    if (event !== 'peer_left' && peer !== null && !this.#note(server, peer)) return
    if (event === 'denied' && server !== this.#home) {
      this.#lose(server)
      return
    }
    const { holders } = server.counts
    if (event === 'counts') server.counts = readCounts(payload) ?? server.counts
    else if (event === 'available') server.counts = { ...server.counts, holders: Math.max(1, holders) }
    else if (event === 'unavailable') {
      server.counts = { ...server.counts, holders: 0 }
      if (this.#counts.holders > 0) return
      this.#join()
    }
    this.#page.events.message(event, event === 'counts' ? { ...fieldsOf(payload), ...this.#counts } : payload)
  }

  #reportCounts(): void {
    this.#page.events.message('counts', this.#counts)
  }

  /**
   * The largest of each count, of tabs and of nodes: a tab that is at several servers counts at each, and this one cannot tell how many
   * are.
   */
  get #counts(): Counts {
    const all = [this.#home, ...this.#others.values()].map(({ counts }) => counts)
    const nodesBy = (of: keyof Counts['nodes']) => Math.max(...all.map(({ nodes }) => nodes[of]))
    const largest = (of: keyof Counts['nodes']) => nodesBy(of) + Math.max(...all.map((counts) => counts[of] - counts.nodes[of]))
    const [watching, holders] = [largest('watching'), largest('holders')]
    const nodes = { watching: nodesBy('watching'), holders: nodesBy('holders'), partial: nodesBy('partial') }
    return { watching, holders, partial: Math.min(watching - holders, largest('partial')), nodes }
  }

  /** Sends a frame to the server at which its receiver is. If that has lost the peer, another one may have it. */
  async #send(event: string, frame: Uint8Array): Promise<Reply> {
    const to = peerOf(frame.slice(0, PEER_BYTES).buffer)
    const known = this.#joined.filter(({ peers }) => peers.has(to))
    let reply: Reply = { status: 'offline' }
    for (const server of known.length > 0 ? known : [this.#home]) {
      reply = await server.topic.push(event, frame)
      const isGone = reply.status === 'offline' || (reply.status === 'error' && fieldsOf(reply.response)['reason'] === 'peer gone')
      if (!isGone) break
      server.peers.delete(to)
    }
    return reply
  }
}
