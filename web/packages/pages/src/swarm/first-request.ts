import type { Reply } from '@watchfire/client/connection'
import { encodeMessage, Exchange, type Limits, type PeerId } from '../bitswap/index.ts'
import { RAW, type Bytes, type Cid } from '../content/index.ts'
import { encodeRelayFrame } from './segment.ts'

/** As the destination of a relay frame: the first peer of the join reply that has the whole page. */
const FIRST_HOLDER = '0'.repeat(16) as PeerId
const ROOM_BYTES = 4 << 20

/**
 * The request for the first block of a page. It goes to the server right after the join, so that it takes no round trip of its own.
 * The exchange makes the same message when the holder is known; it is not sent again then.
 */
export class FirstRequest {
  /** The number of the message, as for the peer that gets it. */
  readonly id: number
  readonly message: Bytes
  /** Whether the holder got it. */
  readonly isDelivered: Promise<boolean>
  #settle: (isDelivered: boolean) => void = () => {}

  constructor(message: Bytes, id: number) {
    this.message = message
    this.id = id
    this.isDelivered = new Promise((resolve) => (this.#settle = resolve))
  }

  get frame(): Bytes {
    const { id, message } = this
    return encodeRelayFrame(FIRST_HOLDER, { message: id, offset: 0, total: message.length, bytes: message })
  }

  readonly settle = ({ status }: Reply): void => this.#settle(status === 'ok')
}

/** The first message of an exchange to a peer that has the whole page, while it knows only the page's root. */
export function firstMessage(root: Cid, limits: Limits): Bytes | null {
  const exchange = new Exchange(0n, limits)
  const peer = FIRST_HOLDER
  exchange.handle(0, { kind: 'want', wants: [{ cid: root, length: null, urgency: root.codec === RAW ? 0 : 1 }] })
  exchange.handle(0, { kind: 'connected', peer, isProvider: true })
  exchange.handle(0, { kind: 'writable', peer, roomBytes: ROOM_BYTES })
  for (let output = exchange.pollOutput(); output !== null; output = exchange.pollOutput()) {
    if (output.kind === 'send') return encodeMessage(output.message, output.blocks, null)
  }
  return null
}
