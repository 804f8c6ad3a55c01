import type { Bytes } from '../content/index.ts'
import type { PeerId } from '../bitswap/index.ts'

/** The length of the peer id at the start of a relay or signal frame: the receiver, or the sender. */
const PEER_BYTES = 8
/** The length of a segment's header. */
export const SEGMENT_HEADER_BYTES = 12
/** The bytes of a relay frame besides its data. */
export const RELAY_OVERHEAD_BYTES = PEER_BYTES + SEGMENT_HEADER_BYTES

/** Messages of at most this length are sent before longer ones, so that a want does not wait behind a block. */
const SHORT_BYTES_MAX = 16 << 10

export function isShort(message: Bytes): boolean {
  return message.length <= SHORT_BYTES_MAX
}

/**
 * The next message to send, from messages in the order in which they were added: the first short one, or else the
 * first. Long messages never overtake each other, because a slightly longer one might then wait forever.
 */
export function nextToSend<T extends { readonly message: Bytes }>(messages: readonly T[]): T | null {
  return messages.find(({ message }) => isShort(message)) ?? messages[0] ?? null
}

/** A part of a message, and its position in the message. */
export interface Segment {
  readonly message: number
  readonly offset: number
  /** The length of the whole message. */
  readonly total: number
  readonly bytes: Bytes
}

export function encodeRelayFrame(to: PeerId, segment: Segment): Bytes {
  const frame = encodeSegment(segment, PEER_BYTES)
  new DataView(frame.buffer).setBigUint64(0, BigInt(`0x${to}`))
  return frame
}

/** Returns `null` if the frame is too short. The segment is a view of the frame. */
export function decodeRelayFrame(frame: ArrayBuffer): { from: PeerId; segment: Segment } | null {
  const segment = decodeSegment(frame, PEER_BYTES)
  return segment === null ? null : { from: senderOf(frame), segment }
}

/** Encodes a segment after `roomBytes` bytes that the caller fills. */
export function encodeSegment({ message, offset, total, bytes }: Segment, roomBytes: number): Bytes {
  const frame = new Uint8Array(roomBytes + SEGMENT_HEADER_BYTES + bytes.length)
  const view = new DataView(frame.buffer)
  view.setUint32(roomBytes, message)
  view.setUint32(roomBytes + 4, offset)
  view.setUint32(roomBytes + 8, total)
  frame.set(bytes, roomBytes + SEGMENT_HEADER_BYTES)
  return frame
}

/** Decodes the segment after the first `roomBytes` bytes, as a view. Returns `null` if the frame is too short. */
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

/** A signal for one peer, as the server forwards it. */
export function encodeSignalFrame(to: PeerId, signal: Bytes): Bytes {
  const frame = new Uint8Array(PEER_BYTES + signal.length)
  new DataView(frame.buffer).setBigUint64(0, BigInt(`0x${to}`))
  frame.set(signal, PEER_BYTES)
  return frame
}

/** Returns `null` if the frame is too short. */
export function decodeSignalFrame(frame: ArrayBuffer): { from: PeerId; signal: Bytes } | null {
  if (frame.byteLength <= PEER_BYTES) return null
  return { from: senderOf(frame), signal: new Uint8Array(frame, PEER_BYTES) }
}

function senderOf(frame: ArrayBuffer): PeerId {
  return new DataView(frame).getBigUint64(0).toString(16).padStart(16, '0') as PeerId
}
