import { describe, expect, it } from 'vitest'
import { decodeDialOffer } from './dial-offer.ts'
import { encodeSignal } from './signal.ts'

const offer = { call: 7, addresses: ['192.0.2.1:4433'], certificate: '0f'.repeat(32), secret: 'a0'.repeat(16) }
const read = (value: unknown) => decodeDialOffer(new TextEncoder().encode(JSON.stringify(value)))
const readOffer = (changed: object) => read({ kind: 'web_transport', ...offer, ...changed })

describe('an offer of a stream', () => {
  it('has addresses with ports, the hash of a certificate, and a secret', () => {
    expect(readOffer({})).toEqual(offer)
    const addresses = ['[2001:db8::1]:4433', 'a-b.example.org:1']
    expect(readOffer({ addresses })).toEqual({ ...offer, addresses })
  })

  it.each<[string, object]>([
    ['a call that is not a number', { call: '1' }],
    ['a call that is too large', { call: 2 ** 32 }],
    ['no addresses', { addresses: [] }],
    ['addresses that are not a list', { addresses: '192.0.2.1:4433' }],
    ['too many addresses', { addresses: Array(10).fill('192.0.2.1:4433') }],
    ['an address without a port', { addresses: ['192.0.2.1'] }],
    ['an address with a path', { addresses: ['192.0.2.1:4433/a'] }],
    ['an address with a user', { addresses: ['a@192.0.2.1:4433'] }],
    ['an address that is too long', { addresses: [`${'a'.repeat(256)}:1`] }],
    ['a certificate that is no hash', { certificate: '0f' }],
    ['a secret that is not hexadecimal', { secret: 'x'.repeat(32) }],
  ])('is invalid with %s', (_what, changed) => {
    expect(readOffer(changed)).toBe('invalid')
  })

  it('is not any other signal, and nothing else', () => {
    expect(decodeDialOffer(encodeSignal({ kind: 'hang_up', call: 1, reason: 'over' }))).toBeNull()
    for (const value of [null, 7, [], 'web_transport', {}]) expect(read(value)).toBeNull()
    expect(decodeDialOffer(Uint8Array.of(0x7b))).toBeNull()
    expect(decodeDialOffer(new Uint8Array(1 << 20))).toBeNull()
  })
})
