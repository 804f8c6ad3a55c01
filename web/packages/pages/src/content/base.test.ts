import { describe, expect, it } from 'vitest'
import { base16, base32, base36, base58 } from './base.ts'

const bytesOf = (text: string) => new TextEncoder().encode(text)

describe('the bases of CIDs', () => {
  // From RFC 4648 and from the vectors of the multibase specification.
  it.each([
    [base16, '', ''],
    [base16, 'foobar', '666f6f626172'],
    [base32, 'f', 'my'],
    [base32, 'fo', 'mzxq'],
    [base32, 'foo', 'mzxw6'],
    [base32, 'foob', 'mzxw6yq'],
    [base32, 'fooba', 'mzxw6ytb'],
    [base32, 'foobar', 'mzxw6ytboi'],
    [base32, '\0\0yes mani !', 'aaahszltebwwc3tjeaqq'],
    [base36, 'yes mani !', '2lcpzo5yikidynfl'],
    [base36, '\0\0yes mani !', '002lcpzo5yikidynfl'],
    [base58, 'yes mani !', '7paNL19xttacUY'],
    [base58, '\0\0yes mani !', '117paNL19xttacUY'],
    [base58, '\0\0', '11'],
  ])('are those of their specifications (%#)', (base, content, text) => {
    expect(base.encode(bytesOf(content))).toBe(text)
    expect(base.decode(text)).toEqual(bytesOf(content))
  })

  it.each([base16, base32, base36, base58])('return all bytes of any length (%#)', (base) => {
    for (let length = 0; length < 40; length++) {
      const bytes = Uint8Array.from({ length }, (_, i) => (i * 151 + length * 7) % 256)
      expect(base.decode(base.encode(bytes))).toEqual(bytes)
    }
  })

  it('have one text for the same bytes', () => {
    // A half byte, a digit too much, and bits after the last byte.
    for (const [base, text] of [
      [base16, '6'],
      [base32, 'mya'],
      [base32, 'mz'],
      [base32, 'm'],
    ] as const)
      expect(base.decode(text)).toBeNull()
  })

  it('have no other letters', () => {
    for (const [base, text] of [
      [base16, 'AB'],
      [base32, 'm1'],
      [base32, 'my======'],
      [base36, 'É'],
      [base58, '0OIl'],
    ] as const) {
      expect(base.decode(text)).toBeNull()
    }
  })
})
