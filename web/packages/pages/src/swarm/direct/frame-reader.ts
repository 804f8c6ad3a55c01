import { FRAME_BYTES_MAX } from './frame.ts'

const LENGTH_BYTES = 2

/** Puts the length of a frame before it. */
export function withLength(frame: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(LENGTH_BYTES + frame.length)
  new DataView(bytes.buffer).setUint16(0, frame.length)
  bytes.set(frame, LENGTH_BYTES)
  return bytes
}

/** Cuts the bytes of a stream into frames. Each has its length before it, in two bytes. */
export class FrameReader {
  /** The length or the frame that is arriving, and how much of it is here. */
  #part = new Uint8Array(LENGTH_BYTES)
  #filled = 0
  #isLength = true

  /** Calls `onFrame` for each frame that is whole with these bytes. Returns `false` if the length of a frame is invalid. */
  push(bytes: Uint8Array, onFrame: (frame: ArrayBuffer) => void): boolean {
    for (let at = 0; at < bytes.length; ) {
      const piece = bytes.subarray(at, at + this.#part.length - this.#filled)
      this.#part.set(piece, this.#filled)
      this.#filled += piece.length
      at += piece.length
      if (this.#filled < this.#part.length) continue
      const { buffer } = this.#part
      this.#filled = 0
      if (this.#isLength) {
        const length = new DataView(buffer).getUint16(0)
        if (length === 0 || length > FRAME_BYTES_MAX) return false
        this.#part = new Uint8Array(length)
      } else {
        this.#part = new Uint8Array(LENGTH_BYTES)
        onFrame(buffer)
      }
      this.#isLength = !this.#isLength
    }
    return true
  }
}
