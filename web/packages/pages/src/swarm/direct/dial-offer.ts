import { isCount } from '../../limits/count.ts'
import { SIGNAL_BYTES_MAX } from './signal.ts'

/** The addresses of a terminal, and the one that its router has. */
const ADDRESSES_MAX = 9
const ADDRESS_LENGTH_MAX = 256

/** A signal of a terminal that accepts WebTransport. */
export interface DialOffer {
  /** The number by which the offer is declined. */
  readonly call: number
  /** A host and a port each. */
  readonly addresses: readonly string[]
  /** The SHA-256 of the certificate, in hexadecimal. */
  readonly certificate: string
  /** The path of the session, in hexadecimal. */
  readonly secret: string
}

/** Decodes bytes that can be anything. Returns `null` for another signal, and `'invalid'` for an offer that no honest peer sends. */
export function decodeDialOffer(bytes: Uint8Array): DialOffer | 'invalid' | null {
  if (bytes.length > SIGNAL_BYTES_MAX) return null
  let value: { [name: string]: unknown }
  try {
    value = Object(JSON.parse(new TextDecoder().decode(bytes))) as typeof value
  } catch {
    return null
  }
  const { kind, call, addresses, certificate, secret } = value
  if (kind !== 'web_transport') return null
  if (!isCount(call) || call >= 2 ** 32) return 'invalid'
  if (!isHexadecimal(certificate, 64) || !isHexadecimal(secret, 32) || !Array.isArray(addresses)) return 'invalid'
  if (addresses.length === 0 || addresses.length > ADDRESSES_MAX || !addresses.every(isAddress)) return 'invalid'
  return { call, addresses, certificate, secret }
}

function isHexadecimal(value: unknown, digits: number): value is string {
  return typeof value === 'string' && value.length === digits && /^[0-9a-f]+$/.test(value)
}

function isAddress(value: unknown): value is string {
  return typeof value === 'string' && value.length <= ADDRESS_LENGTH_MAX && /^([a-z0-9.-]+|\[[0-9a-f:.]+\]):\d{1,5}$/i.test(value)
}
