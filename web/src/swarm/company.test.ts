import { beforeEach, describe, expect, it } from 'vitest'
import { encodeMessage, type PeerId } from '../bitswap/index.ts'
import type { Reply } from '../channel/index.ts'
import { Company } from './company.ts'
import type { Switchboard, SwitchboardDeps } from './direct/index.ts'
import { PretendClock } from './pretend-clock.ts'
import { encodeRelayFrame, encodeSignalFrame } from './segment.ts'

const PEER = '00000000000000aa' as PeerId

/** What the exchange is told, and of whom it is told anew, in order. */
let told: string[]
let company: Company
/** What the server says to what is pushed. */
let reply: Reply
/** What direct ways are made of, once they are. */
let ways: SwitchboardDeps | null
beforeEach(() => {
  told = []
  ways = null
  reply = { status: 'ok', response: {} }
  company = new Company({
    clock: new PretendClock(),
    random: () => 0.5,
    pageBytesMax: 1 << 20,
    frameBytesMax: 1 << 16,
    push: (event) => {
      if (event === 'relay') told.push('relayed')
      return Promise.resolve(reply)
    },
    stun: () => null,
    load: () => Promise.resolve((deps) => {
      ways = deps
      return { hear: () => {}, forget: () => {}, close: () => {} } as unknown as Switchboard
    }),
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

describe('a peer whose direct way breaks', () => {
  it.each([
    ['is asked for by relay, and kept while it is there', { status: 'ok', response: {} }, []],
    ['is parted from when the server says that it has gone', { status: 'error', response: { reason: 'peer gone' } }, ['disconnected']],
  ] as const)('%s', async (_what, answer, follows) => {
    await says(1)
    company.handleSignal(encodeSignalFrame(PEER, new Uint8Array(1)).buffer)
    await expect.poll(() => ways).not.toBeNull()
    const way = { isUp: true, send: () => Promise.resolve(), tellRead: () => {}, takeBack: () => [] }
    ways?.up(PEER, way)
    expect(company.roster.get(PEER)?.peer.path).toBe('direct')
    reply = answer
    way.isUp = false
    ways?.down(PEER)
    expect(told).toEqual(['relayed'])
    await new Promise((resolve) => setImmediate(resolve))
    expect(told.slice(1)).toEqual(follows)
    expect(company.roster.get(PEER) === null).toBe(follows.length > 0)
  })
})
