import { defaultLimits, Exchange, SECOND, type HeadMessage, type Limits, type PeerId } from '../bitswap/index.ts'
import { dagBytesMax, MemoryBlockStore, problemSentence, type Cid, type ContentError } from '../content/index.ts'
import { swarm } from '../messages/swarm.ts'
import { browserBlockStore, type MakeBlockStore } from '../storage/index.ts'
import type { BlockMap, Listing, LiveFeed, LiveSource, PageDeps, PageFile, PageProblem, PageSession, PageState, Phase } from './api.ts'
import type { Clock } from './clock.ts'
import { ExchangeDriver } from './exchange-driver.ts'
import { firstMessage, FirstRequest } from './first-request.ts'
import type { LoadDirectConnections } from './lazy-direct-connections.ts'
import type { HeadExchange } from './live/index.ts'
import type { LoadTrace } from './load-trace.ts'
import { PageContent } from './page-content.ts'
import { PagePeers } from './page-peers.ts'
import { StateNotifier } from './state-notifier.ts'
import { browserClock } from './tab-clock.ts'
import { TopicMembership } from './topic-membership.ts'

/**
 * An open page. Connects its parts: the exchange and its driver, the content, the peers, the server's topic, and the
 * listener of the page's state.
 */
export class Session implements Omit<PageSession, 'root' | 'subscribe'> {
  readonly #clock: Clock
  readonly #exchange: Exchange
  readonly #content: PageContent
  readonly #peers: PagePeers
  readonly #driver: ExchangeDriver
  readonly #topic: TopicMembership
  /** `null` until the page turns out to be live. */
  #heads: HeadExchange | null = null
  readonly #notifier: StateNotifier
  readonly #isOurs: boolean
  /** `null`: this load is not traced. */
  readonly #trace: LoadTrace | null
  /** The request that went with the latest join. */
  #first: FirstRequest | null = null
  #failure: Error | null = null
  #isClosed = false

  constructor(root: Cid, deps: PageDeps, onState: (state: PageState) => void) {
    const { clock = browserClock, random = Math.random, limits } = deps
    const { pageBytesMax, blocksInFlightMax } = limits
    const isOver = () => this.#isOver
    const onProblem = (problem: PageProblem) => this.#addProblem(problem)
    const notify = () => this.#notify()
    /** Heads of a page that may turn out to be live. */
    const earlyHeads: [PeerId, HeadMessage][] = []
    this.#isOurs = deps.publication !== undefined
    this.#trace = this.#isOurs ? null : (deps.trace?.(limits.traceSample, clock, random) ?? null)
    this.#clock = clock
    this.#exchange = new Exchange(BigInt(Math.floor(random() * Number.MAX_SAFE_INTEGER)), exchangeLimits(blocksInFlightMax))
    const makeStore = deps.blocks ?? defaultStore
    const store = deps.publication?.store ?? makeStore(root, pageBytesMax, (ms, callback) => clock.after(ms, callback))
    // The publication of files can be opened again. That of a live page is over when its page is closed.
    const ownsStore = !deps.publication || deps.publication.live !== undefined
    this.#content = new PageContent(root, pageBytesMax, store, ownsStore, {
      isOver,
      handleInputs: (inputs) => this.#driver.handleAll(inputs),
      onHave: () => {
        this.#topic.announceHave()
        this.#reportTrace()
      },
      onProblem,
      onListed: notify,
      loadLive: deps.publication?.live ?? deps.live,
      onLive: (page, onChange) => {
        this.#heads = page.open({ store, bytesMax: pageBytesMax, clock, peers: this.#peers, onChange })
        for (const early of earlyHeads) this.#heads.receive(...early)
      },
      onFailure: (error) => this.#fail(error),
    })
    this.#peers = new PagePeers({
      clock,
      random,
      isOver,
      pageBytesMax,
      frameBytesMax: limits.relayFrameBytesMax,
      isPartOfPage: (cid) => this.#content.isPartOfPage(cid),
      isLarge: () => (this.#content.progress.bytesTotal ?? 0) >= DIRECT_FIRST_BYTES_MIN,
      push: (event, frame) => this.#topic.push(event, frame),
      stun: () => this.#topic.stun,
      loadDirect: deps.direct === undefined ? browserDirect : deps.direct,
      room: () => store.room(),
      handleInput: (input) => this.#driver.handle(input),
      onConnected: (member) => {
        this.#trace?.noteIntroduced()
        this.#driver.connect(member)
        this.#heads?.greet(member.peer.id)
      },
      onHeads: (peer, received) => {
        if (this.#heads !== null) {
          this.#heads.receive(peer, received)
          return
        }
        // Copies, because the message can be much longer.
        const heads = received.heads.map((head) => head.slice(0, EARLY_HEAD_BYTES_MAX))
        if (earlyHeads.length < EARLY_HEADS_MAX) earlyHeads.push([peer, { heads, vouched: [] }])
      },
      onConnecting: (peer) => this.#trace?.noteConnecting(peer),
      onDirect: (peer) => this.#trace?.noteConnected(peer),
      onProblem,
      onChange: notify,
      isLoading: () => this.#content.have !== 'all',
      onQuiet: () => void deps.connection.verify(),
    })
    this.#driver = new ExchangeDriver({
      clock,
      isOver,
      exchange: this.#exchange,
      peers: this.#peers,
      store,
      isClosed: () => this.#isClosed,
      isSource: () => this.#isSource,
      onBlock: (block, from) => {
        this.#trace?.noteBlock(from, block.data.length)
        return this.#content.storeBlock(block)
      },
      traceFor: (peer, message) => this.#trace?.placeFor(peer, message) ?? null,
      findProviders: () => this.#topic.requestMorePeers(),
      onSettled: notify,
    })
    this.#notifier = new StateNotifier(clock, () => this.state, onState)
    // First, so that the join says how much of the page is here.
    this.#content.findLocalBlocks()
    this.#topic = new TopicMembership(root, {
      connection: deps.connection,
      clock,
      random,
      isOver,
      have: () => this.#content.have,
      trace: () => this.#trace?.ofJoin ?? null,
      first: () => (this.#first = this.#requestFirst(root, exchangeLimits(blocksInFlightMax), random)),
      onJoined: (self, peers) => {
        this.#trace?.noteJoined(peers.length)
        this.#peers.replaceAll(self, peers, this.#first)
        // Its blocks may have been here before.
        this.#reportTrace()
      },
      peers: this.#peers,
      onChange: () => {
        this.#peers.noteCounts(this.#topic.counts)
        this.#notify()
      },
    })
    this.#content.start()
    this.#driver.start()
  }

  get state(): PageState {
    const { progress } = this.#content
    const { counts, presence } = this.#topic
    const lastAvailableAt = this.#topic.lastAvailableAt ?? this.#peers.holdersLostAt(counts)
    const { bytesIn, bytesOut } = this.#exchange.totals
    const phase = this.#phase
    const statusOf = (peer: PeerId) => this.#peers.status(peer, this.#exchange.peer(peer), progress.blocksTotal) ?? []
    return {
      phase,
      have: this.#content.have,
      presence,
      counts: this.#peers.correct(counts),
      progress,
      peers: this.#exchange.peers().flatMap(statusOf),
      receivedBytes: bytesIn,
      sentBytes: bytesOut,
      peersDropped: this.#peers.droppedCount,
      sinceAvailable: phase === 'unavailable' && lastAvailableAt !== null ? this.#clock.now() - lastAvailableAt : null,
      problems: this.#notifier.problems,
    }
  }

  blockMap(): BlockMap | null {
    const blocks = this.#isOver ? null : this.#content.blocks()
    return blocks === null ? null : this.#peers.blockMap(blocks)
  }

  listing(): Listing | null {
    return this.#content.listing()
  }

  file(path: string, options: { signal?: AbortSignal; type?: string } = {}): Promise<Blob> {
    return this.#content.file(path, options)
  }

  open(path: string, options: { signal?: AbortSignal } = {}): Promise<PageFile> {
    return this.#content.open(path, options)
  }

  live(): LiveFeed | null {
    return this.#content.live?.feed ?? null
  }

  async append(entry: LiveSource, options: { signal?: AbortSignal } = {}): Promise<void> {
    const live = await this.#content.begun
    if (!live) throw new Error('cannot append an entry: this page is not live')
    await live.append(entry, options)
    this.#notify()
  }

  close(): void {
    this.#isClosed = true
    this.#heads?.stop()
    this.#driver.stop()
    this.#topic.leave()
    this.#peers.close()
    this.#content.end(new DOMException(swarm('closed'), 'AbortError'))
    this.#notifier.close()
    this.#content.clear()
  }

  get #isOver(): boolean {
    return this.#isClosed || this.#failure !== null
  }

  /**
   * Whether this tab super-seeds: it has the only full copy, or it published the page and at most half of the viewers
   * are holders. If more are holders, a new viewer gets blocks from all of them, this tab included.
   */
  get #isSource(): boolean {
    const { have, progress } = this.#content
    if (have !== 'all' || (progress.bytesTotal ?? 0) < SUPER_SEEDING_BYTES_MIN) return false
    const { holders, watching } = this.#peers.correct(this.#topic.counts)
    return holders <= 1 || (this.#isOurs && holders * 2 <= watching)
  }

  /** Whether a peer has a full copy. The server counts holders for a while whose network is gone. `null` until it has counted. */
  get #isAvailable(): boolean | null {
    const { isAvailable, counts } = this.#topic
    return this.#peers.holdersLostAt(counts) === null ? isAvailable : false
  }

  #requestFirst(root: Cid, limits: Limits, random: () => number): FirstRequest | null {
    // A traced load sends its trace to each peer, in another message.
    if (!this.#content.needsRoot || this.#trace !== null) return null
    const message = firstMessage(root, limits)
    return message === null ? null : new FirstRequest(message, Math.floor(random() * 2 ** 32))
  }

  get #phase(): Phase {
    if (this.#failure !== null) return 'failed'
    const { have, isComplete, isStarted } = this.#content
    // Not before its files are known: a complete page without files would be an empty folder.
    if (isComplete) return this.#content.isListed ? 'complete' : 'loading'
    if (isStarted && this.#isAvailable === false && !this.#exchange.isAnythingAvailable) return 'unavailable'
    return have === 'some' ? 'loading' : 'searching'
  }

  /** Reports the spans of this load to the server, once the page is complete. */
  #reportTrace(): void {
    if (this.#trace === null || this.#content.have !== 'all' || this.#topic.presence.kind !== 'joined') return
    const report = this.#trace.report()
    if (report !== null) this.#topic.report(report)
  }

  #notify(): void {
    const isWatched = this.#content.live?.hasNews === true
    this.#notifier.notify(this.#phase, this.#topic.presence, () => this.#content.settleFiles(), isWatched)
  }

  #addProblem(problem: PageProblem): void {
    this.#notifier.addProblem(problem)
    this.#notify()
  }

  #fail(error: ContentError): void {
    if (this.#failure !== null) return
    this.#failure = error
    this.#content.end(error)
    this.#peers.removeAll()
    this.#addProblem({ fatal: true, sentence: problemSentence(error.problem) })
  }
}

/** A smaller page is not super-seeded: it has so few blocks that its viewers have little to exchange. */
const SUPER_SEEDING_BYTES_MIN = 3 << 20

/** A page of this size is worth the time that a direct connection takes to come up. */
const DIRECT_FIRST_BYTES_MIN = 8 << 20

/** Messages with heads that are kept until the page turns out to be live. Further ones are dropped, as in the exchange of heads. */
const EARLY_HEADS_MAX = 64
/** Longer than a valid head. */
const EARLY_HEAD_BYTES_MAX = 256

/** The length of a file's block. The server's limit says how many of them to request from one peer at a time. */
const BLOCK_BYTES = 1 << 20

/**
 * A block has a mebibyte, and a tab with ten viewers sends several at a time. After one second of silence, the block is often on
 * its way already. It would arrive twice if another peer were asked.
 */
const RESPONSE_TIMEOUT = 3 * SECOND

function exchangeLimits(blocksInFlightMax: number): Limits {
  const windowBytesMax = Math.max(defaultLimits.windowBytesMin, blocksInFlightMax * BLOCK_BYTES)
  return {
    ...defaultLimits,
    windowBytesMax,
    requestedBytesMax: 32 << 20,
    responseTimeout: RESPONSE_TIMEOUT,
    // A person looks at the page, so the tab asks the server for more peers at least every ten seconds.
    searchIntervalMax: 10 * SECOND,
  }
}

/** Outside of browsers, blocks stay in memory. */
const defaultStore: MakeBlockStore =
  typeof Worker === 'function' ? browserBlockStore : (_root, pageBytesMax) => new MemoryBlockStore(dagBytesMax(pageBytesMax))

/** WebRTC, if the browser has it. */
const browserDirect: LoadDirectConnections | null =
  typeof RTCPeerConnection === 'function'
    ? () => import('./direct/index.ts').then(({ browserDirectConnections }) => browserDirectConnections)
    : null
