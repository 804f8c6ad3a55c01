import { describe, expect, it } from 'vitest'
import type { BlockMap, Rarest } from '../swarm/index.ts'
import { missingRanges, runsOf, tallyOf } from './strip.ts'
import { hasText, missingSentence, pictureText, rarestSentence, ratioSentence, reachSentence, wayOf } from './tell.ts'

const map = (here: number[], elsewhere: number[], rarest: Rarest | null = null): BlockMap =>
  ({ here: Uint8Array.from(here), elsewhere: Uint8Array.from(elsewhere), rarest })

const rare = (copies: number, blocks: number, holders: number, isOurs = false, nodes = 0, inNodes: number | null = nodes) =>
  rarestSentence(map(Array<number>(20).fill(1), Array<number>(20).fill(0), { copies, blocks, holders, isOurs, nodes, inNodes }))

describe('the rarest block', () => {
  it('is told in words', () => {
    expect(rare(1, 12, 1)).toBe('The last copy of 12 blocks is in one tab.')
    expect(rare(1, 1, 1)).toBe('The last copy of 1 block is in one tab.')
    expect(rare(1, 12, 1, true)).toBe('The last copy of 12 blocks is in this tab.')
    expect(rare(1, 20, 1, true)).toBe('The only copy of this page is in this tab.')
    expect(rare(1, 12, 3)).toBe('There is only one copy each of 12 blocks, in 3 tabs.')
    expect(rare(2, 7, 4)).toBe('The rarest 7 blocks are in 2 tabs each.')
    expect(rare(4, 20, 4)).toBe('Every block is in 4 tabs.')
    expect(rarestSentence(map([0], [0]))).toBe(null)
  })

  it('may be in a node, which is no tab', () => {
    expect(rare(1, 12, 1, false, 1)).toBe('The last copy of 12 blocks is in one node.')
    expect(rare(1, 12, 3, true, 2)).toBe('There is only one copy each of 12 blocks, in 1 tab and 2 nodes.')
    expect(rare(2, 20, 2, true, 1)).toBe('Every block is in 1 tab and 1 node.')
    expect(rare(2, 20, 2, false, 2)).toBe('Every block is in 2 nodes.')
    // Some are in two tabs, others in a tab and a node.
    expect(rare(2, 7, 3, true, 1, null)).toBe('The rarest 7 blocks are in 2 tabs or nodes each.')
  })
})

describe('what nobody has', () => {
  it('is named by number, as ranges', () => {
    expect(missingSentence(map([1, 0, 1], [0, 1, 0]))).toBe(null)
    expect(missingSentence(map([1, 0, 1], [0, 0, 0]))).toBe('1 block is with nobody who is here: number 2.')
    const gaps = map([0, 0, 1, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0, 0, 0])
    expect(missingSentence(gaps)).toBe(
      '5 blocks are with nobody who is here: numbers 1 to 2, number 4, number 6 and others.',
    )
    expect(missingRanges(gaps, 9)).toEqual({
      ranges: [{ from: 1, to: 2 }, { from: 4, to: 4 }, { from: 6, to: 6 }, { from: 8, to: 8 }], isCut: false,
    })
  })
})

describe('the picture', () => {
  it('shows each block where it is', () => {
    const runs = runsOf(map([1, 1, 0, 0, 0, 0], [3, 0, 1, 2, 9, 0]), 100)
    expect(runs.map(({ where, from, length }) => [where, from, length])).toEqual([
      ['here', 0, 2], [1, 2, 1], [2, 3, 1], [3, 4, 1], ['nowhere', 5, 1],
    ])
  })

  it('shows the worst of those that share a place, and no more places than it has', () => {
    const here = Array<number>(1000).fill(1)
    here[500] = 0
    const runs = runsOf(map(here, Array<number>(1000).fill(0)), 100)
    expect(runs.map(({ where, length }) => [where, length])).toEqual([['here', 50], ['nowhere', 1], ['here', 49]])
    expect(runsOf(map([], []), 100)).toEqual([])
  })

  it('is told in words too', () => {
    expect(pictureText(tallyOf(map([1, 0, 0, 0], [0, 2, 1, 0])))).toBe('Of 4 blocks, 1 here, 2 elsewhere, 1 nowhere.')
  })
})

describe('what a browser gives back', () => {
  it('is told beside what it took', () => {
    const MIB = 1024 * 1024
    expect(ratioSentence({ sentBytes: 0, receivedBytes: 5 })).toBe('It has given nothing yet.')
    expect(ratioSentence({ sentBytes: 3 * MIB, receivedBytes: 0 })).toBe(
      'It has given 3 MiB and taken nothing: it had all of it.',
    )
    expect(ratioSentence({ sentBytes: 3 * MIB, receivedBytes: 2 * MIB })).toBe(
      'It has given 3 MiB and taken 2 MiB: 1.5× back for each byte.',
    )
  })
})

describe('a peer', () => {
  it('has all, some of so many, a part, or nothing', () => {
    expect(hasText({ have: 'all', blocks: 9 }, 9)).toBe('all')
    expect(hasText({ have: 'some', blocks: 4 }, 9)).toBe('4 of 9')
    expect(hasText({ have: 'some', blocks: null }, 9)).toBe('a part')
    expect(hasText({ have: 'none', blocks: 0 }, null)).toBe('nothing yet')
  })

  it('is met directly, by relay, or is a node', () => {
    expect(wayOf({ path: 'direct', kind: 'tab' })).toBe('direct')
    expect(wayOf({ path: 'relay', kind: 'tab' })).toBe('relay')
    expect(wayOf({ path: 'relay', kind: 'node' })).toBe('node')
    expect(wayOf({ path: 'direct', kind: 'node' })).toBe('direct')
    expect(reachSentence({ kind: 'none', why: 'node', failures: 0, again: null })).toBe(
      'By the server: it is a terminal or another server, which has no WebRTC.',
    )
  })

  it('that cannot be reached directly is told of with the reason', () => {
    expect(reachSentence({ kind: 'none', why: 'absent', failures: 0, again: null })).toBe(
      'This browser has no WebRTC, so everything goes by the server.',
    )
    expect(reachSentence({ kind: 'none', why: 'unreachable', failures: 1, again: 20_000 })).toBe(
      'Both sides tried, and nothing got through: a firewall or router stands between. Tried again in 20 s.',
    )
    expect(reachSentence({ kind: 'none', why: 'hidden-here', failures: 3, again: null })).toBe(
      'This browser tells nobody its address, so it cannot be found directly. It is not tried any more.',
    )
  })
})
