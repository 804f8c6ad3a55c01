import {
  defaultLimits,
  encodeMessage,
  Exchange,
  MessageError,
  MILLI,
  receiveMessage,
  requestsBlocks,
  SECOND,
  type HeadMessage,
  type Input,
  type Limits,
  type Output as ExchangeOutput,
  type PeerId,
  type ReceivedWithHeads,
  type WantEntry,
} from '../bitswap/index.ts'
import {
  dagBytesMax,
  MemoryBlockStore,
  problemSentence,
  type BlockStore,
  type Bytes,
  type Cid,
  type ContentError,
} from '../content/index.ts'
import { swarm } from '../messages/swarm.ts'
import { browserBlockStore, type MakeBlockStore } from '../storage/index.ts'
import type {
  BlockMap,
  Listing,
  LiveFeed,
  LiveSource,
  PageDeps,
  PageFile,
  PageProblem,
  PageSession,
  PageState,
  PeerStatus,
  Phase,
} from './api.ts'
import { BlockAvailability, mapBlocks } from './block-availability.ts'
import { Alarm, type Clock, type Millis } from './clock.ts'
import type { LoadDirectConnections } from './direct-paths.ts'
import { LazyDirectConnections } from './direct/lazy-connections.ts'
import type { HeadExchange, LivePage } from './live/index.ts'
import type { LoadTrace } from './load-trace.ts'
import { PageContent } from './page-content.ts'
import { PageProtocol, QUIET_MAX, type Output } from './page-protocol.ts'
import { joinPage, type JoinedPage, type PageEvents } from './page-topic.ts'
import type { StunServer } from './server-messages.ts'
import { StateNotifier } from './state-notifier.ts'
import { SuperSeeding } from './super-seeding.ts'
import { browserClock } from './tab-clock.ts'

/** A smaller page is not super-seeded: it has so few blocks that its viewers have little to exchange. */
const SUPER_SEEDING_BYTES_MIN = 3 << 20
/** Messages with heads that are kept until the page turns out to be live. Further ones are dropped, as in the exchange of heads. */
const EARLY_HEADS_MAX = 64
/** Longer than a valid head. */
const EARLY_HEAD_BYTES_MAX = 256
/** The priority of the first block that an exchange requests, if no reader waits for it. */
const FIRST_PRIORITY = 2 ** 31 - 1 - 64
/** The length of a file's block. The server's limit says how many of them to request from one peer at a time. */
const BLOCK_BYTES = 1 << 20
/**
 * A block has a mebibyte, and a tab with ten viewers sends several at a time. After one second of silence, the block is often on
 * its way already. It would arrive twice if another peer were asked.
 */
const RESPONSE_TIMEOUT = 3 * SECOND
/** When the tab was busy, messages may be waiting that it has not read, so peers must not time out yet. */
const EXTRA_WAIT_MAX: Millis = 5000

/**
 * An open page: drives the page protocol and the exchange, and has the socket's topic, the direct connections, the clock and the store.
 * Each event is an input of one of the two; their outputs are performed until neither has another.
 */
export class PageClient implements Omit<PageSession, 'root' | 'subscribe'> {
  readonly #clock: Clock
  readonly #protocol: PageProtocol
  readonly #exchange: Exchange
  readonly #store: BlockStore
  readonly #content: PageContent
  readonly #superSeeding: SuperSeeding
  readonly #availability: BlockAvailability
  readonly #joined: JoinedPage
  /** `null`: none. */
  readonly #direct: LazyDirectConnections | null
  readonly #notifier: StateNotifier
  readonly #isOurs: boolean
  /** `null`: this load is not traced. */
  readonly #trace: LoadTrace | null
  /** Gets the messages of peers as well. */
  readonly #onMessage: ReturnType<NonNullable<PageDeps['peers']>> | undefined
  /** `null` until the page turns out to be live. */
  #heads: HeadExchange | null = null
  /** Heads of a page that may turn out to be live. */
  readonly #earlyHeads: [PeerId, HeadMessage][] = []
  /** Inputs of the exchange that wait until it has handled the earlier ones. */
  #inputs: Input[] = []
  #isSettling = true
  readonly #exchangeAlarm: Alarm
  readonly #protocolAlarm: Alarm
  /** For each peer, its messages so far are decoded. Hashing is asynchronous. */
  readonly #decoding = new Map<PeerId, Promise<void>>()
  /** Peers dropped because they misbehaved. */
  #peersDropped = 0
  #failure: Error | null = null
  #isClosed = false

  constructor(root: Cid, deps: PageDeps, onState: (state: PageState) => void) {
    const { clock = browserClock, random = Math.random, publication, limits } = deps
    const { pageBytesMax } = limits
    const bitswapLimits = exchangeLimits(limits.blocksInFlightMax)
    this.#clock = clock
    this.#isOurs = publication !== undefined
    this.#trace = this.#isOurs ? null : (deps.trace?.(limits.traceSample, clock, random) ?? null)
    this.#notifier = new StateNotifier(clock, () => this.state, onState)
    this.#exchangeAlarm = new Alarm(clock, () => this.#handle([{ kind: 'tick' }]), EXTRA_WAIT_MAX)
    this.#protocolAlarm = new Alarm(clock, (now) => this.#run((protocol) => protocol.handleTick(now)))
    this.#exchange = new Exchange(BigInt(Math.floor(random() * Number.MAX_SAFE_INTEGER)), bitswapLimits)
    const makeStore = deps.blocks ?? defaultStore
    this.#store = publication?.store ?? makeStore(root, pageBytesMax, (ms, callback) => clock.after(ms, callback))
    // The publication of files can be opened again. That of a live page is over when its page is closed.
    const ownsStore = !publication || publication.live !== undefined
    this.#content = new PageContent(root, pageBytesMax, this.#store, ownsStore, {
      isOver: () => this.#isOver,
      handleInputs: (inputs) => this.#handle(inputs),
      onHave: () => this.#run(() => this.#noteHave()),
      onProblem: (problem) => this.#addProblem(problem),
      onListed: () => this.#notify(),
      loadLive: publication?.live ?? deps.live,
      onLive: (page, onChange) => this.#openLive(page, pageBytesMax, onChange),
      onFailure: (error) => this.#fail(error),
    })
    this.#availability = new BlockAvailability((cid) => this.#content.isPartOfPage(cid))
    this.#superSeeding = new SuperSeeding({
      clock,
      isSource: () => this.#isSource,
      release: (cid, length) => this.#handle([{ kind: 'stored', cid, length }]),
    })
    const load = deps.direct === undefined ? browserDirect : deps.direct
    this.#direct =
      load &&
      new LazyDirectConnections(load, {
        clock,
        random,
        self: () => this.#protocol.self,
        stun: () => stunUrls(this.#protocol.stun),
        send: (to, signal) => new Promise((resolve) => this.#run((protocol, now) => protocol.sendSignal(now, to, signal, resolve))),
        emit: (event) => {
          if (event.kind === 'up') this.#trace?.noteConnected(event.peer)
          const now = clock.now()
          this.#protocol.handleDirect(now, event)
          // Most segments are one of many in a message. They have no outputs, and the alarm for silence is set already.
          if (event.kind !== 'segment' || this.#protocol.hasOutputs || this.#protocolAlarm.at > now + QUIET_MAX) this.#settle()
        },
      })
    if (this.#direct !== null) globalThis.addEventListener?.('pagehide', this.#closeDirect)
    this.#protocol = new PageProtocol({ random, pageBytesMax, frameBytesMax: limits.relayFrameBytesMax, direct: this.#direct })
    this.#onMessage = deps.peers?.(root.text, (peer, message) => this.#run((protocol, now) => protocol.send(now, peer, message)))
    // First, so that the join says how much of the page is here.
    this.#content.findLocalBlocks()
    this.#noteHave()
    const events: PageEvents = {
      params: () => ({ ...this.#protocol.joinParams(), ...(this.#trace && { traceparent: this.#trace.ofJoin }) }),
      first: () => {
        // A traced load sends its trace to each peer, in another message.
        if (!this.#content.needsRoot || this.#trace !== null) return null
        const request = this.#protocol.requestFirst(firstMessage(root))
        return { event: 'relay', ...request, settle: (reply) => this.#run((_protocol, now) => request.settle(now, reply)) }
      },
      joined: (response) => this.#run((protocol, now) => protocol.handleJoined(now, response)),
      refused: (response) => this.#run((protocol) => protocol.handleRefused(response)),
      lost: () => this.#run((protocol, now) => protocol.handleLost(now)),
      message: (event, payload) => this.#run((protocol, now) => protocol.handleEvent(now, event, payload)),
    }
    this.#joined = joinPage(`page:${root.key}`, this.#protocol, events, deps)
    this.#content.start()
    this.#isSettling = false
    this.#settle()
  }

  get state(): PageState {
    const { progress } = this.#content
    const { counts, lastAvailableAt } = this.#protocol.counts
    const { bytesIn, bytesOut } = this.#exchange.totals
    const phase = this.#phase
    return {
      phase,
      have: this.#content.have,
      presence: this.#protocol.presence,
      counts,
      progress,
      peers: this.#exchange.peers().flatMap((peer) => this.#statusOf(peer, progress.blocksTotal) ?? []),
      receivedBytes: bytesIn,
      sentBytes: bytesOut,
      peersDropped: this.#peersDropped,
      sinceAvailable: phase === 'unavailable' && lastAvailableAt !== null ? this.#clock.now() - lastAvailableAt : null,
      problems: this.#notifier.problems,
    }
  }

  #statusOf(id: PeerId, blocksTotal: number | null): PeerStatus | null {
    const peer = this.#protocol.peers.get(id)
    const totals = this.#exchange.peer(id)
    if (peer === undefined || totals === null) return null
    return {
      id,
      kind: peer.kind,
      have: peer.have,
      path: peer.isDirect ? 'direct' : 'relay',
      direct: this.#protocol.directStatus(id),
      blocks: this.#availability.countOf(id, blocksTotal),
      receivedBytes: totals.bytesIn,
      sentBytes: totals.bytesOut,
      bytesPerSecond: totals.bytesPerSecond,
    }
  }

  blockMap(): BlockMap | null {
    const blocks = this.#isOver ? null : this.#content.blocks()
    const { peers } = this.#protocol
    return blocks && mapBlocks(blocks.cids, blocks.isHere, this.#availability, (peer) => peers.get(peer)?.kind === 'node')
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
    this.#notifier.stop()
    this.#heads?.stop()
    this.#superSeeding.stop()
    this.#joined.topic.leave()
    this.#end()
    this.#direct?.close()
    globalThis.removeEventListener?.('pagehide', this.#closeDirect)
    this.#exchangeAlarm.stop()
    this.#protocolAlarm.stop()
    this.#content.end(new DOMException(swarm('closed'), 'AbortError'))
    this.#content.clear()
  }

  readonly #closeDirect = () => this.#direct?.closeAll()

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
    const { holders, watching } = this.#protocol.counts.counts
    return holders <= 1 || (this.#isOurs && holders * 2 <= watching)
  }

  get #phase(): Phase {
    if (this.#failure !== null) return 'failed'
    const { have, isComplete, isStarted } = this.#content
    // Not before its files are known: a complete page without files would be an empty folder.
    if (isComplete) return this.#content.isListed ? 'complete' : 'loading'
    if (isStarted && this.#protocol.counts.isAvailable === false && !this.#exchange.isAnythingAvailable) return 'unavailable'
    return have === 'some' ? 'loading' : 'searching'
  }

  /** Passes inputs to the exchange. */
  #handle(inputs: readonly Input[]): void {
    for (const input of inputs) {
      this.#superSeeding.handleInput(input)
      this.#availability.handleInput(input)
      this.#inputs.push(input)
    }
    this.#settle()
  }

  /** Passes an input to the protocol. */
  #run(handle: (protocol: PageProtocol, now: Millis) => void): void {
    handle(this.#protocol, this.#clock.now())
    this.#settle()
  }

  /**
   * Handles all inputs, and performs all outputs. Inputs of the exchange that follow from an output are handled before its next output.
   */
  #settle(): void {
    if (this.#isSettling) return
    this.#isSettling = true
    for (;;) {
      const now = Math.round(this.#clock.now() * MILLI)
      for (const input of this.#inputs.splice(0)) this.#exchange.handle(now, input)
      const output = this.#protocol.pollOutput()
      const ofExchange = output === null ? this.#exchange.pollOutput() : null
      if (output !== null) this.#perform(output)
      else if (ofExchange !== null) this.#performExchange(ofExchange)
      else break
    }
    this.#isSettling = false
    if (this.#isClosed) return
    // An early tick does no harm.
    this.#exchangeAlarm.set((this.#exchange.nextWake() ?? Infinity) / MILLI)
    this.#protocolAlarm.set(this.#protocol.nextWake())
    this.#notify()
  }

  #perform(output: Output): void {
    switch (output.kind) {
      case 'push':
        void this.#joined.topic
          .push(output.event, output.payload)
          .then((reply) => this.#run((protocol, now) => protocol.handleReply(now, output.ref, reply)))
        return
      case 'leave':
        this.#joined.topic.leave()
        return
      case 'joined':
        this.#trace?.noteJoined(output.peers)
        // Its blocks may have been here before.
        this.#reportTrace()
        return
      case 'connected':
        this.#connect(output.peer)
        return
      case 'disconnected':
        if (!this.#protocol.peers.has(output.peer)) this.#decoding.delete(output.peer)
        this.#handle([output])
        return
      case 'message':
        this.#handle([output])
        if (output.heads.length > 0) this.#handleHeads(output.peer, output)
        return
      case 'partial-message':
      case 'acknowledged':
      case 'path':
      case 'providers':
        this.#handle([output])
        return
      case 'have':
        this.#availability.setHave(output.peer, output.have)
        return
      case 'dropped':
        this.#peersDropped++
        this.#addProblem({ fatal: false, sentence: swarm(output.reason) })
        return
      case 'decode':
        this.#decode(output)
        return
      case 'sent':
        this.#availability.noteSent(output.peer, output.blocks)
        for (const cid of output.blocks) this.#superSeeding.noteSent(output.peer, cid)
        this.#handle([{ kind: 'writable', peer: output.peer, roomBytes: this.#protocol.peers.get(output.peer)?.roomBytes ?? 0 }])
        return
      case 'calling':
        this.#trace?.noteConnecting(output.peer)
        return
      case 'quiet':
        void this.#joined.deps.connection.verify()
        this.#joined.topic.verify?.()
        return
    }
  }

  #connect(peer: PeerId): void {
    const found = this.#protocol.peers.get(peer)
    if (found === undefined) return
    this.#trace?.noteIntroduced()
    this.#handle([
      { kind: 'connected', peer, isProvider: found.have === 'all' },
      { kind: 'acknowledged', peer, messages: 0 },
      { kind: 'path', peer, isDirect: found.isDirect },
      { kind: 'writable', peer, roomBytes: found.roomBytes },
    ])
    this.#heads?.greet(peer)
  }

  /** Decodes a message after the earlier ones of its peer, and once the store has room for its blocks. */
  #decode({ peer, bytes, ref }: Output & { kind: 'decode' }): void {
    this.#onMessage?.(peer, bytes)
    const earlier = this.#decoding.get(peer)
    const decode = async () => {
      await earlier
      await this.#store.room()
      const received = await receive(bytes)
      this.#run((protocol, now) => protocol.handleDecoded(now, ref, received))
    }
    this.#decoding.set(peer, decode())
  }

  #performExchange(output: ExchangeOutput): void {
    if (this.#isOver) return
    switch (output.kind) {
      case 'send':
        this.#send(output)
        return
      case 'lookup': {
        const { cid } = output
        const length = this.#superSeeding.isHeldBack(cid) ? null : this.#store.size(cid)
        this.#inputs.push({ kind: 'lookup-result', cid, length })
        return
      }
      case 'read':
        this.#read(output.peer, output.cid)
        return
      case 'block-received':
        this.#trace?.noteBlock(output.from, output.block.data.length)
        this.#content.storeBlock(output.block)
        return
      case 'find-providers':
        this.#protocol.findProviders()
        return
      case 'drop-peer':
        this.#protocol.ban(this.#clock.now(), output.peer, output.reason)
        return
    }
  }

  #send({ peer, message, blocks }: ExchangeOutput & { kind: 'send' }): void {
    const bytes = encodeMessage(message, blocks, this.#trace?.placeFor(peer, message) ?? null)
    const cids = blocks.map(({ cid }) => cid)
    this.#protocol.send(this.#clock.now(), peer, bytes, cids, requestsBlocks(message))
  }

  #read(peer: PeerId, cid: Cid): void {
    if (this.#superSeeding.isHeldBackFrom(peer, cid)) {
      this.#inputs.push({ kind: 'read', peer, cid, block: null })
      return
    }
    this.#superSeeding.noteSending(peer, cid, this.#store.size(cid) ?? 0)
    // The store has reported why a block cannot be read. Peers get DONT_HAVE.
    const read = async () => this.#store.read(cid)
    void read()
      .then(
        (data) => ({ cid, data }),
        () => null,
      )
      .then((block) => this.#handle([{ kind: 'read', peer, cid, block }]))
  }

  /** The part of the page that is here may have changed. */
  #noteHave(): void {
    const { blocksDone, bytesTotal } = this.#content.progress
    // The root is here. A live page has its heads by now.
    if (blocksDone > 0) this.#earlyHeads.length = 0
    this.#protocol.setHave(this.#content.have, bytesTotal)
    this.#reportTrace()
  }

  /** Reports the spans of this load to the server, once the page is complete. */
  #reportTrace(): void {
    if (this.#trace === null || this.#content.have !== 'all' || this.#protocol.presence.kind !== 'joined') return
    const report = this.#trace.report()
    if (report !== null) void this.#joined.topic.push('trace', report)
  }

  #openLive(page: LivePage, bytesMax: number, onChange: () => void): void {
    const peers = {
      ids: () => [...this.#protocol.peers.keys()],
      // A peer that cannot be reached any more gets the heads when it is back.
      send: (peer: PeerId, message: Bytes) => this.#run((protocol, now) => protocol.send(now, peer, message)),
      drop: (peer: PeerId) => this.#run((protocol, now) => protocol.ban(now, peer, 'malformed')),
    }
    this.#heads = page.open({ store: this.#store, bytesMax, clock: this.#clock, peers, onChange })
    for (const early of this.#earlyHeads.splice(0)) this.#heads.receive(...early)
  }

  #handleHeads(peer: PeerId, received: HeadMessage): void {
    if (this.#heads !== null) this.#heads.receive(peer, received)
    else if (this.#content.progress.blocksDone === 0 && this.#earlyHeads.length < EARLY_HEADS_MAX) {
      // Copies, because the message can be much longer.
      const heads = received.heads.map((head) => head.slice(0, EARLY_HEAD_BYTES_MAX))
      this.#earlyHeads.push([peer, { heads, vouched: [] }])
    }
  }

  #notify(): void {
    if (this.#isClosed) return
    const isWatched = this.#content.live?.hasNews === true
    this.#notifier.notify(this.#phase, this.#protocol.presence, () => this.#content.settleFiles(), isWatched)
  }

  #addProblem(problem: PageProblem): void {
    this.#notifier.addProblem(problem)
    this.#notify()
  }

  #fail(error: ContentError): void {
    if (this.#failure !== null) return
    this.#failure = error
    this.#content.end(error)
    this.#end()
    this.#addProblem({ fatal: true, sentence: problemSentence(error.problem) })
  }

  #end(): void {
    this.#run((protocol, now) => protocol.end(now))
  }
}

async function receive(bytes: Bytes): Promise<ReceivedWithHeads | null> {
  try {
    return await receiveMessage(bytes)
  } catch (error) {
    if (error instanceof MessageError) return null
    throw error
  }
}

/**
 * The request for the first block of a page. It goes to the server right after the join, so that it takes no round trip of its own.
 * The exchange makes the same message when the holder is known; it is not sent again then.
 */
export function firstMessage(root: Cid): Bytes {
  const want: WantEntry = { cid: root, priority: FIRST_PRIORITY, cancel: false, kind: 'block', sendDontHave: true }
  return encodeMessage({ full: false, wants: [want], presences: [], pendingBytes: 0 })
}

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

function stunUrls(stun: StunServer | null): string[] {
  if (stun === null) return []
  const { port, secondPort } = stun
  const host = stun.host ?? globalThis.location?.hostname
  return (secondPort === null ? [port] : [port, secondPort]).map((each) => `stun:${host}:${each}`)
}

/** Outside of browsers, blocks stay in memory. */
const defaultStore: MakeBlockStore =
  typeof Worker === 'function' ? browserBlockStore : (_root, pageBytesMax) => new MemoryBlockStore(dagBytesMax(pageBytesMax))

/** WebRTC, if the browser has it. */
const browserDirect: LoadDirectConnections | null =
  typeof RTCPeerConnection === 'function' ? () => import('./direct/index.ts').then((direct) => direct.browserDirectConnections) : null
