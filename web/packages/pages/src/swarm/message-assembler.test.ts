import { beforeEach, describe, expect, it } from 'vitest'
import type { PeerId } from '../bitswap/index.ts'
import { MessageAssembler, AssemblyBudget } from './message-assembler.ts'
import { decodeRelayFrame, encodeRelayFrame } from './segment.ts'

let budget: AssemblyBudget
let assembler: MessageAssembler
beforeEach(() => {
  budget = new AssemblyBudget(1000)
  assembler = new MessageAssembler(budget)
})

const part = (message: number, offset: number, total: number, ...bytes: number[]) => ({
  message,
  offset,
  total,
  bytes: Uint8Array.from(bytes),
})

describe('a message in segments', () => {
  it('is complete when the last segment arrives, in any order and with duplicates', () => {
    expect(assembler.add(0, part(1, 2, 5, 3, 4))).toEqual({ kind: 'partial' })
    expect(assembler.add(0, part(1, 4, 5, 5))).toEqual({ kind: 'partial' })
    expect(assembler.add(0, part(1, 2, 5, 3, 4))).toEqual({ kind: 'partial' })
    expect(assembler.add(0, part(1, 0, 5, 1, 2))).toEqual({ kind: 'complete', message: Uint8Array.of(1, 2, 3, 4, 5) })
    expect(budget.bytes).toBe(0)
  })

  it('may be interleaved with another message', () => {
    assembler.add(0, part(1, 0, 2, 1))
    assembler.add(0, part(2, 0, 2, 8))
    expect(assembler.add(0, part(1, 1, 2, 2))).toMatchObject({ kind: 'complete', message: { 0: 1, 1: 2 } })
    expect(assembler.add(0, part(2, 1, 2, 9))).toMatchObject({ kind: 'complete', message: { 0: 8, 1: 9 } })
  })

  it.each([
    ['empty', [part(1, 0, 0)]],
    ['too long', [part(1, 0, (4 << 20) + 1, 1)]],
    ['with a part beyond its end', [part(1, 2, 3, 1, 2)]],
    ['with an empty part', [part(1, 0, 3)]],
    ['with two different lengths', [part(1, 0, 3, 1), part(1, 1, 4, 1)]],
    ['with overlapping parts', [part(1, 0, 4, 1, 1), part(1, 1, 4, 1, 1)]],
    ['with two different parts at one offset', [part(1, 0, 4, 1, 1), part(1, 0, 4, 1)]],
  ])('%s is malformed', (_what, parts) => {
    expect(parts.map((each) => assembler.add(0, each)).at(-1)).toEqual({ kind: 'malformed' })
  })

  it('is malformed if it has too many segments', () => {
    const dust = new MessageAssembler(new AssemblyBudget(1 << 20))
    const results = Array.from({ length: 600 }, (_, i) => dust.add(0, part(1, i, 4000, 7)).kind)
    expect(results.filter((kind) => kind === 'malformed')).toHaveLength(600 - 512)
  })

  it('is dropped when it gets no segment for half a minute', () => {
    assembler.add(0, part(1, 0, 2, 1))
    assembler.add(29_000, part(2, 0, 2, 1))
    expect(assembler.add(31_000, part(1, 1, 2, 2))).toEqual({ kind: 'partial' })
    expect(assembler.add(31_000, part(2, 1, 2, 2))).toMatchObject({ kind: 'complete' })
  })

  it('is dropped when four newer messages of its sender are incomplete', () => {
    for (let message = 0; message < 5; message++) assembler.add(message, part(message, 0, 2, 1))
    expect(assembler.add(6, part(4, 1, 2, 2))).toMatchObject({ kind: 'complete' })
    expect(assembler.add(6, part(0, 1, 2, 2))).toEqual({ kind: 'partial' })
  })

  it('is dropped when the incomplete messages of all peers exceed the budget', () => {
    const other = new MessageAssembler(budget)
    const bytes = new Array<number>(600).fill(1)
    expect(assembler.add(0, part(1, 0, 700, ...bytes))).toEqual({ kind: 'partial' })
    expect(other.add(0, part(1, 0, 700, ...bytes))).toEqual({ kind: 'forgotten' })
    assembler.clear()
    expect(budget.bytes).toBe(0)
    expect(other.add(0, part(1, 0, 700, ...bytes))).toEqual({ kind: 'partial' })
  })
})

describe('a relay frame', () => {
  it('contains the receiver and the position of its segment', () => {
    const frame = encodeRelayFrame('00000000000000ff' as PeerId, part(1, 2, 0xffff_ffff, 9))
    expect([...frame]).toEqual([0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 1, 0, 0, 0, 2, 255, 255, 255, 255, 9])
    expect(decodeRelayFrame(frame.buffer)).toEqual({ from: '00000000000000ff', segment: part(1, 2, 0xffff_ffff, 9) })
    expect(decodeRelayFrame(new ArrayBuffer(19))).toBeNull()
  })
})
