import type { Bytes } from '../content/index.ts'
import type { PageFile } from '../swarm/index.ts'
import type { Index } from './names.ts'

/** What can be read of a private page, wherever it lies. */
export interface Readable {
  readonly index: Index
  /** All bytes of a file; rejects with a `ContentError` when there is none of that path. */
  file(path: string, options?: { signal?: AbortSignal; type?: string }): Promise<Blob>
  /** A file for reading in parts; throws a `ContentError` when there is none of that path. */
  open(path: string): PageFile
}

/** What `pieces` gives, when it is asked for; its signal says that nobody wants more. */
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
