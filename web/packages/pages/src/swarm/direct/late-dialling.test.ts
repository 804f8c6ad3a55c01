import { beforeEach, expect, it } from 'vitest'
import type { PeerId } from '../../bitswap/index.ts'
import { FakeClock } from '../../../test/fake-clock.ts'
import { FakeRtcNetwork } from '../../../test/fake-rtc-network.ts'
import { DiallingConnections } from './dialling-connections.ts'
import type { DirectConnectionsDeps } from '../direct-paths.ts'
import { directConnections } from './connections.ts'
import { LateDialling, type AddDialling } from './late-dialling.ts'
import { encodeSignal, type Signal } from './signal.ts'

const [terminal, other] = ['f', 'e'].map((digit) => digit.repeat(16)) as [PeerId, PeerId]
const offer = (call: number) =>
  ({ kind: 'web_transport', call, addresses: ['192.0.2.1:1'], certificate: '0'.repeat(64), secret: '0'.repeat(32) }) as const
const settle = () => new Promise((resolve) => setTimeout(resolve, 5))

let clock: FakeClock
beforeEach(() => {
  clock = new FakeClock()
})

/** A tab whose code is loaded when the test says so. */
function tab() {
  const signals: Signal[] = []
  const misbehaved: PeerId[] = []
  const dialled: number[] = []
  const loads: { finish: () => void; fail: () => void }[] = []
  const deps: DirectConnectionsDeps = {
    clock,
    random: () => 0.5,
    self: () => '0'.repeat(16) as PeerId,
    stun: () => [],
    send: (_to, bytes) => {
      signals.push(JSON.parse(new TextDecoder().decode(bytes)) as Signal)
      return Promise.resolve(true)
    },
    emit: (event) => void (event.kind === 'misbehaved' && misbehaved.push(event.peer)),
  }
  const add: AddDialling = (calls, deps) =>
    new DiallingConnections(
      ({ call }) => {
        dialled.push(call)
        return new Promise(() => {})
      },
      calls,
      deps,
    )
  const load = () =>
    new Promise<AddDialling>((resolve, reject) => {
      loads.push({ finish: () => resolve(add), fail: () => reject(new Error('offline')) })
    })
  const connections = new LateDialling(load, directConnections(new FakeRtcNetwork(clock).make)(deps), deps)
  const handle = (signal: object, peer = terminal) => connections.handleSignal(peer, encodeSignal(signal as Signal))
  return { connections, signals, misbehaved, dialled, loads, handle }
}

it('loads the code that dials with the first offer, and only then', async () => {
  const { connections, dialled, loads, handle } = tab()
  connections.connect(other)
  handle({ kind: 'hang_up', call: 1, reason: 'over' })
  expect(loads).toHaveLength(0)
  handle(offer(1))
  handle(offer(2))
  handle(offer(3), other)
  expect(loads).toHaveLength(1)
  loads[0]?.finish()
  await settle()
  expect(dialled).toEqual([2, 3])
  handle(offer(4))
  expect([loads.length, dialled]).toEqual([1, [2, 3, 4]])
  expect(connections.status(terminal)).toEqual({ kind: 'calling', hindrance: null })
  expect(connections.size).toBe(3)
})

it('answers calls while the code is loaded, and without it', async () => {
  const { signals, dialled, loads, handle } = tab()
  handle(offer(1))
  handle({ kind: 'offer', call: 2, sdp: 'v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=line:0\r\n' })
  await settle()
  expect(signals.map(({ kind }) => kind)).toEqual(['answer'])
  loads[0]?.fail()
  await settle()
  expect(dialled).toEqual([])
  handle(offer(3))
  loads[1]?.finish()
  await settle()
  expect(dialled).toEqual([3])
})

it('dials nobody who is gone, nor after the page is closed', async () => {
  const { connections, dialled, loads, handle } = tab()
  handle(offer(1))
  handle(offer(2), other)
  connections.forget(terminal)
  loads[0]?.finish()
  await settle()
  expect(dialled).toEqual([2])
  const closed = tab()
  closed.handle(offer(1))
  closed.connections.close()
  closed.loads[0]?.finish()
  await settle()
  closed.handle(offer(2))
  expect([closed.dialled, closed.loads.length]).toEqual([[], 1])
})

it('keeps the offers of at most twelve peers while the code is loaded', async () => {
  const { dialled, loads, handle } = tab()
  for (let n = 0; n < 20; n++) handle(offer(n), n.toString(16).padStart(16, '0') as PeerId)
  loads[0]?.finish()
  await settle()
  expect(dialled).toHaveLength(12)
})

it('drops a peer for an invalid offer', async () => {
  const { misbehaved, loads, handle } = tab()
  handle({ ...offer(1), secret: 'x' })
  loads[0]?.finish()
  await settle()
  expect(misbehaved).toEqual([terminal])
})
