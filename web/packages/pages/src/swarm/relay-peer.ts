import type { Reply } from '@watchfire/client/connection'
import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'
import type { Clock, Millis } from './clock.ts'
import { PeerLost } from './peer.ts'
import type { UnacknowledgedMessage } from './message-path.ts'
import { encodeRelayFrame, isShort, nextToSend, RELAY_OVERHEAD_BYTES } from './segment.ts'
import { readRefusal } from './server-messages.ts'

/** Frames to one peer that the server has not answered yet. */
const WINDOW = 4
/** After this many timeouts in a row, the peer counts as lost. */
const TIMEOUTS_MAX = 3
/** A peer that is busy for this long counts as lost. */
const BUSY_MAX: Millis = 30_000
/** A peer that stays busy is asked less and less often, at least this often. Each refused frame has used the uplink. */
const BACKOFF_MAX: Millis = 1_000
/** Short messages, and their bytes, that are remembered after the server accepted them. The oldest is forgotten. */
const ACCEPTED_MAX = 16
const ACCEPTED_BYTES_MAX = 32 << 10
/** Bounds on the retry delays that the server sends. */
const DELAY_MIN: Millis = 10
/** The retry delay when the server sends none. */
const DELAY_DEFAULT: Millis = 50
const DELAY_MAX: Millis = 10_000

interface Outgoing extends UnacknowledgedMessage {
  /** The parts still to be sent, as `[from, to)`. Rejected parts are added again. */
  readonly ranges: [from: number, to: number][]
  /** Bytes that the server has not accepted yet. */
  left: number
  /** Another path carries it now. */
  isTaken: boolean
}

/** A short message that the server has accepted and that may still be on its way to the peer. */
export interface AcceptedMessage {
  readonly id: number
  readonly message: Bytes
}

export interface RelayPeerOptions {
  /** Pushes one relay frame on the page's topic. */
  readonly push: (frame: Bytes) => Promise<Reply>
  readonly clock: Clock
  /** The largest relay frame in bytes. */
  readonly frameBytesMax: number
}

/** A peer reached through the server. The server relays frame by frame, and may reject any frame. */
export class RelayPeer {
  readonly id: PeerId
  readonly #push: (frame: Bytes) => Promise<Reply>
  readonly #clock: Clock
  #partBytesMax: number
  /** In the order in which they were added. */
  readonly #outgoing: Outgoing[] = []
  readonly #accepted: AcceptedMessage[] = []
  #unanswered = 0
  #timeouts = 0
  /** Since when every frame was rejected because the peer is busy. `null` if the last one was not. */
  #busySince: Millis | null = null
  /** Waits in a row after which the peer was still busy. */
  #busyWaits = 0
  #stopWaiting: (() => void) | null = null
  #lost: PeerLost | null = null

  constructor(id: PeerId, { push, clock, frameBytesMax }: RelayPeerOptions) {
    this.id = id
    this.#push = push
    this.#clock = clock
    this.#partBytesMax = Math.max(1, frameBytesMax - RELAY_OVERHEAD_BYTES)
  }

  /** `id`: the number of the message, unique for this peer. */
  send(message: Bytes, id: number): Promise<void> {
    if (this.#lost !== null) return Promise.reject(this.#lost)
    return new Promise((resolve, reject) => {
      this.#outgoing.push({ id, message, ranges: [[0, message.length]], left: message.length, isTaken: false, resolve, reject })
      this.#pump()
    })
  }

  /** Whether the server has not accepted a message yet. */
  hasUnsent(id: number): boolean {
    return this.#outgoing.some((outgoing) => outgoing.id === id)
  }

  /**
   * Takes the messages of which nothing was sent yet, and all short ones. The server may refuse a short message that is on
   * its way, and those behind it would overtake it on another path. The caller is responsible for them from now on.
   */
  takeForDirect(): UnacknowledgedMessage[] {
    const isWhole = ({ ranges, message }: Outgoing) => ranges.length === 1 && ranges[0]?.[0] === 0 && ranges[0][1] === message.length
    const taken = this.#outgoing.filter((each) => isShort(each.message) || isWhole(each))
    for (const each of taken) {
      each.isTaken = true
      this.#outgoing.splice(this.#outgoing.indexOf(each), 1)
    }
    return taken
  }

  /** Takes the last short messages that the server has accepted, in order. */
  takeAccepted(): AcceptedMessage[] {
    return this.#accepted.splice(0)
  }

  close(): void {
    this.#lose('closed')
  }

  #pump(): void {
    // One frame is enough to find out whether the peer is still busy.
    const window = this.#busySince === null ? WINDOW : 1
    while (this.#unanswered < window && this.#stopWaiting === null && this.#lost === null) {
      const next = nextToSend(this.#sendable())
      const range = next?.ranges[0]
      if (next === null || range === undefined) return
      const [from, to] = range
      const end = Math.min(to, from + this.#partBytesMax)
      if (end === to) next.ranges.shift()
      else range[0] = end
      void this.#sendPart(next, from, end)
    }
  }

  /**
   * The messages of which a part can be sent now. A short message waits until the server has accepted the short one before it.
   * Otherwise the server could refuse the first and accept the second: a `cancel` that arrives after the `want-have` that
   * follows it would remove that want-have, and nobody would send it again.
   */
  #sendable(): Outgoing[] {
    const first = this.#outgoing.find(({ message }) => isShort(message))
    return this.#outgoing.filter((each) => each.ranges.length > 0 && (each === first || !isShort(each.message)))
  }

  async #sendPart(outgoing: Outgoing, from: number, to: number): Promise<void> {
    const { id, message } = outgoing
    this.#unanswered++
    const segment = { message: id, offset: from, total: message.length, bytes: message.subarray(from, to) }
    const reply = await this.#push(encodeRelayFrame(this.id, segment))
    this.#unanswered--
    if (this.#lost !== null) return
    switch (reply.status) {
      case 'ok':
        this.#timeouts = 0
        this.#busySince = null
        this.#busyWaits = 0
        outgoing.left -= to - from
        if (outgoing.left === 0 && !outgoing.isTaken) this.#finish(outgoing)
        break
      case 'error':
        outgoing.ranges.unshift([from, to])
        this.#handleRefusal(reply.response, to - from)
        break
      case 'timeout':
        outgoing.ranges.unshift([from, to])
        if (++this.#timeouts >= TIMEOUTS_MAX) this.#lose('the server does not answer')
        break
      case 'offline':
        this.#lose(reply.status)
        break
    }
    this.#pump()
  }

  #finish(outgoing: Outgoing): void {
    this.#outgoing.splice(this.#outgoing.indexOf(outgoing), 1)
    if (isShort(outgoing.message)) this.#remember(outgoing)
    outgoing.resolve()
  }

  #remember({ id, message }: Outgoing): void {
    const accepted = this.#accepted
    accepted.push({ id, message })
    let bytes = accepted.reduce((sum, each) => sum + each.message.length, 0)
    while (accepted.length > ACCEPTED_MAX || bytes > ACCEPTED_BYTES_MAX) bytes -= accepted.shift()?.message.length ?? bytes
  }

  #handleRefusal(response: unknown, partBytes: number): void {
    const { reason, retryAfter, max } = readRefusal(response)
    const delay = retryAfter ?? DELAY_DEFAULT
    if (reason === 'peer busy') {
      this.#busySince ??= this.#clock.now()
      if (this.#clock.now() - this.#busySince >= BUSY_MAX) this.#lose('the peer does not read')
      else this.#wait(Math.max(delay, Math.min(BACKOFF_MAX, delay * 2 ** this.#busyWaits)))
    } else if (reason === 'relay budget') {
      this.#wait(delay)
    } else if (reason === 'relay frame too large' && max > RELAY_OVERHEAD_BYTES && partBytes + RELAY_OVERHEAD_BYTES > max) {
      this.#partBytesMax = max - RELAY_OVERHEAD_BYTES
    } else {
      this.#lose(reason)
    }
  }

  #wait(delay: Millis): void {
    this.#stopWaiting ??= this.#clock.after(Math.min(DELAY_MAX, Math.max(DELAY_MIN, delay)), () => {
      this.#stopWaiting = null
      if (this.#busySince !== null) this.#busyWaits++
      this.#pump()
    })
  }

  #lose(reason: string): void {
    if (this.#lost !== null) return
    this.#lost = new PeerLost(reason)
    this.#stopWaiting?.()
    for (const { reject } of this.#outgoing.splice(0)) reject(this.#lost)
  }
}
