import { beforeEach, describe, expect, it } from 'vitest'
import type { PeerId } from '../bitswap/index.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import type { Counts } from './api.ts'
import { SilentPeers } from './silent-peers.ts'

const ALICE = '00000000000000aa' as PeerId
const BOB = '00000000000000bb' as PeerId
const NO_NODES = { watching: 0, holders: 0, partial: 0 }

let clock: FakeClock
let changes: number
let silent: SilentPeers
beforeEach(() => {
  clock = new FakeClock()
  changes = 0
  silent = new SilentPeers(clock, () => changes++)
})

const countsOf = (watching: number, holders: number, partial: number, nodes = NO_NODES): Counts => ({ watching, holders, partial, nodes })

describe('the counts of a page', () => {
  it('leave out tabs that are silent, by what they had', () => {
    silent.add(ALICE, 'all')
    expect(silent.correct(countsOf(3, 2, 1))).toEqual(countsOf(2, 1, 1))
    silent.add(BOB, 'some')
    expect(silent.correct(countsOf(3, 2, 1))).toEqual(countsOf(1, 1, 0))
  })

  it('are the server’s again once a tab sends, and when the server has noticed too', () => {
    const counts = countsOf(3, 2, 1)
    silent.add(ALICE, 'all')
    silent.add(BOB, 'some')
    silent.delete(ALICE)
    expect(silent.correct(counts)).toEqual(countsOf(2, 2, 0))
    clock.pass(60_000)
    expect([silent.correct(counts), changes]).toEqual([counts, 2])
  })

  it('never contradict themselves, and count this tab and the nodes', () => {
    silent.add(ALICE, 'none')
    expect(silent.correct(countsOf(2, 2, 0))).toEqual(countsOf(1, 1, 0))
    expect(silent.correct(countsOf(1, 1, 0))).toEqual(countsOf(1, 1, 0))
    const nodes = { watching: 2, holders: 2, partial: 0 }
    expect(silent.correct(countsOf(2, 2, 0, nodes))).toEqual(countsOf(2, 2, 0, nodes))
  })

  it('leave out a tab that has left until the server has sent counts without it, or for two seconds', () => {
    for (const left of [() => silent.noteCounts(), () => clock.pass(2_000)]) {
      silent.add(ALICE, 'all')
      // Counts that change for another reason have it still.
      silent.noteCounts()
      silent.noteLeft(ALICE)
      expect(silent.correct(countsOf(2, 1, 0))).toEqual(countsOf(1, 0, 0))
      left()
      expect(silent.correct(countsOf(1, 0, 0))).toEqual(countsOf(1, 0, 0))
      expect(silent.correct(countsOf(2, 1, 0))).toEqual(countsOf(2, 1, 0))
    }
  })

  it('show when the last holder was lost', () => {
    expect(silent.holderLostAt).toBeNull()
    for (const [peer, have] of [
      [ALICE, 'all'],
      [BOB, 'some'],
    ] as const) {
      clock.pass(1_000)
      silent.add(peer, have)
    }
    expect(silent.holderLostAt).toBe(1_000)
    silent.delete(ALICE)
    expect(silent.holderLostAt).toBeNull()
  })

  it('leave out a bounded number of tabs', () => {
    for (let i = 0; i < 100; i++) silent.add(i.toString(16).padStart(16, '0') as PeerId, 'all')
    expect(silent.correct(countsOf(100, 100, 0)).watching).toBe(36)
  })
})
