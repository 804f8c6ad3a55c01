import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'

/** Bytes in front of what the server passes on: the peer it goes to, or comes from. */
const PEER_BYTES = 8
/** Bytes in front of what a segment carries. */
export const SEGMENT_HEADER_BYTES = 12
/** What a relay frame carries besides a part of a message. */
export const RELAY_OVERHEAD_BYTES = PEER_BYTES + SEGMENT_HEADER_BYTES

/** Messages up to here go before longer ones, so that a want does not wait behind a block. */
const SHORT_BYTES_MAX = 16 << 10

export function isShort(message: Bytes): boolean {
  return message.length <= SHORT_BYTES_MAX
}

/**
 * What goes next of messages in the order in which they came: the first short one; among long ones none overtakes another,
 * or one that is some bytes longer than all that follow would never arrive.
 */
export function nextToGo<T extends { readonly message: Bytes }>(messages: readonly T[]): T | null {
  return messages.find(({ message }) => isShort(message)) ?? messages[0] ?? null
}

/** A part of a message, with its place in it. */
export interface Segment {
  readonly message: number
  readonly offset: number
  /** Bytes of the whole message. */
  readonly total: number
  readonly bytes: Bytes
}

export function encodeRelayFrame(to: PeerId, segment: Segment): Bytes {
  const frame = encodeSegment(segment, PEER_BYTES)
  new DataView(frame.buffer).setBigUint64(0, BigInt(`0x${to}`))
  return frame
}

/** `null` when it is too short to be one. The segment is a view into the frame. */
export function decodeRelayFrame(frame: ArrayBuffer): { from: PeerId; segment: Segment } | null {
  const segment = decodeSegment(frame, PEER_BYTES)
  return segment === null ? null : { from: senderOf(frame), segment }
}

/** The bytes of a segment, behind room for what its carrier puts in front. */
export function encodeSegment({ message, offset, total, bytes }: Segment, roomBytes: number): Bytes {
  const frame = new Uint8Array(roomBytes + SEGMENT_HEADER_BYTES + bytes.length)
  const view = new DataView(frame.buffer)
  view.setUint32(roomBytes, message)
  view.setUint32(roomBytes + 4, offset)
  view.setUint32(roomBytes + 8, total)
  frame.set(bytes, roomBytes + SEGMENT_HEADER_BYTES)
  return frame
}

/** The segment behind what its carrier put in front, as a view; `null` when it is too short to be one. */
export function decodeSegment(frame: ArrayBuffer, roomBytes: number): Segment | null {
  if (frame.byteLength < roomBytes + SEGMENT_HEADER_BYTES) return null
  const view = new DataView(frame)
  return {
    message: view.getUint32(roomBytes),
    offset: view.getUint32(roomBytes + 4),
    total: view.getUint32(roomBytes + 8),
    bytes: new Uint8Array(frame, roomBytes + SEGMENT_HEADER_BYTES),
  }
}

/** A signal for one peer, as the server passes it on. */
export function encodeSignalFrame(to: PeerId, signal: Bytes): Bytes {
  const frame = new Uint8Array(PEER_BYTES + signal.length)
  new DataView(frame.buffer).setBigUint64(0, BigInt(`0x${to}`))
  frame.set(signal, PEER_BYTES)
  return frame
}

/** `null` when it is too short to be one. */
export function decodeSignalFrame(frame: ArrayBuffer): { from: PeerId; signal: Bytes } | null {
  if (frame.byteLength <= PEER_BYTES) return null
  return { from: senderOf(frame), signal: new Uint8Array(frame, PEER_BYTES) }
}

function senderOf(frame: ArrayBuffer): PeerId {
  return new DataView(frame).getBigUint64(0).toString(16).padStart(16, '0') as PeerId
}
