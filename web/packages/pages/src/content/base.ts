/** The text forms of bytes in CIDs: bases of one digit for a fixed number of bits, and bases that treat the bytes as one number. */

/** A base: its letters are digits in the order of this text. */
export interface Base {
  encode(bytes: Uint8Array): string
  /** `null` if a letter is not a digit, or if bits that belong to no byte are not zero. */
  decode(text: string): Uint8Array<ArrayBuffer> | null
}

const LOWER = 'abcdefghijklmnopqrstuvwxyz'

export const base16 = baseOfBits('0123456789abcdef', 4)
export const base32 = baseOfBits(`${LOWER}234567`, 5)
export const base36 = baseOfNumber(`0123456789${LOWER}`)
export const base58 = baseOfNumber('123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz')

/** RFC 4648, without padding. */
function baseOfBits(digits: string, bitsPerDigit: number): Base {
  return {
    encode: (bytes) => regroup(bytes, 8, bitsPerDigit, true).reduce((text, digit) => text + digits.charAt(digit), ''),
    decode(text) {
      const values = valuesOf(digits, text)
      if (values === null) return null
      const bytes = Uint8Array.from(regroup(values, bitsPerDigit, 8, false))
      // The bits after the last byte are fewer than a digit, and zero.
      return this.encode(bytes) === text ? bytes : null
    },
  }
}

/** Groups of bits as groups of another size. `isPadded`: zeros complete the last group, which is dropped otherwise. */
function regroup(groups: Iterable<number>, from: number, to: number, isPadded: boolean): number[] {
  const result: number[] = []
  let waiting = 0
  let bits = 0
  for (const group of groups) {
    waiting = (waiting << from) | group
    bits += from
    while (bits >= to) {
      bits -= to
      result.push(waiting >> bits)
      waiting &= (1 << bits) - 1
    }
  }
  if (isPadded && bits > 0) result.push(waiting << (to - bits))
  return result
}

/** The bytes are one number, and each zero byte at its start is one zero digit. It takes quadratic time. */
function baseOfNumber(digits: string): Base {
  const zero = digits.charAt(0)
  return {
    encode(bytes) {
      const values = convert(bytes, 256, digits.length)
      return zero.repeat(leadingZeros(bytes)) + values.reduce((text, value) => text + digits.charAt(value), '')
    },
    decode(text) {
      const values = valuesOf(digits, text)
      return values && Uint8Array.from([...values.slice(0, leadingZeros(values)), ...convert(values, digits.length, 256)])
    },
  }
}

/** The digits of a number in another base, without zeros at the start. */
function convert(values: Iterable<number>, from: number, to: number): number[] {
  const result: number[] = [] // The least digit first.
  for (const value of values) {
    let carry = value
    for (const [i, digit] of result.entries()) {
      carry += digit * from
      result[i] = carry % to
      carry = Math.floor(carry / to)
    }
    while (carry > 0) {
      result.push(carry % to)
      carry = Math.floor(carry / to)
    }
  }
  return result.reverse()
}

function leadingZeros(values: Uint8Array | readonly number[]): number {
  const first = values.findIndex((value) => value !== 0)
  return first < 0 ? values.length : first
}

function valuesOf(digits: string, text: string): number[] | null {
  const values = Array.from(text, (letter) => digits.indexOf(letter))
  return values.includes(-1) ? null : values
}
