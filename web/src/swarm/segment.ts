import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../exchange/index.ts'

/** Bytes in front of a relay frame's segment: the peer it goes to, or comes from. */
const PEER_BYTES = 8
const HEADER_BYTES = 12
/** What a relay frame carries besides a part of a message. */
export const RELAY_OVERHEAD_BYTES = PEER_BYTES + HEADER_BYTES

/** A part of a message, with its place in it. */
export interface Segment {
  readonly message: number
  readonly offset: number
  /** Bytes of the whole message. */
  readonly total: number
  readonly bytes: Bytes
}

export function encodeRelayFrame(to: PeerId, { message, offset, total, bytes }: Segment): Bytes {
  const frame = new Uint8Array(RELAY_OVERHEAD_BYTES + bytes.length)
  const view = new DataView(frame.buffer)
  view.setBigUint64(0, BigInt(`0x${to}`))
  view.setUint32(PEER_BYTES, message)
  view.setUint32(PEER_BYTES + 4, offset)
  view.setUint32(PEER_BYTES + 8, total)
  frame.set(bytes, RELAY_OVERHEAD_BYTES)
  return frame
}

/** `null` when it is too short to be one. The segment is a view into the frame. */
export function decodeRelayFrame(frame: ArrayBuffer): { from: PeerId; segment: Segment } | null {
  if (frame.byteLength < RELAY_OVERHEAD_BYTES) return null
  const view = new DataView(frame)
  const from = view.getBigUint64(0).toString(16).padStart(16, '0') as PeerId
  const segment = {
    message: view.getUint32(PEER_BYTES),
    offset: view.getUint32(PEER_BYTES + 4),
    total: view.getUint32(PEER_BYTES + 8),
    bytes: new Uint8Array(frame, RELAY_OVERHEAD_BYTES),
  }
  return { from, segment }
}
