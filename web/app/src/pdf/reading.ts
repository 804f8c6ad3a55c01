import { PDFDataRangeTransport } from 'pdfjs-dist/legacy/build/pdf.mjs'
import type { ShownFile } from '../files/reading.ts'
import type { OpenFile } from '../ui/site.ts'

/** Bytes at the start of a file that are read before it is opened. */
const HEAD_BYTES = 64 << 10

/** The parts of a PDF that its reader asks for, in the order in which it asks. No other part is read. */
export class PartsOfFile extends PDFDataRangeTransport {
  readonly #read: (from: number, to: number) => Promise<Uint8Array>
  readonly #onFailed: (reason: unknown) => void

  private constructor(
    size: number,
    head: Uint8Array,
    read: (from: number, to: number) => Promise<Uint8Array>,
    onFailed: (reason: unknown) => void,
  ) {
    super(size, head)
    this.#read = read
    this.#onFailed = onFailed
  }

  /** `onFailed` is called if a part cannot be read. The reader would wait for it for ever. */
  static async of(file: ShownFile, signal: AbortSignal, onFailed: (reason: unknown) => void): Promise<PartsOfFile> {
    const read = await readerOf(file, signal)
    return new PartsOfFile(file.size, await read(0, Math.min(HEAD_BYTES, file.size)), read, onFailed)
  }

  override requestDataRange(begin: number, end: number): void {
    this.#read(begin, end).then(
      (bytes) => this.onDataRange(begin, bytes),
      (reason: unknown) => this.#onFailed(reason),
    )
  }
}

/** Reads parts of a file from its blocks, whether or not all are here. A blob of all blocks could be a copy in memory. */
async function readerOf({ streamed, blob }: ShownFile, signal: AbortSignal): Promise<(from: number, to: number) => Promise<Uint8Array>> {
  if (streamed === undefined) {
    const whole = await blob()
    return async (from, to) => new Uint8Array(await whole.slice(from, to).arrayBuffer())
  }
  const opened = await streamed.open({ signal })
  signal.addEventListener('abort', () => opened.close())
  return (from, to) => partOf(opened, from, to, signal)
}

async function partOf(file: OpenFile, from: number, to: number, signal: AbortSignal): Promise<Uint8Array> {
  const bytes = new Uint8Array(to - from)
  let at = 0
  const reader = file.read(from, to, { signal }).getReader()
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    bytes.set(next.value, at)
    at += next.value.length
  }
  return bytes
}
