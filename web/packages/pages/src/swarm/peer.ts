import { RecentSet, type PeerId } from '../bitswap/index.ts'
import { isSameBytes, type Bytes, type Cid } from '../content/index.ts'
import type { Have, PeerKind } from './api.ts'
import { Assembler, type Assembled, type AssemblyBudget } from './assembler.ts'
import type { Millis } from './clock.ts'
import type { MessagePath } from './direct-paths.ts'
import { HELD_BYTES_MIN, Outgoing, UnreadBlocks, type SentSegment } from './outgoing.ts'
import { isShort, type Segment, type UnsentMessage } from './segment.ts'

/** Messages that are remembered as read. A peer never has more in flight. */
const READ_REMEMBERED = 512
/**
 * Messages that wait to be decoded: long ones with blocks, and short ones, of which many arrive while blocks are hashed.
 * When the limit is reached, further messages are dropped, and their contents are requested again.
 */
const UNDECODED_MAX = { long: 16, short: 256 }
/** The largest difference between the numbers of two messages that are read one after the other. */
const REORDERED_MESSAGES_MAX = 2 ** 16
/**
 * The most bytes of messages that are not sent yet. It is more than a slow connection ever has in flight, so that a want does not
 * wait for a block to leave.
 */
const UNSENT_BYTES_MAX = 4 << 20
/** The longest time that a message waits for a direct connection. A peer that it did not reach in time uses the relay. */
export const HELD_MAX: Millis = 600
/** The time between two reports that a part of a message has arrived on the direct connection. */
const PROGRESS_INTERVAL: Millis = 100

/** The messages to a peer and from it, through the relay, and directly while there is a direct connection. */
export class Peer {
  readonly id: PeerId
  /** The part of the page that the peer has, as the server reported. */
  have: Have
  /** Tab or node. `tab` until the server has said it. */
  kind: PeerKind
  readonly outgoing: Outgoing
  /** The last direct path, which may be down. `null` if there was none. */
  path: MessagePath | null = null
  /** Bytes of all messages, sent and received, on both paths. */
  movedBytes = 0
  /** Whether it got more time to answer, because it may hold its messages for a direct connection. */
  isExcused = false
  /** When the peer last sent anything. */
  heardAt: Millis = -Infinity
  /** Messages from the direct connection. A message arrives whole on one path. */
  readonly direct: Assembler
  readonly #relayed: Assembler
  /** Messages that were read. One may arrive again: on the other path when a path breaks, or relayed twice when the server's reply was late. */
  readonly #read = new RecentSet<number>(READ_REMEMBERED)
  readonly #undecoded = { long: 0, short: 0 }
  /** The number of the peer's message that was read last. */
  #lastRead: number | null = null
  /** When it was last reported that a part has arrived on the direct connection. */
  #progressAt: Millis = -Infinity
  /** The number of the next message, on either path. */
  #nextMessage: number
  /** The message that the peer got with the join of this tab, until another or the same one is sent. */
  #first: Bytes | null = null
  #unsentBytes = 0
  /** Whether messages may wait for a direct connection: none has failed to come up in time. */
  #mayHold = true
  readonly #unreadBlocks = new UnreadBlocks()
  /** Messages with blocks that were sent before the exchange connected the peer, and how many since then are known to be read. */
  #blocksBefore = 0
  #acknowledged = 0

  /** `first`: the number of the first message. */
  constructor(id: PeerId, have: Have, kind: PeerKind, first: number, frameBytesMax: number, budget: AssemblyBudget) {
    this.id = id
    this.have = have
    this.kind = kind
    this.outgoing = new Outgoing(frameBytesMax)
    this.direct = new Assembler(budget)
    this.#relayed = new Assembler(budget)
    this.#nextMessage = first
  }

  /** Whether messages to the peer use a direct connection. */
  get isDirect(): boolean {
    return this.path?.isUp === true
  }

  /** How many more bytes of messages the peer may be sent. */
  get roomBytes(): number {
    return Math.max(0, UNSENT_BYTES_MAX - this.#unsentBytes)
  }

  /** The peer got this short message with the join of this tab. Returns its segment, which the server's reply concerns. */
  addFirst(bytes: Bytes): SentSegment | null {
    this.outgoing.push(this.#number(bytes, []))
    this.#first = bytes
    return this.outgoing.next(0)?.sent ?? null
  }

  /** Numbers a message. `null`: it is under way already, because it went with the join. */
  add(bytes: Bytes, blocks: readonly Cid[]): UnsentMessage | null {
    const first = this.#first
    this.#first = null
    return first !== null && isSameBytes(first, bytes) ? null : this.#number(bytes, blocks)
  }

  #number(bytes: Bytes, blocks: readonly Cid[]): UnsentMessage {
    const id = this.#nextMessage
    this.#nextMessage = (id + 1) % 2 ** 32
    if (blocks.length > 0) this.#unreadBlocks.noteSent(id)
    this.movedBytes += bytes.length
    this.#unsentBytes += bytes.length
    return { id, bytes, blocks, isReported: false, isRelayed: false }
  }

  /** Gives a message to the direct path if that is up, or to the relay. `isConnecting`: it should wait for a direct connection. */
  send(now: Millis, message: UnsentMessage, isConnecting: () => boolean): void {
    if (this.isDirect) this.path?.send(message)
    else if (!message.isRelayed) {
      if (message.bytes.length >= HELD_BYTES_MIN && this.#mayHold && isConnecting()) {
        this.#mayHold = false
        this.outgoing.hold(now + HELD_MAX)
      }
      this.outgoing.push(message)
    }
  }

  /** A message was sent: the server has relayed it, or the direct path has it. Returns whether that is new. */
  noteSent(message: UnsentMessage): boolean {
    if (message.isReported) return false
    message.isReported = true
    this.#unsentBytes -= message.bytes.length
    return true
  }

  /** Uses a direct path from now on. Returns the messages to send on it: short ones, and long ones that have not begun. */
  useDirect(path: MessagePath): UnsentMessage[] {
    this.path = path
    if (this.outgoing.release()) this.#mayHold = true
    return this.outgoing.takeForDirect()
  }

  /** A segment arrived. Returns the whole message if that was its last one and it was not read. `dropped`: there is nothing to do. */
  receive(now: Millis, segment: Segment, isDirect: boolean): Assembled {
    const wasRead = this.#read.has(segment.message)
    // Its sender does not know that: a direct connection broke before its acknowledgement, or the server's reply was late.
    if (wasRead && !isDirect) return 'dropped'
    const assembled = (isDirect ? this.direct : this.#relayed).add(now, segment)
    if (typeof assembled !== 'string') {
      if (!wasRead) return assembled
      this.path?.acknowledge(segment.message)
      return 'dropped'
    }
    if (assembled === 'partial' && isDirect) {
      if (now - this.#progressAt < PROGRESS_INTERVAL) return 'dropped'
      this.#progressAt = now
    }
    return assembled
  }

  /**
   * A message waits to be decoded. The returned function is called when it is: it returns how many messages with blocks the peer had
   * read when it sent this one. `null`: the message is dropped.
   */
  beginDecoding(number: number, bytes: Bytes): (() => number) | null {
    this.movedBytes += bytes.length
    const kind = isShort(bytes) ? 'short' : 'long'
    if (this.#undecoded[kind] >= UNDECODED_MAX[kind]) return null
    this.#undecoded[kind]++
    // The number counts from now on: the same message may come by the other path while this one waits, and must not follow it.
    this.#read.add(number)
    // On the relay, a message counts as read when the server has accepted it.
    const acknowledged = this.#unreadBlocks.update((id) => this.path?.hasUnread(id) === true || this.outgoing.has(id))
    return () => {
      this.#undecoded[kind]--
      return acknowledged
    }
  }

  /** A message was read. Returns whether its number is too far from the last one for messages that overtook each other. */
  noteRead(number: number): boolean {
    const ahead = (number - (this.#lastRead ?? number) + 2 ** 32) % 2 ** 32
    const hasRestarted = ahead >= REORDERED_MESSAGES_MAX && ahead <= 2 ** 32 - REORDERED_MESSAGES_MAX
    this.#lastRead = number
    if (!hasRestarted) return false
    // The exchange counts from now on.
    this.#blocksBefore = this.#unreadBlocks.sent
    this.#acknowledged = 0
    return true
  }

  /** How many messages with blocks the peer has read for the exchange. `null`: no more than before. */
  takeAcknowledged(acknowledged: number): number | null {
    const messages = acknowledged - this.#blocksBefore
    if (messages <= this.#acknowledged) return null
    this.#acknowledged = messages
    return messages
  }

  /** Drops what has arrived of incomplete messages. */
  clear(): void {
    this.#relayed.clear()
    this.direct.clear()
  }
}
