import type { Bytes } from '../content/index.ts'
import type { PageFile } from '../swarm/index.ts'
import type { Index } from './index-format.ts'

/** The content of a private page that can be read. */
export interface ReadableContent {
  readonly index: Index
  /** Whether it came from others: a part of it may turn out to be changed when it is read. */
  readonly isReceived: boolean
  /** All bytes of a file. Rejects with a `ContentError` if there is no file with that path. */
  file(path: string, options?: { signal?: AbortSignal; type?: string }): Promise<Blob>
  /** Opens a file for reading in parts. Throws a `ContentError` if there is no file with that path. */
  open(path: string): PageFile
}

/** A stream of what `pieces` yields on demand. Its signal is aborted when the stream is cancelled. */
export function streamOf(
  pieces: (signal: AbortSignal) => AsyncIterator<Bytes, void>,
  stop: AbortSignal | undefined,
): ReadableStream<Bytes> {
  const left = new AbortController()
  const signal = stop === undefined ? left.signal : AbortSignal.any([stop, left.signal])
  const coming = pieces(signal)
  return new ReadableStream<Bytes>(
    {
      async pull(controller) {
        const { done, value } = await coming.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel(reason) {
        left.abort(reason)
        await coming.return?.().catch(() => {})
      },
    },
    { highWaterMark: 0 },
  )
}
