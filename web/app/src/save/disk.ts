import type { Bytes } from '@watchfire/pages/content'
import type { FileStreams } from '../streaming/index.ts'
import { files } from '../messages/files.ts'
import { safeName, safePaths } from '../names/saved.ts'

/** A file to save while it loads. */
export interface SaveSource {
  readonly name: string
  readonly size: number
  read(signal: AbortSignal): Promise<ReadableStream<Bytes>>
  /** All of it, if it is here. `null` if it can only be read as it arrives. */
  whole?(): Promise<Blob> | null
}

export interface Progress {
  readonly signal: AbortSignal
  onBytes(bytes: number): void
}

/** `handed-over`: the browser's own download list shows the progress from here on. */
export type SaveEnd = 'saved' | 'handed-over' | 'cancelled'

interface Picking {
  showSaveFilePicker?(options: { suggestedName: string }): Promise<FileSystemFileHandle>
  showDirectoryPicker?(options: { mode: 'readwrite'; id: string }): Promise<FileSystemDirectoryHandle>
}

/** Longer than any browser takes to start a download. */
const BEGUN_WITHIN = 10_000
/** The time for which a frame or an object URL stays, so that its download can be read. */
const READ_MS = 60_000

export function canPickFile(): boolean {
  return typeof (globalThis as Picking).showSaveFilePicker === 'function'
}

/** Asks for a place and writes there; the file appears when it is complete. Must be called on a click. */
export async function saveThroughPicker(saved: SaveSource, progress: Progress): Promise<SaveEnd> {
  const picked = await nullIfCancelled(() => (globalThis as Picking).showSaveFilePicker?.({ suggestedName: safeName(saved.name) }))
  if (picked === undefined) return 'cancelled'
  await write(picked, saved, progress)
  return 'saved'
}

/** Asks for a folder and writes these files into a new folder in it, one after the other. Must be called on a click. */
export async function saveFolder(name: string, files: readonly SaveSource[], progress: Progress): Promise<SaveEnd> {
  const picked = await nullIfCancelled(() => (globalThis as Picking).showDirectoryPicker?.({ mode: 'readwrite', id: 'pages' }))
  if (picked === undefined) return 'cancelled'
  const top = await newFolder(picked, safeName(name))
  for (const [i, path] of safePaths(files.map((file) => file.name)).entries()) {
    const saved = files[i]
    if (saved === undefined) continue
    const folders = path.split('/')
    const last = folders.pop() ?? path
    let folder = top
    for (const each of folders) folder = await named(each, (as) => folder.getDirectoryHandle(as, { create: true }))
    await write(await named(last, (as) => folder.getFileHandle(as, { create: true })), saved, progress)
  }
  return 'saved'
}

/** Passes the file to the browser as a download, through the service worker. */
export async function saveThroughWorker(streams: FileStreams, cid: string, saved: SaveSource, { signal }: Progress): Promise<SaveEnd> {
  const frame = document.createElement('iframe')
  frame.hidden = true
  let withdraw = () => {}
  const leave = () => {
    withdraw()
    frame.remove()
  }
  await new Promise<void>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(files('notBegun'))), BEGUN_WITHIN)
    const offer = streams.offer('save', {
      cid,
      name: safeName(saved.name),
      mime: 'application/octet-stream',
      size: saved.size,
      read: (_from, _to, stopped) => later(() => saved.read(stopped)),
      onStart: () => {
        clearTimeout(late)
        resolve()
      },
      onEnd: () => setTimeout(leave, READ_MS),
    })
    withdraw = offer.withdraw
    frame.src = offer.url
    signal.addEventListener('abort', () => {
      reject(signal.reason)
      leave()
    })
    document.body.append(frame)
  }).catch((reason: unknown) => {
    leave()
    throw reason
  })
  return 'handed-over'
}

/** Passes a whole file to the browser as a download. */
export function saveBlob(name: string, blob: Blob): SaveEnd {
  // Saved as bytes, whatever type the file claims.
  const address = URL.createObjectURL(blob.slice(0, blob.size, 'application/octet-stream'))
  const link = document.createElement('a')
  link.href = address
  link.download = safeName(name)
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), READ_MS)
  return 'handed-over'
}

/** Collects the whole file in memory first, when nothing better is available. */
export async function saveFromMemory(saved: SaveSource, { signal, onBytes }: Progress): Promise<SaveEnd> {
  const pieces: Blob[] = []
  await readAll(await saved.read(signal), async (piece) => {
    // Browsers may store blobs on disk.
    pieces.push(new Blob([piece]))
    onBytes(piece.length)
  })
  return saveBlob(saved.name, new Blob(pieces))
}

async function write(file: FileSystemFileHandle, saved: SaveSource, { signal, onBytes }: Progress): Promise<void> {
  const disk = await file.createWritable()
  try {
    await readAll(await saved.read(signal), async (piece) => {
      await disk.write(piece)
      onBytes(piece.length)
    })
    await disk.close()
  } catch (error) {
    await disk.abort().catch(() => undefined)
    throw error
  }
}

async function readAll(stream: ReadableStream<Bytes>, take: (piece: Bytes) => Promise<void>): Promise<void> {
  const reader = stream.getReader()
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) await take(piece.value)
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

async function nullIfCancelled<T>(pick: () => Promise<T> | undefined): Promise<T | undefined> {
  try {
    return await pick()
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') return undefined
    throw error
  }
}

/** Existing folders are left alone. */
async function newFolder(place: FileSystemDirectoryHandle, name: string): Promise<FileSystemDirectoryHandle> {
  for (let n = 1; ; n++) {
    const next = n === 1 ? name : `${name} (${n})`
    try {
      await place.getDirectoryHandle(next)
    } catch (error) {
      if (error instanceof DOMException && error.name === 'NotFoundError') return place.getDirectoryHandle(next, { create: true })
      if (!(error instanceof DOMException && error.name === 'TypeMismatchError')) throw error
    }
  }
}

/** Browsers reject some extensions, such as those of shortcuts. */
async function named<T>(name: string, make: (name: string) => Promise<T>): Promise<T> {
  try {
    return await make(name)
  } catch (error) {
    if (error instanceof TypeError) return make(`${name}_`)
    throw error
  }
}

/** A stream that starts when it is first read. */
function later(begin: () => Promise<ReadableStream<Bytes>>): ReadableStream<Bytes> {
  let reader: Promise<ReadableStreamDefaultReader<Bytes>> | null = null
  return new ReadableStream<Bytes>(
    {
      async pull(controller) {
        reader ??= begin().then((stream) => stream.getReader())
        const { done, value } = await (await reader).read()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel(reason) {
        await (await reader)?.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
}
