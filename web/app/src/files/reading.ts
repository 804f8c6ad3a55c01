import type { DirectoryFile, Streamed } from '../ui/site.ts'

/** A file that is shown. */
export type ShownFile = Omit<DirectoryFile, 'path'>

/** The start of a file, as far as it has arrived. All of it is verified. */
export interface Prefix {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** Whether no more bytes follow: the file or the requested length ends here. */
  readonly isEnd: boolean
}

/**
 * The first `bytesMax` bytes of a file, as they arrive: each value has all bytes so far. The missing blocks are requested
 * before the rest of the page.
 */
export async function* prefixesOf(file: ShownFile, bytesMax: number, signal: AbortSignal): AsyncGenerator<Prefix, void> {
  const length = Math.min(file.size, bytesMax)
  const { streamed } = file
  if (streamed === undefined || streamed.isWhole()) {
    const blob = await file.blob()
    yield { bytes: new Uint8Array(await blob.slice(0, bytesMax).arrayBuffer()), isEnd: true }
    return
  }
  const opened = await streamed.open({ signal })
  const bytes = new Uint8Array(length)
  let at = 0
  const reader = opened.read(0, length, { signal }).getReader()
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      bytes.set(next.value, at)
      at += next.value.length
      yield { bytes: bytes.subarray(0, at), isEnd: at >= length }
    }
    if (at === 0) yield { bytes, isEnd: true }
  } finally {
    // The reader stopped early, or the stream has failed and reports its reason itself.
    await reader.cancel().catch(() => undefined)
    opened.close()
  }
}

/** The first bytes of a file, as soon as its first block is here. */
export async function headOf(file: ShownFile, bytesMax: number, signal: AbortSignal): Promise<Uint8Array> {
  for await (const { bytes, isEnd } of prefixesOf(file, bytesMax, signal)) {
    if (isEnd) return bytes
  }
  return new Uint8Array()
}

/** The file with its size. The block that states it is requested before the rest of the page. */
export async function measured<File extends ShownFile>(file: File, options: { signal?: AbortSignal } = {}): Promise<File> {
  if (!file.isEstimate || file.streamed === undefined) return file
  const opened = await file.streamed.open(options)
  opened.close()
  return { ...file, size: opened.size, isEstimate: false }
}

/** The whole file. Its missing blocks are requested before the rest of the page. */
export async function wholeOf(file: ShownFile, signal: AbortSignal): Promise<Blob> {
  const { streamed } = file
  // The page stores what is read; this read only sets the priority.
  if (streamed !== undefined && !streamed.isWhole()) await readThrough(streamed, { signal })
  return file.blob()
}

/**
 * Rejects if a part of the file was changed. Only those of a private page are read for it, when they arrive: the blocks of
 * a public page are the ones that its link names.
 */
export async function authenticate({ streamed }: ShownFile, signal: AbortSignal): Promise<void> {
  if (streamed?.isSealed) await readThrough(streamed, { signal, urgent: false })
}

/** Reads a file to its end, as its blocks arrive. */
async function readThrough(streamed: Streamed, options: { signal: AbortSignal; urgent?: boolean }): Promise<void> {
  const opened = await streamed.open({ signal: options.signal })
  const reader = opened.read(0, opened.size, options).getReader()
  try {
    while (!(await reader.read()).done);
  } finally {
    await reader.cancel().catch(() => undefined)
    opened.close()
  }
}

/** Lets a limited number of loads run at the same time; the others wait in order. */
export class Turns {
  readonly #max: number
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Runs `load` in its turn. Rejects without running it if the signal is aborted by then. */
  async take<T>(load: () => Promise<T>, signal: AbortSignal): Promise<T> {
    while (this.#running >= this.#max) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.#running++
    try {
      signal.throwIfAborted()
      return await load()
    } finally {
      this.#running--
      this.#waiting.shift()?.()
    }
  }
}
