import { expect, it, vi } from 'vitest'
import type { Reply, Topic, TopicEvents } from '@watchfire/client/connection'
import type { TokenKeeper } from './grid.ts'
import { joinGrid } from './grid.ts'
import type { Crossing } from './protocol.ts'

const cat: Crossing = { sprite: 'cat', picture: null, edge: 'left', at: 0.5, velocity: { x: 900, y: 0 } }

async function fakeGrid(token: string | null) {
  const joins: TopicEvents[] = []
  const arrived: Crossing[] = []
  const pushed: unknown[] = []
  const fake = { reply: { status: 'ok', response: {} } as Reply, token, lefts: 0 }
  const topic: Topic = {
    isJoined: () => true,
    push(_, payload) {
      pushed.push(payload)
      return Promise.resolve(fake.reply)
    },
    leave: () => void fake.lefts++,
  }
  const connection = {
    state: 'open' as const,
    subscribe: () => () => undefined,
    join(_: string, __: readonly string[], events: TopicEvents) {
      joins.push(events)
      return topic
    },
    verify: () => Promise.resolve(),
    connect: () => ({}) as never,
    close: () => undefined,
  }
  const keeper: TokenKeeper = { read: () => fake.token, write: (now) => (fake.token = now) }
  const session = joinGrid(Promise.resolve(connection), 'meadow', keeper, (crossing) => arrived.push(crossing))
  await vi.waitFor(() => expect(joins).toHaveLength(1))
  return { fake, joins, arrived, pushed, session }
}

it('a join sends the stored token, and stores the new one', async () => {
  const { fake, joins, session } = await fakeGrid('old')
  expect(joins[0]?.params?.()).toEqual({ token: 'old' })
  joins[0]?.joined?.({ token: 'new', peer: 'p', neighbours: { left: 'a' } })
  expect(fake.token).toBe('new')
  expect(session.neighbours.value.left).toBe('a')
  expect(session.standing.value).toBe('joined')
})

it('a client whose slot was taken over joins again without the token', async () => {
  const { fake, joins } = await fakeGrid('shared')
  joins[0]?.message?.('moved', {})
  expect(fake.lefts).toBe(1)
  expect(joins).toHaveLength(2)
  expect(joins[1]?.params?.()).toEqual({})
})

it('a throw without a receiver comes back', async () => {
  const { fake, session } = await fakeGrid(null)
  expect(await session.throw(cat)).toBe('across')
  for (const reply of [
    { status: 'ok', response: { wrapped: true } },
    { status: 'error', response: { reason: 'slot taken' } },
    { status: 'offline' },
  ] satisfies Reply[]) {
    fake.reply = reply
    expect(await session.throw(cat)).toBe('back')
  }
})

it('a throw names its picture, if it has one', async () => {
  const { pushed, session } = await fakeGrid(null)
  await session.throw(cat)
  await session.throw({ ...cat, picture: 'bafk' })
  const { picture: _, ...drawn } = cat
  expect(pushed).toStrictEqual([drawn, { ...cat, picture: 'bafk' }])
})

it('valid arrivals are passed on, and invalid ones ignored', async () => {
  const { joins, arrived } = await fakeGrid(null)
  joins[0]?.message?.('arrive', { ...cat, from: 'p' })
  joins[0]?.message?.('arrive', { ...cat, at: 'far' })
  expect(arrived).toEqual([cat])
})
