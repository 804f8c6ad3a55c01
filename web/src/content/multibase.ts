import type { Bytes } from './bytes.ts'
import { malformed } from './error.ts'

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567'
const BASE36 = '0123456789abcdefghijklmnopqrstuvwxyz'
const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/** RFC 4648 base32, lower case, without padding. */
export function encodeBase32(bytes: Uint8Array): string {
  let text = ''
  let bits = 0
  let held = 0
  for (const byte of bytes) {
    held = (held << 8) | byte
    bits += 8
    while (bits >= 5) {
      bits -= 5
      text += BASE32[(held >> bits) & 31]
    }
    held &= 255
  }
  if (bits > 0) text += BASE32[(held << (5 - bits)) & 31]
  return text
}

export function decodeBase32(text: string): Bytes {
  const bytes = new Uint8Array(Math.floor((text.length * 5) / 8))
  let bits = 0
  let held = 0
  let at = 0
  for (const letter of text) {
    const value = BASE32.indexOf(letter)
    if (value < 0) throw malformed('base32')
    held = ((held << 5) | value) & 0xfff
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes[at++] = (held >> bits) & 255
    }
  }
  if (bits >= 5 || (held & ((1 << bits) - 1)) !== 0) throw malformed('base32Rest')
  return bytes
}

export function decodeBase16(text: string): Bytes {
  if (!/^([0-9a-f]{2})*$/.test(text)) throw malformed('base')
  return Uint8Array.from(text.match(/../g) ?? [], (byte) => parseInt(byte, 16))
}

/** Bitcoin's base58. It takes quadratic time, so callers limit the length. */
export function encodeBase58(bytes: Uint8Array): string {
  const digits: number[] = []
  for (const byte of bytes) {
    let carry = byte
    for (let i = 0; i < digits.length; i++) {
      carry += (digits[i] ?? 0) << 8
      digits[i] = carry % 58
      carry = Math.floor(carry / 58)
    }
    while (carry > 0) {
      digits.push(carry % 58)
      carry = Math.floor(carry / 58)
    }
  }
  const zeros = bytes.findIndex((byte) => byte !== 0)
  return (
    '1'.repeat(zeros < 0 ? bytes.length : zeros) +
    digits
      .reverse()
      .map((digit) => BASE58[digit])
      .join('')
  )
}

export function decodeBase58(text: string): Bytes {
  return decodeNumber(text, BASE58)
}

/** Lower-case base36, in quadratic time too. */
export function decodeBase36(text: string): Bytes {
  return decodeNumber(text, BASE36)
}

/** A number whose leading zeros are zero bytes. */
function decodeNumber(text: string, alphabet: string): Bytes {
  const digits: number[] = []
  let zeros = 0
  for (const letter of text) {
    let carry = alphabet.indexOf(letter)
    if (carry < 0) throw malformed('base')
    if (carry === 0 && digits.length === 0) zeros++
    for (let i = 0; i < digits.length; i++) {
      carry += (digits[i] ?? 0) * alphabet.length
      digits[i] = carry & 255
      carry >>= 8
    }
    while (carry > 0) {
      digits.push(carry & 255)
      carry >>= 8
    }
  }
  return Uint8Array.from([...new Array<number>(zeros).fill(0), ...digits.reverse()])
}
