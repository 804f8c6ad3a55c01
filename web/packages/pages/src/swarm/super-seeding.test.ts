import { beforeEach, describe, expect, it } from 'vitest'
import type { Input, PeerId, WantEntry } from '../bitswap/index.ts'
import { makeCid, RAW, SHA2_256, type Cid } from '../content/index.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import { SuperSeeding } from './super-seeding.ts'

const MIB = 1 << 20
const cid = (n: number): Cid => makeCid(1, RAW, SHA2_256, new Uint8Array(32).fill(n))
const [anna, ben, cleo] = ['000000000000000a', '000000000000000b', '000000000000000c'] as [PeerId, PeerId, PeerId]

let clock: FakeClock
let isSource: boolean
let letGo: Cid[]
let copies: SuperSeeding
beforeEach(() => {
  clock = new FakeClock()
  isSource = true
  letGo = []
  copies = new SuperSeeding({ clock, isSource: () => isSource, release: (each) => letGo.push(each) })
})

function says(peer: PeerId, ...wants: Partial<WantEntry>[]): void {
  const entry: WantEntry = { cid: cid(1), priority: 1, cancel: false, kind: 'block', sendDontHave: true }
  const message = { full: false, wants: wants.map((want) => ({ ...entry, ...want })), presences: [], pendingBytes: 0 }
  copies.handleInput({ kind: 'message', peer, message, blocks: [], skippedEntries: 0, skippedBlocks: 0 } satisfies Input)
}

/** The peer wants the block and gets it. */
function gets(peer: PeerId, n: number, took = 10): void {
  says(peer, { cid: cid(n) })
  copies.noteSending(peer, cid(n), MIB)
  clock.pass(took)
  copies.noteSent(peer, cid(n))
}

/** The peer wants the block, is refused, and sends a want-have. */
function isRefused(peer: PeerId, n: number): void {
  says(peer, { cid: cid(n) })
  expect(copies.isHeldBackFrom(peer, cid(n))).toBe(true)
  says(peer, { cid: cid(n), cancel: true }, { cid: cid(n), kind: 'have' })
}

describe('a super-seeder', () => {
  it('holds back the blocks that it sent to a peer, and no others', () => {
    gets(anna, 1)
    expect(copies.isHeldBack(cid(1))).toBe(true)
    expect(copies.isHeldBackFrom(ben, cid(1))).toBe(true)
    expect(copies.isHeldBackFrom(anna, cid(1))).toBe(false)
    expect(copies.isHeldBack(cid(2))).toBe(false)
  })

  it('holds back no short block', () => {
    copies.noteSending(anna, cid(1), 64 << 10)
    expect(copies.isHeldBack(cid(1))).toBe(false)
  })

  it('holds back no urgent block', () => {
    gets(anna, 1)
    says(ben, { priority: 2 ** 31 - 1 })
    expect(copies.isHeldBack(cid(1))).toBe(false)
    expect(copies.isHeldBackFrom(ben, cid(1))).toBe(false)
    expect(copies.isHeldBackFrom(cleo, cid(1))).toBe(true)
  })

  it('holds back nothing if other peers have a full copy', () => {
    isSource = false
    gets(anna, 1)
    expect(copies.isHeldBack(cid(1))).toBe(false)
    isSource = true
    gets(anna, 2)
    isRefused(ben, 2)
    isSource = false
    expect(copies.isHeldBack(cid(2))).toBe(false)
    clock.pass(100)
    expect(letGo).toEqual([cid(2)])
  })

  it('releases a block at once when the peer that got it leaves or wants it again', () => {
    gets(anna, 1)
    gets(anna, 2)
    copies.handleInput({ kind: 'disconnected', peer: anna })
    expect(letGo).toEqual([cid(1), cid(2)])
    gets(ben, 3)
    says(ben, { cid: cid(3) })
    expect(copies.isHeldBackFrom(ben, cid(3))).toBe(false)
    expect(letGo).toEqual([cid(1), cid(2), cid(3)])
  })
})

describe('a refused peer', () => {
  it('gets the oldest block that it wants if it gets nothing from others for a while', () => {
    gets(anna, 1)
    gets(anna, 2)
    isRefused(ben, 2)
    isRefused(ben, 1)
    clock.pass(500)
    expect(letGo).toEqual([])
    clock.pass(1100)
    expect(letGo[0]).toEqual(cid(1))
    expect(copies.isHeldBackFrom(ben, cid(1))).toBe(false)
    expect(copies.isHeldBackFrom(ben, cid(2))).toBe(true)
  })

  it('waits while it gets blocks from others', () => {
    for (let n = 1; n <= 20; n++) gets(anna, n, 200)
    for (let n = 1; n <= 20; n++) isRefused(ben, n)
    for (let n = 1; n <= 15; n++) {
      clock.pass(500)
      says(ben, { cid: cid(n), cancel: true })
    }
    expect(letGo).toEqual([])
    clock.pass(2000)
    expect(letGo.length).toBeGreaterThan(0)
  })

  it('gets one block per round once others give it nothing', () => {
    for (let n = 1; n <= 20; n++) gets(anna, n, 100)
    for (let n = 1; n <= 20; n++) isRefused(ben, n)
    let given = 0
    while (given < 20) {
      if (!clock.fireNext()) break
      for (const each of letGo.splice(0)) {
        given++
        says(ben, { cid: each })
        copies.noteSending(ben, each, MIB)
        clock.pass(100)
        copies.noteSent(ben, each)
      }
    }
    expect(given).toBe(20)
    // Twenty times a tenth of a second, in rounds of two peers, of which one wants nothing, plus the time until the
    // seeder noticed.
    expect(clock.now()).toBeLessThan(2000 + 2000 + 20 * 500)
  })

  it('waits for a block at most two minutes', () => {
    gets(anna, 1)
    isRefused(ben, 1)
    for (let n = 2; n < 140; n++) {
      gets(anna, n, 300)
      isRefused(ben, n)
      clock.pass(700)
      says(ben, { cid: cid(n), cancel: true })
    }
    expect(letGo).toContainEqual(cid(1))
  })
})
