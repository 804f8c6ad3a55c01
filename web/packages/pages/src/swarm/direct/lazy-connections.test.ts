import { expect, it } from 'vitest'
import type { PeerId } from '../../bitswap/index.ts'
import type { DirectConnections, DirectConnectionsDeps } from '../direct-paths.ts'
import { LazyDirectConnections } from './lazy-connections.ts'

const [honest, vandal] = ['0000000000000001', '0000000000000002'] as PeerId[] as [PeerId, PeerId]

it('signals that waited for the code are handled, except those of peers that were dropped meanwhile', async () => {
  const received: [PeerId, number][] = []
  let resolveCode = (_: (deps: DirectConnectionsDeps) => DirectConnections) => {}
  const lazy = new LazyDirectConnections(() => new Promise((resolve) => (resolveCode = resolve)), {} as DirectConnectionsDeps)
  const connections = {
    handleSignal(peer: PeerId, [signal = -1]: Uint8Array) {
      received.push([peer, signal])
      if (peer === vandal) lazy.forget(peer)
    },
    forget() {},
  } as Partial<DirectConnections> as DirectConnections

  for (const signal of [1, 2, 3]) {
    lazy.handleSignal(vandal, Uint8Array.of(signal))
    lazy.handleSignal(honest, Uint8Array.of(signal))
  }
  resolveCode(() => connections)
  await new Promise((resolve) => setImmediate(resolve))
  expect(received).toEqual([
    [vandal, 1],
    [honest, 1],
    [honest, 2],
    [honest, 3],
  ])
  lazy.handleSignal(honest, Uint8Array.of(4))
  expect(received.at(-1)).toEqual([honest, 4])
})
