import { beforeEach, describe, expect, it } from 'vitest'
import { encodeMessage, type PeerId } from '../bitswap/index.ts'
import { Company } from './company.ts'
import { PretendClock } from './pretend-clock.ts'
import { encodeRelayFrame } from './segment.ts'

const PEER = '00000000000000aa' as PeerId

/** What the exchange is told, and of whom it is told anew, in order. */
let told: string[]
let company: Company
beforeEach(() => {
  told = []
  company = new Company({
    clock: new PretendClock(),
    random: () => 0.5,
    pageBytesMax: 1 << 20,
    frameBytesMax: 1 << 16,
    push: () => Promise.resolve({ status: 'ok', response: {} }),
    stun: () => null,
    load: null,
    isOver: () => false,
    introduced: ({ peer }, isNew) => told.push(`${isNew ? 'introduced' : 'known'} ${peer.id}`),
    room: () => null,
    tell: ({ kind }) => told.push(kind),
    malformed: () => told.push('malformed'),
    sentAway: () => told.push('sent away'),
    changed: () => {},
  })
})

/** The peer says something under these numbers, one after the other. */
async function says(...numbers: number[]): Promise<string[]> {
  for (const message of numbers) {
    const bytes = encodeMessage({ full: false, wants: [], presences: [], pendingBytes: 0 }, [])
    company.handleRelay(encodeRelayFrame(PEER, { message, offset: 0, total: bytes.length, bytes }).buffer)
    const before = told.length
    await expect.poll(() => told.length).toBeGreaterThan(before)
  }
  return told.splice(0)
}

describe('a peer whose numbers begin anew', () => {
  it('lost us for a while, and our wants with us: the exchange meets it again before it hears more', async () => {
    expect(await says(7, 8, 9)).toEqual([`introduced ${PEER}`, 'received', 'received', 'received'])
    expect(await says(3_000_000_000)).toEqual(['disconnected', `introduced ${PEER}`, 'received'])
    expect(await says(3_000_000_001)).toEqual(['received'])
    expect(await says(7)).toEqual(['disconnected', `introduced ${PEER}`, 'received'])
  })

  it('is told from one whose messages overtook each other, or whose numbers ran over', async () => {
    expect(await says(300, 299, 41, 301, 60_000)).toEqual([`introduced ${PEER}`, ...Array<string>(5).fill('received')])
    company.part(PEER)
    told.length = 0
    expect(await says(2 ** 32 - 2, 1, 2 ** 32 - 1, 2)).toEqual([`introduced ${PEER}`, ...Array<string>(4).fill('received')])
  })
})
