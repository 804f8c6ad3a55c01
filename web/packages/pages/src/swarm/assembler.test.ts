import { describe, expect, it } from 'vitest'
import { readVectors } from '../../test/vectors.ts'
import type { PeerId } from '../bitswap/index.ts'
import { Assembler } from './assembler.ts'
import { decodeRelayFrame, encodeRelayFrame } from './segment.ts'

type Segment = [at: number, peer: number, message: number, offset: number, total: number, part: string, result: string, times?: number]

interface Scenario {
  readonly about: string
  readonly budget?: number
  readonly steps: readonly (['clear', peer: number] | Segment)[]
}

describe('messages in segments, as in the vectors', () => {
  it.each(readVectors<Scenario[]>('page/assembler.json'))('$about', ({ budget: bytesMax = 1000, steps }) => {
    const budget = { bytesMax, bytes: 0 }
    const assemblers = [new Assembler(budget), new Assembler(budget)]
    for (const step of steps) {
      if (step[0] === 'clear') {
        assemblers[step[1]]?.clear()
        continue
      }
      const [at, peer, message, first, total, part, result, times = 1] = step
      for (let offset = first; offset < first + times; offset++) {
        const assembled = assemblers[peer]?.add(at, { message, offset, total, bytes: new TextEncoder().encode(part) })
        expect(assembled instanceof Uint8Array ? `=${new TextDecoder().decode(assembled)}` : assembled).toBe(result)
      }
    }
    for (const assembler of assemblers) assembler.clear()
    expect(budget.bytes).toBe(0)
  })
})

describe('a relay frame', () => {
  it('contains the receiver and the position of its segment', () => {
    const segment = { message: 1, offset: 2, total: 0xffff_ffff, bytes: Uint8Array.of(9) }
    const frame = encodeRelayFrame('00000000000000ff' as PeerId, segment)
    expect([...frame]).toEqual([0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 1, 0, 0, 0, 2, 255, 255, 255, 255, 9])
    expect(decodeRelayFrame(frame.buffer)).toEqual({ from: '00000000000000ff', segment })
    expect(decodeRelayFrame(new ArrayBuffer(19))).toBeNull()
  })
})
