import { expect, it } from 'vitest'
import { FakeClock } from '../../../test/fake-clock.ts'
import type { PeerId } from '../../bitswap/index.ts'
import type { Bytes } from '../../content/index.ts'
import { HEAD_BYTES, LiveError } from '../../live/index.ts'
import { AssemblyBudget } from '../message-assembler.ts'
import { PeerRoster } from '../peer-roster.ts'
import { HeadExchange } from './head-exchange.ts'

const PEER = 'peer' as PeerId

/** Receives 20 different heads of one peer, each of which verifies with this error. Returns the peers that were dropped. */
async function droppedAfter(error: Error): Promise<PeerId[]> {
  const clock = new FakeClock()
  const dropped: PeerId[] = []
  const roster = new PeerRoster(new AssemblyBudget(0), {
    push: () => Promise.resolve({ status: 'offline' }),
    clock,
    frameBytesMax: 65_536,
    random: () => 0,
    isConnecting: () => false,
  })
  let verified = 0
  const verify = () => {
    verified++
    return Promise.reject(error)
  }
  const exchange = new HeadExchange({
    clock,
    page: { heads: [], isSplit: false, verify, vouched: async () => [], verifyVouched: async () => [], offer: () => 'same' },
    peers: { roster, drop: (peer) => dropped.push(peer) },
  })
  const heads: Bytes[] = Array.from({ length: 20 }, (_, i) => new Uint8Array(HEAD_BYTES).fill(i))
  for (const head of heads) exchange.receive(PEER, { heads: [head], vouched: [] })
  await clock.until(() => verified === heads.length)
  await new Promise((resolve) => setImmediate(resolve))
  return dropped
}

it('drops a peer that sends many invalid heads', async () => {
  expect(await droppedAfter(new LiveError('Signature'))).toContain(PEER)
})

it('drops no peer because the code that verifies heads does not load', async () => {
  expect(await droppedAfter(new TypeError('no network'))).toEqual([])
})
