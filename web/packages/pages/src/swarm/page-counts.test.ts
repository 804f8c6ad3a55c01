import { beforeEach, describe, expect, it } from 'vitest'
import type { PeerId } from '../bitswap/index.ts'
import type { Counts } from './api.ts'
import { PageCounts } from './page-counts.ts'

const ALICE = '00000000000000aa' as PeerId
const BOB = '00000000000000bb' as PeerId
const NO_NODES = { watching: 0, holders: 0, partial: 0 }

let page: PageCounts
beforeEach(() => {
  page = new PageCounts()
})

const countsOf = (watching: number, holders: number, partial: number, nodes = NO_NODES): Counts => ({ watching, holders, partial, nodes })
const corrected = (...counts: Parameters<typeof countsOf>) => {
  page.applyCounts(countsOf(...counts))
  return page.counts
}

describe('the counts of a page', () => {
  it('leave out tabs that are silent, by what they had', () => {
    page.addSilent(0, ALICE, 'all')
    expect(corrected(3, 2, 1)).toEqual(countsOf(2, 1, 1))
    page.addSilent(0, BOB, 'some')
    expect(corrected(3, 2, 1)).toEqual(countsOf(1, 1, 0))
  })

  it('are the server’s again once a tab sends, and when the server has noticed too', () => {
    page.addSilent(0, ALICE, 'all')
    page.addSilent(0, BOB, 'some')
    page.deleteSilent(ALICE)
    expect(corrected(3, 2, 1)).toEqual(countsOf(2, 2, 0))
    expect(page.nextWake()).toBe(60_000)
    page.handleTick(60_000)
    expect([page.counts, page.nextWake()]).toEqual([countsOf(3, 2, 1), Infinity])
  })

  it('never contradict themselves, and count this tab and the nodes', () => {
    page.addSilent(0, ALICE, 'none')
    expect(corrected(2, 2, 0)).toEqual(countsOf(1, 1, 0))
    expect(corrected(1, 1, 0)).toEqual(countsOf(1, 1, 0))
    const nodes = { watching: 2, holders: 2, partial: 0 }
    expect(corrected(2, 2, 0, nodes)).toEqual(countsOf(2, 2, 0, nodes))
  })

  it('leave out a tab that has left until the server has sent counts without it, or for two seconds', () => {
    page.addSilent(0, ALICE, 'all')
    // Counts that change for another reason have it still.
    expect(corrected(2, 1, 0)).toEqual(countsOf(1, 0, 0))
    page.noteLeft(0, ALICE)
    expect(page.counts).toEqual(countsOf(1, 0, 0))
    expect(corrected(2, 1, 0)).toEqual(countsOf(2, 1, 0))
    page.addSilent(0, ALICE, 'all')
    page.noteLeft(1_000, ALICE)
    page.handleTick(2_999)
    expect(page.counts).toEqual(countsOf(1, 0, 0))
    page.handleTick(3_000)
    expect(page.counts).toEqual(countsOf(2, 1, 0))
  })

  it('show when the last holder was lost', () => {
    corrected(3, 1, 1)
    expect([page.isAvailable, page.lastAvailableAt]).toEqual([true, null])
    page.addSilent(1_000, ALICE, 'all')
    page.addSilent(2_000, BOB, 'some')
    expect([page.isAvailable, page.lastAvailableAt]).toEqual([false, 1_000])
    page.deleteSilent(ALICE)
    expect([page.isAvailable, page.lastAvailableAt]).toEqual([true, null])
  })

  it('leave out a bounded number of tabs', () => {
    for (let i = 0; i < 100; i++) page.addSilent(0, i.toString(16).padStart(16, '0') as PeerId, 'all')
    expect(corrected(100, 100, 0).watching).toBe(36)
  })
})
