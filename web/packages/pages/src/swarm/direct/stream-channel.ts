import { FrameReader, withLength } from './frame-reader.ts'
import type { DataChannel } from './rtc-interfaces.ts'

/** The part of `WebTransport` that is used. Tests have fakes. */
export interface Session {
  readonly closed: Promise<unknown>
  close(): void
}

export interface Duplex {
  readonly readable: ReadableStream<Uint8Array>
  readonly writable: WritableStream<Uint8Array>
}

/** A stream of a WebTransport session that is used like a data channel: its frames have their lengths before them. */
export class StreamChannel extends EventTarget implements DataChannel {
  readyState: RTCDataChannelState = 'open'
  bufferedAmount = 0
  bufferedAmountLowThreshold = 0
  binaryType: BinaryType = 'arraybuffer'
  readonly #session: Session
  readonly #readable: ReadableStream<Uint8Array>
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>

  constructor(session: Session, { readable, writable }: Duplex) {
    super()
    this.#session = session
    this.#readable = readable
    this.#writer = writable.getWriter()
    const close = () => this.close()
    session.closed.then(close, close)
    // A failed stream is noticed where it is written. Nobody else waits for it.
    this.#writer.closed.catch(close)
  }

  /** Dispatches the frames that arrive. Call it once all listeners are there. */
  async start(): Promise<void> {
    const frames = new FrameReader()
    const onFrame = (data: unknown) => this.dispatchEvent(new MessageEvent('message', { data }))
    try {
      const reader = this.#readable.getReader()
      for (;;) {
        const { done, value } = await reader.read()
        if (done || this.readyState !== 'open') break
        if (frames.push(value, onFrame)) continue
        // No valid frame: the listener rejects it.
        onFrame(null)
        break
      }
    } catch {
      // The session has closed.
    }
    this.close()
  }

  send(frame: Uint8Array<ArrayBuffer>): void {
    if (this.readyState !== 'open') throw new Error('the stream is closed')
    this.bufferedAmount += frame.length
    const written = () => {
      const low = this.bufferedAmountLowThreshold
      const wasHigh = this.bufferedAmount > low
      this.bufferedAmount -= frame.length
      if (wasHigh && this.bufferedAmount <= low && this.readyState === 'open') this.dispatchEvent(new Event('bufferedamountlow'))
    }
    this.#writer.write(withLength(frame)).then(written, () => this.close())
  }

  close(): void {
    if (this.readyState === 'closed') return
    this.readyState = 'closed'
    try {
      this.#session.close()
    } catch {
      // It has failed already.
    }
    this.dispatchEvent(new Event('close'))
  }
}
