import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../../test/fake-clock.ts'
import { fromHex, readVectors } from '../../../test/vectors.ts'
import { receiveMessage, type PeerId } from '../../bitswap/index.ts'
import type { Bytes } from '../../content/index.ts'
import type { Head } from '../../live/index.ts'
import { HeadExchange } from './heads.ts'

interface Vectors {
  readonly messages: readonly { readonly about: string; readonly hex: string; readonly heads: string[]; readonly vouched: string[] }[]
}

const { messages } = readVectors<Vectors>('live/pages.json')
const PEER = '00000000000000aa' as PeerId

/** The heads in a message that are verified, and the blocks that are verified with each of them. */
async function readFrom(message: Bytes): Promise<{ heads: Bytes[]; vouched: (readonly Bytes[])[] }> {
  const clock = new FakeClock()
  const heads: Bytes[] = []
  const vouched: (readonly Bytes[])[] = []
  const exchange = new HeadExchange({
    clock,
    page: {
      heads: [],
      isSplit: false,
      isOld: () => false,
      verify: async (bytes) => {
        heads.push(bytes)
        return { number: 1, bytes } as Head
      },
      vouched: async () => [],
      verifyVouched: async (_head, blocks) => {
        vouched.push(blocks)
        return []
      },
      offer: () => 'same',
    },
    peers: { ids: () => [], send: () => {}, drop: () => {} },
  })
  const received = await receiveMessage(message)
  exchange.receive(PEER, received)
  await clock.until(() => vouched.length === received.heads.length)
  return { heads, vouched }
}

describe('messages with heads, as in the vectors', () => {
  it.each(messages)('$about', async ({ hex, heads, vouched }) => {
    const read = await readFrom(fromHex(hex))
    expect(read.heads).toEqual(heads.map(fromHex))
    // No head of a split page vouches for blocks.
    expect(read.vouched).toEqual(heads.map(() => vouched.map(fromHex)))
  })
})
