import { describe, expect, it } from 'vitest'
import { FRAME_BYTES_MAX } from './frame.ts'
import { FrameReader, withLength } from './frame-reader.ts'

describe('the frames of a stream', () => {
  it.each([5, 1000, 100_000])('are cut from pieces of %i bytes', (size) => {
    const frames = [Uint8Array.of(1), new Uint8Array(300).fill(2), new Uint8Array(FRAME_BYTES_MAX).fill(3)]
    const bytes = Buffer.concat(frames.map(withLength))
    const reader = new FrameReader()
    const read: Uint8Array[] = []
    for (let at = 0; at < bytes.length; at += size) {
      expect(reader.push(bytes.subarray(at, at + size), (frame) => read.push(new Uint8Array(frame)))).toBe(true)
    }
    expect(read.map(({ length }) => length)).toEqual([1, 300, FRAME_BYTES_MAX])
    expect(Buffer.concat(read).equals(Buffer.concat(frames))).toBe(true)
  })

  it.each([0, FRAME_BYTES_MAX + 1, 0xffff])('are rejected before they arrive if their length is %i', (length) => {
    const read: ArrayBuffer[] = []
    expect(new FrameReader().push(Uint8Array.of(length >> 8, length & 0xff), (frame) => read.push(frame))).toBe(false)
    expect(read).toEqual([])
  })
})
