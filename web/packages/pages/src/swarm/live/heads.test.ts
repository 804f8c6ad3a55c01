import { expect, it } from 'vitest'
import { FakeClock } from '../../../test/fake-clock.ts'
import type { PeerId } from '../../bitswap/index.ts'
import type { Bytes } from '../../content/index.ts'
import { HEAD_BYTES, LiveError, type Head } from '../../live/index.ts'
import { HeadExchange, type HeadExchangeDeps } from './heads.ts'

const PEER = '00000000000000aa' as PeerId
const HEAD = { number: 1, bytes: new Uint8Array(HEAD_BYTES) } as Head
const cannotHash = () => Promise.reject(new DOMException('no memory', 'OperationError'))

/** The exchange of heads of a page, which sends to one peer. */
function exchangeOf(page: Partial<HeadExchangeDeps['page']>) {
  const clock = new FakeClock()
  const dropped: PeerId[] = []
  let sent = 0
  let ids: PeerId[] = []
  const exchange = new HeadExchange({
    clock,
    page: {
      heads: [],
      isSplit: false,
      isOld: () => false,
      verify: async () => HEAD,
      vouched: async () => [],
      verifyVouched: async () => [],
      offer: () => 'same',
      ...page,
    },
    peers: { ids: () => ids, send: () => void sent++, drop: (peer) => dropped.push(peer) },
  })
  return { clock, dropped, admit: (peer: PeerId) => (ids = [...ids, peer]), exchange, sent: () => sent }
}

/** Receives 20 different heads of one peer, each of which verifies with this error. Returns the peers that were dropped. */
async function droppedAfter(error: Error): Promise<PeerId[]> {
  let verified = 0
  const verify = () => {
    verified++
    return Promise.reject(error)
  }
  const { clock, dropped, exchange } = exchangeOf({ verify })
  const heads: Bytes[] = Array.from({ length: 20 }, (_, i) => new Uint8Array(HEAD_BYTES).fill(i))
  for (const [i, head] of heads.entries()) {
    exchange.receive(PEER, { heads: [head], vouched: [] })
    await clock.until(() => verified === i + 1)
  }
  await new Promise((resolve) => setImmediate(resolve))
  return dropped
}

it('drops a peer that sends many invalid heads', async () => {
  expect(await droppedAfter(new LiveError('Signature'))).toContain(PEER)
})

it('drops no peer because the code that verifies heads does not load', async () => {
  expect(await droppedAfter(new TypeError('no network'))).toEqual([])
})

it('takes a head although this browser cannot hash the blocks beside it', async () => {
  const offered: unknown[] = []
  const { clock, exchange } = exchangeOf({
    verifyVouched: cannotHash,
    offer: (head, blocks) => {
      offered.push([head, blocks])
      return 'same'
    },
  })
  exchange.receive(PEER, { heads: [HEAD.bytes], vouched: [new Uint8Array(1)] })
  await clock.until(() => offered.length > 0)
  expect(offered).toEqual([[HEAD, []]])
})

it('sends a head although the blocks beside it cannot be read', async () => {
  const { clock, exchange, admit, sent } = exchangeOf({ heads: [HEAD], vouched: cannotHash })
  admit(PEER)
  exchange.announce()
  await clock.until(() => sent() === 1)
})

it('verifies a head of each peer in turn, and none that is old', async () => {
  const verified: string[] = []
  const { clock, exchange } = exchangeOf({
    isOld: ([first]) => first === 0,
    verify: async (bytes) => {
      verified.push(`${bytes[0]}`)
      return HEAD
    },
  })
  const receive = (peer: string, first: number) => {
    exchange.receive(peer as PeerId, { heads: [new Uint8Array(HEAD_BYTES).fill(first)], vouched: [] })
  }
  for (let i = 1; i < 100; i++) receive('00000000000000aa', i)
  receive('00000000000000bb', 200)
  receive('00000000000000cc', 0)
  await clock.until(() => verified.includes('200'))
  expect(verified).toEqual(['1', '99', '200'])
})
