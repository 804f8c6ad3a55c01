import { concat, uint32, uint64, type Bytes, type Cid } from '../content/index.ts'
import { peerOf, type PeerId } from '../bitswap/index.ts'

/** The length of the peer id at the start of a relay or signal frame: the receiver, or the sender. */
const PEER_BYTES = 8
/** The length of a segment's header. */
export const SEGMENT_HEADER_BYTES = 12
/** The bytes of a relay frame besides its data. */
export const RELAY_OVERHEAD_BYTES = PEER_BYTES + SEGMENT_HEADER_BYTES

/** Messages of at most this length are sent before longer ones, so that a want does not wait behind a block. */
export const SHORT_BYTES_MAX = 16 << 10

export function isShort(message: Bytes): boolean {
  return message.length <= SHORT_BYTES_MAX
}

/** A message that may have to be sent, or sent again on the other path. */
export interface UnsentMessage {
  readonly id: number
  readonly bytes: Bytes
  /** The blocks in it. */
  readonly blocks: readonly Cid[]
  /** Whether it was reported as sent. That happens once. */
  isReported: boolean
  /** Whether the server has relayed the whole message, which may still be on its way. The relay never sends it again. */
  readonly isRelayed: boolean
}

/**
 * The next message to send, from messages in the order in which they were added: the first short one, or else the
 * first. Long messages never overtake each other, because a slightly longer one might then wait forever.
 */
export function nextToSend<T extends { readonly message: UnsentMessage }>(messages: readonly T[]): T | null {
  return messages.find(({ message }) => isShort(message.bytes)) ?? messages[0] ?? null
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
  return encodeSegment(encodePeer(to), segment)
}

/** Returns `null` if the frame is too short. The segment is a view of the frame. */
export function decodeRelayFrame(frame: ArrayBuffer): { from: PeerId; segment: Segment } | null {
  const segment = decodeSegment(frame, PEER_BYTES)
  return segment === null ? null : { from: peerOf(frame), segment }
}

/** Encodes a segment after the bytes that a frame begins with. */
export function encodeSegment(start: Bytes, { message, offset, total, bytes }: Segment): Bytes {
  return concat([start, uint32(message), uint32(offset), uint32(total), bytes])
}

/** Decodes the segment after the first `startBytes` bytes, as a view. Returns `null` if the frame is too short. */
export function decodeSegment(frame: ArrayBuffer, startBytes: number): Segment | null {
  if (frame.byteLength < startBytes + SEGMENT_HEADER_BYTES) return null
  const header = new DataView(frame, startBytes)
  return {
    message: header.getUint32(0),
    offset: header.getUint32(4),
    total: header.getUint32(8),
    bytes: new Uint8Array(frame, startBytes + SEGMENT_HEADER_BYTES),
  }
}

/** A signal for one peer, as the server forwards it. */
export function encodeSignalFrame(to: PeerId, signal: Bytes): Bytes {
  return concat([encodePeer(to), signal])
}

/** Returns `null` if the frame is too short. */
export function decodeSignalFrame(frame: ArrayBuffer): { from: PeerId; signal: Bytes } | null {
  if (frame.byteLength <= PEER_BYTES) return null
  return { from: peerOf(frame), signal: new Uint8Array(frame, PEER_BYTES) }
}

function encodePeer(peer: PeerId): Bytes {
  return uint64(BigInt(`0x${peer}`))
}
