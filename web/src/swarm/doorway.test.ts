import { expect, it } from 'vitest'
import type { PeerId } from '../bitswap/index.ts'
import type { Switchboard, SwitchboardDeps } from './direct/index.ts'
import { Doorway } from './doorway.ts'

const [honest, vandal] = ['0000000000000001', '0000000000000002'] as PeerId[] as [PeerId, PeerId]

it('hears what waited for its code, but no more of who is sent away meanwhile', async () => {
  const heard: [PeerId, number][] = []
  let come = (_: (deps: SwitchboardDeps) => Switchboard) => {}
  const doorway = new Doorway(() => new Promise((resolve) => (come = resolve)), {} as SwitchboardDeps)
  const switchboard = {
    hear(peer: PeerId, [signal = -1]: Uint8Array) {
      heard.push([peer, signal])
      if (peer === vandal) doorway.forget(peer)
    },
    forget() {},
  } as Partial<Switchboard> as Switchboard

  for (const signal of [1, 2, 3]) {
    doorway.hear(vandal, Uint8Array.of(signal))
    doorway.hear(honest, Uint8Array.of(signal))
  }
  come(() => switchboard)
  await new Promise((resolve) => setImmediate(resolve))
  expect(heard).toEqual([[vandal, 1], [honest, 1], [honest, 2], [honest, 3]])
  doorway.hear(honest, Uint8Array.of(4))
  expect(heard.at(-1)).toEqual([honest, 4])
})
