import type { SendToPeer } from '@watchfire/pages/swarm'
import type { Bytes } from '@watchfire/pages/content'
import { crowds } from './crowds.ts'
import { after, BEGINNING, decodeMessage, encodeMessage, historyOf, merge, numbersOf, tellsMore, type History } from './history.ts'

type PeerId = Parameters<SendToPeer>[0]

/** How often a peer is told the history, at most, in milliseconds. */
const TELL_MS = 30_000
/** Peers that are remembered. Above it, all are forgotten, and told once more. */
const PEERS_MAX = 256
/** Without a tick of its timer for this long, in seconds, the tab was asleep and knows of nobody. */
const ASLEEP = 120
/** A history that was stored earlier, in seconds, is not read: the clock of this machine was wrong then or is wrong now. */
const STORED_MAX = 86_400
/** The histories of this tab's pages, for its reload. */
const KEY = 'watchfire:crowds'

/**
 * The viewers of a page over time, as this tab and its peers have seen them. Each tab tells its history to its peers once, and again when
 * others have told it more. A peer that knows more answers. Nobody can verify any of it, and the server does not look at it.
 */
export class Crowd {
  #history: History
  #at = performance.now()
  /** The same by the clock of the machine, which in some browsers alone goes on while the machine sleeps. */
  #time = Date.now()
  #people = 0
  readonly #peers: () => readonly PeerId[]
  readonly #send: SendToPeer
  /** The peers that know all that this tab knows. */
  readonly #informed = new Set<PeerId>()
  /** When each peer was told something. */
  readonly #toldAt = new Map<PeerId, number>()
  #timer: ReturnType<typeof setInterval> | null = null

  /** `peers` returns the tabs that have the page open, as far as this one knows them. */
  constructor(cid: string, peers: () => readonly PeerId[], send: SendToPeer) {
    this.#peers = peers
    this.#send = send
    this.#history = crowds.get(cid)?.history ?? stored(cid) ?? BEGINNING
  }

  /** The people at present. 0: unknown. */
  get people(): number {
    return this.#people
  }

  /** The history until now. */
  get history(): History {
    this.#advance()
    return this.#history
  }

  /** Counts the time since the last call. */
  #advance(): void {
    const [now, time] = [performance.now(), Date.now()]
    const seconds = Math.min(STORED_MAX, Math.max(now - this.#at, time - this.#time) / 1000)
    this.#history = after(this.#history, seconds, seconds < ASLEEP ? this.#people : 0)
    this.#at = now
    this.#time = time
  }

  /** The server has counted the people. 0: this tab has lost the server. */
  note(people: number): void {
    this.#advance()
    this.#people = Math.max(0, people)
    this.#advance()
    if (this.#timer !== null) return
    this.#tellAll()
    this.#timer = setInterval(() => {
      this.#advance()
      this.#tellAll()
      store()
    }, TELL_MS)
  }

  /** A peer sent a message. It can be anything. */
  receive(peer: PeerId, message: Bytes): void {
    const told = decodeMessage(message)
    if (told === null) return
    const before = this.history
    this.#history = merge(before, told)
    if (tellsMore(told, before)) this.#informed.clear()
    if (!tellsMore(before, told)) this.#noteInformed(peer)
    else {
      this.#informed.delete(peer)
      this.#tell(peer)
    }
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
  }

  #tellAll(): void {
    for (const peer of this.#peers()) if (!this.#informed.has(peer)) this.#tell(peer)
  }

  #tell(peer: PeerId): void {
    const now = performance.now()
    // Timers may fire a little early.
    if (now - (this.#toldAt.get(peer) ?? -Infinity) < TELL_MS - 100) return
    if (this.#toldAt.size >= PEERS_MAX) this.#toldAt.clear()
    this.#toldAt.set(peer, now)
    this.#noteInformed(peer)
    this.#send(peer, encodeMessage(this.history))
  }

  #noteInformed(peer: PeerId): void {
    if (this.#informed.size >= PEERS_MAX) this.#informed.clear()
    this.#informed.add(peer)
  }
}

addEventListener('pagehide', store)

/** Stores the histories of all pages that are open, for a reload of this tab. Only this tab's own clock can be compared with itself. */
function store(): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify([Date.now(), ...[...crowds].map(([cid, { history }]) => [cid, numbersOf(history)])]))
  } catch {
    // Without storage, the history begins again after a reload, unless others tell it.
  }
}

/** The history of a page from before a reload. In between, nobody is known to have had it. */
function stored(cid: string): History | null {
  try {
    const [at, ...pages]: [number, ...[string, unknown][]] = JSON.parse(sessionStorage.getItem(KEY) ?? '[]')
    const history = historyOf(pages.find(([of]) => of === cid)?.[1])
    const seconds = (Date.now() - at) / 1000
    return history && seconds >= 0 && seconds <= STORED_MAX ? after(history, seconds, 0) : null
  } catch {
    return null
  }
}
