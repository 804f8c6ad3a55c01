import { concat, textOf, uint32, uint64, utf8, type Bytes } from '../../content/index.ts'
import { decodeSegment, encodeSegment, SEGMENT_HEADER_BYTES, type Segment } from '../segment.ts'

/** The length of a message on a data channel that every implementation accepts. */
export const FRAME_BYTES_MAX = 16 << 10
/** Bytes of a message in one frame. */
export const PART_BYTES_MAX = FRAME_BYTES_MAX - 1 - SEGMENT_HEADER_BYTES

const SEGMENT = 0
const READ = 1
const MARKED_SEGMENT = 2
const RECEIPT = 3
const LANE = 4

/** A frame on a direct path. */
export type Frame =
  /** A part of a message. The other side sends a receipt for a marked one. */
  | { readonly kind: 'segment'; readonly segment: Segment; readonly isMarked: boolean }
  /** The acknowledgement that a message was read. */
  | { readonly kind: 'read'; readonly message: number }
  /** All bytes of frames that the sender of this one had received, up to a marked segment. */
  | { readonly kind: 'receipt'; readonly bytes: number }
  /** A signal about a lane, see `LaneConnections`. */
  | { readonly kind: 'lane'; readonly signal: string }

export function encodeSegmentFrame(segment: Segment, isMarked = false): Bytes {
  return encodeSegment(Uint8Array.of(isMarked ? MARKED_SEGMENT : SEGMENT), segment)
}

export function encodeLaneFrame(signal: string): Bytes {
  return concat([Uint8Array.of(LANE), utf8(signal)])
}

export function encodeReceiptFrame(bytes: number): Bytes {
  return concat([Uint8Array.of(RECEIPT), uint64(BigInt(bytes))])
}

export function encodeReadFrame(message: number): Bytes {
  return concat([Uint8Array.of(READ), uint32(message)])
}

/** Returns `null` for a frame that no honest peer sends. */
export function decodeFrame(data: unknown): Frame | null {
  if (!(data instanceof ArrayBuffer) || data.byteLength > FRAME_BYTES_MAX || data.byteLength < 5) return null
  const view = new DataView(data)
  switch (view.getUint8(0)) {
    case SEGMENT:
    case MARKED_SEGMENT: {
      const segment = decodeSegment(data, 1)
      return segment === null ? null : { kind: 'segment', segment, isMarked: view.getUint8(0) === MARKED_SEGMENT }
    }
    case READ:
      return data.byteLength === 5 ? { kind: 'read', message: view.getUint32(1) } : null
    case RECEIPT:
      return data.byteLength === 9 ? { kind: 'receipt', bytes: Number(view.getBigUint64(1)) } : null
    case LANE: {
      const signal = textOf(new Uint8Array(data, 1))
      return signal === null ? null : { kind: 'lane', signal }
    }
    default:
      return null
  }
}
