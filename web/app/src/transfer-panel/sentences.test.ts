import { describe, expect, it } from 'vitest'
import type { BlockMap, Rarest } from '@watchfire/pages/swarm'
import { missingRanges, runsOf, countBlocks } from './block-runs.ts'
import { hasText, missingSentence, pictureText, rarestSentence, ratioSentence, directSentence, pathOf } from './sentences.ts'

const map = (here: number[], elsewhere: number[], rarest: Rarest | null = null): BlockMap => ({
  here: Uint8Array.from(here),
  elsewhere: Uint8Array.from(elsewhere),
  rarest,
})

const rare = (copies: number, blocks: number, holders: number, isOurs = false, nodes = 0, inNodes: number | null = nodes) =>
  rarestSentence(map(Array<number>(20).fill(1), Array<number>(20).fill(0), { copies, blocks, holders, isOurs, nodes, inNodes }))

describe('the sentence about the rarest blocks', () => {
  it('counts copies and holders', () => {
    expect(rare(1, 12, 1)).toBe('The last copy of 12 blocks is in one tab.')
    expect(rare(1, 1, 1)).toBe('The last copy of 1 block is in one tab.')
    expect(rare(1, 12, 1, true)).toBe('The last copy of 12 blocks is in this tab.')
    expect(rare(1, 20, 1, true)).toBe('The only copy of this page is in this tab.')
    expect(rare(1, 12, 3)).toBe('There is only one copy each of 12 blocks, in 3 tabs.')
    expect(rare(2, 7, 4)).toBe('The rarest 7 blocks are in 2 tabs each.')
    expect(rare(4, 20, 4)).toBe('Every block is in 4 tabs.')
    expect(rarestSentence(map([0], [0]))).toBe(null)
  })

  it('distinguishes nodes from tabs', () => {
    expect(rare(1, 12, 1, false, 1)).toBe('The last copy of 12 blocks is in one node.')
    expect(rare(1, 12, 3, true, 2)).toBe('There is only one copy each of 12 blocks, in 1 tab and 2 nodes.')
    expect(rare(2, 20, 2, true, 1)).toBe('Every block is in 1 tab and 1 node.')
    expect(rare(2, 20, 2, false, 2)).toBe('Every block is in 2 nodes.')
    // Some blocks are in two tabs, others in a tab and on a node.
    expect(rare(2, 7, 3, true, 1, null)).toBe('The rarest 7 blocks are in 2 tabs or nodes each.')
  })
})

describe('the sentence about missing blocks', () => {
  it('lists their numbers as ranges', () => {
    expect(missingSentence(map([1, 0, 1], [0, 1, 0]))).toBe(null)
    expect(missingSentence(map([1, 0, 1], [0, 0, 0]))).toBe('1 block is missing, nobody here has it: number 2.')
    const gaps = map([0, 0, 1, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0, 0, 0])
    expect(missingSentence(gaps)).toBe('5 blocks are missing, nobody here has them: numbers 1 to 2, number 4, number 6 and others.')
    expect(missingRanges(gaps, 9)).toEqual({
      ranges: [
        { from: 1, to: 2 },
        { from: 4, to: 4 },
        { from: 6, to: 6 },
        { from: 8, to: 8 },
      ],
      isCut: false,
    })
  })
})

describe('the bar of blocks', () => {
  it('shows where each block is', () => {
    const runs = runsOf(map([1, 1, 0, 0, 0, 0], [3, 0, 1, 2, 9, 0]), 100)
    expect(runs.map(({ where, from, length }) => [where, from, length])).toEqual([
      ['here', 0, 2],
      [1, 2, 1],
      [2, 3, 1],
      [3, 4, 1],
      ['nowhere', 5, 1],
    ])
  })

  it('shows the worst of the blocks that share a column, within its width', () => {
    const here = Array<number>(1000).fill(1)
    here[500] = 0
    const runs = runsOf(map(here, Array<number>(1000).fill(0)), 100)
    expect(runs.map(({ where, length }) => [where, length])).toEqual([
      ['here', 50],
      ['nowhere', 1],
      ['here', 49],
    ])
    expect(runsOf(map([], []), 100)).toEqual([])
  })

  it('has a text alternative', () => {
    expect(pictureText(countBlocks(map([1, 0, 0, 0], [0, 2, 1, 0])))).toBe('Of 4 blocks, 1 here, 2 elsewhere, 1 missing.')
  })
})

describe('the sentence about the ratio', () => {
  it('compares sent and received bytes', () => {
    const MIB = 1024 * 1024
    expect(ratioSentence({ sentBytes: 0, receivedBytes: 5 })).toBe('It has sent nothing yet.')
    expect(ratioSentence({ sentBytes: 3 * MIB, receivedBytes: 0 })).toBe('It has sent 3 MiB and received nothing: it had the whole page.')
    expect(ratioSentence({ sentBytes: 3 * MIB, receivedBytes: 2 * MIB })).toBe('It has sent 3 MiB and received 2 MiB: 1.5× as much.')
  })
})

describe('a peer', () => {
  it('has all blocks, a number of them, a part, or nothing', () => {
    expect(hasText({ have: 'all', blocks: 9 }, 9)).toBe('all')
    expect(hasText({ have: 'some', blocks: 4 }, 9)).toBe('4 of 9')
    expect(hasText({ have: 'some', blocks: null }, 9)).toBe('a part')
    expect(hasText({ have: 'none', blocks: 0 }, null)).toBe('nothing yet')
  })

  it('is connected directly, by relay, or is a node', () => {
    expect(pathOf({ path: 'direct', kind: 'tab' })).toBe('direct')
    expect(pathOf({ path: 'relay', kind: 'tab' })).toBe('relay')
    expect(pathOf({ path: 'relay', kind: 'node' })).toBe('node')
    expect(pathOf({ path: 'direct', kind: 'node' })).toBe('direct')
    expect(directSentence({ kind: 'none', why: 'node', failures: 0, again: null })).toBe(
      'Through the server: this peer is a terminal or another server. A terminal connects directly when it has much to send.',
    )
  })

  it('without a direct connection is shown with the reason', () => {
    expect(directSentence({ kind: 'none', why: 'absent', failures: 0, again: null })).toBe(
      'This browser has no WebRTC, or hides your address, so everything goes through the server.',
    )
    expect(directSentence({ kind: 'none', why: 'unreachable', failures: 1, again: 20_000 })).toBe(
      'Both sides tried and failed: a firewall or router blocks the connection. Next attempt in 20 s.',
    )
    expect(directSentence({ kind: 'none', why: 'hidden-here', failures: 3, again: null })).toBe(
      'This browser hides its address, so a direct connection is not possible. No more attempts.',
    )
    expect(directSentence({ kind: 'none', why: 'no-udp-there', failures: 3, again: null })).toBe(
      'The other network lets no UDP through, which a direct connection needs. No more attempts.',
    )
  })

  it('is shown with what will probably prevent a direct connection', () => {
    expect(directSentence({ kind: 'calling', hindrance: null })).toBe('Trying a direct connection.')
    expect(directSentence({ kind: 'calling', hindrance: 'symmetric-both' })).toBe(
      'Trying a direct connection. Both routers use another port for each connection (symmetric NAT), so they cannot find each other.',
    )
  })
})
