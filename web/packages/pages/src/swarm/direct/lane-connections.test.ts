import { beforeEach, describe, expect, it } from 'vitest'
import { FakeClock } from '../../../test/fake-clock.ts'
import { FakeRtcNetwork } from '../../../test/fake-rtc-network.ts'
import { LaneConnections } from './lane-connections.ts'
import type { DataChannel } from './rtc-interfaces.ts'

let clock: FakeClock
let net: FakeRtcNetwork
let happened: string[]
let released: number
let spare: number
beforeEach(() => {
  clock = new FakeClock()
  net = new FakeRtcNetwork(clock)
  happened = []
  released = 0
  spare = 12
})

/** Two sides whose signals reach each other. */
function pair() {
  const channels: DataChannel[] = []
  const side = (name: string, isCaller: boolean, other: () => LaneConnections) =>
    new LaneConnections({
      clock,
      isCaller,
      take: () => (spare-- > 0 ? net.make({}) : null),
      release: (connection) => {
        released++
        connection.close()
      },
      send: (signal) => other().handleSignal(signal),
      onOpen: (channel) => {
        happened.push(`${name} open`)
        channels.push(channel)
        return () => happened.push(`${name} ended`)
      },
      onMisbehaviour: () => happened.push(`${name} misbehaviour`),
    })
  const caller: LaneConnections = side('caller', true, () => callee)
  const callee: LaneConnections = side('callee', false, () => caller)
  return { caller, callee, channels }
}

describe('the connections of lanes', () => {
  it('open on both sides, three for each', async () => {
    const { caller, callee } = pair()
    caller.openAll()
    callee.openAll()
    await clock.until(() => happened.length === 12)
    expect(happened.toSorted()).toEqual([...Array(6).fill('callee open'), ...Array(6).fill('caller open')])
    clock.pass(20_000)
    expect(released).toBe(0)
  })

  it('are released when the call ends, and when a channel closes', async () => {
    const { caller, callee, channels } = pair()
    caller.openAll()
    await clock.until(() => channels.length === 6)
    caller.close()
    callee.close()
    expect(released).toBe(6)
  })

  it('end when the network breaks, and what was under way is known to be lost', async () => {
    const { caller, channels } = pair()
    caller.openAll()
    await clock.until(() => channels.length === 6)
    net.cut()
    await clock.until(() => released === 6)
    expect([...new Set(happened)].toSorted()).toEqual(['callee ended', 'callee open', 'caller ended', 'caller open'])
  })

  it('are given up if they do not open, or none is to spare', async () => {
    const { caller } = pair()
    spare = 1
    caller.openAll()
    clock.pass(20_000)
    await clock.until(() => released === 1)
    expect(happened).toEqual([])
  })

  it('are not opened again and again by a peer that ends them', () => {
    const { caller } = pair()
    spare = 0
    const offer = JSON.stringify({ lane: 4, kind: 'offer', sdp: 'v=0\r\nm=application 9 UDP' })
    for (let i = 0; i < 7; i++) caller.handleSignal(offer)
    expect(happened).toEqual(['caller misbehaviour'])
  })

  it.each([
    ['text', 'hello'],
    ['an unknown number', '{"lane":7,"kind":"offer","sdp":"v=0\\r\\nm=application 9"}'],
    ['an offer with one of our own numbers', '{"lane":1,"kind":"offer","sdp":"v=0\\r\\nm=application 9 UDP"}'],
    ['audio', '{"lane":4,"kind":"offer","sdp":"v=0\\r\\nm=audio 9"}'],
  ])('treat %s as misbehaviour', (_what, signal) => {
    const { caller } = pair()
    caller.handleSignal(signal)
    expect(happened).toEqual(['caller misbehaviour'])
  })
})
