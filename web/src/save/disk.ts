import type { Bytes } from '../content/index.ts'
import type { Tap } from '../tap/index.ts'
import { files } from '../words/files.ts'
import { safeName, safePaths } from './names.ts'

/** Something to save as it comes. */
export interface Saved {
  readonly name: string
  readonly size: number
  read(signal: AbortSignal): Promise<ReadableStream<Bytes>>
}

export interface Progress {
  readonly signal: AbortSignal
  onBytes(bytes: number): void
}

/** `given` is on its way in the browser's own list of downloads, which tells how it goes on. */
export type SaveEnd = 'saved' | 'given' | 'cancelled'

interface Picking {
  showSaveFilePicker?(options: { suggestedName: string }): Promise<FileSystemFileHandle>
  showDirectoryPicker?(options: { mode: 'readwrite'; id: string }): Promise<FileSystemDirectoryHandle>
}

/** Longer than any browser takes to begin a download. */
const BEGUN_WITHIN = 10_000
/** How long a frame or an address stays for its download to be read. */
const READ_MS = 60_000

/** Whether a reader can choose a folder, into which files are written one by one. */
export function canPickFolder(): boolean {
  return typeof (globalThis as Picking).showDirectoryPicker === 'function'
}

export function canPickFile(): boolean {
  return typeof (globalThis as Picking).showSaveFilePicker === 'function'
}

/** Asks for a place and writes there; nothing stands there before all of it has come. To be called on a click. */
export async function saveByPicker(saved: Saved, progress: Progress): Promise<SaveEnd> {
  const picked = await unlessCancelled(() => (globalThis as Picking).showSaveFilePicker?.({ suggestedName: safeName(saved.name) }))
  if (picked === undefined) return 'cancelled'
  await write(picked, saved, progress)
  return 'saved'
}

/** Asks for a folder and writes these files below a new one in it, one after the other. To be called on a click. */
export async function saveFolder(name: string, files: readonly Saved[], progress: Progress): Promise<SaveEnd> {
  const picked = await unlessCancelled(() => (globalThis as Picking).showDirectoryPicker?.({ mode: 'readwrite', id: 'pages' }))
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

/** Hands it to the browser as a download, through the service worker. */
export async function saveByWorker(tap: Tap, cid: string, saved: Saved, { signal }: Progress): Promise<SaveEnd> {
  const frame = document.createElement('iframe')
  frame.hidden = true
  let withdraw = () => {}
  const leave = () => {
    withdraw()
    frame.remove()
  }
  await new Promise<void>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(files('notBegun'))), BEGUN_WITHIN)
    const given = tap.give('save', {
      cid,
      name: safeName(saved.name),
      mime: 'application/octet-stream',
      size: saved.size,
      read: (_from, _to, stopped) => later(() => saved.read(stopped)),
      begun: () => {
        clearTimeout(late)
        resolve()
      },
      ended: () => setTimeout(leave, READ_MS),
    })
    withdraw = given.withdraw
    frame.src = given.address
    signal.addEventListener('abort', () => {
      reject(signal.reason)
      leave()
    })
    document.body.append(frame)
  }).catch((reason: unknown) => {
    leave()
    throw reason
  })
  return 'given'
}

/** Hands a whole file to the browser as a download. */
export function saveBlob(name: string, blob: Blob): SaveEnd {
  // Whatever the file says it is, saving treats it as bytes.
  const address = URL.createObjectURL(blob.slice(0, blob.size, 'application/octet-stream'))
  const link = document.createElement('a')
  link.href = address
  link.download = safeName(name)
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), READ_MS)
  return 'given'
}

/** Gathers all of it in memory first, where nothing better is to be had. */
export async function saveByMemory(saved: Saved, { signal, onBytes }: Progress): Promise<SaveEnd> {
  const pieces: Blob[] = []
  await readAll(await saved.read(signal), async (piece) => {
    // Blobs the browser may put on disk.
    pieces.push(new Blob([piece]))
    onBytes(piece.length)
  })
  return saveBlob(saved.name, new Blob(pieces))
}

async function write(file: FileSystemFileHandle, saved: Saved, { signal, onBytes }: Progress): Promise<void> {
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

async function unlessCancelled<T>(pick: () => Promise<T> | undefined): Promise<T | undefined> {
  try {
    return await pick()
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') return undefined
    throw error
  }
}

/** What is there already is left alone. */
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

/** Browsers refuse some endings, such as those of shortcuts. */
async function named<T>(name: string, make: (name: string) => Promise<T>): Promise<T> {
  try {
    return await make(name)
  } catch (error) {
    if (error instanceof TypeError) return make(`${name}_`)
    throw error
  }
}

/** A stream that begins when somebody reads it. */
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
