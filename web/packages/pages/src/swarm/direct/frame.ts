import { concat, uint32, type Bytes } from '../../content/index.ts'
import { decodeSegment, encodeSegment, SEGMENT_HEADER_BYTES, type Segment } from '../segment.ts'

/** The length of a message on a data channel that every implementation accepts. */
export const FRAME_BYTES_MAX = 16 << 10
/** Bytes of a message in one frame. */
export const PART_BYTES_MAX = FRAME_BYTES_MAX - 1 - SEGMENT_HEADER_BYTES

const SEGMENT = 0
const READ = 1

/** A frame on a direct path: a part of a message, or the acknowledgement that a message was read. */
export type Frame = { readonly kind: 'segment'; readonly segment: Segment } | { readonly kind: 'read'; readonly message: number }

export function encodeSegmentFrame(segment: Segment): Bytes {
  return encodeSegment(Uint8Array.of(SEGMENT), segment)
}

export function encodeReadFrame(message: number): Bytes {
  return concat([Uint8Array.of(READ), uint32(message)])
}

/** Returns `null` for a frame that no honest peer sends. */
export function decodeFrame(data: unknown): Frame | null {
  if (!(data instanceof ArrayBuffer) || data.byteLength > FRAME_BYTES_MAX || data.byteLength < 5) return null
  const view = new DataView(data)
  switch (view.getUint8(0)) {
    case SEGMENT: {
      const segment = decodeSegment(data, 1)
      return segment === null ? null : { kind: 'segment', segment }
    }
    case READ:
      return data.byteLength === 5 ? { kind: 'read', message: view.getUint32(1) } : null
    default:
      return null
  }
}
