import { beforeEach, describe, expect, it } from 'vitest'
import type { Input, PeerId, WantEntry } from '../bitswap/index.ts'
import { makeCid, RAW, SHA2_256, type Cid } from '../content/index.ts'
import { PretendClock } from './pretend-clock.ts'
import { SecondCopies } from './second-copies.ts'

const MIB = 1 << 20
const cid = (n: number): Cid => makeCid(1, RAW, SHA2_256, new Uint8Array(32).fill(n))
const [anna, ben, cleo] = ['000000000000000a', '000000000000000b', '000000000000000c'] as [PeerId, PeerId, PeerId]

let clock: PretendClock
let isSource: boolean
let letGo: Cid[]
let copies: SecondCopies
beforeEach(() => {
  clock = new PretendClock()
  isSource = true
  letGo = []
  copies = new SecondCopies({ clock, isSource: () => isSource, letGo: (each) => letGo.push(each) })
})

function says(peer: PeerId, ...wants: Partial<WantEntry>[]): void {
  const entry: WantEntry = { cid: cid(1), priority: 1, cancel: false, type: 'block', sendDontHave: true }
  const message = { full: false, wants: wants.map((want) => ({ ...entry, ...want })), presences: [], pendingBytes: 0 }
  copies.hear({ kind: 'received', peer, message, blocks: [], passedOver: 0, passedOverBlocks: 0 } satisfies Input)
}

/** The peer asks for the block, and gets it. */
function gets(peer: PeerId, n: number, took = 10): void {
  says(peer, { cid: cid(n) })
  copies.goes(peer, cid(n), MIB)
  clock.pass(took)
  copies.left(peer, cid(n))
}

/** The peer asks for the block, is refused, and asks whether it is here from then on. */
function isRefused(peer: PeerId, n: number): void {
  says(peer, { cid: cid(n) })
  expect(copies.isHeldBackFrom(peer, cid(n))).toBe(true)
  says(peer, { cid: cid(n), cancel: true }, { cid: cid(n), type: 'have' })
}

describe('who shares a page', () => {
  it('keeps what it gave to one from the others, and nothing else', () => {
    gets(anna, 1)
    expect(copies.isHeldBack(cid(1))).toBe(true)
    expect(copies.isHeldBackFrom(ben, cid(1))).toBe(true)
    expect(copies.isHeldBackFrom(anna, cid(1))).toBe(false)
    expect(copies.isHeldBack(cid(2))).toBe(false)
  })

  it('keeps back no short block, for much waits for it', () => {
    copies.goes(anna, cid(1), 64 << 10)
    expect(copies.isHeldBack(cid(1))).toBe(false)
  })

  it('keeps nothing from who is about to look at it', () => {
    gets(anna, 1)
    says(ben, { priority: 2 ** 31 - 1 })
    expect(copies.isHeldBack(cid(1))).toBe(false)
    expect(copies.isHeldBackFrom(ben, cid(1))).toBe(false)
    expect(copies.isHeldBackFrom(cleo, cid(1))).toBe(true)
  })

  it('keeps nothing back where others have all of the page as well', () => {
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

  it('gives again at once what was lost with who had it, or on its way there', () => {
    gets(anna, 1)
    gets(anna, 2)
    copies.hear({ kind: 'disconnected', peer: anna })
    expect(letGo).toEqual([cid(1), cid(2)])
    gets(ben, 3)
    says(ben, { cid: cid(3) })
    expect(copies.isHeldBackFrom(ben, cid(3))).toBe(false)
    expect(letGo).toEqual([cid(1), cid(2), cid(3)])
  })
})

describe('who is refused', () => {
  it('gets the oldest block that it asks about when others give it nothing for a while', () => {
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

  it('waits while others give it blocks', () => {
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

  it('gets the rest as fast as it can be given, once others are seen to give nothing', () => {
    for (let n = 1; n <= 20; n++) gets(anna, n, 100)
    for (let n = 1; n <= 20; n++) isRefused(ben, n)
    let given = 0
    while (given < 20) {
      if (!clock.ring()) break
      for (const each of letGo.splice(0)) {
        given++
        says(ben, { cid: each })
        copies.goes(ben, each, MIB)
        clock.pass(100)
        copies.left(ben, each)
      }
    }
    expect(given).toBe(20)
    // Twenty times a tenth of a second, in turns for two of which one wants nothing; and the time that showed it.
    expect(clock.now()).toBeLessThan(2000 + 2000 + 20 * 500)
  })

  it('waits for no block longer than two minutes, whatever others give', () => {
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
