import { textOf, utf8, type Bytes } from '../../content/index.ts'
import { fieldsOf } from '../../limits/fields.ts'
import { isCount } from '../../limits/count.ts'

/** The longest signal in bytes that the server forwards. */
export const SIGNAL_BYTES_MAX = 16 << 10
/** The longest description in characters. One of a data channel alone has some hundreds. */
const SDP_LENGTH_MAX = 8 << 10
const CANDIDATE_LENGTH_MAX = 512
const CANDIDATES_MAX = 16
const MID_LENGTH_MAX = 16

/** The reason for the end of a call: its connection is needed elsewhere, it failed, or it is not needed any more. */
export type HangUpReason = 'busy' | 'failed' | 'over'

/** A signal between two peers that connect directly. `call` identifies the attempt. */
export type Signal =
  /** `receipts`: the sender answers marked segments with receipts. `lanes`: it also takes lanes. */
  | { readonly kind: 'offer' | 'answer'; readonly call: number; readonly sdp: string; readonly receipts?: true; readonly lanes?: true }
  | { readonly kind: 'candidates'; readonly call: number; readonly candidates: readonly Candidate[] }
  | { readonly kind: 'hang_up'; readonly call: number; readonly reason: HangUpReason }
  /** The offer of a stream. Only `dial-offer.ts` reads the rest of it. */
  | { readonly kind: 'web_transport'; readonly call: number }

/** An address under which a peer may be reached, in SDP syntax. */
export interface Candidate {
  readonly candidate: string
  readonly sdpMid: string | null
  readonly sdpMLineIndex: number | null
}

export function encodeSignal(signal: Signal): Bytes {
  return utf8(JSON.stringify(signal))
}

/** Decodes bytes that can be anything. Returns `null` for what no honest peer sends. */
export function decodeSignal(bytes: Uint8Array): Signal | null {
  if (bytes.length > SIGNAL_BYTES_MAX) return null
  let value: unknown
  try {
    value = JSON.parse(textOf(bytes) ?? '')
  } catch {
    return null
  }
  const { kind, call, sdp, receipts, lanes, candidates, reason } = fieldsOf(value)
  if (!isCount(call) || call >= 2 ** 32) return null
  switch (kind) {
    case 'offer':
    case 'answer':
      return isOfDataAlone(sdp) ? { kind, call, sdp, ...(receipts === true && { receipts }), ...(lanes === true && { lanes }) } : null
    case 'candidates': {
      if (!Array.isArray(candidates) || candidates.length === 0 || candidates.length > CANDIDATES_MAX) return null
      const read = candidates.map(readCandidate)
      return read.every((each) => each !== null) ? { kind, call, candidates: read } : null
    }
    case 'hang_up':
      return reason === 'busy' || reason === 'failed' || reason === 'over' ? { kind, call, reason } : null
    case 'web_transport':
      return { kind, call }
    default:
      return null
  }
}

/** Whether it looks like a description of one data section. Calls with audio or video are rejected. */
export function isOfDataAlone(sdp: unknown): sdp is string {
  if (typeof sdp !== 'string' || sdp.length > SDP_LENGTH_MAX || !sdp.startsWith('v=0')) return false
  const media = sdp.match(/^m=.*/gm) ?? []
  return media.length === 1 && media[0]?.startsWith('m=application ') === true
}

function readCandidate(value: unknown): Candidate | null {
  const { candidate, sdpMid, sdpMLineIndex } = fieldsOf(value)
  if (typeof candidate !== 'string' || candidate.length > CANDIDATE_LENGTH_MAX) return null
  // Foundation, component, transport, priority, address, port, "typ", type.
  if (!/^candidate:\S+ \d+ \S+ \d+ \S+ \d+ typ \S+/.test(candidate)) return null
  const hasMid = typeof sdpMid === 'string' && sdpMid.length <= MID_LENGTH_MAX
  if (!hasMid && sdpMLineIndex !== 0) return null
  return { candidate, sdpMid: hasMid ? sdpMid : null, sdpMLineIndex: sdpMLineIndex === 0 ? 0 : null }
}
