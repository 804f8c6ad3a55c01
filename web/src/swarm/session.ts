import {
  defaultExchangeLimits, Exchange, SECOND, type Block, type ExchangeLimits, type Input, type Misbehaviour, type PeerId,
} from '../bitswap/index.ts'
import { BlockStore, blocksInOrder, ContentError, dagBytesMax, type Cid, type StoreNews } from '../content/index.ts'
import { browserBlocks, type MakeBlocks } from '../storage/index.ts'
import { problemSentence, swarm } from '../words/swarm.ts'
import type {
  BlockMap, Clock, Entry, PageDeps, PageFile, PageProblem, PageSession, PageState, PeerView, Phase,
} from './api.ts'
import { Attendance } from './attendance.ts'
import { mapBlocks } from './block-map.ts'
import { Carrier } from './carrier.ts'
import { browserClock } from './clock.ts'
import { Company } from './company.ts'
import type { LoadSwitchboard } from './doorway.ts'
import { Gathering } from './gathering.ts'
import { Holdings } from './holdings.ts'
import { PromisedFiles } from './promised-files.ts'
import { Readers } from './readers.ts'
import { Reports } from './reports.ts'

/** An open page: joins its exchange, its blocks, its peers, the server and those who look at it. */
export class Session implements PageSession {
  readonly root: string
  readonly #root: Cid
  readonly #clock: Clock
  readonly #exchange: Exchange
  readonly #gathering: Gathering
  readonly #files: PromisedFiles
  readonly #readers: Readers
  readonly #company: Company
  readonly #holdings: Holdings
  readonly #carrier: Carrier
  readonly #attendance: Attendance
  readonly #reports: Reports
  readonly #isOurs: boolean
  #peersDropped = 0
  #failure: Error | null = null
  #isFull = false
  #isClosed = false

  constructor(root: Cid, deps: PageDeps) {
    const { clock = browserClock, random = Math.random, limits } = deps
    const { pageBytesMax, blocksInFlightMax } = limits
    const isOver = () => this.#isOver
    this.root = root.text
    this.#root = root
    this.#isOurs = deps.publication !== undefined
    this.#clock = clock
    this.#exchange = new Exchange(BigInt(Math.floor(random() * Number.MAX_SAFE_INTEGER)), exchangeLimits(blocksInFlightMax))
    const makeBlocks = deps.blocks ?? usualBlocks
    const store = deps.publication?.store ?? makeBlocks(root, pageBytesMax, (ms, callback) => clock.after(ms, callback))
    this.#gathering = new Gathering(root, pageBytesMax, store, { isOurs: this.#isOurs })
    this.#holdings = new Holdings((cid) => this.#gathering.walk.isKnown(cid))
    this.#files = new PromisedFiles(this.#gathering, (error) => this.#fail(error))
    this.#readers = new Readers({
      root,
      blocks: this.#gathering.store,
      urge: (cids) => this.#carrier.tell({ kind: 'urgent', cids }),
    })
    this.#company = new Company({
      clock,
      random,
      isOver,
      pageBytesMax,
      frameBytesMax: limits.relayFrameBytesMax,
      push: (event, frame) => this.#attendance.push(event, frame),
      stun: () => this.#attendance.stun,
      load: deps.direct === undefined ? browserDirect : deps.direct,
      room: () => store.room(),
      tell: (input) => {
        this.#holdings.follow(input)
        this.#carrier.tell(input)
      },
      introduced: (member, isNew) => {
        this.#holdings.join(member.peer.id, member.have)
        if (isNew) this.#carrier.connect(member)
      },
      malformed: (peer) => this.#drop(peer, 'malformed'),
      sentAway: () => {
        this.#peersDropped++
        this.#note({ fatal: false, sentence: swarm('sentAway') })
      },
      changed: () => this.#report(),
    })
    this.#carrier = new Carrier({
      clock,
      isOver,
      exchange: this.#exchange,
      roster: this.#company.roster,
      store,
      isClosed: () => this.#isClosed,
      isSource: () => this.#isSource,
      got: (block) => this.#keep(block),
      dropped: (peer, reason) => this.#drop(peer, reason),
      findProviders: () => this.#attendance.askForPeers(),
      // Not only when it has gone: by relay that takes as long as a direct path takes to come up.
      sending: (member) => this.#company.consider(member),
      moved: (member, blocks) => this.#holdings.give(member.peer.id, blocks.map(({ cid }) => cid)),
      lost: (peer) => this.#company.part(peer),
      settled: () => this.#report(),
    })
    this.#reports = new Reports(clock, () => this.state, { phase: 'searching', presence: { kind: 'joining' } })
    // What is here already is not asked for, so it must be known first.
    const first = store.restored === null ? attempt(() => this.#gathering.start()) : []
    this.#attendance = new Attendance(root, {
      connection: deps.connection,
      clock,
      random,
      isOver,
      have: () => this.#gathering.have,
      welcomed: (self, peers) => {
        this.#company.roster.self = self
        // After a rejoin everybody has new names.
        this.#company.partFromAll()
        for (const peer of peers) this.#company.introduce(peer)
      },
      parted: () => this.#company.partFromAll(),
      introduced: (introduction) => void this.#company.introduce(introduction),
      left: (peer) => this.#company.part(peer),
      relay: (frame) => this.#company.handleRelay(frame),
      signal: (frame) => this.#company.handleSignal(frame),
      changed: () => {
        const { watching, holders } = this.#attendance.counts
        if (watching > 0 && holders >= watching) this.#holdings.everybodyHasAll(watching)
        this.#report()
      },
    })
    if (first instanceof ContentError) this.#fail(first)
    else this.#carrier.tellAll(first)
    this.#carrier.start()
    store.listen((news) => this.#hear(news))
    void store.restored?.then(() => this.#goOn())
    deps.signal?.addEventListener('abort', () => this.close(), { once: true })
    if (deps.signal?.aborted) this.close()
  }

  get state(): PageState {
    const { progress } = this.#gathering.walk
    const { counts, litUntil } = this.#attendance
    const { bytesIn, bytesOut } = this.#exchange.totals
    const phase = this.#phase()
    return {
      phase,
      presence: this.#attendance.presence,
      counts,
      progress,
      peers: this.#exchange.peers().flatMap((peer) => this.#peerView(peer, progress.blocksTotal) ?? []),
      receivedBytes: bytesIn,
      sentBytes: bytesOut,
      peersDropped: this.#peersDropped,
      lastLit: phase === 'dark' && litUntil !== null ? this.#clock.now() - litUntil : null,
      problems: this.#reports.problems,
    }
  }

  subscribe(listener: (state: PageState) => void): () => void {
    return this.#reports.subscribe(listener)
  }

  blockMap(): BlockMap | null {
    const { store, walk } = this.#gathering
    if (walk.progress.blocksDone === 0 || this.#isOver) return null
    return mapBlocks(blocksInOrder(store, this.#root), (cid) => store.has(cid), this.#holdings, (peer) => this.#company.roster.get(peer)?.kind === 'node')
  }

  entries(): readonly Entry[] | null {
    return this.#files.entries()
  }

  file(path: string, options: { signal?: AbortSignal; type?: string } = {}): Promise<Blob> {
    return this.#files.promise(path, options)
  }

  open(path: string, options: { signal?: AbortSignal } = {}): Promise<PageFile> {
    return this.#readers.open(path, options)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#carrier.stop()
    this.#attendance.leave()
    this.#company.close()
    const closed = new DOMException(swarm('closed'), 'AbortError')
    this.#files.end(closed)
    this.#readers.end(closed)
    this.#reports.close()
    this.#gathering.clear()
  }

  get #isOver(): boolean {
    return this.#isClosed || this.#failure !== null
  }

  /**
   * Whether it is for this tab to let others pass on what it gave: it has all of the page alone, or shares it and most
   * others come for it. Who comes when most have it already gets it from all of them, this tab among them.
   */
  get #isSource(): boolean {
    const { have, walk } = this.#gathering
    if (have !== 'all' || (walk.progress.bytesTotal ?? 0) < SHARED_IN_BYTES_MIN) return false
    const { holders, watching } = this.#attendance.counts
    return holders <= 1 || (this.#isOurs && holders * 2 <= watching)
  }

  #peerView(id: PeerId, blocksTotal: number | null): PeerView | null {
    const member = this.#company.roster.get(id)
    const totals = this.#exchange.peer(id)
    if (member === null || totals === null) return null
    return {
      id,
      kind: member.kind,
      have: this.#holdings.haveOf(id) ?? member.have,
      path: member.peer.path,
      reach: this.#company.reach(id),
      blocks: this.#holdings.countOf(id, blocksTotal),
      receivedBytes: totals.bytesIn,
      sentBytes: totals.bytesOut,
      bytesPerSecond: totals.bytesPerSecond,
    }
  }

  #phase(): Phase {
    if (this.#failure !== null) return 'failed'
    const { have, isStarted, walk } = this.#gathering
    if (walk.isComplete) return 'complete'
    if (isStarted && this.#attendance.isLit === false && !this.#exchange.isAnythingAvailable) return 'dark'
    return have === 'some' ? 'loading' : 'searching'
  }

  #report(): void {
    this.#reports.report(this.#phase(), this.#attendance.presence, () => this.#files.giveOut())
  }

  #note(problem: PageProblem): void {
    this.#reports.note(problem)
    this.#report()
  }

  #fail(error: ContentError): void {
    if (this.#failure !== null) return
    this.#failure = error
    this.#files.end(error)
    this.#readers.end(error)
    this.#company.partFromAll()
    this.#note({ fatal: true, sentence: problemSentence(error.problem) })
  }

  /** What an earlier visit left is known: the rest is wanted. */
  #goOn(): void {
    if (this.#isOver) return
    this.#readers.lookAgain()
    this.#carry(attempt(() => this.#gathering.start()))
  }

  #keep({ cid, data }: Block): void {
    const inputs = attempt(() => this.#gathering.keep(cid, data))
    // First, so that what its readers need is asked for before the rest that it leads to.
    if (!(inputs instanceof ContentError)) this.#readers.arrived(cid)
    this.#carry(inputs)
  }

  #carry(inputs: Input[] | ContentError): void {
    if (!(inputs instanceof ContentError)) this.#carrier.tellAll(inputs)
    else if (inputs.problem.kind === 'no-room') this.#fillUp(inputs)
    else this.#fail(inputs)
    this.#attendance.announce()
  }

  /** There is no room for more: what is here stays, and is served. */
  #fillUp(error: ContentError): void {
    if (this.#isFull) return
    this.#isFull = true
    this.#carrier.tell({ kind: 'unwant', cids: this.#gathering.walk.missing() })
    this.#note({ fatal: false, sentence: swarm('full', { reason: problemSentence(error.problem) }) })
  }

  #hear(news: StoreNews): void {
    if (this.#isOver) return
    if (news.kind === 'lost') {
      this.#gathering.lose()
      this.#attendance.announce()
    }
    this.#note({ fatal: false, sentence: news.sentence })
  }

  #drop(peer: PeerId, reason: DropReason): void {
    if (this.#company.ban(peer) === null) return
    this.#peersDropped++
    this.#note({ fatal: false, sentence: swarm(reason) })
  }
}

/** Of a smaller page every viewer gets all at once from whoever has it. */
const SHARED_IN_BYTES_MIN = 8 << 20

/** A block of a file, of which the server says how many one peer is asked for at a time. */
const BLOCK_BYTES = 1 << 20

function exchangeLimits(blocksInFlightMax: number): ExchangeLimits {
  const windowBytesMax = Math.max(defaultExchangeLimits.windowBytesMin, blocksInFlightMax * BLOCK_BYTES)
  // A tab bears with a server that has nobody to name, but not for a minute: people look at it.
  return { ...defaultExchangeLimits, windowBytesMax, askedBytesMax: 32 << 20, searchIntervalMax: 10 * SECOND }
}

/** Why a peer was sent away; `malformed`: it sent what cannot be read. */
type DropReason = Misbehaviour | 'malformed'

/** What malformed content may break; then the page has failed for good. */
function attempt<Done>(step: () => Done): Done | ContentError {
  try {
    return step()
  } catch (error) {
    if (error instanceof ContentError) return error
    throw error
  }
}

/** Outside of browsers there is neither a disk nor anybody to tell so. */
const usualBlocks: MakeBlocks =
  typeof Worker === 'function' ? browserBlocks : (_root, pageBytesMax) => new BlockStore(dagBytesMax(pageBytesMax))

/** WebRTC, where there is any. */
const browserDirect: LoadSwitchboard | null =
  typeof RTCPeerConnection === 'function'
    ? () => import('./direct/index.ts').then(({ browserSwitchboards }) => browserSwitchboards)
    : null
